"""Every kind of repair on models that it was not written for: it declines with a reason, or its verification passes."""

from __future__ import annotations

import pytest
from onnx import helper

from tensorproof import fix
from tensorproof.idioms.structure import Structure
from tensorproof.preparing import Prepared
from tensorproof.repair.editing import Editor
from tensorproof.repair.fixing import Source, guarded, restricted, rewritten
from tensorproof.repair.proposal import Case, Proposal
from tensorproof.repair.verify import Refused, roots_of, scanned, verified, with_proto
from tests.models import model
from tests.test_rewrites import FOREIGN

pytestmark = pytest.mark.area("repair")

SOURCES: dict[str, Source] = {"rewrite": rewritten, "operand": guarded, "precondition": restricted("inputs")}
#: Models of the normal run; `make test-long` takes all of them.
SAMPLE = sorted(FOREIGN)[::9]


def cases() -> list[object]:
    return [pytest.param(name, marks=() if name in SAMPLE else pytest.mark.long) for name in FOREIGN]


@pytest.mark.parametrize("name", cases())
def test_it_declines_or_passes(name: str) -> None:
    proto, ranges = FOREIGN[name]
    prepared = Prepared.of(proto, ranges=ranges)
    analyses = scanned(prepared)
    nodes = {node.name: node for node in prepared.graph.graph.walk()}
    structure = Structure(prepared.graph)
    for finding in roots_of(prepared, analyses).values():
        case = Case(prepared.graph, structure, analyses[0], prepared.target, finding, nodes[finding.node])
        for kind, source in SOURCES.items():
            proposals = [found for found in source(prepared, case) if isinstance(found, Proposal) or not all(found)]
            for proposal in proposals:
                assert isinstance(proposal, Proposal), f"{kind}: {proposal} has no reason"
                editor = Editor(prepared.graph, prepared.proto)
                proposal.edit(editor)
                try:
                    seen = verified(prepared, with_proto(prepared, editor.finish()), proposal, analyses, runs=33)
                except Refused as reason:
                    # A guard may break the pattern that proved a later node. What is proven, though, never fails in a run.
                    assert str(reason).startswith("the scan"), f"{kind} {proposal.name} at {finding.node}: {reason}"
                    continue
                assert seen.runs >= 33
                assert not proposal.safe or seen.keeps_everything, (kind, proposal.name, seen.describe())


@pytest.mark.parametrize(
    "body", ["y = MatMul(x, x)", "y = Mul(x, x)", "y = ReduceSum(x)", 'y = Einsum<equation = "ij,jk->ik">(x, x)']
)
def test_16_bit_results_are_computed_in_a_wider_format(body: str) -> None:
    proto = model("(float16[8,8] x) => (float16[8,8] y)", body)
    if "Reduce" in body:
        proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", 10, [1, 1]))
    fixed = fix(proto, ranges={"x": (-3000, 3000)}, runs=100)
    (outcome,) = fixed.outcomes
    assert outcome.repair is not None and outcome.repair.proposal.name == "wider-format" and outcome.is_applied
    assert outcome.repair.verification.values.ulp == 0
    assert [node.op_type for node in fixed.proto.graph.node][-2:] == ["Clip", "Cast"]


def test_what_does_not_overflow_or_is_wide_already_is_left_alone() -> None:
    wide = fix(model("(float[4] x) => (float[4] y)", "y = Mul(x, x)"), ranges={"x": (-1e30, 1e30)}, runs=33)
    (outcome,) = wide.outcomes
    assert ("wider-format", "only results of 16 bits are computed in a wider format") in outcome.declined
    proto = model("(float16[4] x) => (float16[4] y)", "s = Mul(x, x)\ny = Sqrt(x)")
    narrow = fix(proto, ranges={"x": (-1, 1)}, runs=33)
    assert {outcome.repair.proposal.name for outcome in narrow.outcomes if outcome.repair is not None} == {"clamp"}
    assert narrow.proto.graph.node[0].op_type == "Mul"
