"""Attention: weighted means of values, with weights from the likeness of queries and keys."""

from __future__ import annotations

import math
import string

import numpy as np

from tensorproof.compare.drawing import Array
from tensorproof.compare.reference.activation_functions import sigmoid, softmax
from tensorproof.compare.reference.layer_table import (
    REQUIRED,
    Accuracy,
    Call,
    NoReference,
    Outcome,
    Parameters,
    Shape,
    Weight,
    layer,
)

_CALL = {"call:return_attention_scores": False, "call:use_causal_mask": False}


def _weighing(call: Call, scores: Array, allowed: Array | None, axes: tuple[int, ...] = (-1,)) -> Array:
    """Softmax over what is allowed. Where nothing is allowed, nothing is said about the result."""
    scores = call.rounded("scores", scores)
    if allowed is None:
        return softmax(scores, axes)
    allowed = np.broadcast_to(allowed, scores.shape)
    if not allowed.any(axis=axes).all():
        raise NoReference(call.kind, "a query that may see nothing")
    return softmax(np.where(allowed, scores, -np.inf), axes)


def _causal(queries: int, keys: int) -> Array:
    """Whether a step may look at another: not at later ones."""
    return np.arange(queries)[:, None] >= np.arange(keys)


def _three(call: Call) -> tuple[Array, Array, Array]:
    """Query, value and key, which is the value if it is not given."""
    if len(call.inputs) not in (2, 3):
        raise NoReference(call.kind, f"{len(call.inputs)} inputs")
    return call.inputs[0], call.inputs[1], call.inputs[-1]


def _simple_weights(shapes: list[Shape], parameters: Parameters) -> list[Weight]:
    weights: list[Weight] = []
    if parameters["use_scale"]:
        weights.append(Weight("scale", (shapes[0][-1],) if parameters.kind == "AdditiveAttention" else ()))
    if parameters.kind == "Attention" and parameters["score_mode"] == "concat":
        weights.append(Weight("concat_score_weight", ()))
    return weights


@layer(
    "Attention",
    accuracy=Accuracy.NORMALISED,
    parameters={"use_scale": False, "score_mode": "dot", "dropout": 0.0, **_CALL},
    weights=_simple_weights,
    masking="keep",
)
@layer(
    "AdditiveAttention",
    accuracy=Accuracy.NORMALISED,
    parameters={"use_scale": True, "dropout": 0.0, **_CALL},
    weights=_simple_weights,
    masking="keep",
)
def attention(call: Call) -> Outcome:
    """Luong's and Bahdanau's attention; the results of masked queries are zero."""
    parameters = call.parameters
    query, value, key = _three(call)
    pairs = query[:, :, None] + key[:, None]
    scale = call.weights[0] if parameters["use_scale"] else 1.0
    if call.kind == "AdditiveAttention":
        scores = np.sum(scale * np.tanh(pairs), axis=-1)
    elif parameters["score_mode"] == "dot":
        scores = scale * (query @ np.swapaxes(key, -1, -2))
    else:
        parameters.refuse("score_mode", ("dot", "concat"))
        scores = call.weights[-1] * np.sum(np.tanh(scale * pairs), axis=-1)
    value_mask = call.masks[1] if len(call.masks) > 1 else None
    allowed = None if value_mask is None else value_mask[:, None]
    if parameters["call:use_causal_mask"]:
        causal = _causal(query.shape[1], key.shape[1])
        allowed = causal if allowed is None else allowed & causal
    weights = _weighing(call, scores, allowed)
    result = weights @ value
    if call.mask is not None:
        result = np.where(call.mask[..., None], result, 0.0)
    return (result, weights) if parameters["call:return_attention_scores"] else result


_HEADS = {
    "dropout": 0.0,
    "use_bias": True,
    "flash_attention": None,
    "use_gate": False,
    "sliding_window": None,
    **_CALL,
}


def _project(x: Array, weights: list[Array]) -> Array:
    """To heads: the last axis becomes two."""
    result = np.tensordot(x, weights[0], axes=1)
    return result + weights[1] if len(weights) > 1 else result


def _allowed(call: Call, queries: int, keys: int) -> Array | None:
    """Pairs of steps by all masks together, (batch, queries, keys)."""
    parts: list[Array] = []
    masks = [*call.masks, None, None, None]
    if masks[0] is not None:
        parts.append(masks[0][:, :, None])
    parts.extend(mask[:, None, :] for mask in masks[1:3] if mask is not None)
    if call.parameters["call:use_causal_mask"]:
        parts.append(_causal(queries, keys)[None])
    if call.parameters["sliding_window"] is not None:
        distance = np.abs(np.arange(queries)[:, None] - np.arange(keys))
        parts.append((distance < call.parameters["sliding_window"])[None])
    if call.attention_mask is not None:
        parts.append(call.attention_mask.astype(bool))
    result: Array | None = None
    for part in parts:
        result = part if result is None else result & part
    return result


def _head_weights(shapes: list[Shape], parameters: Parameters) -> list[Weight]:
    query, value, key = shapes[0], shapes[1], shapes[-1]
    if parameters.kind == "MultiHeadAttention":
        heads = others = parameters["num_heads"]
        depth, value_depth = parameters["key_dim"], parameters["value_dim"] or parameters["key_dim"]
        shape = parameters["output_shape"]
        result = (query[-1],) if shape is None else (shape,) if isinstance(shape, int) else tuple(shape)
    else:
        heads, others = parameters["num_query_heads"], parameters["num_key_value_heads"]
        depth = value_depth = parameters["head_dim"]
        result = (query[-1],)
    parts = [(query[-1], heads, depth), (key[-1], others, depth)]
    if parameters["use_gate"]:
        parts.append((query[-1], heads, value_depth))
    parts.append((value[-1], others, value_depth))
    weights: list[Weight] = []
    for part in parts:
        weights.append(Weight("kernel", part))
        weights.extend([Weight("bias", part[1:])] * bool(parameters["use_bias"]))
    weights.append(Weight("kernel", (heads, value_depth, *result)))
    weights.extend([Weight("bias", result)] * bool(parameters["use_bias"]))
    return weights


def _grouped(call: Call) -> list[list[Array]]:
    """Kernels with their biases."""
    size = 2 if call.parameters["use_bias"] else 1
    return [call.weights[start : start + size] for start in range(0, len(call.weights), size)]


def _finish(call: Call, mixed: Array, query: Array, last: list[Array], gate: list[Array]) -> Array:
    if gate:
        mixed = mixed * sigmoid(_project(query, gate))
    result = np.tensordot(mixed, last[0], axes=2)
    return result + last[1] if len(last) > 1 else result


@layer(
    "MultiHeadAttention",
    accuracy=Accuracy.NORMALISED,
    parameters={
        "num_heads": REQUIRED,
        "key_dim": REQUIRED,
        "value_dim": None,
        "output_shape": None,
        "attention_axes": None,
        **_HEADS,
    },
    weights=_head_weights,
    masking="keep",
)
def multi_head_attention(call: Call) -> Outcome:
    """Vaswani et al. 2017: heads by themselves, over one or several axes of the input."""
    parameters = call.parameters
    query, value, key = _three(call)
    projections = _grouped(call)
    heads_query, heads_key, heads_value = (
        _project(x, projections[place]) for x, place in ((query, 0), (key, 1), (value, 3 if parameters["use_gate"] else 2))
    )
    rank = heads_query.ndim
    given = parameters["attention_axes"]
    axes = tuple(range(1, rank - 2)) if given is None else (given,) if isinstance(given, int) else tuple(given)
    axes = tuple(axis if axis >= 0 else rank - 1 + axis for axis in axes)
    target = string.ascii_lowercase[:rank]
    source = "".join(letter.upper() if place in axes else letter for place, letter in enumerate(target))
    batch = "".join(letter for place, letter in enumerate(target[:-1]) if place not in axes)
    pairs = batch + "".join(target[axis] for axis in axes) + "".join(source[axis] for axis in axes)
    scores = np.einsum(f"{target},{source}->{pairs}", heads_query / math.sqrt(parameters["key_dim"]), heads_key)
    over = tuple(range(-len(axes), 0))
    allowed = _allowed(call, query.shape[1], value.shape[1])
    if allowed is not None:
        if rank != 4:
            raise NoReference(call.kind, "a mask over several axes")
        allowed = allowed[:, None]
    weights = _weighing(call, scores, allowed, over)
    mixed = np.einsum(f"{pairs},{source}->{target}", weights, heads_value)
    result = _finish(call, mixed, query, projections[-1], projections[2] if parameters["use_gate"] else [])
    return (result, weights) if parameters["call:return_attention_scores"] else result


@layer(
    "GroupQueryAttention",
    accuracy=Accuracy.NORMALISED,
    parameters={"head_dim": REQUIRED, "num_query_heads": REQUIRED, "num_key_value_heads": REQUIRED, **_HEADS},
    weights=_head_weights,
    masking="keep",
)
def grouped_query_attention(call: Call) -> Outcome:
    """Ainslie et al. 2023: neighbouring query heads share a key and a value head."""
    parameters = call.parameters
    query, value, key = _three(call)
    projections = _grouped(call)
    times = parameters["num_query_heads"] // parameters["num_key_value_heads"]
    heads_query = _project(query, projections[0]) / math.sqrt(parameters["head_dim"])
    heads_key = np.repeat(_project(key, projections[1]), times, axis=2)
    heads_value = np.repeat(_project(value, projections[3 if parameters["use_gate"] else 2]), times, axis=2)
    scores = np.einsum("bquh,bkuh->buqk", heads_query, heads_key)
    allowed = _allowed(call, query.shape[1], value.shape[1])
    weights = _weighing(call, scores, None if allowed is None else allowed[:, None])
    mixed = np.einsum("buqk,bkuh->bquh", weights, heads_value)
    result = _finish(call, mixed, query, projections[-1], projections[2] if parameters["use_gate"] else [])
    return (result, weights) if parameters["call:return_attention_scores"] else result
