"""One check for every spelling of an ATen operator: what is exported computes, and is bounded, as torch computes it.

    check_case(torch.logsumexp, torch.randn(2, 3), 1)
    check_case(nn.LayerNorm(4), torch.randn(2, 4), ranges={0: (-5.0, 5.0)})

exports a function or module with example inputs and asserts that

* our graph of it, run in float64, gives what torch gives in float64 (the translation means the same);
* the ranges that the analysis finds for its outputs hold what torch computes, in the formats of the program, on samples of
  the box of its inputs; results that are not finite are among the findings;
* nothing is left out of the analysis.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from tensorproof.assumptions import Declarations, Domain, resolve
from tensorproof.checking import Analysis, analyse
from tensorproof.execute.torch_graph import TorchGraph
from tensorproof.frontends.torch_export import TorchModel, exported, input_names
from tensorproof.graph import NOT_ANALYSED
from tensorproof.ranges.range import NAN, NEGATIVE_INFINITY, POSITIVE_INFINITY
from tensorproof.ranges.records import Summary
from tensorproof.refine.driver import EFFORTS
from tensorproof.targets import TORCH_CPU

#: The box of a floating input that no range is given for.
REACH = 3.0
#: Samples within a box, beside its corners and the example.
SAMPLES = 6


@dataclass(frozen=True, slots=True)
class Case:
    """A program that was checked: its graph, its analysis, and the ranges of its outputs."""

    exported: TorchModel
    analysis: Analysis
    outputs: tuple[Summary, ...]

    @property
    def rules(self) -> set[str]:
        """The codes of the rules that the findings belong to."""
        return {finding.rule.code for finding in self.analysis.findings}

    @property
    def operators(self) -> set[str]:
        """The operators of the graph."""
        return {node.label for node in self.exported.model.graph.walk()}


class _Function(nn.Module):
    """A function of tensors as a module; other arguments are fixed."""

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> None:
        super().__init__()
        self.function, self.arguments, self.keywords = function, arguments, keywords

    def forward(self, *tensors: Tensor) -> Any:
        given = iter(tensors)
        return self.function(*(next(given) if isinstance(item, Tensor) else item for item in self.arguments), **self.keywords)


def check_case(
    subject: Callable[..., Any] | nn.Module,
    *arguments: Any,
    ranges: Mapping[int, tuple[float, float]] | None = None,
    is_random: bool = False,
    batch: int | None = None,
    seed: int = 0,
    **keywords: Any,
) -> Case:
    """Export, compare and analyse a function or a module; see the text of this file.

    Tensors among the arguments are the inputs, everything else is fixed. `ranges` are the boxes of inputs by their number
    among the tensors; by default [-3, 3], and for integers and truth values what the example holds. `is_random` says that
    two runs differ, so that the translation cannot be compared. With `batch` the first axis of all inputs stays symbolic, and
    what was exported is run and analysed with that size of it.
    """
    examples = tuple(item for item in arguments if isinstance(item, Tensor))
    module = _Function(subject, arguments, keywords) if not isinstance(subject, nn.Module) or keywords else subject
    axes = {} if batch is None else {name: {0: "batch"} for name in input_names(module, examples, {})}
    made = exported(copy.deepcopy(module), examples, dimensions=axes)
    if batch is not None:
        examples = tuple(example[:1].expand(batch, *example.shape[1:]) for example in examples)
    missing = [f"{node.label} ({node.attributes.get(NOT_ANALYSED)})" for node in made.model.graph.walk() if node.domain == "aten"]
    assert not missing, f"not spelled: {'; '.join(missing)}"
    if not is_random:
        _assert_same(made, module, examples)
    boxes = [(ranges or {}).get(index) or _box(example) for index, example in enumerate(examples)]
    analysis = _analysed(made, boxes, {} if batch is None else {"batch": (batch, batch)})
    assert not analysis.coverage.not_analysed, [f"{u.op}: {u.reason}" for u in analysis.coverage.not_analysed]
    outputs = tuple(analysis.summaries[number] for number in made.model.graph.outputs)
    _assert_contained(module, boxes, examples, outputs, bool(analysis.findings), seed)
    return Case(made, analysis, outputs)


def _results(module: nn.Module, tensors: tuple[Tensor, ...]) -> list[Tensor]:
    """What torch computes; the module itself stays as it is."""
    with torch.no_grad():
        return [item for item in tree_leaves(copy.deepcopy(module)(*tensors)) if isinstance(item, Tensor)]


def _widened(tensor: Tensor) -> Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor


def _assert_same(made: TorchModel, module: nn.Module, examples: tuple[Tensor, ...]) -> None:
    model = made.model
    feeds = dict(zip(model.graph.inputs, map(_widened, examples), strict=True))
    ours = TorchGraph(model).run(feeds, model.graph.outputs)
    theirs = _results(copy.deepcopy(module).double(), tuple(map(_widened, examples)))
    assert len(theirs) == len(model.graph.outputs)
    for number, expected in zip(model.graph.outputs, theirs):
        found = ours[number]
        assert tuple(found.shape) == tuple(expected.shape)
        # A format that the program names stays one of torch's own there; our graph computes all numbers in float64.
        assert found.dtype == (torch.float64 if expected.is_floating_point() else expected.dtype)
        # Constants of a program are held in float32.
        np.testing.assert_allclose(found.detach().numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)


def _box(example: Tensor) -> tuple[float, float]:
    if example.is_floating_point():
        return -REACH, REACH
    return float(example.min()), float(example.max())


def _analysed(made: TorchModel, boxes: list[tuple[float, float]], sizes: Mapping[str, tuple[int, int]]) -> Analysis:
    names = [made.model.name_of(number) for number in made.model.graph.inputs]
    domains = {name: Domain("box", *box) for name, box in zip(names, boxes, strict=True)}
    (assumptions, *_), _ = resolve(made.model, Declarations(domains=domains, dimensions=sizes))
    return analyse(made.model, assumptions, TORCH_CPU, effort=EFFORTS[0])


def _samples(boxes: list[tuple[float, float]], examples: tuple[Tensor, ...], seed: int) -> Iterator[tuple[Tensor, ...]]:
    """The corners that all elements share, elements at either end, and points between; whole numbers for integers."""
    generator = np.random.default_rng(seed)

    def sample(kind: int, low: float, high: float, example: Tensor) -> Tensor:
        shape = tuple(example.shape)
        if kind < 2:
            array = np.full(shape, (low, high)[kind])
        elif kind == 2:
            array = np.where(generator.random(shape) < 0.5, low, high)
        else:
            array = generator.uniform(low, high, shape)
        if not example.is_floating_point():
            return torch.from_numpy(np.rint(array)).to(example.dtype)
        # Ends that the format does not hold are rounded into the box.
        rounded = torch.from_numpy(np.asarray(array)).to(example.dtype)
        least, most = (torch.tensor(end, dtype=example.dtype) for end in (low, high))
        least = least if float(least) >= low else torch.nextafter(least, torch.full_like(least, math.inf))
        most = most if float(most) <= high else torch.nextafter(most, torch.full_like(most, -math.inf))
        return rounded.clamp(least, most)

    for kind in range(2 + SAMPLES):
        yield tuple(sample(kind, *box, example) for box, example in zip(boxes, examples, strict=True))


def _assert_contained(
    module: nn.Module,
    boxes: list[tuple[float, float]],
    examples: tuple[Tensor, ...],
    outputs: tuple[Summary, ...],
    is_flagged: bool,
    seed: int,
) -> None:
    for tensors in _samples(boxes, examples, seed):
        for result, found in zip(_results(module, tensors), outputs, strict=True):
            values = result.double().numpy().reshape(-1)
            finite = values[np.isfinite(values)]
            if finite.size:
                assert found.low <= finite.min(), f"{finite.min()} is below [{found.low}, {found.high}]"
                assert finite.max() <= found.high, f"{finite.max()} is above [{found.low}, {found.high}]"
            special = NAN * bool(np.isnan(values).any())
            special |= POSITIVE_INFINITY * bool(np.isposinf(values).any()) | NEGATIVE_INFINITY * bool(np.isneginf(values).any())
            assert is_flagged or not special & ~found.special, "a result that is not finite was not found"
