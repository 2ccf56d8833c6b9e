"""Forms that are safe although intervals alone cannot show it, each beside a near miss that is a real defect.

Written by hand as small ONNX graphs. `SAFE` gives every pair a name: the safe model and its ranges, the near miss and its
ranges, and the rule that the near miss must keep. `idiom` names what proves the safe model, where blocks alone do not.
"""

from __future__ import annotations

from tests.safe_case import Case
from tests.safe_convolutions import CONVOLUTIONS
from tests.safe_functions import FUNCTIONS
from tests.safe_losses import LOSSES
from tests.safe_masks import MASKS
from tests.safe_ratios import RATIOS
from tests.safe_softmax import SOFTMAX_FORMS

SAFE: dict[str, Case] = SOFTMAX_FORMS | RATIOS | LOSSES | FUNCTIONS | MASKS | CONVOLUTIONS

__all__ = ["SAFE", "Case"]
