"""A spelling on numbers alone: its nodes evaluated one by one, without tracing a program.

    spelled = Spelled("tensorflow", "Erfinv", TENSORFLOW_CPU)
    ranges, hazards = spelled.on([Range.constant(points)])

Many numbers at once show where a function of a framework is farther from the exact one than its block and its target say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensorproof.formats import Format
from tensorproof.frontends.calls import Handle
from tensorproof.frontends.graph_builder import GraphBuilder
from tensorproof.frontends.jax_call import JaxCall
from tensorproof.frontends.tensorflow_call import TensorflowCall
from tensorproof.frontends.tensorflow_records import DataType
from tensorproof.graph import ABSENT
from tensorproof.operators.table import Call, Dialect, Hazard, evaluate, find_operator, spelling_of
from tensorproof.ranges.range import Range, flags_of
from tensorproof.ranges.rounding import flushed
from tensorproof.targets import Target

#: TensorFlow's numbers of the types that are tried (tensorflow/core/framework/types.proto).
TYPES = {"float32": 1, "float64": 2, "int32": 3, "int64": 9, "bool": 10, "bfloat16": 14, "float16": 19, "uint8": 4, "uint32": 22}


@dataclass(frozen=True)
class Held:
    """A variable, as the front end hands it to spellings."""

    handle: Handle

    def value(self, call: TensorflowCall) -> Handle:
        """What it holds."""
        return self.handle


@dataclass(frozen=True)
class Spelled:
    """An operator of a framework, by its name and attributes."""

    dialect: Dialect
    name: str
    target: Target
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def on(
        self, operands: Sequence[Range], result: Format | None = None, held: Sequence[int] = ()
    ) -> tuple[list[Range], list[Hazard]]:
        """The ranges of the results, and the hazards on the way. Operands `held` are those of variables; numbers are known."""
        builder = GraphBuilder()
        handles: list[Any] = []
        ranges: dict[int, Range] = {}
        for index, x in enumerate(operands):
            is_known = x.array is not None and x.array.ndim == 0
            number = builder.constant(x.array) if is_known else builder.new_value(f"x{index}", x.format, x.sizes)
            handle = Handle(number, x.format, x.sizes)
            handles.append(Held(handle) if index in held else handle)
            ranges[number] = self._operand(x)
        spelling = spelling_of(self.name, self.dialect)
        assert spelling is not None, self.name
        made = spelling.translate(self._call(handles, builder, operands[0].format, result or operands[0].format))
        hazards: list[Hazard] = []
        for node in builder.nodes:
            entry = find_operator(node.domain, node.op)
            assert entry is not None, node.op
            inputs = [None if number == ABSENT else self._read(builder, ranges, number) for number in node.inputs]
            formats = [builder.values[number].format for number in node.outputs]
            call = Call(
                entry,
                node.attributes,
                version=node.version,
                target=self.target,
                outputs=len(node.outputs),
                output_formats=formats,
                hazards=hazards,
                # As the analysis knows of every square (`tensorproof.idioms.squares`).
                bounds=[(0.0, np.inf)] if node.op == "Mul" and len(set(node.inputs)) == 1 else [],
            )
            found = evaluate(call, inputs)
            ranges.update(zip(node.outputs, found if isinstance(found, tuple) else (found,)))
        numbers = made if isinstance(made, tuple) else (made,)
        return [self._read(builder, ranges, number) for number in numbers], hazards

    def _call(self, handles: list[Any], builder: Any, first: Format, format: Format) -> TensorflowCall | JaxCall:
        results = [Handle(ABSENT, format, None)] * 2
        if self.dialect == "jax":
            return JaxCall(self.name, handles, self.attributes, results, builder)
        return TensorflowCall(self.name, handles, {"T": DataType(TYPES[first.name]), **self.attributes}, results, builder)

    def _operand(self, x: Range) -> Range:
        """As the analysis hands inputs to operators on a target that flushes subnormal ones."""
        if not self.target.flushes_operands or not x.format.is_float:
            return x
        tiny = (np.abs(x.low) < x.format.smallest_normal) | (np.abs(x.high) < x.format.smallest_normal)
        if not ((x.low != 0) | (x.high != 0))[tiny].any():
            return x
        return x.replace(*flushed(x.low, x.high, x.format), None)

    def _read(self, builder: GraphBuilder, ranges: dict[int, Range], number: int) -> Range:
        if number not in ranges:
            ranges[number] = self._operand(Range.constant(builder.constants[number]))
        return ranges[number]


def outside(result: Range, hazards: Sequence[Hazard], values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Results that the range does not hold: numbers beyond its ends, and special values that no hazard gives.

    Both frameworks take subnormal operands for zero: a subnormal result is as good as zero.
    """
    low, high, special = result.expanded()
    if result.format.is_float:
        is_subnormal = np.abs(values) < result.format.smallest_normal
        values = np.where(is_subnormal & ~((low <= values) & (values <= high)), 0.0, values)
    gives = 0
    for hazard in hazards:
        gives |= hazard.gives
    flags = flags_of(values)
    undefined = bool(gives & 8)
    beyond = (flags == 0) & ~((low <= values) & (values <= high)) & (not undefined)
    return beyond | ((flags & ~(special | np.uint8(gives & 7))) != 0)


#: Files of blocks whose spellings are tried element by element.
FILES = frozenset(
    [
        "activations",
        "arithmetic",
        "bit_counts",
        "bitwise",
        "casts",
        "comparison",
        "elementwise_gradients",
        "fake_quantisation",
        "exponential",
        "extremes",
        "gated_activations",
        "gradients",
        "losses",
        "optimiser_steps",
        "optimisers",
        "own_activations",
        "own_arithmetic",
        "own_derivatives",
        "own_exponential",
        "own_special",
        "powers",
        "quantiles",
        "quantisation",
        "selection",
        "softmax",
        "stop_gradient",
        "strings",
        "total_arithmetic",
        "trigonometric",
    ]
)


def special_numbers(format: Format) -> np.ndarray[Any, Any]:
    normal, largest = format.smallest_normal, format.high
    sizes = [0.0, normal, 0.5, 1 - format.unit_roundoff, 1.0, 1 + 2 * format.unit_roundoff, 2.0, np.sqrt(largest), largest]
    return format.round_nearest(np.array([*sizes, *(-x for x in sizes)]))


def random_cell(rng: np.random.Generator, format: Format, box: tuple[float, float]) -> tuple[float, float]:
    """Two numbers of the format: near each other, far apart, or special ones."""
    style = rng.integers(5)
    if style == 0:
        ends = rng.choice(special_numbers(format), 2)
    elif style == 1:
        ends = np.array([rng.choice(special_numbers(format)), rng.uniform(*box)])
    elif style == 2:
        ends = np.repeat(rng.uniform(*box), 2)
    elif style == 3:
        ends = rng.uniform(*box) + np.array([0.0, 10.0 ** rng.uniform(-6, 0)])
    else:
        ends = rng.uniform(*box, 2)
    low, high = np.sort(np.clip(format.round_nearest(np.asarray(ends, np.float64)), format.low, format.high))
    return float(low), float(high)


def drawn(rng: np.random.Generator, format: Format, low: float, high: float, count: int) -> np.ndarray[Any, Any]:
    """Numbers of the cell in their format: its ends, special ones, whole ones, and any others."""
    share = rng.random(count)
    any_number = np.clip(low + share * (min(high - low, format.high)), low, high)
    kind = rng.integers(5, size=count)
    choices = [np.full(count, low), np.full(count, high), rng.choice(special_numbers(format), count), np.rint(any_number)]
    picked = np.select([kind == k for k in range(4)], choices, any_number)
    return np.clip(format.round_nearest(np.clip(picked, low, high)), low, high).astype(format.dtype)


def sampled(rng: np.random.Generator, format: Format, box: tuple[float, float]) -> np.ndarray[Any, Any]:
    """Many numbers of a format: all of 16 bits, else numbers of all sizes and many of a box."""
    if format.bits == 16:
        numbers = np.arange(1 << 16, dtype=np.uint16).view(format.dtype)
        return numbers[np.isfinite(numbers.astype(np.float32))]
    sizes = 10.0 ** rng.uniform(np.log10(format.smallest_normal), np.log10(format.high), 6000)
    parts = [sizes, -sizes, rng.uniform(*box, 20_000), rng.uniform(-2, 2, 8000), 1 + 0.01 * rng.normal(size=4000)]
    return format.round_nearest(np.concatenate(parts)).astype(format.dtype)
