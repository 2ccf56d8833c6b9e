"""Blocks in plain numbers against the blocks themselves: same hazards, same bounds, on random intervals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tensorproof.errors import NotAnalysed
from tensorproof.formats import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, Array, Format
from tensorproof.operators.table import Call, Operator, all_operators, evaluate, find_operator
from tensorproof.ranges.abstraction import FIRST_PASS
from tensorproof.ranges.grid import every
from tensorproof.ranges.range import Range
from tensorproof.targets import IEEE, ONNXRUNTIME_CPU, Target

pytestmark = pytest.mark.area("engine")

PLAIN = replace(FIRST_PASS, norms=False)
CHANNELS = 96
WITH_RULE = [entry.name for entry in all_operators() if entry.interval_rule is not None]


def interval(rng: np.random.Generator, format: Format, *, shape: tuple[int, ...] = (2, CHANNELS)) -> Range:
    """Ends of all sizes and signs, some of them equal, zero or far from zero."""
    scale = 10.0 ** rng.uniform(-4, 4)
    ends = np.sort(rng.normal(0, 1, 2) * scale + rng.choice([0.0, 0.0, 3.0 * scale, -3.0 * scale]))
    if rng.random() < 0.1:
        ends[1] = ends[0]
    if rng.random() < 0.1:
        ends[int(rng.integers(2))] = 0.0
        ends.sort()
    ends = np.clip(ends, format.low, format.high).astype(format.dtype).astype(np.float64)
    return Range.uniform(shape, format, *ends)


def operands_of(name: str, rng: np.random.Generator, format: Format) -> list[Range]:
    x = interval(rng, format)
    while name == "Gelu" and 0.0 in x.hull():
        # At zero the rule knows that nothing is rounded; the block does not.
        x = interval(rng, format)
    if name in MAKERS:
        return MAKERS[name](rng, format)
    if name in ("Gelu", "Softmax", "Relu"):
        return [x]
    if name == "LayerNormalization":
        if rng.random() < 0.3:
            # Rows of two intervals, as behind a token that is joined to others.
            other = interval(rng, format)
            low, high = np.array([[x.hull()[0]], [other.hull()[0]]]), np.array([[x.hull()[1]], [other.hull()[1]]])
            x = Range(format, x.shape, (every(2), None), low, high)
        scale, bias = rng.normal(1, 1, (2, CHANNELS)).astype(format.dtype)
        return [x, *(Range.constant(part, format) for part in (scale, bias))][: int(rng.integers(2, 4))]
    other = interval(rng, format, shape=(CHANNELS,) if rng.random() < 0.5 else (2, CHANNELS))
    if rng.random() < 0.4:
        size = CHANNELS if rng.random() < 0.7 else 1
        other = Range.constant((rng.normal(0, 1, size) * 10.0 ** rng.uniform(-9, 3)).astype(format.dtype), format)
    return [x, other] if rng.random() < 0.5 else [other, x]


def numbers(rng: np.random.Generator, format: Format, *shape: int) -> Range:
    """Constants of one size, some of them without a sign."""
    values = rng.normal(0, 1, shape) * 10.0 ** rng.uniform(-3, 1)
    return Range.constant((values if rng.random() < 0.7 else np.abs(values)).astype(format.dtype), format)


def image(rng: np.random.Generator, format: Format, channels: int) -> Range:
    """One interval, or cells along the channels, sometimes with special values."""
    x = interval(rng, format, shape=(1, channels, 7, 6))
    if rng.random() < 0.2:
        return x.with_special(int(rng.integers(1, 8)))
    if rng.random() < 0.2:
        ends = np.sort(rng.normal(0, 1, (2, 1, channels, 1, 1)).astype(format.dtype).astype(np.float64), axis=0)
        return Range(format, x.shape, (None, every(channels), None, None), *ends)
    return x


def convolution(rng: np.random.Generator, format: Format) -> list[Range]:
    """Weights that are few, many, or one interval; filters that are cells of their own, and some that are merged."""
    channels, filters = int(rng.choice([4, 32])), int(rng.choice([8, CHANNELS]))
    shape = filters, channels, int(rng.choice([1, 3])), 3
    if rng.random() < 0.3:
        w = interval(rng, format, shape=shape)
    else:
        w = numbers(rng, format, *shape) if rng.random() < 0.5 else numbers(rng, format, CHANNELS, 32, 3, 3)
    bias = numbers(rng, format, w.sizes[0]) if rng.random() < 0.5 else interval(rng, format, shape=w.sizes[:1])
    return [image(rng, format, w.sizes[1]), w, bias][: int(rng.integers(2, 4))]


def batch_normalisation(rng: np.random.Generator, format: Format) -> list[Range]:
    channels = int(rng.choice([8, CHANNELS]))
    scale, bias, mean = (numbers(rng, format, channels) for _ in range(3))
    variance = Range.constant(rng.uniform(0.0, 4.0, channels).astype(format.dtype), format)
    return [image(rng, format, channels), scale, bias, mean, variance]


def joined(rng: np.random.Generator, format: Format) -> list[Range]:
    return [image(rng, format, int(rng.integers(2, 40))) for _ in range(int(rng.integers(1, 5)))]


def reshaped(rng: np.random.Generator, format: Format) -> list[Range]:
    wanted = [[2, -1], [0, 0], [-1], [6, 32], [0, 2, -1], [1, 2, 1, CHANNELS], [-1, 5]][int(rng.integers(7))]
    return [interval(rng, format), Range.constant(np.array(wanted, np.int64))]


def matrices(rng: np.random.Generator, format: Format) -> list[Range]:
    shape = (CHANNELS, int(rng.choice([8, 2 * CHANNELS])))
    return [interval(rng, format), interval(rng, format, shape=shape) if rng.random() < 0.4 else numbers(rng, format, *shape)]


def affine(rng: np.random.Generator, format: Format) -> list[Range]:
    weights = numbers(rng, format, 2 * CHANNELS, 2 * CHANNELS) if rng.random() < 0.8 else numbers(rng, format, 2 * CHANNELS, 8)
    addend = numbers(rng, format, weights.sizes[1]) if rng.random() < 0.6 else interval(rng, format, shape=weights.sizes[1:])
    return [interval(rng, format, shape=(2, 2 * CHANNELS)), weights, addend]


MAKERS: dict[str, Callable[[np.random.Generator, Format], list[Range]]] = {
    "Conv": convolution,
    "BatchNormalization": batch_normalisation,
    "Concat": joined,
    "MatMul": matrices,
    "Gemm": affine,
    "Reshape": reshaped,
    "AveragePool": lambda rng, format: [image(rng, format, 8)],
    "Flatten": lambda rng, format: [image(rng, format, 8)],
    "Transpose": lambda rng, format: [image(rng, format, 8)],
    "Unsqueeze": lambda rng, format: [interval(rng, format), Range.constant(np.array([-1, 0][: int(rng.integers(3))], np.int64))],
    "Squeeze": lambda rng, format: [interval(rng, format, shape=(1, 3, 1)), Range.constant(np.array([0, -1]))][
        : rng.integers(1, 3)
    ],
}


def attributes_of(name: str, rng: np.random.Generator) -> dict[str, Any]:
    def chosen(*values: Any) -> Any:
        return values[int(rng.integers(len(values)))]

    padding: dict[str, Any] = {"pads": chosen([0, 0, 0, 0], [1, 1, 1, 1], [0, 2, 1, 0]), "strides": chosen([1, 1], [2, 1])}
    return {
        "Gelu": chosen({}, {"approximate": "tanh"}),
        "Conv": padding,
        "AveragePool": {**padding, "kernel_shape": [3, 3], "count_include_pad": chosen(0, 1), "ceil_mode": chosen(0, 1)},
        "BatchNormalization": chosen({}, {"epsilon": 1e-3}, {"epsilon": 0.0}),
        "Flatten": {"axis": chosen(0, 1, 3, -1)},
        "Transpose": chosen({}, {"perm": [0, 2, 3, 1]}),
    }.get(name, {})


def called(entry: Operator, attributes: dict[str, Any], target: Target, operands: list[Range]) -> tuple[Range | None, set[str]]:
    """The result, or None where the operator refuses its operands, and the rules that fire."""
    call = Call(entry, attributes, target=target, abstraction=PLAIN)
    try:
        result = evaluate(call, operands)
    except NotAnalysed:
        return None, set()
    return result, {hazard.rule.code for hazard in call.hazards}


def expanded(x: Range) -> tuple[Array, Array]:
    """The ends of every element; of one that holds special values alone they are zero."""
    low, high, _ = x.expanded()
    return np.where(low <= high, low, 0.0), np.where(low <= high, high, 0.0)


@pytest.mark.parametrize("target", [IEEE, ONNXRUNTIME_CPU], ids=lambda t: t.name)
@pytest.mark.parametrize("format", [FLOAT64, FLOAT32, FLOAT16, BFLOAT16], ids=str)
@pytest.mark.parametrize("name", WITH_RULE)
def test_rules_say_what_blocks_say(name: str, format: Format, target: Target) -> None:
    rng = np.random.default_rng([len(name), format.digits])
    entry = find_operator("", name)
    assert entry is not None
    applied = 0
    trials = 25 if name in MAKERS else 100
    for _ in range(trials):
        operands, attributes = operands_of(name, rng, format), attributes_of(name, rng)
        applied += rule_of(entry)(Call(entry, attributes, target=target, abstraction=PLAIN), operands)
        found, hazards = called(entry, attributes, target, operands)
        expected, expected_hazards = called(replace(entry, interval_rule=None), attributes, target, operands)
        assert hazards == expected_hazards, operands
        if expected is None or found is None:
            assert found is expected
            continue
        assert found.shape == expected.shape and found.format is expected.format
        assert (found.any_special, found.cells) == (expected.any_special, expected.cells), (operands, found, expected)
        for end, expected_end in zip(expanded(found), expanded(expected)):
            size = max(*(float(np.abs(part).max()) for part in expanded(expected)), format.smallest_normal)
            assert np.abs(end - expected_end).max() <= 8 * format.unit_roundoff * size, (operands, attributes, found, expected)
    assert applied >= trials / 5 or (name in ("Gelu", "Softmax") and format is FLOAT64)


def rule_of(entry: Operator) -> Callable[[Call, list[Range]], bool]:
    """Whether an operator's rule has something to say about a call."""
    rule = entry.interval_rule
    assert rule is not None

    def applies(call: Call, operands: list[Range]) -> bool:
        try:
            return rule(call, *operands) is not None
        except NotAnalysed:
            return False

    return applies


def test_operators_of_plain_networks_have_rules() -> None:
    assert {"Add", "Sub", "Mul", "Div", "Gelu", "Softmax", "LayerNormalization", *MAKERS} <= set(WITH_RULE)
