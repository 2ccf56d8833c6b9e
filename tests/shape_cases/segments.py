"""Rows that are combined by the number of their segment."""

from __future__ import annotations

from tests.shape_cases import Draw, cases

_KINDS = ("sum", "mean", "max", "min", "prod")


@cases(*(f"{place}.segment_{kind}" for place in ("tf", "tf.math") for kind in _KINDS), imprecise=True)
def _(draw: Draw) -> str:
    data = draw.shape(1, 3)
    return f"tf.math.{draw.short}({draw.array(data)}, tf.zeros({draw.varied(data[:1])}, tf.int32))"


@cases(*(f"{place}.unsorted_segment_{kind}" for place in ("tf", "tf.math") for kind in _KINDS))
def _(draw: Draw) -> str:
    data = draw.shape(1, 3)
    ids = draw.varied(data[: draw.integer(1, len(data))])
    return f"tf.math.{draw.short}({draw.array(data)}, tf.zeros({ids}, tf.int32), {draw.integer(1, 4)})"
