"""Sequences and optionals: positions from both ends, parts of every kind, lengths that are not known."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.soundness.seeds.control_flow import model
from tests.soundness.seeds.seed import Seed

_RNG = np.random.default_rng(12)


def numbers(*shape: int) -> np.ndarray:
    return _RNG.normal(size=shape).astype(np.float32)


def sequence(operator: str, name: str, body: str, output: str, *inputs: Any, opset: int = 21, **options: Any) -> Seed:
    """A graph over a 2x3 and a 2x3 tensor that holds the operator under test."""
    text = f"g (float[2,3] x, float[2,3] z{', int64 p' if inputs else ''}) => ({output}) {{\n{body}\n}}"
    return model(operator, name, text, numbers(2, 3), numbers(2, 3), *inputs, opset=opset, **options)


def integer(value: int) -> np.ndarray:
    return np.array(value, np.int64)


_LIMITED = "least = Constant <value = int64 {-2}> () most = Constant <value = int64 {1}> () q = Clip(p, least, most)"
SEEDS: list[Seed] = [
    *(
        sequence("SequenceConstruct", "construct", "s = SequenceConstruct(x, z, x)", "seq(float[2,3]) s", opset=opset)
        for opset in (11, 21)
    ),
    sequence(
        "SequenceEmpty",
        "empty",
        "e = SequenceEmpty <dtype = 1> () s = SequenceInsert(e, x) n = SequenceLength(e) u = SequenceInsert(s, z)",
        "seq(float[2,3]) u, int64 n",
    ),
    *(
        sequence(
            "SequenceInsert",
            f"insert-{at}",
            f"a = SequenceConstruct(x, z) k = Constant <value = int64 {{{at}}}> () b = Neg(x) s = SequenceInsert(a, b, k)",
            "seq(float[2,3]) s",
            oracle="runtime",
        )
        for at in (-2, -1, 0, 1, 2)
    ),
    sequence(
        "SequenceInsert",
        "insert-anywhere",
        f"{_LIMITED} a = SequenceConstruct(x, z) b = Exp(x) s = SequenceInsert(a, b, q) n = SequenceLength(s)",
        "seq(float[2,3]) s, int64 n",
        integer(1),
        vary=("x", "z", "p"),
    ),
    *(
        sequence(
            "SequenceErase",
            f"erase-{at}",
            f"b = Abs(x) a = SequenceConstruct(x, z, b) k = Constant <value = int64 {{{at}}}> () s = SequenceErase(a, k)",
            "seq(float[2,3]) s",
        )
        for at in (-3, -1, 0, 2)
    ),
    sequence("SequenceErase", "erase-last", "a = SequenceConstruct(x, z) s = SequenceErase(a)", "seq(float[2,3]) s"),
    sequence(
        "SequenceErase",
        "erase-anywhere",
        f"{_LIMITED} a = SequenceConstruct(x, z) s = SequenceErase(a, q)",
        "seq(float[2,3]) s",
        integer(0),
        vary=("x", "z", "p"),
    ),
    *(
        sequence(
            "SequenceAt",
            f"at-{at}",
            f"b = Abs(x) a = SequenceConstruct(x, z, b) k = Constant <value = int64 {{{at}}}> () y = SequenceAt(a, k)",
            "float[2,3] y",
            opset=opset,
        )
        for at, opset in ((-3, 11), (-1, 21), (0, 21), (2, 13))
    ),
    sequence(
        "SequenceAt",
        "at-any",
        f"{_LIMITED} a = SequenceConstruct(x, z) y = SequenceAt(a, q)",
        "float[2,3] y",
        integer(0),
        vary=("x", "z", "p"),
    ),
    sequence(
        "SequenceLength", "length", "a = SequenceConstruct(x, z) y = SequenceLength(a) w = Add(x, z)", "int64 y, float[2,3] w"
    ),
    *(
        sequence(
            "ConcatFromSequence",
            f"concat-{axis}-{new_axis}",
            f"a = SequenceConstruct(x, z, x) y = ConcatFromSequence <axis = {axis}, new_axis = {new_axis}> (a)",
            f"float[{'A,B' if not new_axis else 'A,B,C'}] y",
        )
        for axis, new_axis in ((0, 0), (1, 0), (-1, 0), (-2, 0), (0, 1), (1, 1), (2, 1), (-1, 1), (-3, 1))
    ),
    sequence(
        "ConcatFromSequence",
        "concat-sizes-differ",
        "w = Concat <axis = 1> (x, z) a = SequenceConstruct(x, w) y = ConcatFromSequence <axis = 1> (a)",
        "float[A,B] y",
    ),
    *(
        model(
            "ConcatFromSequence",
            f"concat-any-{new_axis}",
            f"""g (float[2,3] x, bool c) => (float[{"A,B" if not new_axis else "A,B,C"}] y) {{
              s = If (c) <
                then_branch = t () => (seq(float[2,3]) a) {{ n = Neg(x) a = SequenceConstruct(x, n) }},
                else_branch = e () => (seq(float[2,3]) b) {{ b = SequenceConstruct(x) }}>
              y = ConcatFromSequence <axis = 1, new_axis = {new_axis}> (s)
            }}""",
            numbers(2, 3),
            np.array(True),
            vary=("x", "c"),
        )
        for new_axis in (0, 1)
    ),
    *(
        model(
            "SplitToSequence",
            f"split-{axis}-{keepdims}",
            f"""g (float[4,3] x) => (seq(float) s) {{
              s = SplitToSequence <axis = {axis}, keepdims = {keepdims}> (x)
            }}""",
            numbers(4, 3),
            opset=opset,
            oracle="reference" if axis >= 0 else "runtime",
        )
        for axis, keepdims, opset in ((0, 1, 11), (1, 1, 21), (0, 0, 11), (1, 0, 24), (-1, 0, 21), (-2, 1, 21))
    ),
    *(
        model(
            "SplitToSequence",
            f"split-by-{name}-{axis}",
            f"""g (float[5,4] x) => (seq(float) s) {{
              k = Constant <value = {constant}> ()
              s = SplitToSequence <axis = {axis}, keepdims = 0> (x, k)
            }}""",
            numbers(5, 4),
            opset=opset,
        )
        for name, constant, axis, opset in (
            ("scalar", "int64 {2}", 0, 11),
            ("large", "int64 {7}", 1, 21),
            ("list", "int64[3] {1, 3, 1}", 0, 24),
            ("narrow", "int32[2] {3, 1}", 1, 21),
        )
    ),
    model(
        "SplitToSequence",
        "split-anyhow",
        """g (float[4,3] x, int64 p) => (seq(float[K,3]) s, int64 n) {
          least = Constant <value = int64 {1}> ()
          most = Constant <value = int64 {4}> ()
          k = Clip(p, least, most)
          s = SplitToSequence <axis = 0> (x, k)
          n = SequenceLength(s)
        }""",
        numbers(4, 3),
        integer(2),
        vary=("x", "p"),
    ),
    *(
        model(
            "Optional",
            "optional-tensor",
            """g (float[3] x) => (optional(float[3]) o, bool b) {
              o = Optional(x)
              b = OptionalHasElement(o)
            }""",
            numbers(3),
            opset=opset,
        )
        for opset in (15, 21)
    ),
    model(
        "OptionalGetElement",
        "optional-get",
        "g (float[3] x) => (float[3] y) { o = Optional(x) e = OptionalGetElement(o) y = Exp(e) }",
        numbers(3),
        opset=16,
        oracle="runtime",
    ),
    model(
        "OptionalGetElement",
        "optional-get-tensor",
        "g (float[3] x) => (float[3] y) { e = OptionalGetElement(x) y = Neg(e) }",
        numbers(3),
        opset=18,
    ),
    model(
        "OptionalHasElement",
        "optional-has",
        """g (float[3] x) => (bool y, float[3] w) {
          s = SequenceConstruct(x, x)
          o = Optional(s)
          y = OptionalHasElement(o)
          w = Abs(x)
        }""",
        numbers(3),
        opset=16,
    ),
]
