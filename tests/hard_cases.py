"""Defects that samples hardly meet: what a search has to find. Each names the node that fails and its rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from tests.models import model


@dataclass(frozen=True)
class HardCase:
    """A model, the ranges of its inputs, and where it fails."""

    proto: onnx.ModelProto
    ranges: Mapping[str, Any]
    node: str
    rule: str
    weights: tuple[str, ...] = field(default=())


def _with(proto: onnx.ModelProto, **constants: np.ndarray[Any, Any]) -> onnx.ModelProto:
    proto.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in constants.items())
    return proto


def _normal(seed: int, *shape: int, scale: float = 1.0) -> np.ndarray[Any, Any]:
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def divisor_of_zero() -> HardCase:
    """A divisor that must be exactly zero, behind a product of matrices."""
    proto = model(
        "(float[2,8] x) => (float[2,4] y)",
        """
        m = MatMul(x, w)
        d = Sub(m, c)
        y = Div(one, d)
        """,
    )
    constants = {"w": _normal(0, 8, 4), "c": np.array([1.3, -0.7, 0.2, 2.1], np.float32), "one": np.ones((), np.float32)}
    return HardCase(_with(proto, **constants), {"x": (-2, 2)}, "y", "NUM103")


def variance_by_hand() -> HardCase:
    """E[x^2] - E[x]^2 rounds below zero where all elements are nearly equal and far from zero."""
    proto = model(
        "(float[4,16] x) => (float[4,1] y)",
        """
        squares = Mul(x, x)
        mean_of_squares = ReduceMean(squares, axes)
        mean = ReduceMean(x, axes)
        square_of_mean = Mul(mean, mean)
        variance = Sub(mean_of_squares, square_of_mean)
        y = Sqrt(variance)
        """,
    )
    return HardCase(_with(proto, axes=np.array([1])), {"x": (10, 1000)}, "y", "NUM102")


def log_of_softmax() -> HardCase:
    """A logit 104 below the largest one, which only the corners of the box reach."""
    proto = model(
        "(float[3,24] x) => (float[3,5] y)",
        """
        m = MatMul(x, w)
        p = Softmax <axis = -1> (m)
        y = Log(p)
        """,
    )
    return HardCase(_with(proto, w=_normal(1, 24, 5)), {"x": (-4.5, 4.5)}, "y", "NUM101")


def overflow_in_a_loop() -> HardCase:
    """A state that grows beyond float32 in the last of twelve iterations, and only near the end of the range."""
    proto = model(
        "(float[3] x) => (float[3] y)",
        """
        n = Constant <value_int = 12> ()
        t = Constant <value = bool {1}> ()
        growth = Exp(x)
        y = Loop(n, t, one) <body = step (int64 i, bool c, float[3] s) => (bool k, float[3] out) {
            k = Identity(c)
            out = Mul(s, growth)
        }>
        """,
    )
    return HardCase(_with(proto, one=np.ones(3, np.float32)), {"x": (-8, 7.5)}, "out", "NUM202")


def behind_argmax() -> HardCase:
    """A table whose one bad entry is read for one class alone."""
    proto = model(
        "(float[1,16] x) => (float[1] y)",
        """
        m = MatMul(x, w)
        z = Add(m, b)
        i = ArgMax <axis = -1, keepdims = 0> (z)
        v = Gather(table, i)
        y = Log(v)
        """,
    )
    bias = np.zeros(12, np.float32)
    bias[7] = -5.0
    table = np.arange(1.0, 13.0, dtype=np.float32)
    table[7] = 0.0
    return HardCase(_with(proto, w=_normal(2, 16, 12), b=bias, table=table), {"x": (-1, 1)}, "y", "NUM101")


def behind_floor() -> HardCase:
    """A sum of whole parts that must meet one number exactly."""
    proto = model(
        "(float[40] x) => (float y)",
        """
        k = Floor(x)
        s = ReduceSum <keepdims = 0> (k, axes)
        d = Sub(s, c)
        y = Div(one, d)
        """,
    )
    constants = {"axes": np.array([0]), "c": np.array(173.0, np.float32), "one": np.ones((), np.float32)}
    return HardCase(_with(proto, **constants), {"x": (0, 30)}, "y", "NUM103")


def half_precision_product() -> HardCase:
    """A product in float16 whose operands are small and whose sum is not."""
    proto = model("(float16[1,64] x) => (float16[1,8] y)", "y = MatMul(x, w)")
    return HardCase(_with(proto, w=_normal(3, 64, 8, scale=40.0).astype(np.float16)), {"x": (-50, 50)}, "y", "NUM203")


def masked_row() -> HardCase:
    """A row in which nothing is left."""
    proto = model(
        "(float[2,40] x, bool[2,40] keep) => (float[2,40] y)",
        """
        z = Where(keep, x, nothing)
        y = Softmax <axis = -1> (z)
        """,
    )
    return HardCase(_with(proto, nothing=np.array(-np.inf, np.float32)), {"x": (-1, 1)}, "y", "NUM108")


def free_weights() -> HardCase:
    """Weights that are ranges: the probability rounds to one."""
    proto = model(
        "(float[4,3] x) => (float[4,1] y)",
        """
        m = MatMul(x, w)
        p = Sigmoid(m)
        q = Sub(one, p)
        y = Log(q)
        """,
    )
    constants = {"w": np.zeros((3, 1), np.float32), "one": np.ones((), np.float32)}
    return HardCase(_with(proto, **constants), {"x": (0, 1), "w": (-6, 6)}, "y", "NUM101")


HARD = {
    "a divisor of exactly zero": divisor_of_zero(),
    "a variance by hand": variance_by_hand(),
    "the logarithm of a softmax": log_of_softmax(),
    "overflow in a loop": overflow_in_a_loop(),
    "behind ArgMax": behind_argmax(),
    "behind Floor": behind_floor(),
    "a product in float16": half_precision_product(),
    "a masked row": masked_row(),
    "weights that are ranges": free_weights(),
}
