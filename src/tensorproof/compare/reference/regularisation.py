"""Layers that leave their input as it is, or do so outside training; and `Masking`."""

from __future__ import annotations

from functools import partial

import numpy as np

from tensorproof.compare.drawing import Array
from tensorproof.compare.reference.layer_table import REQUIRED, Accuracy, Call, Outcome, layer

_RATE = {"rate": REQUIRED}
_random = partial(layer, accuracy=Accuracy.EXACT, masking="keep", is_random=True)


@_random("Dropout", "AlphaDropout", parameters={**_RATE, "noise_shape": None})
@_random("GaussianDropout", "SpatialDropout1D", parameters=_RATE)
@_random("SpatialDropout2D", "SpatialDropout3D", parameters={**_RATE, "data_format": None})
@_random("GaussianNoise", parameters={"stddev": REQUIRED})
@layer("ActivityRegularization", accuracy=Accuracy.EXACT, parameters={"l1": 0.0, "l2": 0.0}, masking="keep")
@layer("Identity", accuracy=Accuracy.EXACT, masking="keep")
def unchanged(call: Call) -> Outcome:
    """The input."""
    return call.only


def _counted(call: Call) -> Array:
    return (call.only != call.parameters["mask_value"]).any(axis=-1)


@layer("Masking", accuracy=Accuracy.EXACT, parameters={"mask_value": 0.0}, masking=_counted)
def masking(call: Call) -> Outcome:
    """Steps of which all features have a value become zero, and later layers leave them out."""
    return np.where(_counted(call)[..., None], call.only, 0.0)
