"""Rows of TensorFlow that are combined by the number of their segment."""

from __future__ import annotations

from tensorproof.rules.shapes.gather_shape import GATHER_SHAPE
from tensorproof.shapes.families.names import spelled
from tensorproof.shapes.rule_table import Call, Extent, Mismatch, shape_rule
from tensorproof.shapes.shape import ANY_SHAPE, Shape, same_shape
from tensorproof.shapes.sizes import unknown
from tensorproof.shapes.values import Tensor, Value

_SEGMENTS = "segment_sum segment_mean segment_max segment_min segment_prod"
_UNSORTED = "unsorted_segment_sum unsorted_segment_mean unsorted_segment_max unsorted_segment_min unsorted_segment_prod"


@shape_rule(*spelled("tf tf.math", _SEGMENTS))
def segments(call: Call, data: Tensor, segment_ids: Tensor, name: Value = None) -> Tensor:
    """One row for each number up to the largest; numbers are sorted, one for each row."""
    if data.shape.rank is None or segment_ids.shape.rank is None:
        return data.with_shape(ANY_SHAPE)
    rest = data.shape.dims[1:]
    result = data.with_shape(Shape((unknown(0), *rest)))
    if segment_ids.shape.rank != 1 or data.shape.rank == 0 or same_shape(segment_ids.shape, Shape(data.shape.dims[:1])) is False:
        message = f"{call.name} takes one number for each row of {data.shape}, not {segment_ids.shape}"
        raise Mismatch(GATHER_SHAPE, message, result=result, tensors=(data, segment_ids))
    return result


@shape_rule(*spelled("tf tf.math", _UNSORTED))
def unsorted_segments(call: Call, data: Tensor, segment_ids: Tensor, num_segments: Extent, name: Value = None) -> Tensor:
    """One row for each of the segments; numbers stand for the first axes of the data."""
    if data.shape.rank is None or segment_ids.shape.rank is None:
        return data.with_shape(ANY_SHAPE)
    count = segment_ids.shape.rank
    result = data.with_shape(Shape((num_segments, *data.shape.dims[count:])))
    if same_shape(segment_ids.shape, Shape(data.shape.dims[:count])) is False:
        message = f"{call.name}: the numbers {segment_ids.shape} are not those of the first axes of {data.shape}"
        raise Mismatch(GATHER_SHAPE, message, result=result, tensors=(data, segment_ids))
    return result
