"""Blocks in plain numbers against the blocks themselves: same hazards, same bounds, on random intervals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tensorproof.formats import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, Format
from tensorproof.operators.table import Call, Operator, all_operators, evaluate, find_operator
from tensorproof.ranges.abstraction import FIRST_PASS
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
    if name in ("Gelu", "Softmax"):
        return [x]
    if name == "LayerNormalization":
        scale, bias = rng.normal(1, 1, (2, CHANNELS)).astype(format.dtype)
        return [x, *(Range.constant(part, format) for part in (scale, bias))][: int(rng.integers(2, 4))]
    other = interval(rng, format, shape=(CHANNELS,) if rng.random() < 0.5 else (2, CHANNELS))
    if rng.random() < 0.4:
        size = CHANNELS if rng.random() < 0.7 else 1
        other = Range.constant((rng.normal(0, 1, size) * 10.0 ** rng.uniform(-9, 3)).astype(format.dtype), format)
    return [x, other] if rng.random() < 0.5 else [other, x]


def attributes_of(name: str, rng: np.random.Generator) -> dict[str, Any]:
    if name == "Gelu" and rng.random() < 0.5:
        return {"approximate": "tanh"}
    return {}


def called(entry: Operator, attributes: dict[str, Any], target: Target, operands: list[Range]) -> tuple[Range, set[str]]:
    call = Call(entry, attributes, target=target, abstraction=PLAIN)
    result = evaluate(call, operands)
    return result, {hazard.rule.code for hazard in call.hazards}


@pytest.mark.parametrize("target", [IEEE, ONNXRUNTIME_CPU], ids=lambda t: t.name)
@pytest.mark.parametrize("format", [FLOAT64, FLOAT32, FLOAT16, BFLOAT16], ids=str)
@pytest.mark.parametrize("name", WITH_RULE)
def test_rules_say_what_blocks_say(name: str, format: Format, target: Target) -> None:
    rng = np.random.default_rng([len(name), format.digits])
    entry = find_operator("", name)
    assert entry is not None
    applied = 0
    for _ in range(300):
        operands, attributes = operands_of(name, rng, format), attributes_of(name, rng)
        assert entry.interval_rule is not None
        applied += entry.interval_rule(Call(entry, attributes, target=target, abstraction=PLAIN), *operands) is not None
        found, hazards = called(entry, attributes, target, operands)
        expected, expected_hazards = called(replace(entry, interval_rule=None), attributes, target, operands)
        assert hazards == expected_hazards, operands
        assert found.shape == expected.shape and found.format is expected.format
        (low, high), (low_expected, high_expected) = found.hull(), expected.hull()
        size = max(abs(low_expected), abs(high_expected), format.smallest_normal)
        assert abs(low - low_expected) <= 8 * format.unit_roundoff * size, (operands, found, expected)
        assert abs(high - high_expected) <= 8 * format.unit_roundoff * size, (operands, found, expected)
    assert applied >= 60 or (name in ("Gelu", "Softmax") and format is FLOAT64)


def test_operators_of_plain_networks_have_rules() -> None:
    assert {"Add", "Sub", "Mul", "Div", "Gelu", "Softmax", "LayerNormalization"} <= set(WITH_RULE)
