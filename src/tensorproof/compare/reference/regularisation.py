"""Layers that leave their input as it is, or do so outside training; and `Masking`."""

from __future__ import annotations

import numpy as np

from tensorproof.compare.drawing import Array
from tensorproof.compare.reference.layer_table import REQUIRED, Accuracy, Call, Outcome, layer


@layer(
    "Dropout",
    "AlphaDropout",
    accuracy=Accuracy.EXACT,
    is_random=True,
    parameters={"rate": REQUIRED, "noise_shape": None},
    masking="keep",
)
@layer(
    "GaussianDropout", "SpatialDropout1D", accuracy=Accuracy.EXACT, is_random=True, parameters={"rate": REQUIRED}, masking="keep"
)
@layer(
    "SpatialDropout2D",
    "SpatialDropout3D",
    accuracy=Accuracy.EXACT,
    is_random=True,
    parameters={"rate": REQUIRED, "data_format": None},
    masking="keep",
)
@layer("GaussianNoise", accuracy=Accuracy.EXACT, is_random=True, parameters={"stddev": REQUIRED}, masking="keep")
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
