"""What a safe form and its near miss are made of: a pair of small ONNX graphs in text form, with their ranges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx.numpy_helper

from tests.models import model

Ranges = Mapping[str, Any]
Constants = Mapping[str, npt.NDArray[Any]]

#: Logits that no exponential survives.
WIDE = {"x": (-1e4, 1e4)}
MILD = {"x": (-50.0, 50.0)}


@dataclass(frozen=True)
class Case:
    """A safe graph and its near miss, as signature and body in ONNX's text form."""

    signature: str
    body: str
    near_body: str
    rule: str
    ranges: Ranges = field(default_factory=lambda: WIDE)
    near_ranges: Ranges | None = None
    near_signature: str | None = None
    idiom: str | None = None
    constants: Constants = field(default_factory=dict[str, npt.NDArray[Any]])
    near_constants: Constants | None = None

    @cached_property
    def safe(self) -> onnx.ModelProto:
        return _with(model(self.signature, self.body), self.constants)

    @cached_property
    def near_miss(self) -> onnx.ModelProto:
        constants = self.constants if self.near_constants is None else self.near_constants
        return _with(model(self.near_signature or self.signature, self.near_body), constants)

    @property
    def ranges_of_near_miss(self) -> Ranges:
        return self.ranges if self.near_ranges is None else self.near_ranges


def _with(proto: onnx.ModelProto, constants: Constants) -> onnx.ModelProto:
    """The model with initialisers, and with its Constant nodes in front: bodies name them last."""
    nodes = sorted(proto.graph.node, key=lambda node: node.op_type != "Constant")
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    for name, array in constants.items():
        proto.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    return proto


def number(name: str, value: float) -> str:
    return f"{name} = Constant<value = float {{{value!r}}}>()\n"


X = "(float[4,8] x) => (float y)"
XZ = "(float[4,8] x, float[4,8] z) => (float y)"
LAST = {"last": np.array([-1], np.int64)}
FIRST = {"first": np.array([0], np.int64)}
AXES = LAST | FIRST
ONE = number("one", 1.0)
ZERO = number("zero", 0.0)
EPS = number("eps", 1e-6)
HALF = number("half", 0.5)
TWO = number("two", 2.0)
