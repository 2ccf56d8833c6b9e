"""`Referee`: what is known about the right result of a test without asking a framework, worked out when it is first needed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property

import numpy as np

from tensorproof.compare.catalogue.layer_kind import LayerKind, same
from tensorproof.compare.catalogue.parameters import Parameter
from tensorproof.compare.catalogue.table import kinds
from tensorproof.compare.drawing import Array, Arrays, draw_inputs, dtype_of
from tensorproof.compare.judging import DEFAULT_UNITS, precision_of
from tensorproof.compare.reference import NoReference, is_random, run_reference, sensitivity, units_of
from tensorproof.compare.spec import Json, LayerSpec, TestSpec

#: Formats in which frameworks are known to flush subnormal numbers to zero; float16 is computed in float32 inside.
_FLUSHED = ("float32", "float64", "bfloat16")
#: Gradients pass each layer twice.
_GRADIENT_FACTOR = 2.0


class Referee:
    """The float64 reference of a test, how far it may be missed, and whether values can be compared at all."""

    def __init__(self, test: TestSpec, arrays: Arrays | None = None) -> None:
        self.test = test
        self._arrays = arrays

    @cached_property
    def reference(self) -> Mapping[str, Array]:
        """Results in float64 by name; empty where there is no reference that shares no code with a backend.

        That of ONNX operators is the evaluator of the ONNX package, a backend itself: it has no more to say than the others.
        """
        if self.illegal or self.test.network.dialect == "onnx":
            return {}
        return self._run(None)

    @cached_property
    def illegal(self) -> tuple[str, ...]:
        """Parameters with a value that is wrong on purpose, as `LAYER.PARAMETER`."""
        return illegal_parameters(self.test)

    @cached_property
    def is_random(self) -> bool:
        """Whether layers draw numbers of their own: then only shapes and types can be compared."""
        return self.test.phase != "inference" and any(is_random(layer.kind, layer.parameters) for layer in self.test.layers)

    def units(self, name: str) -> float:
        """Units of precision that a result may be off by: 0 if the layers it depends on only move data.

        Rounding errors of several layers add up like independent ones.
        """
        if name.startswith("gradient:"):
            return max(DEFAULT_UNITS, _GRADIENT_FACTOR * self._together(self.test.layers))
        return self._together(self.test.network.up_to([name]).layers)

    def _together(self, layers: tuple[LayerSpec, ...]) -> float:
        return math.hypot(*(units_of(self.test, layer.name) for layer in layers))

    @cached_property
    def moved(self) -> Mapping[str, Array]:
        """How far results move when inputs and weights move by one unit; empty where that is not known."""
        try:
            return sensitivity(self.test, self._arrays)
        except NoReference:
            return {}

    def gradient_noise(self, name: str) -> float:
        """How far a gradient, `gradient:INPUT`, moves when values on the way move by one unit.

        Terms that cancel (the slope of a sum of softmax is 0) leave the rounding of results as large as those on the way, over the
        size of the input: there is no reference of gradients to say more.
        """
        entry = draw_inputs(self.test) | dict(self._arrays or {})
        operand = entry[name.removeprefix("gradient:")].astype(np.float64)
        largest = max((_largest(value) for value in self._inner.values()), default=1.0)
        size = float(np.sqrt(np.mean(np.square(operand)))) if operand.size else 1.0
        return precision_of(self.test.dtype)[0] * max(largest, 1.0) / max(min(size, 1.0), 1e-3)

    @cached_property
    def fits_the_format(self) -> bool:
        """Whether the reference's values, inner ones too, are finite numbers of the test's format: else overflow is no defect."""
        values = self._inner
        return bool(values) and all(_finite(value, self.test.dtype) for value in values.values())

    @cached_property
    def meets_subnormals(self) -> bool:
        """Whether a number on the way is subnormal: frameworks flush those to zero, or not, at their discretion."""
        if self.test.dtype not in _FLUSHED:
            return False
        smallest = precision_of(self.test.dtype)[1]
        given = {**draw_inputs(self.test), **(self._arrays or {})}
        return any(_has_subnormal(value, smallest) for value in (*given.values(), *self._inner.values()))

    @cached_property
    def _inner(self) -> Mapping[str, Array]:
        return {} if self.illegal else self._run([layer.name for layer in self.test.layers])

    def _run(self, keep: list[str] | None) -> Mapping[str, Array]:
        try:
            with np.errstate(all="ignore"):
                return run_reference(self.test, self._arrays, keep)
        except NoReference:
            return {}


def illegal_parameters(test: TestSpec) -> tuple[str, ...]:
    """Parameters of a test that the catalogue lists as illegal values, as `LAYER.PARAMETER`."""
    known = kinds(test.network.dialect)
    return tuple(f"{layer.name}.{name}" for layer in test.layers for name in _illegal(layer, known.get(layer.kind)))


def _illegal(layer: LayerSpec, kind: LayerKind | None) -> list[str]:
    if kind is None:
        return []
    given = {name: value for name, value in layer.parameters.items() if name in kind.parameters}
    return [name for name, value in given.items() if _is_wrong(value, kind.parameters[name])]


def _is_wrong(value: Json, parameter: Parameter) -> bool:
    """Listed as illegal, or not accepted by the parameter's own test."""
    listed = any(same(value, entry) for entry in parameter.illegal) and not any(same(value, entry) for entry in parameter.legal)
    return listed or not parameter.accepts(value)


def _largest(value: Array) -> float:
    numbers = np.abs(value.astype(np.float64))
    return float(numbers[np.isfinite(numbers)].max(initial=0.0))


def _finite(value: Array, dtype: str) -> bool:
    if value.dtype.kind != "f":
        return True
    with np.errstate(over="ignore"):
        return bool(np.isfinite(value.astype(dtype_of(dtype)).astype(np.float64)).all())


def _has_subnormal(value: Array, smallest: float) -> bool:
    if value.dtype.kind in "biu":
        return False
    size = np.abs(value.astype(np.float64))
    return bool(((size > 0) & (size < smallest)).any())
