"""Whole architectures of PyTorch: exported, translated and analysed, with nothing left out and no false alarm."""

from __future__ import annotations

import functools

import pytest
import torch

from tensorproof.assumptions import Declarations, Domain, resolve
from tensorproof.checking import Analysis, analyse
from tensorproof.execute.torch_graph import TorchGraph
from tensorproof.findings import Finding
from tensorproof.frontends.torch_export import TorchModel, exported
from tensorproof.frontends.torch_translate import CHECKS
from tensorproof.operators.table import spelling_of
from tensorproof.refine.driver import EFFORTS
from tensorproof.targets import TORCH_CPU
from tests.torch_programs import PROGRAMS, SMALL, Program, aten_names

pytestmark = pytest.mark.area("torch models")

#: The share of nodes that can fail which has to be checked.
CHECKED = 0.99


@functools.cache
def _made(name: str) -> tuple[Program, TorchModel]:
    make, _ = PROGRAMS[name]
    program = make(SMALL)
    return program, exported(program.module, (), program.example, name=name)


def _analysed(program: Program, made: TorchModel) -> Analysis:
    domains = {name: Domain("box", *ends) for name, ends in program.ranges.items()}
    (assumptions, *_), _ = resolve(made.model, Declarations(domains=domains))
    return analyse(made.model, assumptions, TORCH_CPU, effort=EFFORTS[0])


def _is_t5_bucket(finding: Finding) -> bool:
    """T5 takes the logarithm of distances, 0 among them, and a choice drops that result: -inf, and what it is cast to."""
    place = finding.location
    return finding.rule.code in ("NUM101", "NUM116") and place is not None and "SelfAttention" in (place.module or "")


@pytest.mark.parametrize("name", PROGRAMS)
def test_architecture(name: str) -> None:
    """All is checked, nothing is found, the bounds hold what torch computes, and our graph computes the same."""
    program, made = _made(name)
    unspelled = {call for call in aten_names(made) if spelling_of(call) is None and not CHECKS.search(call)}
    assert not unspelled
    analysis = _analysed(program, made)
    coverage = analysis.coverage
    assert coverage.checkable > 0
    assert coverage.checked >= CHECKED * coverage.checkable, [f"{u.node}: {u.reason}" for u in coverage.not_analysed]
    found = [finding for finding in analysis.findings if not (name == "T5" and _is_t5_bucket(finding))]
    assert not found, [f"{finding.rule.code} {finding.node} {finding.location}" for finding in found]
    with torch.no_grad():
        first = next(item for item in _tensors(program.module(**program.example)))
    number = made.model.graph.outputs[0]
    summary = analysis.summaries[number]
    assert summary.low <= float(first.min())
    assert float(first.max()) <= summary.high
    feeds = {n: program.example[made.model.name_of(n)] for n in made.model.graph.inputs}
    ours = TorchGraph(made.model, precision=None).run(feeds, [number])[number]
    torch.testing.assert_close(ours, first, rtol=1e-3, atol=1e-4)


def _tensors(result: object) -> list[torch.Tensor]:
    if isinstance(result, torch.Tensor):
        return [result]
    parts = result.values() if isinstance(result, dict) else result if isinstance(result, tuple | list) else ()
    return [tensor for part in parts for tensor in _tensors(part)]


def test_the_finding_in_t5_is_real() -> None:
    """The logarithm of 0 in T5's buckets does happen, and reaches no output."""
    program, made = _made("T5")
    (node, *_) = [node for node in made.model.graph.nodes if node.op == "Log"]
    feeds = {n: program.example[made.model.name_of(n)] for n in made.model.graph.inputs}
    values = TorchGraph(made.model, precision=None).run(feeds, [node.outputs[0], *made.model.graph.outputs])
    assert torch.isneginf(values[node.outputs[0]]).any()
    assert all(values[number].isfinite().all() for number in made.model.graph.outputs)


def test_open_sizes() -> None:
    """Batch and length stay symbolic: what was exported with one size is analysed with another."""
    make, _ = PROGRAMS["GPT-2"]
    program = make(SMALL)
    axes = {name: {0: "batch", 1: "length"} for name in program.example}
    made = exported(program.module, (), program.example, name="GPT-2", dimensions=axes)
    assert {made.model.values[number].shape for number in made.model.graph.inputs} == {("batch", "length")}
    domains = {name: Domain("box", *ends) for name, ends in program.ranges.items()}
    declared = Declarations(domains=domains, dimensions={"batch": (3, 3), "length": (11, 11)})
    (assumptions, *_), _ = resolve(made.model, declared)
    analysis = analyse(made.model, assumptions, TORCH_CPU, effort=EFFORTS[0])
    assert analysis.coverage.checked == analysis.coverage.checkable
    assert not analysis.findings
