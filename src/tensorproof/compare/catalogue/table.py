"""All kinds of layers and operators, by dialect. There is no other list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from types import MappingProxyType

from tensorproof.compare.catalogue import (
    keras_activation,
    keras_convolution,
    keras_dense,
    keras_merging,
    keras_normalisation,
    keras_pooling,
    keras_preprocessing,
    keras_recurrent,
    keras_reshaping,
    keras_wrapping,
    onnx_elementwise,
    onnx_movement,
    onnx_windows,
)
from tensorproof.compare.catalogue.layer_kind import LayerKind
from tensorproof.compare.spec import Dialect

_FAMILIES = (
    keras_convolution.KINDS,
    keras_pooling.KINDS,
    keras_recurrent.KINDS,
    keras_normalisation.KINDS,
    keras_activation.KINDS,
    keras_merging.KINDS,
    keras_dense.KINDS,
    keras_reshaping.KINDS,
    keras_wrapping.KINDS,
    keras_preprocessing.KINDS,
    onnx_elementwise.KINDS,
    onnx_windows.KINDS,
    onnx_movement.KINDS,
)


@cache
def kinds(dialect: Dialect) -> Mapping[str, LayerKind]:
    """Kinds by name."""
    found = {kind.name: kind for family in _FAMILIES for kind in family if kind.dialect == dialect}
    return MappingProxyType({name: _without_null(kind) if dialect == "onnx" else kind for name, kind in found.items()})


def _without_null(kind: LayerKind) -> LayerKind:
    """An attribute of ONNX that is null is left out, which is legal."""
    parameters = {
        name: replace(parameter, illegal=tuple(value for value in parameter.illegal if value is not None))
        for name, parameter in kind.parameters.items()
    }
    return replace(kind, parameters=parameters)
