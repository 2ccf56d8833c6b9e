"""One check for every spelling of an operator of TensorFlow: what is translated computes, and is bounded, as TensorFlow computes it.

    check_case(tf.math.log1p, np.zeros((2, 3), np.float32), ranges={0: (-0.5, 5.0)})
    check_case(lambda x: tf.raw_ops.Softmax(logits=x), X)

traces a function on example arrays and asserts that

* our graph of it, run in float64, gives what TensorFlow gives (the translation means the same), if all its operators can be run;
* the ranges that the analysis finds for its outputs hold what TensorFlow computes eagerly on samples of the box of its inputs;
  results that are not finite are among the findings;
* nothing is left out of the analysis.

`specs` may leave sizes open (`{0: (None, 3)}`); `is_random` leaves out the first comparison.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import torch

from tensorproof.assumptions import Declarations, Domain, resolve
from tensorproof.checking import Analysis, analyse
from tensorproof.execute.meaning import NotExecutable
from tensorproof.execute.torch_graph import TorchGraph
from tensorproof.formats import of_dtype
from tensorproof.frontends.framework_model import ReadingOptions
from tensorproof.frontends.tensorflow_program import TensorflowModel, read_function
from tensorproof.graph import NOT_ANALYSED
from tensorproof.ranges.range import NAN, NEGATIVE_INFINITY, POSITIVE_INFINITY
from tensorproof.ranges.records import Summary
from tensorproof.targets import TENSORFLOW_CPU

#: The box of a floating input that no range is given for.
REACH = 3.0
#: Samples within a box, beside its corners and the example.
SAMPLES = 6

Box = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Case:
    """A function that was checked: its graph, its analysis, and the ranges of its outputs."""

    traced: TensorflowModel
    analysis: Analysis
    outputs: tuple[Summary, ...]

    @property
    def rules(self) -> set[str]:
        """The codes of the rules that the findings belong to."""
        return {finding.rule.code for finding in self.analysis.findings}

    @property
    def operators(self) -> set[str]:
        """The operators of the graph."""
        return {node.label for node in self.traced.model.graph.walk()}


def check_case(
    function: Callable[..., Any],
    *examples: Any,
    ranges: Mapping[int, Box] | None = None,
    specs: Mapping[int, Sequence[int | None]] | None = None,
    is_random: bool = False,
    seed: int = 0,
    rtol: float = 1e-4,
    atol: float = 1e-5,
) -> Case:
    """Trace, translate and compare a function; gives what was found."""
    import tensorflow as tf

    arrays = [np.asarray(example) for example in examples]
    names = [f"x{index}" for index in range(len(arrays))]
    signature = [
        tf.TensorSpec((specs or {}).get(index, array.shape), tf.as_dtype(array.dtype), name=names[index])
        for index, array in enumerate(arrays)
    ]
    traced = read_function(tf.function(function, input_signature=signature), "case", None, ReadingOptions())
    model = traced.model
    missing = [f"{node.label} ({node.attributes.get(NOT_ANALYSED)})" for node in model.graph.walk() if node.domain == "tensorflow"]
    assert not missing, f"not spelled: {'; '.join(missing)}"
    if not is_random:
        _assert_same(traced, function, names, arrays, rtol, atol)
    boxes = [(ranges or {}).get(index) or _box(array) for index, array in enumerate(arrays)]
    analysis = _analysed(traced, names, boxes, arrays)
    assert not analysis.coverage.not_analysed, [f"{u.op}: {u.reason}" for u in analysis.coverage.not_analysed]
    _assert_formats(traced, analysis)
    outputs = tuple(_summary(traced, analysis, number) for number in model.graph.outputs)
    _assert_contained(function, boxes, arrays, outputs, bool(analysis.findings), seed)
    return Case(traced, analysis, outputs)


def _results(function: Callable[..., Any], arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """What TensorFlow computes, operator by operator."""
    import tensorflow as tf

    found = function(*(tf.constant(array) for array in arrays))
    return [np.asarray(item.numpy()) for item in tf.nest.flatten(found) if hasattr(item, "numpy")]


def _distinct(traced: TensorflowModel, results: Sequence[np.ndarray]) -> None:
    assert len(results) == len(traced.model.graph.outputs), "give every output of a case a value of its own"


def _assert_same(
    traced: TensorflowModel,
    function: Callable[..., Any],
    names: Sequence[str],
    arrays: Sequence[np.ndarray],
    rtol: float,
    atol: float,
) -> None:
    model = traced.model
    theirs = _results(function, arrays)
    _distinct(traced, theirs)
    feeds = {
        number: _tensor(arrays[names.index(model.name_of(number))])
        for number in model.graph.inputs
        if model.name_of(number) in names
    }
    try:
        ours = TorchGraph(model).run(feeds, model.graph.outputs)
    except NotExecutable:
        return
    for number, expected in zip(model.graph.outputs, theirs):
        found = ours[number].detach().numpy()
        assert found.shape == expected.shape, f"{found.shape}, not {expected.shape}"
        if expected.dtype.kind in "fV":
            # TensorFlow computes in the format of the program, our graph in float64.
            coarse = expected.dtype.itemsize < 4
            np.testing.assert_allclose(
                found, expected.astype(np.float64), rtol=2e-2 if coarse else rtol, atol=2e-2 if coarse else atol
            )
        else:
            np.testing.assert_array_equal(found, expected)


def _tensor(array: np.ndarray) -> torch.Tensor:
    if of_dtype(array.dtype).is_float:
        return torch.from_numpy(array.astype(np.float64))
    return torch.from_numpy(array.copy())


def _box(array: np.ndarray) -> Box:
    if of_dtype(array.dtype).is_float:
        return -REACH, REACH
    return (float(array.min()), float(array.max())) if array.size else (0.0, 0.0)


def _analysed(traced: TensorflowModel, names: Sequence[str], boxes: Sequence[Box], arrays: Sequence[np.ndarray]) -> Analysis:
    model = traced.model
    sizes: dict[str, tuple[int, int]] = {}
    domains: dict[str, Domain] = {}
    for number in model.graph.inputs:
        name = model.name_of(number)
        index = names.index(name)
        domains[name] = Domain("box", *boxes[index])
        for axis, size in enumerate(model.values[number].shape or ()):
            if not isinstance(size, int):
                sizes[size or f"{name}:{axis}"] = (arrays[index].shape[axis],) * 2
    (assumptions, *_), _ = resolve(model, Declarations(domains=domains, dimensions=sizes))
    return analyse(model, assumptions, TENSORFLOW_CPU, effort=0)


def _assert_formats(traced: TensorflowModel, analysis: Analysis) -> None:
    """The formats that the translation gives to values are those that the blocks find."""
    for number, summary in analysis.summaries.items():
        value = traced.model.values[number]
        assert value.format is None or summary.format is value.format, f"{value.name}: {value.format}, not {summary.format}"


def _summary(traced: TensorflowModel, analysis: Analysis, number: int) -> Summary:
    """The range of an output; a constant of the graph is its own."""
    found = analysis.summaries.get(number)
    assert found is not None, f"{traced.model.name_of(number)} has no range"
    return found


def _samples(boxes: Sequence[Box], arrays: Sequence[np.ndarray], seed: int) -> Iterator[list[np.ndarray]]:
    """The corners that all elements share, elements at either end, and points between; whole numbers for integers."""
    generator = np.random.default_rng(seed)

    def sample(kind: int, low: float, high: float, example: np.ndarray) -> np.ndarray:
        if kind < 2:
            array = np.full(example.shape, (low, high)[kind])
        elif kind == 2:
            array = np.where(generator.random(example.shape) < 0.5, low, high)
        else:
            array = np.asarray(generator.uniform(low, high, example.shape))
        if not of_dtype(example.dtype).is_float:
            return np.rint(array).astype(example.dtype)
        # Ends that the format does not hold are rounded into the box.
        least, most = (np.asarray(end).astype(example.dtype) for end in (low, high))
        least = least if float(least) >= low else _next(least, math.inf)
        most = most if float(most) <= high else _next(most, -math.inf)
        return np.clip(array, float(least), float(most)).astype(example.dtype)

    for kind in range(2 + SAMPLES):
        yield [sample(kind, *box, array) for box, array in zip(boxes, arrays, strict=True)]


def _next(number: np.ndarray, towards: float) -> np.ndarray:
    if number.dtype == ml_dtypes.bfloat16:
        return np.asarray(ml_dtypes.bfloat16(float(number) * (1 + math.copysign(2.0**-7, towards * float(number) or 1.0))))
    return np.nextafter(number, number.dtype.type(towards))


def _assert_contained(
    function: Callable[..., Any],
    boxes: Sequence[Box],
    arrays: Sequence[np.ndarray],
    outputs: Sequence[Summary],
    is_flagged: bool,
    seed: int,
) -> None:
    for sample in _samples(boxes, arrays, seed):
        for result, found in zip(_results(function, sample), outputs, strict=True):
            if result.dtype == object:
                continue
            values = result.astype(np.float64).reshape(-1)
            finite = values[np.isfinite(values)]
            if finite.size:
                assert found.low <= finite.min(), f"{finite.min()} is below [{found.low}, {found.high}]"
                assert finite.max() <= found.high, f"{finite.max()} is above [{found.low}, {found.high}]"
            special = NAN * bool(np.isnan(values).any())
            special |= POSITIVE_INFINITY * bool(np.isposinf(values).any()) | NEGATIVE_INFINITY * bool(np.isneginf(values).any())
            assert is_flagged or not special & ~found.special, "a result that is not finite was not found"
