"""`run_reference`: the results of a test in float64."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tensorproof.compare.drawing import Array, Arrays, draw_inputs, draw_weight, dtype_of
from tensorproof.compare.reference.layer_table import Disturb, NoReference, Shape, compute, weights_of
from tensorproof.compare.spec import LayerSpec, TestSpec, owner_of

#: Layers that take query, value and key one by one, and a mask for pairs of steps.
_BY_PAIRS = frozenset({"MultiHeadAttention", "GroupQueryAttention"})


@dataclass(frozen=True)
class Walk:
    """All results of a network, and the shapes of what went into each layer."""

    values: dict[str, Array] = field(default_factory=dict[str, Array])
    masks: dict[str, Array | None] = field(default_factory=dict[str, "Array | None"])
    shapes: dict[str, list[Shape]] = field(default_factory=dict[str, "list[Shape]"])


def run_reference(test: TestSpec, arrays: Arrays | None = None, keep: Sequence[str] | None = None) -> dict[str, Array]:
    """Results in float64 by name, of the same inputs and weights as everywhere: rounded to the test's format, then widened.

    `arrays` and `keep` are those of `Backend.run_network`. Raises `NoReference` where there is no layer, parameter or phase to go
    by, or where the parameters make no sense. Gradients are not computed.
    """
    wanted = list(test.network.outputs if keep is None else keep)
    if test.network.dialect == "onnx":
        from tensorproof.compare.reference.onnx_operators import run_operators

        return run_operators(test, arrays, wanted)
    return chosen(walk(test, arrays, wanted).values, wanted)


def chosen(values: Arrays, wanted: Sequence[str]) -> dict[str, Array]:
    """The results that were asked for: a layer's name stands for all that it gives."""
    return {
        name: values[name]
        for asked in wanted
        for name in values
        if name == asked or (":" not in asked and ":" in name and owner_of(name) == asked)
    }


def walk(test: TestSpec, arrays: Arrays | None = None, wanted: Sequence[str] | None = None, disturb: Disturb | None = None) -> Walk:
    """Compute a network of Keras layers, or the part of it that some results need."""
    network = test.network if wanted is None else test.network.up_to(wanted)
    found = Walk()
    given = arrays or {}
    drawn = draw_inputs(test)
    for entry in network.inputs:
        array = _widened(given.get(entry.name, drawn[entry.name]), test.dtype)
        found.values[entry.name] = array if disturb is None else disturb(entry.name, array)
        found.masks[entry.name] = None
    bool_inputs = {entry.name for entry in network.inputs if entry.dtype == "bool"}
    with np.errstate(all="ignore"):
        for layer in network.layers:
            try:
                results, mask = _computed(test, layer, found, bool_inputs, given, disturb)
            except NoReference:
                raise
            except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
                raise NoReference(layer.kind, f"cannot be computed: {error}") from error
            for index, result in enumerate(results):
                name = f"{layer.name}:{index}" if index else layer.name
                result = np.asarray(result, np.float64)
                found.values[name] = result if disturb is None else disturb(name, result)
                found.masks[name] = None if index else mask
    return found


def _computed(
    test: TestSpec, layer: LayerSpec, found: Walk, bool_inputs: set[str], given: Arrays, disturb: Disturb | None
) -> tuple[tuple[Array, ...], Array | None]:
    """One layer: its operands and masks sorted out as `LayerSpec` says, its weights drawn."""
    given_masks = [found.values[name] for name in layer.inputs if name in bool_inputs] if len(layer.inputs) > 1 else []
    names = [name for name in layer.inputs if not given_masks or name not in bool_inputs]
    operands = [found.values[name] for name in names]
    masks = [found.masks[name] for name in names]
    attention_mask: Array | None = None
    if given_masks and layer.kind in _BY_PAIRS:
        attention_mask = given_masks[0]
    elif given_masks:
        masks = [*given_masks, *(None for _ in operands[len(given_masks) :])]
    shapes = [operand.shape for operand in operands]
    found.shapes[layer.name] = shapes
    weights = [
        _weight(test, layer.name, index, weight.name, weight.shape, given, disturb)
        for index, weight in enumerate(weights_of(layer.kind, shapes, layer.parameters))
    ]
    return compute(
        layer.kind,
        operands,
        layer.parameters,
        weights,
        masks,
        is_training=test.phase == "training",
        attention_mask=attention_mask,
        disturb=None if disturb is None else lambda name, array: disturb(f"{layer.name}/inside/{name}", array),
    )


def _weight(test: TestSpec, layer: str, index: int, name: str, shape: Shape, given: Arrays, disturb: Disturb | None) -> Array:
    key = f"{layer}/{index}"
    array = given[key] if key in given else draw_weight(test, layer, index, name, shape)
    if array.shape != shape:
        raise NoReference(layer, f"a weight {key} of shape {array.shape}, not {shape}")
    wide = _widened(array, test.dtype)
    return wide if disturb is None else disturb(key, wide)


def _widened(array: Array, dtype: str) -> Array:
    """Rounded to a format, then widened; whole numbers and masks are what they are."""
    if array.dtype == np.bool_:
        return array
    if array.dtype.kind in "iu":
        return array.astype(np.float64)
    with np.errstate(over="ignore"):
        return array.astype(dtype_of(dtype)).astype(np.float64)
