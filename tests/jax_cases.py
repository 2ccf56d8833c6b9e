"""One check for every spelling of a primitive of JAX: what is traced computes, and is bounded, as JAX computes it.

    check_case(jnp.exp, np.linspace(-1, 1, 6, dtype=np.float32))
    check_case(lambda x: lax.reduce_max(x, (1,)), x, ranges={0: (-5.0, 5.0)})

traces a function with example arrays and asserts that

* our graph of it, run in float64, gives what JAX gives in float64 (the translation means the same), where every operator of the
  graph has a meaning;
* the ranges that the analysis finds for its outputs hold what JAX computes, in the formats of the program, on samples of the box
  of its inputs; results that are not finite are among the findings;
* nothing is left out of the analysis.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import ml_dtypes
import numpy as np
import numpy.typing as npt

from tensorproof.assumptions import Declarations, Domain, resolve
from tensorproof.checking import Analysis, analyse
from tensorproof.execute.torch_graph import TorchGraph
from tensorproof.frontends.jax_jaxpr import JaxArgument, JaxGraph, is_key, translated
from tensorproof.graph import NOT_ANALYSED
from tensorproof.operators.table import find_operator
from tensorproof.ranges.range import NAN, NEGATIVE_INFINITY, POSITIVE_INFINITY
from tensorproof.ranges.records import Summary
from tensorproof.refine.driver import EFFORTS
from tensorproof.targets import JAX_CPU

#: The box of a floating input that no range is given for.
REACH = 3.0
#: Samples within a box, beside its corners.
SAMPLES = 6

Arrays = tuple[npt.NDArray[Any], ...]


@dataclass(frozen=True, slots=True)
class Case:
    """A function that was checked: its graph, its analysis, and the ranges of its outputs."""

    traced: JaxGraph
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
    *arrays: Any,
    ranges: Mapping[int, tuple[float, float]] | None = None,
    is_random: bool = False,
    seed: int = 0,
    rtol: float = 1e-5,
    atol: float = 1e-6,
) -> Case:
    """Trace, compare and analyse a function of arrays; see the text of this file.

    Arrays are taken as they come: pass float32 (or a narrower format). `ranges` are the boxes of inputs by their number; by default
    [-3, 3], and for integers and truth values what the example holds. `is_random` says that the function draws numbers, so that
    the translation cannot be compared. Outputs that are keys are not looked at.
    """
    examples = tuple(np.asarray(array) for array in arrays)
    closed = jax.make_jaxpr(function)(*examples)
    made = translated(closed, [JaxArgument(f"x{index}") for index in range(len(examples))], name="case")
    missing = [
        f"{node.label} ({node.attributes[NOT_ANALYSED]})" for node in made.model.graph.walk() if NOT_ANALYSED in node.attributes
    ]
    assert not missing, f"not spelled: {'; '.join(missing)}"
    assert not [node for node in made.model.graph.walk() if node.domain == "jax"]
    numbers = _outputs(made, closed)
    if not is_random and _has_meanings(made):
        _assert_same(made, function, examples, numbers, rtol, atol)
    boxes = [(ranges or {}).get(index) or _box(example) for index, example in enumerate(examples)]
    analysis = _analysed(made, boxes)
    assert not analysis.coverage.not_analysed, [f"{u.op}: {u.reason}" for u in analysis.coverage.not_analysed]
    outputs = tuple(analysis.summaries[number] for number in numbers)
    _assert_contained(function, boxes, examples, outputs, bool(analysis.findings), seed)
    return Case(made, analysis, outputs)


def _outputs(made: JaxGraph, closed: Any) -> list[int]:
    """The number of each output of the function that is an array; equal outputs of a graph are one."""
    return [number for number, aval in zip(made.outputs, closed.out_avals, strict=True) if not is_key(aval)]


def _has_meanings(made: JaxGraph) -> bool:
    entries = [find_operator(node.domain, node.op) for node in made.model.graph.walk()]
    return all(entry is not None and entry.concrete is not None for entry in entries)


def _results(function: Callable[..., Any], arrays: Arrays) -> list[npt.NDArray[Any]]:
    """What JAX computes, compiled as a whole: the arrays among the results."""
    leaves = jax.tree_util.tree_leaves(jax.jit(function)(*arrays))
    return [np.asarray(leaf) for leaf in leaves if not is_key(leaf)]


def _is_floating(array: npt.NDArray[Any]) -> bool:
    return array.dtype.kind == "f" or array.dtype.name == "bfloat16"


def _assert_same(
    made: JaxGraph, function: Callable[..., Any], examples: Arrays, numbers: list[int], rtol: float, atol: float
) -> None:
    model = made.model
    graph = TorchGraph(model)
    widened = tuple(example.astype(np.float64) if _is_floating(example) else example for example in examples)
    feeds = {number: graph.tensor(array) for number, array in zip(model.graph.inputs, widened, strict=True)}
    ours = graph.run(feeds, set(numbers))
    with jax.enable_x64(True):
        theirs = _results(function, widened)
    assert len(theirs) == len(numbers)
    for number, expected in zip(numbers, theirs, strict=True):
        found = ours[number].detach().numpy()
        assert found.shape == expected.shape
        # Constants of a program are held in float32.
        np.testing.assert_allclose(found.astype(np.float64), expected.astype(np.float64), rtol=rtol, atol=atol)


def _box(example: npt.NDArray[Any]) -> tuple[float, float]:
    if _is_floating(example):
        return -REACH, REACH
    return float(example.min()), float(example.max())


def _analysed(made: JaxGraph, boxes: list[tuple[float, float]]) -> Analysis:
    names = [made.model.name_of(number) for number in made.model.graph.inputs]
    domains = {name: Domain("box", *box) for name, box in zip(names, boxes, strict=True)}
    (assumptions, *_), _ = resolve(made.model, Declarations(domains=domains))
    return analyse(made.model, assumptions, JAX_CPU, effort=EFFORTS[0])


def _samples(boxes: list[tuple[float, float]], examples: Arrays, seed: int) -> Iterator[Arrays]:
    """The corners that all elements share, elements at either end, and points between; whole numbers for integers."""
    generator = np.random.default_rng(seed)

    def sample(kind: int, low: float, high: float, example: npt.NDArray[Any]) -> npt.NDArray[Any]:
        shape = example.shape
        if kind < 2:
            array = np.full(shape, (low, high)[kind])
        elif kind == 2:
            array = np.where(generator.random(shape) < 0.5, low, high)
        else:
            array = np.asarray(generator.uniform(low, high, shape))
        if not _is_floating(example):
            return np.rint(array).astype(example.dtype)
        # Ends that the format does not hold are rounded into the box.
        return np.clip(array.astype(example.dtype), *_ends(low, high, example.dtype))

    for kind in range(2 + SAMPLES):
        yield tuple(sample(kind, *box, example) for box, example in zip(boxes, examples, strict=True))


def _ends(low: float, high: float, dtype: np.dtype[Any]) -> tuple[Any, Any]:
    following = ml_dtypes.bfloat16(0).dtype.type if dtype.name == "bfloat16" else dtype.type
    least, most = following(low), following(high)
    infinity = following(math.inf)
    least = least if float(least) >= low else np.nextafter(least, infinity)
    most = most if float(most) <= high else np.nextafter(most, -infinity)
    return least, most


def _assert_contained(
    function: Callable[..., Any],
    boxes: list[tuple[float, float]],
    examples: Arrays,
    outputs: tuple[Summary, ...],
    is_flagged: bool,
    seed: int,
) -> None:
    for arrays in _samples(boxes, examples, seed):
        for result, found in zip(_results(function, arrays), outputs, strict=True):
            if result.dtype.kind == "c":
                continue
            values = result.astype(np.float64).reshape(-1)
            finite = values[np.isfinite(values)]
            if finite.size:
                assert found.low <= finite.min(), f"{finite.min()} is below [{found.low}, {found.high}]"
                assert finite.max() <= found.high, f"{finite.max()} is above [{found.low}, {found.high}]"
            special = NAN * bool(np.isnan(values).any())
            special |= POSITIVE_INFINITY * bool(np.isposinf(values).any()) | NEGATIVE_INFINITY * bool(np.isneginf(values).any())
            assert is_flagged or not special & ~found.special, "a result that is not finite was not found"
