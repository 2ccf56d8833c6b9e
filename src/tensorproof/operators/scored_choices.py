"""Boxes and elements chosen by their scores, as TensorFlow and JAX call it; and decoders that are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tensorproof.errors import NotAnalysed
from tensorproof.formats import FLOAT32, INT32, INT64
from tensorproof.graph import ABSENT
from tensorproof.operators.selection import non_max_suppression, top_k

if TYPE_CHECKING:
    from tensorproof.frontends.jax_call import JaxCall
    from tensorproof.frontends.tensorflow_call import TensorflowCall


@non_max_suppression.tensorflow("NonMaxSuppression", "NonMaxSuppressionV2", "NonMaxSuppressionV3")
def _(call: TensorflowCall) -> int:
    """The numbers of the boxes that are kept, best first."""
    return _kept(call)


@non_max_suppression.tensorflow("NonMaxSuppressionV4")
def _(call: TensorflowCall) -> tuple[int, int]:
    """The same, with how many there are."""
    if call.attribute("pad_to_max_output_size", False):
        raise NotAnalysed(f"{call.name} that fills its result up with zeros is not modelled")
    kept = _kept(call)
    count = call.reshaped(call.emit("Shape", kept, formats=(INT64,)), [])
    return kept, call.cast(count, INT32)


def _kept(call: TensorflowCall) -> int:
    """ONNX takes batches and classes, counts in 64 bits, and gives rows of (batch, class, box)."""
    front = call.integers([0])
    boxes = call.moved("Unsqueeze", call.operand(0, FLOAT32), front)
    scores = call.moved("Unsqueeze", call.operand(1, FLOAT32), call.integers([0, 1]))
    if call.name == "NonMaxSuppression":
        overlap = call.constant(np.array(call.attribute("iou_threshold", 0.5), np.float32))
    else:
        overlap = call.operand(3, FLOAT32)
    threshold = call.operand(4, FLOAT32) if len(call) > 4 else ABSENT
    operands = boxes, scores, call.operand(2, INT64), overlap, threshold
    rows = call.emit("NonMaxSuppression", *operands, formats=(INT64,))
    places = call.moved("Gather", rows, call.constant(np.array(2, np.int64)), axis=1)
    return call.cast(places, INT32)


@non_max_suppression.tensorflow("NonMaxSuppressionV5", "NonMaxSuppressionWithOverlaps", "CombinedNonMaxSuppression")
def _(call: TensorflowCall) -> int:
    raise NotAnalysed(f"{call.name} is not modelled")


@top_k.tensorflow("CTCLoss", "CTCLossV2", "CTCGreedyDecoder", "CTCBeamSearchDecoder")
def _(call: TensorflowCall) -> int:
    raise NotAnalysed(f"{call.name} is not modelled: sums over all alignments of labels and frames have no bounds here")


@top_k.jax("approx_top_k")
def _(call: JaxCall) -> tuple[int, int]:
    """Elements that are nearly the largest (or smallest), with their places; exact on a CPU."""
    values, places = call.results
    axis, k = int(call["reduction_dimension"]), int(call["k"])
    largest = int(bool(call["is_max_k"]))
    found = call.emit(
        "TopK", call.operand(0), call.integers([k]), axis=axis, largest=largest, outputs=2, formats=(values.format, INT64)
    )
    return found[0], call.cast(found[1], places.format or INT32)
