"""TensorFlow's lists and arrays of tensors, as sequences. A list that a loop fills has as many elements as were reserved.

Elements that were reserved and never written are taken not to be read: TensorFlow's arrays raise there, its lists give zeros.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tensorproof.errors import NotAnalysed
from tensorproof.formats import INT32, INT64
from tensorproof.frontends.calls import OWN
from tensorproof.operators.sequences import (
    concat_from_sequence,
    sequence_at,
    sequence_empty,
    sequence_erase,
    sequence_insert,
    sequence_length,
    split_to_sequence,
)
from tensorproof.operators.table import Call, operator
from tensorproof.ranges.containers import Abstract, SequenceOf
from tensorproof.ranges.grid import Size, Span
from tensorproof.ranges.range import Range

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor
    from tensorproof.frontends.tensorflow_call import TensorflowCall


@operator("ListReserve", domain=OWN, steered_by=(0,))
def list_reserve(op: Call, count: Range) -> SequenceOf:
    """So many elements that are not written yet."""
    known = count.integers()
    if known is not None and known.size == 1:
        return SequenceOf(None, max(int(known.reshape(-1)[0]), 0))
    low, high = count.hull()
    return SequenceOf(None, Span(max(int(low), 0), int(high) if high < INT32.high else None))


@list_reserve.meaning
def _(run: Run, count: Tensor) -> list[Tensor | None]:
    return [None] * int(run.whole(count))


@operator("ListSet", domain=OWN, steered_by=(1,))
def list_set(op: Call, sequence: Abstract, position: Range, tensor: Range) -> SequenceOf:
    """One element written: the one at the position if that is known, else any."""
    if not isinstance(sequence, SequenceOf):
        raise NotAnalysed("a tensor where a list is expected")
    known = position.integers()
    at = None if known is None or known.size != 1 else int(known.reshape(-1)[0])
    items = sequence.items
    if items is not None and at is not None and 0 <= at < len(items):
        return SequenceOf.of((*items[:at], tensor, *items[at + 1 :]))
    if sequence.length == 1 and at == 0:
        return SequenceOf.of((tensor,))
    return SequenceOf(tensor if sequence.element is None else sequence.element.join(tensor), _at_least(sequence.length, at))


@list_set.meaning
def _(run: Run, sequence: list[Tensor | None], position: Tensor, tensor: Tensor) -> list[Tensor | None]:
    at = int(run.whole(position))
    grown = [*sequence, *[None] * (at + 1 - len(sequence))]
    return [*grown[:at], tensor, *grown[at + 1 :]]


def _at_least(length: Size, position: int | None) -> Size:
    """A dynamic array grows when it is written behind its end."""
    if position is not None and isinstance(length, int):
        return max(length, position + 1)
    return length


# -- TensorFlow's lists -----------------------------------------------------------------------------------------------


@list_reserve.tensorflow("TensorListReserve")
def _(call: TensorflowCall) -> int:
    return call.own("ListReserve", call.operand(1, INT64))


@sequence_empty.tensorflow("EmptyTensorList")
def _(call: TensorflowCall) -> int:
    return call.emit("SequenceEmpty", dtype=call.format("element_dtype").onnx_code)


@list_set.tensorflow("TensorListSetItem")
def _(call: TensorflowCall) -> int:
    return call.own("ListSet", call.operand(0), call.operand(1, INT64), call.operand(2))


@sequence_at.tensorflow("TensorListGetItem")
def _(call: TensorflowCall) -> int:
    return call.emit("SequenceAt", call.operand(0), call.operand(1, INT64))


@sequence_insert.tensorflow("TensorListPushBack")
def _(call: TensorflowCall) -> int:
    return call.emit("SequenceInsert", call.operand(0), call.operand(1))


@sequence_erase.tensorflow("TensorListPopBack")
def _(call: TensorflowCall) -> tuple[int, ...]:
    last = call.emit("SequenceAt", call.operand(0), call.constant(np.array(-1, np.int64)))
    return call.emit("SequenceErase", call.operand(0)), last


@sequence_length.tensorflow("TensorListLength")
def _(call: TensorflowCall) -> int:
    return call.cast(call.emit("SequenceLength", call.operand(0), formats=(INT64,)), INT32)


@split_to_sequence.tensorflow("TensorListFromTensor")
def _(call: TensorflowCall) -> int:
    return call.emit("SplitToSequence", call.operand(0), axis=0, keepdims=0)


@concat_from_sequence.tensorflow("TensorListStack")
def _(call: TensorflowCall) -> int:
    return _stacked(call, call.operand(0), call.attribute("element_dtype"))


@concat_from_sequence.tensorflow("TensorListConcat", "TensorListConcatV2")
def _(call: TensorflowCall) -> int:
    return call.emit("ConcatFromSequence", call.operand(0), axis=0, formats=(call.attribute("element_dtype"),))


@concat_from_sequence.tensorflow("TensorListGather")
def _(call: TensorflowCall) -> int:
    format = call.attribute("element_dtype")
    return call.emit("Gather", _stacked(call, call.operand(0), format), call.operand(1), axis=0, formats=(format,))


def _stacked(call: TensorflowCall, sequence: int, format: Any) -> int:
    return call.emit("ConcatFromSequence", sequence, axis=0, new_axis=1, formats=(format,))


# -- arrays of version 1: what the flow carries is the array ------------------------------------------------------------


@list_reserve.tensorflow("TensorArrayV3", "TensorArrayV2")
def _(call: TensorflowCall) -> tuple[int, ...]:
    made = call.own("ListReserve", call.operand(0, INT64))
    return made, made


@list_set.tensorflow("TensorArrayWriteV3", "TensorArrayWriteV2")
def _(call: TensorflowCall) -> int:
    return call.own("ListSet", call.operand(3), call.operand(1, INT64), call.operand(2))


@sequence_at.tensorflow("TensorArrayReadV3", "TensorArrayReadV2")
def _(call: TensorflowCall) -> int:
    return call.emit("SequenceAt", call.operand(2), call.operand(1, INT64), formats=(call.attribute("dtype"),))


@concat_from_sequence.tensorflow("TensorArrayGatherV3", "TensorArrayGatherV2")
def _(call: TensorflowCall) -> int:
    format = call.attribute("dtype")
    stacked = _stacked(call, call.operand(2), format)
    return call.emit("Gather", stacked, call.operand(1), axis=0, formats=(format,))


@split_to_sequence.tensorflow("TensorArrayScatterV3", "TensorArrayScatterV2")
def _(call: TensorflowCall) -> int:
    """Elements of a tensor at positions; positions that count up from zero are the tensor's own order."""
    known = call.known(1) if call.is_known(1) else None
    is_counting = np.array_equal(known, np.arange(known.size)) if known is not None else call.counts_up(1)
    if not is_counting:
        raise NotAnalysed("an array is filled in an order that is not known")
    return call.emit("SplitToSequence", call.operand(2), axis=0, keepdims=0)


@sequence_length.tensorflow("TensorArraySizeV3", "TensorArraySizeV2")
def _(call: TensorflowCall) -> int:
    return call.cast(call.emit("SequenceLength", call.operand(1), formats=(INT64,)), INT32)


@concat_from_sequence.tensorflow("TensorArrayConcatV3", "TensorArrayConcatV2")
def _(call: TensorflowCall) -> int:
    return call.emit("ConcatFromSequence", call.operand(1), axis=0, formats=(call.attribute("dtype"),))
