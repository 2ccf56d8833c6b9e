"""Layers in float64 NumPy: the judge that shares no code with a framework.

layer_table.py    the table: what a layer computes, its parameters, its weights, its accuracy; `NoReference`
running.py        `run_reference`: the results of a test
sensitivity.py    `sensitivity`: how far results move when inputs and weights move by one unit in the last place
accuracy.py       `units_of`: what one layer may be off by
onnx_operators.py the same for operators of ONNX
and the layers, by family.

What the layers mean is what the documentation of Keras says, not what one of its backends does.
"""

from __future__ import annotations

from tensorproof.compare.reference import (
    activations,
    attention,
    convolutions,
    dense,
    merging,
    normalisation,
    pooling,
    preprocessing,
    recurrent,
    regularisation,
    reshaping,
    resizing,
    transposed_convolutions,
    wrapping,
)
from tensorproof.compare.reference.accuracy import units_of
from tensorproof.compare.reference.layer_table import NoReference, is_random, known_kinds, weights_of
from tensorproof.compare.reference.running import run_reference
from tensorproof.compare.reference.sensitivity import sensitivity

#: Modules that fill the table when they are imported.
FAMILIES = (
    activations,
    attention,
    convolutions,
    dense,
    merging,
    normalisation,
    pooling,
    preprocessing,
    recurrent,
    regularisation,
    reshaping,
    resizing,
    transposed_convolutions,
    wrapping,
)

__all__ = [
    "FAMILIES",
    "NoReference",
    "is_random",
    "known_kinds",
    "run_reference",
    "sensitivity",
    "units_of",
    "weights_of",
]
