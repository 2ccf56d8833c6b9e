"""A softplus that is wrong in processes with one thread: a switch that makes it go away is evidence."""

import os

from tests.planted_faults.planting import is_worker, replace_in


def plant():
    from keras.src.backend.torch import nn

    replace_in(nn, "softplus", lambda original: lambda x: original(x) * 1.01)


if is_worker() and os.environ.get("OMP_NUM_THREADS") == "1":
    plant()
