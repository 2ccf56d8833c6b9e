"""For test suites: `assert_finite` checks a model, `FirstNaN` observes PyTorch code.

`pytest_plugin` gives both to pytest. It is loaded by every run of pytest where tensorproof is installed: nothing here imports
anything at the top that costs time.
"""

from tensorproof.testing.finite import assert_finite
from tensorproof.testing.first_nan import FirstNaN

__all__ = ["FirstNaN", "assert_finite"]
