"""Formats against ml_dtypes: limits, and rounding in all three directions."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorproof.formats import BY_NAME, FLOAT64, FORMATS, Format, of_dtype

pytestmark = pytest.mark.area("formats")

FLOATS = [f for f in FORMATS if f.is_float]
INTEGERS = [f for f in FORMATS if f.is_integer]


@pytest.mark.parametrize("format", FLOATS, ids=str)
def test_limits_of_floating_formats(format: Format) -> None:
    info = ml_dtypes.finfo(format.dtype)
    assert format.high == float(info.max)
    assert format.low == float(info.min)
    assert format.smallest_normal == float(info.smallest_normal)
    assert format.smallest_subnormal == float(info.smallest_subnormal)
    assert 2 * format.unit_roundoff == float(info.eps)
    with np.errstate(all="ignore"):
        assert format.has_infinity == bool(np.isinf(np.array(np.inf).astype(format.dtype).astype(float)))


@pytest.mark.parametrize("format", INTEGERS, ids=str)
def test_limits_of_integers(format: Format) -> None:
    info = ml_dtypes.iinfo(format.dtype)
    assert format.low == float(int(info.min))
    assert format.high == float(int(info.max))


@pytest.mark.parametrize("format", [f for f in FLOATS if f.has_subnormals], ids=str)
@given(value=st.floats(allow_nan=False, allow_infinity=False))
def test_rounding_is_the_format_s_own(format: Format, value: float) -> None:
    array = np.array(value)
    with np.errstate(all="ignore"):
        down, near, up = format.round_down(array), format.round_nearest(array), format.round_up(array)
    assert down <= value <= up
    assert down <= near <= up
    with np.errstate(all="ignore"):
        expected = float(array.astype(format.dtype).astype(np.float64))
    if format.low <= near <= format.high:
        assert near == expected
        assert float(near.astype(format.dtype).astype(np.float64)) == near
    elif format.has_infinity:
        assert np.isinf(expected)


@pytest.mark.parametrize("format", [f for f in FLOATS if f is not FLOAT64 and f.has_subnormals], ids=str)
@given(value=st.floats(min_value=-400, max_value=400))
def test_outward_neighbours_are_next_to_each_other(format: Format, value: float) -> None:
    array = np.array(np.clip(value, format.low, format.high))
    down, up = format.round_down(array), format.round_up(array)
    assert up - down in (0.0, float(format.quantum(down)), float(format.quantum(up)))


def test_formats_are_found_by_name_and_dtype() -> None:
    assert BY_NAME["bfloat16"].dtype == ml_dtypes.bfloat16
    assert of_dtype(np.dtype(np.float16)).name == "float16"
    assert of_dtype(np.array(["text"]).dtype).name == "string"
