"""The programs of the GRIST benchmark, rebuilt: each is described once, and the description yields its forms.

Every entry gives its program as an ONNX model, on PyTorch and, if it is written in TensorFlow, as a graph of that; what its
inputs and weights may be, its known defects with the nodes that fail, and its repaired twin. `facts.json` holds what is known of
the programs apart from these descriptions, and the tests compare both.
"""

from __future__ import annotations

import importlib

from benchmarks.zoo.builder import Builder
from benchmarks.zoo.entry import Bug, Entry, Optimiser, Repair

__all__ = ["Bug", "Builder", "Entry", "Optimiser", "Repair", "program", "programs"]

_FAMILIES = (
    "softmax_regression",
    "logistic",
    "perceptrons",
    "convolutional",
    "hand_written_softmax",
    "restricted_boltzmann",
    "autoencoders",
    "adversarial",
    "stochastic_computing",
    "library_tests",
    "spatial_transformer",
    "value_iteration",
    "segmentation",
)


def programs() -> tuple[Entry, ...]:
    """All entries, in the order of GRIST's numbers."""
    modules = [importlib.import_module(f"benchmarks.zoo.families.{family}") for family in _FAMILIES]
    return tuple(sorted((entry for module in modules for entry in module.entries()), key=lambda entry: (entry.program, entry.id)))


def program(id: str) -> Entry:
    """The entry of this id."""
    (found,) = [entry for entry in programs() if entry.id == id]
    return found
