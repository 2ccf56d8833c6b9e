"""What is found out about a model once: folded constants change no result, and are used only where they hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tensorproof import checking
from tensorproof.assumptions import Declarations, parse_domain, resolve
from tensorproof.formats import FLOAT32
from tensorproof.frontends.onnx_file import from_proto
from tensorproof.graph import Model
from tensorproof.ranges.abstraction import FIRST_PASS, PRECISE, Abstraction
from tensorproof.ranges.flow import Flow
from tensorproof.ranges.preparation import exact_constant, folds_of, outline_of, prepare
from tensorproof.ranges.propagate import propagate
from tensorproof.ranges.range import Range
from tensorproof.ranges.records import RangedGraph
from tensorproof.targets import IEEE, ONNXRUNTIME_CPU, TENSORFLOW_CPU, Target
from tests.models import found, model, static

pytestmark = pytest.mark.area("engine")

PLAIN = replace(FIRST_PASS, norms=False)
#: A bias that is made of constants in three steps, and a tensor that is too large to be a constant.
FOLDED = """
    size = Constant<value = int64[1] {3}>()
    last = Constant<value = int64[1] {-1}>()
    many = Constant<value = int64[2] {400, 300}>()
    twos = ConstantOfShape<value = float[1] {2}>(size)
    pair = Concat<axis = 0>(twos, w)
    bias = Unsqueeze(pair, last)
    large = ConstantOfShape<value = float[1] {0.5}>(many)
    y = Add(x, bias)
    z = Relu(large)
"""
FOLDS = {"twos", "pair", "bias", "large", "z"}
SIGNATURE = "(float[6, 1] x) => (float[6, 1] y, float[400, 300] z)\n<float[3] w = {1, -4, 3}>"


def folding_model() -> Model:
    return from_proto(model(SIGNATURE, FOLDED))


def ranged(graph: Model, target: Target = IEEE, abstraction: Abstraction = PLAIN, **options: object) -> RangedGraph:
    inputs = {number: Range.uniform((6, 1), FLOAT32, -1.0, 1.0) for number in graph.graph.inputs}
    return propagate(graph, inputs, target, abstraction=abstraction, strict=True, **options)  # type: ignore[arg-type]


def described(result: RangedGraph) -> dict[str, object]:
    """All that a report may say of a pass."""
    values = {number: (s.shape, s.format, s.low, s.high, s.special) for number, s in result.summaries.items()}
    nodes = {number: (r.checkable, r.hazards, r.consequences, r.roots, r.not_analysed) for number, r in result.records.items()}
    return {"values": values, "nodes": nodes}


@pytest.mark.parametrize("target", [IEEE, ONNXRUNTIME_CPU, TENSORFLOW_CPU], ids=lambda t: t.name)
@pytest.mark.parametrize("abstraction", [PLAIN, FIRST_PASS, PRECISE, replace(PRECISE, values="affine")])
def test_folded_constants_change_nothing(target: Target, abstraction: Abstraction) -> None:
    plain, prepared = folding_model(), folding_model()
    prepare(prepared)
    assert {node.name for node in prepared.graph.nodes if node.number in folds_of(prepared)} == FOLDS
    assert described(ranged(prepared, target, abstraction)) == described(ranged(plain, target, abstraction))


def test_a_pass_takes_the_results_of_a_fold() -> None:
    graph = folding_model()
    prepare(graph)
    result = ranged(graph, keep_ranges=True)
    for node in graph.graph.nodes:
        fold = folds_of(graph).get(node.number)
        assert fold is None or result.ranges[node.outputs[0]] is fold.results[0]


def test_a_fold_of_weights_gives_way_to_their_range() -> None:
    graph = folding_model()
    prepare(graph)
    weight = graph.find_value("w")

    def constants(number: int) -> Flow:
        return Flow.of(Range.uniform((3,), FLOAT32, -9.0, 9.0)) if number == weight else exact_constant(graph, number)

    bias = graph.find_value("bias")
    assert bias is not None
    summary = ranged(graph, constants=constants).summaries[bias]
    assert (summary.low, summary.high) == (-9.0, 9.0)


def test_nodes_of_constants_that_fail_are_found() -> None:
    body = """
        size = Constant<value = int64[1] {2}>()
        bad = ConstantOfShape<value = float[1] {nan}>(size)
        y = Add(x, bad)
    """
    report = static(model("(float[2] x) => (float[2] y)", body), ranges={"x": (0.0, 1.0)})
    assert {node for _, node in found(report)} == {"bad"}


def test_a_node_that_breaks_its_schema_is_reported_by_the_pass() -> None:
    proto = model(
        "(float[2] x) => (float[2] y)", "a = Constant<value = float[2] {1, 2}>()\nb = Transpose<perm = [3]>(a)\ny = Add(x, x)"
    )
    graph = from_proto(proto)
    (assumptions, *_), _ = resolve(graph, Declarations({"x": parse_domain("0:1", "test")}))
    analysis = checking.analyse(graph, assumptions, IEEE)
    assert [unanalysed.node for unanalysed in analysis.coverage.not_analysed] == ["b"]


def test_the_outline_is_made_once() -> None:
    graph = folding_model()
    first = outline_of(graph, idioms=True, costly=True)
    assert outline_of(graph, idioms=True, costly=True) is first
    assert outline_of(graph, idioms=False, costly=True) is not first
    assert ranged(graph).claims is first.claims


def test_counts_of_a_report_include_folded_nodes() -> None:
    graph = folding_model()
    (assumptions, *_), _ = resolve(graph, Declarations({"x": parse_domain("-1:1", "test")}))
    analysis = checking.analyse(graph, assumptions, IEEE)
    assert analysis.coverage.nodes == len(graph.graph.nodes)
    assert analysis.proven_safe == ("y",) and analysis.coverage.complete
