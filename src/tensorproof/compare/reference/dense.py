"""Matrix products and tables: `Dense`, `EinsumDense`, `Embedding`."""

from __future__ import annotations

from typing import cast

import numpy as np

from tensorproof.compare.drawing import Array
from tensorproof.compare.reference.activation_functions import activate
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


def _dense_weights(shapes: list[Shape], parameters: Parameters) -> list[Weight]:
    units = parameters["units"]
    bias = [Weight("bias", (units,))] if parameters["use_bias"] else []
    return [Weight("kernel", (shapes[0][-1], units)), *bias]


@layer(
    "Dense",
    accuracy=Accuracy.SUM,
    parameters={"units": REQUIRED, "activation": None, "use_bias": True},
    weights=_dense_weights,
    masking="keep",
)
def dense(call: Call) -> Outcome:
    """A matrix product over the last axis."""
    result = call.only @ call.weights[0]
    if call.parameters["use_bias"]:
        result = result + call.weights[1]
    return activate(call.kind, call.parameters["activation"], call.rounded("sum", result))


def _einsum_sizes(shape: Shape, parameters: Parameters) -> tuple[str, str, str, dict[str, int]]:
    """Letters of input, kernel and output, dots written out, and the size of each."""
    equation = str(parameters["equation"]).replace(" ", "")
    try:
        operands, output = equation.split("->")
        left, kernel = operands.split(",")
    except ValueError:
        raise NoReference(parameters.kind, f"equation {equation!r}") from None
    dots = len(shape) - len(left.replace("...", "")) if "..." in left else 0
    # Upper-case letters stand for what the dots stand for: Keras' own equations are in lower case.
    spelled = "".join(chr(ord("A") + index) for index in range(dots))
    left, output = left.replace("...", spelled), output.replace("...", spelled)
    sizes = dict(zip(left, shape, strict=True))
    wanted = parameters["output_shape"]
    wanted = (wanted,) if isinstance(wanted, int) else tuple(wanted)
    pairs = zip(reversed(output), reversed(cast("tuple[int | None, ...]", wanted)))
    sizes |= {letter: size for letter, size in pairs if size is not None}
    return left, kernel, output, sizes


def _einsum_weights(shapes: list[Shape], parameters: Parameters) -> list[Weight]:
    _, kernel, output, sizes = _einsum_sizes(shapes[0], parameters)
    weights = [Weight("kernel", tuple(sizes[letter] for letter in kernel))]
    if parameters["bias_axes"] is not None:
        axes = [place for place, letter in enumerate(output) if letter in parameters["bias_axes"]]
        first = min(axes)
        shape = tuple(sizes[letter] if place in axes else 1 for place, letter in enumerate(output) if place >= first)
        weights.append(Weight("bias", shape))
    return weights


@layer(
    "EinsumDense",
    accuracy=Accuracy.SUM,
    parameters={"equation": REQUIRED, "output_shape": REQUIRED, "activation": None, "bias_axes": None},
    weights=_einsum_weights,
)
def einsum_dense(call: Call) -> Outcome:
    """An Einstein sum of the input and a kernel."""
    left, kernel, output, _ = _einsum_sizes(call.only.shape, call.parameters)
    result: Array = np.einsum(f"{left},{kernel}->{output}", call.only, call.weights[0])
    if call.parameters["bias_axes"] is not None:
        result = result + call.weights[1]
    return activate(call.kind, call.parameters["activation"], call.rounded("sum", result))


def _embedding_weights(_shapes: list[Shape], parameters: Parameters) -> list[Weight]:
    weights = [Weight("embeddings", (parameters["input_dim"], parameters["output_dim"]))]
    if parameters.kind == "ReversibleEmbedding" and not parameters["tie_weights"]:
        weights.append(Weight("reverse_embeddings", (parameters["output_dim"], parameters["input_dim"])))
    return weights


def _embedding_mask(call: Call) -> Array | None:
    return call.only != 0 if call.parameters["mask_zero"] else None


_EMBEDDING = {"input_dim": REQUIRED, "output_dim": REQUIRED, "mask_zero": False}


@layer("Embedding", accuracy=Accuracy.EXACT, parameters=_EMBEDDING, weights=_embedding_weights, masking=_embedding_mask)
@layer(
    "ReversibleEmbedding",
    accuracy=Accuracy.EXACT,
    parameters={**_EMBEDDING, "tie_weights": True},
    weights=_embedding_weights,
    masking=_embedding_mask,
)
def embedding(call: Call) -> Outcome:
    """Rows of a table. Nothing is said about rows that are not there."""
    rows = call.only.astype(np.int64)
    if rows.size and (rows.min() < 0 or rows.max() >= call.parameters["input_dim"]):
        raise NoReference(call.kind, "an index outside the table")
    return call.weights[0][rows]
