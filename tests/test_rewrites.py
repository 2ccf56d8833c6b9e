"""Stable rewrites: what they recognise and decline, that the result is proven, exact and finite, and that others are left alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort
import pytest
import torch
from benchmarks.zoo import programs
from examples import models as examples
from onnx import TensorProto, helper, numpy_helper

from tensorproof.checking import Analysis
from tensorproof.execute.instrument import rounded
from tensorproof.execute.torch_graph import TorchGraph
from tensorproof.findings import Finding
from tensorproof.formats import FLOAT32, of_dtype
from tensorproof.frontends.onnx_file import from_proto
from tensorproof.graph import Node
from tensorproof.idioms.structure import Structure
from tensorproof.preparing import Prepared
from tensorproof.repair.editing import Editor
from tensorproof.repair.proposal import Case, Declined, Proposal
from tensorproof.repair.rewrites import all_rewrites, by_operator, proposed
from tensorproof.repair.verify import roots_of, scanned, with_proto
from tensorproof.rules.sqrt_of_negative import SQRT_OF_NEGATIVE
from tests.hard_cases import HARD
from tests.models import model, with_bodies
from tests.rewrite_forms import FORMS, LAST, Form
from tests.safe_models import SAFE
from tests.torch_models import export

pytestmark = pytest.mark.area("repair")

Point = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Scanned:
    """A model with its analysis and the findings that are defects of their own."""

    prepared: Prepared
    analyses: Sequence[Analysis]
    findings: Mapping[tuple[str, str], Finding]
    structure: Structure

    @classmethod
    def of(cls, prepared: Prepared) -> Scanned:
        analyses = scanned(prepared)
        return cls(prepared, analyses, roots_of(prepared, analyses), Structure(prepared.graph))

    @property
    def nodes(self) -> dict[str, Node]:
        return {node.name: node for node in self.prepared.graph.graph.walk()}

    def case(self, finding: Finding) -> Case:
        graph, target = self.prepared.graph, self.prepared.target
        return Case(graph, self.structure, self.analyses[0], target, finding, self.nodes[finding.node])

    def case_at(self, node: str) -> Case:
        """A finding made up for a node: patterns look at the graph alone."""
        name = self.nodes[node].op
        return self.case(Finding(SQRT_OF_NEGATIVE, node, name, node, 0.0, 0.0, "", "onnxruntime-cpu", "float32"))

    def proposals(self) -> Iterator[Proposal]:
        for finding in self.findings.values():
            if finding.node in self.nodes:
                yield from (found for found in proposed(self.case(finding)) if isinstance(found, Proposal))

    def after(self, proposal: Proposal) -> Scanned:
        editor = Editor(self.prepared.graph, self.prepared.proto)
        proposal.edit(editor)
        return Scanned.of(with_proto(self.prepared, editor.finish()))


def scan(proto: onnx.ModelProto, ranges: Mapping[str, Any], **options: Any) -> Scanned:
    return Scanned.of(Prepared.of(proto, ranges=ranges, cache=False, **options))


def run(proto: onnx.ModelProto, point: Point) -> list[npt.NDArray[Any]]:
    return [np.asarray(value) for value in session(proto.SerializeToString()).run(None, dict(point))]


def with_rounding(found: Scanned) -> onnx.ModelProto:
    """The model with 16-bit values rounded as such: ONNX Runtime computes neighbouring nodes in float32 otherwise."""
    summaries, graph = found.analyses[0].summaries, found.prepared.graph
    narrow = {graph.name_of(n) for n, s in summaries.items() if s.format.is_float and s.format.bits == 16}
    return rounded(found.prepared.proto, narrow) if narrow else found.prepared.proto


@cache
def session(model: bytes) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def named(found: Iterator[Proposal], name: str) -> Proposal:
    return next(proposal for proposal in found if proposal.name == name)


def repaired(form: Form) -> tuple[Scanned, Scanned, Proposal]:
    """A form before and after; derivatives have no findings yet: theirs are made up."""
    before = scan(form.proto, form.ranges)
    found = before.proposals()
    if form.rewrite == "sqrt-of-softmax":
        found = (one for one in proposed(before.case_at("y")) if isinstance(one, Proposal))
    proposal = named(found, form.rewrite)
    return before, before.after(proposal), proposal


# -- forms ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.id)
def test_the_form_is_rewritten_proven_and_exact(form: Form) -> None:
    before, after, proposal = repaired(form)
    old, new = with_rounding(before), with_rounding(after)
    assert before.findings or form.rewrite == "sqrt-of-softmax"
    assert after.findings == {}
    assert all(analysis.coverage.complete for analysis in after.analyses)
    onnx.checker.check_model(after.prepared.proto, full_check=True)
    assert proposal.replaces[0] in before.nodes
    assert proposal.summary
    assert proposal.because
    _keeps_values(form, old, new, proposal)
    _is_finite_where_the_original_is_not(form, old, new)
    _is_idempotent(after, form.rewrite)


def _keeps_values(form: Form, old: onnx.ModelProto, new: onnx.ModelProto, proposal: Proposal) -> None:
    """On points where the original works, against the exact function.

    Errors are compared among results of one size: a single element may be right by chance. Logarithms near 0 are of numbers near
    1, so that units of the last place are those of 1: both forms round there.
    """
    pairs = [
        (point := form.points(seed, form.low, form.high), run(old, {"x": point})[0], run(new, {"x": point})[0])
        for seed in range(30)
    ]
    exact = np.stack([form.exact(point.astype(np.longdouble)) for point, _, _ in pairs])
    first, second = (np.stack([pair[index] for pair in pairs]).astype(np.longdouble) for index in (1, 2))
    finite = np.isfinite(first)
    assert finite.mean() > 0.5
    errors = [np.abs(values - exact)[finite] for values in (first, second)]
    sizes = np.frexp(exact[finite])[1]
    least = 0.0 if "log" not in form.rewrite else 1.0
    unit = of_dtype(np.dtype(form.dtype)).quantum(np.maximum(np.ldexp(1.0, np.unique(sizes) - 1), least))
    worst = [np.array([error[sizes == size].max() for size in np.unique(sizes)]) for error in errors]
    if proposal.safe:
        assert (worst[1] <= 4.0 * worst[0] + 2.0 * unit).all()
    else:
        np.testing.assert_allclose(second[finite], exact[finite].astype(np.float64), rtol=TOLERANCE[form.kind])


#: How near results must come to the exact ones where the original does not count.
TOLERANCE = {"float": 5e-5, "double": 1e-12, "float16": 8e-3}


def _is_finite_where_the_original_is_not(form: Form, old: onnx.ModelProto, new: onnx.ModelProto) -> None:
    fails = False
    for point in form.extremes():
        fails |= not np.isfinite(run(old, {"x": point})[0]).all()
        (result,) = run(new, {"x": point})
        assert np.isfinite(result).all()
        exact = form.exact(point.astype(np.longdouble)).astype(np.float64)
        rough = 2.0 * max(map(abs, form.ranges["x"])) if "variance" in form.rewrite else 4.0
        tolerance = TOLERANCE[form.kind]
        np.testing.assert_allclose(result.astype(np.float64), exact, rtol=tolerance, atol=rough * tolerance)
    assert fails != form.hidden


def _is_idempotent(after: Scanned, name: str) -> None:
    (rewrite,) = [entry for entry in all_rewrites() if entry.name == name]
    for node in after.nodes.values():
        if node.op in rewrite.operators:
            with pytest.raises(Declined, match=r"."):
                rewrite.match(after.case_at(node.name), node)


# -- what only looks alike -----------------------------------------------------------------------------------------------

X = "(float[4,6] x, float[4,6] z) => (float y)"
SOFTMAX, SIGMOID = "p = Softmax<axis=-1>(x)\n", "p = Sigmoid(x)\n"
MEANS = "q = Mul(x, x)\n a = ReduceMean(q, last)\n"

#: Rewrite, body, and the reason: other axes, constants, operands and formats than the pattern's.
NEAR_MISSES = [
    ("log-softmax", "p = Relu(x)\n y = Log(p)", "no softmax"),
    ("log-softmax", SOFTMAX + "q = Add(p, tiny)\n y = Log(q)", "constant is added"),
    ("log-softmax", "e = Exp(x)\n s = ReduceSum(e, first)\n p = Div(e, z)\n y = Log(p)", "no softmax"),
    ("log-softmax", "e = Exp(x)\n d = Exp(z)\n s = ReduceSum(d, last)\n p = Div(e, s)\n y = Log(p)", "no softmax"),
    ("log-softmax", "e = Exp(x)\n s = ReduceSum(e, last)\n t = ReduceSum(s, first)\n p = Div(e, t)\n y = Log(p)", "no softmax"),
    ("log-softmax", SOFTMAX + "h = Cast<to=7>(p)\n f = Cast<to=1>(h)\n y = Log(f)", "no softmax"),
    ("log-sigmoid", SOFTMAX + "y = Log(p)", "no sigmoid"),
    ("log-sigmoid", SIGMOID + "q = Add(p, tiny)\n y = Log(q)", "another constant"),
    ("log-sigmoid", SIGMOID + "q = Sub(two, p)\n y = Log(q)", "another constant"),
    ("log-sigmoid", "a = Abs(x)\n p = Sigmoid(a)\n y = Log(p)", "does not come near 0"),
    ("log-sigmoid", "e = Exp(x)\n s = Add(e, two)\n p = Div(one, s)\n y = Log(p)", "no sigmoid"),
    ("log-sigmoid", "e = Exp(x)\n d = Exp(z)\n s = Add(d, one)\n p = Div(e, s)\n y = Log(p)", "no sigmoid"),
    ("one-minus-sigmoid", SIGMOID + "q = Sub(one, p)\n y = Log(q)", "no epsilon"),
    ("one-minus-sigmoid", SIGMOID + "q = Sub(half, p)\n y = Log(q)", "less than 1"),
    ("one-minus-sigmoid", SIGMOID + "c = Add(one, milli)\n q = Sub(c, p)\n y = Log(q)", "not lost next to 1"),
    ("one-minus-sigmoid", SIGMOID + "c = Add(one, tiny)\n q = Add(c, p)\n y = Log(q)", "not 1 less a sigmoid"),
    ("log-one-minus-softmax", SIGMOID + "q = Sub(one, p)\n y = Log(q)", "not 1 less a softmax"),
    ("log-one-minus-softmax", SOFTMAX + "q = Sub(two, p)\n y = Log(q)", "not lost next to 1"),
    (
        "log-one-minus-softmax",
        "c = Slice(x, first, last, last)\n t = ReduceSum(x, last)\n p = Softmax<axis=-1>(t)\n q = Sub(one, p)\n y = Log(q)",
        "softmax of one number",
    ),
    ("logsumexp", "s = ReduceSum(x, last)\n y = Log(s)", "no sum of exponentials"),
    ("logsumexp", "e = Exp(x)\n s = ReduceSum(e, last)\n t = Add(s, tiny)\n y = Log(t)", "constant is added"),
    ("logsumexp", "e = Exp(x)\n s = ReduceMax(e, last)\n y = Log(s)", "no sum of exponentials"),
    (
        "logsumexp",
        "e = Exp(x)\n a = Cast<to=7>(e)\n f = Cast<to=1>(a)\n s = ReduceSum(f, last)\n y = Log(s)",
        "no sum of exponentials",
    ),
    ("softplus-by-hand", "e = Exp(x)\n s = Add(two, e)\n y = Log(s)", "not added to 1"),
    ("softplus-by-hand", "e = Exp(x)\n s = Sub(one, e)\n y = Log(s)", "not added to 1"),
    ("softplus-by-hand", "e = Exp(x)\n s = Add(e, z)\n y = Log(s)", "no exponential and a constant"),
    ("softmax-by-hand", "e = Exp(x)\n d = Exp(z)\n s = ReduceSum(d, last)\n y = Div(e, s)", "different tensors"),
    (
        "softmax-by-hand",
        "e = Exp(x)\n s = ReduceSum<keepdims=0>(e, first)\n t = Unsqueeze(s, first)\n u = Unsqueeze(t, first)\n y = Div(e, u)",
        "of its own row",
    ),
    ("softmax-by-hand", "e = Exp(x)\n s = ReduceSum(e, last)\n t = Add(s, tiny)\n y = Div(e, t)", "of its own row"),
    ("softmax-by-hand", "e = Exp(x)\n s = ReduceMax(e, last)\n y = Div(e, s)", "of its own row"),
    ("sigmoid-by-hand", "e = Exp(x)\n s = Add(e, one)\n y = Div(two, s)", "no sigmoid"),
    ("sigmoid-by-hand", "e = Exp(x)\n s = Add(e, z)\n y = Div(one, s)", "no sigmoid"),
    ("tanh-by-hand", "a = Exp(x)\n b = Exp(z)\n d = Sub(a, b)\n s = Add(a, b)\n y = Div(d, s)", "no hyperbolic tangent"),
    ("tanh-by-hand", "e = Exp(x)\n d = Sub(e, one)\n s = Add(e, two)\n y = Div(d, s)", "no hyperbolic tangent"),
    ("log-of-quotient", "e = Exp(x)\n s = ReduceSum(e, last)\n p = Div(e, s)\n y = Log(p)", "is a softmax"),
    (
        "log-of-quotient",
        "a = Exp(z)\n e = Exp(x)\n s = ReduceSum(e, last)\n p = Div(a, s)\n q = Add(p, tiny)\n y = Log(q)",
        "constant is added",
    ),
    (
        "log-of-quotient",
        "a = Exp(z)\n e = Exp(x)\n s = ReduceSum(e, last)\n p = Div(a, s)\n q = Clip(p, zero)\n y = Log(q)",
        "positive numbers",
    ),
    ("sqrt-of-exp", "y = Sqrt(x)", "no exponential"),
    ("sqrt-of-exp", "e = Exp(x)\n y = Sqrt(e)", "overflows, too"),
    ("sqrt-of-exp", "c = Clip(x, zero, one)\n e = Exp(c)\n y = Pow(e, two)", "not 1/2"),
    ("sqrt-of-softmax", "p = Sigmoid(x)\n y = Sqrt(p)", "no softmax"),
    ("sqrt-of-softmax", SOFTMAX + "y = Pow(p, two)", "not 1/2"),
    ("variance-of-squares", "m = Relu(x)\n y = Sqrt(m)", "no difference"),
    ("variance-of-squares", MEANS + "m = ReduceMean(x, first)\n b = Mul(m, m)\n v = Sub(a, b)\n y = Sqrt(v)", "different axes"),
    ("variance-of-squares", MEANS + "m = ReduceMean(z, last)\n b = Mul(m, m)\n v = Sub(a, b)\n y = Sqrt(v)", "same tensor"),
    ("variance-of-squares", MEANS + "m = ReduceMean(x, last)\n b = Mul(m, z)\n v = Sub(a, b)\n y = Sqrt(v)", "no mean of squares"),
    (
        "variance-of-squares",
        MEANS + "m = ReduceMean(x, last)\n b = Mul(m, m)\n v = Sub(a, b)\n y = Div(one, v)",
        "variance of 0 stays",
    ),
    ("masks", "s = Add(x, z)\n y = Softmax(s)", "no constant of a mask"),
    ("masks", "s = Add(x, thousand)\n y = Softmax(s)", "no constant of a mask"),
    ("masks", "m = Mul(z, below)\n s = Add(x, m)\n r = Relu(s)\n y = Softmax(s)", "something else than a softmax"),
    ("masks", "m = Mul(z, high)\n s = Add(x, m)\n y = Softmax(s)", "are not below"),
]


@pytest.mark.parametrize(
    ("rewrite", "body", "reason"), NEAR_MISSES, ids=[f"{name} {index}" for index, (name, *_) in enumerate(NEAR_MISSES)]
)
def test_what_only_looks_alike_is_declined(rewrite: str, body: str, reason: str) -> None:
    proto = model(X, body)
    numbers = {
        "tiny": 1e-10,
        "milli": 1e-3,
        "half": 0.5,
        "one": 1.0,
        "two": 2.0,
        "zero": 0.0,
        "thousand": -1000.0,
        "below": -3e38,
        "high": -1e38,
    }
    arrays = {name: np.array(value, np.float32) for name, value in numbers.items()} | {"last": LAST, "first": np.array([0])}
    proto.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in arrays.items())
    found = scan(proto, {"x": (-1000, 1000), "z": (-1000, 1000)})
    (entry,) = [entry for entry in all_rewrites() if entry.name == rewrite]
    with pytest.raises(Declined, match=reason):
        entry.match(found.case_at("y"), found.nodes["y"])


def test_every_rewrite_has_forms_and_near_misses() -> None:
    """Except for the conversions to wider formats, which are no function of their own."""
    names = {entry.name for entry in all_rewrites()} - {"wider-format"}
    assert {form.rewrite for form in FORMS} == names - {"masks"}
    assert {name for name, *_ in NEAR_MISSES} == names


# -- places --------------------------------------------------------------------------------------------------------------


def test_inner_values_that_others_read_stay() -> None:
    proto = model("(float[4,6] x) => (float[4,6] y, float[4,6] other)", SOFTMAX + "y = Log(p)\n other = Sqrt(p)")
    before = scan(proto, {"x": (-1000, 1000)})
    after = before.after(named(before.proposals(), "log-softmax"))
    assert [node.op for node in after.prepared.graph.graph.nodes] == ["Softmax", "LogSoftmax", "Sqrt"]
    point = {"x": np.random.default_rng(0).uniform(-9, 9, (4, 6)).astype(np.float32)}
    for old, new in zip(run(proto, point), run(after.prepared.proto, point)):
        np.testing.assert_allclose(new, old, rtol=1e-5)


def test_an_exponential_that_others_read_is_no_part_of_a_rewrite() -> None:
    """The exponential itself would stay, and overflow as before."""
    body = "e = Exp(x)\n s = ReduceSum(e, last)\n y = Log(s)\n other = Identity(e)"
    proto = model("(float[4,6] x) => (float[4,1] y, float[4,6] other)", body)
    proto.graph.initializer.append(numpy_helper.from_array(LAST, "last"))
    before = scan(proto, {"x": (-1000, 1000)})
    finding = before.findings["NUM201", "e"]
    declined = dict(found for found in proposed(before.case(finding)) if not isinstance(found, Proposal))
    assert "something else reads its result" in declined["logsumexp"]
    assert not [found for found in proposed(before.case(finding)) if isinstance(found, Proposal)]


def test_bodies_are_rewritten_where_they_stand() -> None:
    """The softmax is outside, the logarithm in a branch."""
    proto = model(
        "(float[2,3] x, bool c) => (float[2,3] y)",
        SOFTMAX
        + """
        y = If(c) <then_branch = a () => (float[2,3] left) { left = Log(p) },
                   else_branch = b () => (float[2,3] right) { right = Identity(p) }>
        """,
    )
    before = scan(proto, {"x": (-1000, 1000)})
    after = before.after(named(before.proposals(), "log-softmax"))
    assert after.findings == {}
    point = np.array([[1.0, 2.0, -4.0], [0.0, 500.0, -500.0]], np.float32)
    (result,) = run(after.prepared.proto, {"x": point, "c": np.array(True)})
    assert np.isfinite(result).all()
    (kept,) = run(after.prepared.proto, {"x": point, "c": np.array(False)})
    np.testing.assert_array_equal(kept, run(proto, {"x": point, "c": np.array(False)})[0])


def test_local_functions_are_inlined_and_rewritten() -> None:
    function = helper.make_function(
        "local",
        "Loss",
        ["t"],
        ["l"],
        [helper.make_node("Softmax", ["t"], ["p"], axis=-1), helper.make_node("Log", ["p"], ["l"])],
        [helper.make_opsetid("", 18)],
    )
    node = helper.make_node("Loss", ["x"], ["y"], domain="local")
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in ("x", "y")]
    graph = helper.make_graph([node], "main", infos[:1], infos[1:])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("local", 1)]
    proto = helper.make_model(graph, functions=[function], opset_imports=opsets, ir_version=8)
    before = scan(proto, {"x": (-1000, 1000)})
    after = before.after(named(before.proposals(), "log-softmax"))
    assert after.findings == {}
    point = np.array([[1000.0, 0.0, -1000.0], [1.0, 2.0, 3.0]], np.float32)
    assert np.isfinite(run(after.prepared.proto, {"x": point})[0]).all()


def test_symbolic_sizes_are_not_taken_for_fixed() -> None:
    """With one row, a sum without its axis has the shape of a column; with more rows it is a row."""
    body = "e = Exp(x)\n s = ReduceSum<keepdims=0>(e, last)\n y = Div(e, s)"
    proto = model("(float[n,n] x) => (float[n,n] y)", body)
    proto.graph.initializer.append(numpy_helper.from_array(LAST, "last"))
    before = scan(proto, {"x": (-1000, 1000)}, dims={"n": 1})
    assert not list(before.proposals())


def test_a_count_that_is_symbolic_is_not_written_down() -> None:
    body = "e = Exp(x)\n s = ReduceMean(e, last)\n y = Log(s)"
    proto = model("(float[2,n] x) => (float[2,1] y)", body)
    proto.graph.initializer.append(numpy_helper.from_array(LAST, "last"))
    before = scan(proto, {"x": (-1000, 1000)}, dims={"n": 7})
    declined = dict(found for found in proposed(before.case(before.findings["NUM101", "y"])) if not isinstance(found, Proposal))
    assert "is not known" in declined["logsumexp"]


def test_bfloat16_constants_are_in_the_format_of_their_operands() -> None:
    proto = model("(bfloat16[2,3] x) => (bfloat16[2,3] y)", "e = Exp(x)\n y = Sqrt(e)", opset=22, ir_version=10)
    before = scan(proto, {"x": (-100, 100)})
    after = before.after(named(before.proposals(), "sqrt-of-exp"))
    onnx.checker.check_model(after.prepared.proto, full_check=True)
    (constant,) = [node for node in after.prepared.proto.graph.node if node.op_type == "Constant"]
    assert constant.attribute[0].t.data_type == TensorProto.BFLOAT16


# -- what PyTorch exports ------------------------------------------------------------------------------------------------

#: Programs as users write them, with the rewrites that mend them, one after the other.
PROGRAMS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], list[str]]] = {
    "likelihood": (lambda x: -torch.log(torch.softmax(x, -1))[:, 1], ["log-softmax"]),
    "cross entropy": (
        lambda x: -(0.3 * torch.log(torch.sigmoid(x)) + 0.7 * torch.log(1 - torch.sigmoid(x))).mean(),
        ["log-sigmoid", "log-sigmoid"],
    ),
    "log1p": (lambda x: torch.log1p(torch.exp(x)), ["softplus-by-hand"]),
    "softmax": (lambda x: torch.exp(x) / torch.exp(x).sum(1).unsqueeze(1), ["softmax-by-hand"]),
    "logsumexp": (lambda x: torch.log(torch.exp(x).sum(1)), ["logsumexp"]),
    "logmeanexp": (lambda x: torch.log(torch.exp(x).mean(1)), ["logsumexp"]),
    "rest": (lambda x: torch.log(1 - torch.softmax(x, 1)), ["log-one-minus-softmax"]),
    "sigmoid": (lambda x: 1 / (1 + torch.exp(-x)), ["sigmoid-by-hand"]),
    "tanh": (lambda x: (torch.exp(2 * x) - 1) / (torch.exp(2 * x) + 1), ["tanh-by-hand"]),
    "masked": (lambda x: torch.softmax(x.masked_fill(x > 5, float("-inf")), -1), ["masks"]),
}


class _Program(torch.nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


@pytest.mark.parametrize("name", PROGRAMS)
def test_exported_programs_are_mended(name: str) -> None:
    function, wanted = PROGRAMS[name]
    proto = export(_Program(function), (torch.zeros(4, 6),), ["x"])
    found = scan(proto, {"x": (-1000, 1000)})
    applied: list[str] = []
    while proposal := next(found.proposals(), None):
        found = found.after(proposal)
        applied.append(proposal.name)
    assert applied == wanted
    assert found.findings == {}
    x = np.random.default_rng(0).uniform(-3, 3, (4, 6)).astype(np.float32)
    for old, new in zip(run(proto, {"x": x}), run(found.prepared.proto, {"x": x})):
        np.testing.assert_allclose(new, old, rtol=1e-4, atol=1e-6)


# -- masks ---------------------------------------------------------------------------------------------------------------


def _masked(signature: str, body: str, constants: Mapping[str, npt.NDArray[Any]]) -> onnx.ModelProto:
    proto = model(signature, body)
    proto.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in constants.items())
    return proto


HALF = np.float16
#: Signature, body, constants and the number that the mask gets.
MASKED: dict[str, tuple[str, str, dict[str, npt.NDArray[Any]], float]] = {
    "product with a constant of float32": (
        "(float16[2,6] x, float16[2,6] mask) => (float16[2,6] y)",
        "c = Cast<to=10>(big)\n m = Mul(mask, c)\n s = Add(x, m)\n y = Softmax<axis=-1>(s)",
        {"big": np.array(-1e9, np.float32)},
        -32752.0,
    ),
    "subtracted": (
        "(float16[2,6] x, float16[2,6] mask) => (float16[2,6] y)",
        "m = Mul(big, mask)\n s = Sub(x, m)\n y = Softmax<axis=-1>(s)",
        {"big": np.array(np.inf, HALF)},
        32752.0,
    ),
    "chosen": (
        "(float16[2,6] x, float16[2,6] mask) => (float16[2,6] y)",
        "k = Cast<to=9>(mask)\n s = Where(k, big, x)\n y = Softmax<axis=-1>(s)",
        {"big": np.array(-np.inf, HALF)},
        -32752.0,
    ),
    "two masks": (
        "(float16[2,6] x, float16[2,6] mask) => (float16[2,6] y)",
        "m = Mul(mask, big)\n n = Mul(mask, big)\n s = Add(x, m)\n t = Add(s, n)\n y = Softmax<axis=-1>(t)",
        {"big": np.array(np.finfo(HALF).min, HALF)},
        float(np.finfo(HALF).min) / 4.0,
    ),
}


@pytest.mark.parametrize("name", MASKED)
def test_masks_leave_room_in_the_format(name: str) -> None:
    signature, body, constants, number = MASKED[name]
    before = scan(_masked(signature, body, constants), {"x": (-50, 50), "mask": "mask"})
    proposal = named(before.proposals(), "masks")
    after = before.after(proposal)
    assert proposal.safe
    assert after.findings == {}
    written = [numpy_helper.to_array(node.attribute[0].t) for node in after.prepared.proto.graph.node if node.op_type == "Constant"]
    assert {float(array) for array in written} == {number}
    x = np.random.default_rng(0).uniform(-50, 50, (2, 6)).astype(HALF)
    for mask in (np.eye(2, 6, dtype=HALF), np.ones((2, 6), HALF)):
        (result,) = run(after.prepared.proto, {"x": x, "mask": mask})
        scores = np.where(mask != 0, number if name == "chosen" else x.astype(np.float64) - abs(number), x.astype(np.float64))
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        # Next to the mask's number, scores are multiples of 16.
        atol = 1.0 if mask.all() and name != "chosen" else 1e-3
        np.testing.assert_allclose(result, weights / weights.sum(axis=-1, keepdims=True), rtol=5e-3, atol=atol)


def test_a_mask_that_scores_outweigh_is_not_called_safe() -> None:
    signature, body, constants, _ = MASKED["chosen"]
    before = scan(_masked(signature, body, constants), {"x": (-30000, 30000), "mask": "mask"})
    assert not named(before.proposals(), "masks").safe


def test_constant_masks_are_clipped_where_they_are_read() -> None:
    mask = np.where(np.tri(40, dtype=bool), 0.0, -np.inf).astype(np.float32)
    mask[0] = -np.inf
    proto = _masked("(float[40,40] x) => (float[40,40] y)", "s = Add(x, mask)\n y = Softmax<axis=-1>(s)", {"mask": mask})
    before = scan(proto, {"x": (-50, 50)})
    after = before.after(named(before.proposals(), "masks"))
    assert after.findings == {}
    x = np.random.default_rng(0).uniform(-50, 50, (40, 40)).astype(np.float32)
    (old,), (new,) = run(proto, {"x": x}), run(after.prepared.proto, {"x": x})
    np.testing.assert_array_equal(new[1:], old[1:])
    assert np.isfinite(new).all()


# -- models that no rewrite was written for ------------------------------------------------------------------------------


def _foreign() -> dict[str, tuple[onnx.ModelProto, Mapping[str, Any]]]:
    found: dict[str, tuple[onnx.ModelProto, Mapping[str, Any]]] = {}
    found |= {f"near miss: {name}": (case.near_miss, case.ranges_of_near_miss) for name, case in SAFE.items()}
    found |= {f"hard: {name}": (case.proto, case.ranges) for name, case in HARD.items()}
    found |= {f"body {index}": (proto, {"x": (-100.0, 100.0)}) for index, proto in enumerate(with_bodies())}
    found["transformer"] = examples.transformer_float16(), {"hidden": (-16.0, 16.0), "mask": "mask"}
    found["autoencoder"] = examples.vae_loss(), {"z": (-4.0, 4.0), "x": (0.0, 1.0)}
    return found


FOREIGN = _foreign()


def test_there_are_enough_foreign_models() -> None:
    assert len(FOREIGN) >= 80


@pytest.mark.parametrize("name", FOREIGN)
def test_every_rewrite_leaves_other_models_alone_or_mends_them(name: str) -> None:
    """Each declines with a reason, or its result is proven as far as the finding goes, runs, and is equal where the original is finite."""
    proto, ranges = FOREIGN[name]
    before = scan(proto, ranges)
    for key, finding in before.findings.items():
        for found in proposed(before.case(finding)) if finding.node in before.nodes else ():
            if not isinstance(found, Proposal):
                assert all(found)
                continue
            after = before.after(found)
            assert key not in after.findings
            assert after.findings.keys() <= before.findings.keys()
            _is_equal_where_finite(before, after)


def _is_equal_where_finite(before: Scanned, after: Scanned) -> None:
    model, assumptions = before.prepared.graph, before.analyses[0].assumptions
    weights = {model.name_of(number) for number in assumptions.weights}
    generator = np.random.default_rng(0)
    for _ in range(4):
        point = {}
        for number, domain in assumptions.inputs.items():
            value, shape = model.values[number], assumptions.shapes[number]
            drawn = np.clip(generator.uniform(-1.0, 1.0, shape), domain.low, domain.high)
            if domain.kind != "box" or (value.format is not None and not value.format.is_float):
                drawn = generator.random(shape) < 0.7
            point[value.name] = np.asarray(drawn).astype(FLOAT32.dtype if value.format is None else value.format.dtype)
        assert not weights.intersection(point)
        for old, new in zip(run(before.prepared.proto, point), run(after.prepared.proto, point)):
            finite = np.isfinite(old.astype(np.float64))
            half = old.dtype == np.float16
            np.testing.assert_allclose(new[finite], old[finite], rtol=2e-2 if half else 2e-3, atol=2e-2 if half else 1e-4)


# -- the programs of the zoo ---------------------------------------------------------------------------------------------

#: Defects without a stable form, by their numbers, with the reason.
WITHOUT = {
    "4": "a mutated library test takes the logarithm of an input that may be anything",
    "4-exp": "the exponential of a logarithm of a variance is the variance itself, which overflows",
    "13": "a mutated library test takes the logarithm of an input that may be anything",
    "13-exp": "a softmax within groups: its sums are scattered and gathered by an index",
    "28a": "a gain that training may carry to 0 divides",
    "28b": "a sum of magnitudes of weights divides, and they may all be 0",
    "28c": "a gain that training may carry to 0 divides",
    "28d": "a sum of magnitudes of weights divides, and they may all be 0",
}
#: The rewrites that mend the others; all that are not named here are the logarithm of a softmax.
MENDED = {
    **dict.fromkeys(("9a", "9b", "26", "31", "33", "37", "38", "53", "56"), "log-sigmoid"),
    **dict.fromkeys(("35a", "36a", "39a", "43a", "49a"), "one-minus-sigmoid"),
    **dict.fromkeys(("22", "51", "62", "63"), "softplus-by-hand"),
    **dict.fromkeys(("11a", "11c", "16a"), "log-of-quotient"),
    **dict.fromkeys(("16c", "17"), "softmax-by-hand"),
    "2b": "log-one-minus-softmax",
}
ENTRIES = {entry.id: entry for entry in programs()}
FORWARD = [(entry.id, bug.letter) for entry in ENTRIES.values() for bug in entry.bugs if bug.is_forward]
BACKWARD = [(entry.id, bug.letter) for entry in ENTRIES.values() for bug in entry.bugs if not bug.is_forward]


@cache
def program(name: str) -> Scanned:
    entry = ENTRIES[name]
    return scan(entry.onnx(), dict(entry.declarations().domains))


@pytest.mark.parametrize(("name", "letter"), FORWARD, ids=[letter for _, letter in FORWARD])
def test_defects_of_the_zoo_have_a_stable_form_or_a_reason(name: str, letter: str) -> None:
    (bug,) = [bug for bug in ENTRIES[name].bugs if bug.letter == letter]
    found = program(name)
    proposals = {proposal.name for proposal in found.proposals() if proposal.finding.node == bug.node}
    if letter in WITHOUT:
        assert not proposals
    else:
        assert MENDED.get(letter, "log-softmax") in proposals


#: One program of each rewrite: what is left of its defects once every finding has been rewritten.
ONE_OF_EACH = ["4-exp", "2", "9", "11ac", "11b", "16c", "17", "22", "35a"]


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_programs_of_the_zoo_are_proven_after_all_rewrites(name: str) -> None:
    found = program(name)
    while proposal := next(found.proposals(), None):
        after = found.after(proposal)
        assert after.findings.keys() < found.findings.keys()
        found = after
    failing = {bug.node for bug in ENTRIES[name].bugs if bug.letter not in WITHOUT}
    assert failing.isdisjoint(node for _, node in found.findings)


@pytest.mark.parametrize(("name", "letter"), BACKWARD, ids=[letter for _, letter in BACKWARD])
def test_roots_have_derivatives_after_their_rewrite(name: str, letter: str) -> None:
    """The derivative of a root of 0 is infinite; that of the exponential of a half is not."""
    (bug,) = [bug for bug in ENTRIES[name].bugs if bug.letter == letter]
    found = program(name)
    wanted = "sqrt-of-softmax" if letter == "5" else "sqrt-of-exp"
    proposal = named((one for one in proposed(found.case_at(bug.node)) if isinstance(one, Proposal)), wanted)
    after = found.after(proposal)
    assert after.findings.keys() <= found.findings.keys()
    assert bug.node in proposal.replaces


@pytest.mark.parametrize(
    ("body", "rewrite"), [(SOFTMAX + "y = Sqrt(p)", "sqrt-of-softmax"), ("p = Exp(x)\n y = Sqrt(p)", "sqrt-of-exp")]
)
def test_derivatives_are_finite_where_the_root_is_of_zero(body: str, rewrite: str) -> None:
    proto = model("(float[1,4] x) => (float[1,4] y)", body)
    before = scan(proto, {"x": (-170, 20)})
    after = before.after(named((one for one in proposed(before.case_at("y")) if isinstance(one, Proposal)), rewrite))
    point = np.array([[-165.0, -1.0, 2.0, -100.0]], np.float32)
    assert not np.isfinite(_derivative(proto, point)).all()
    assert np.isfinite(_derivative(after.prepared.proto, point)).all()
    mild = point / 100.0
    np.testing.assert_allclose(_derivative(after.prepared.proto, mild), _derivative(proto, mild), rtol=1e-5, atol=1e-7)


def _derivative(proto: onnx.ModelProto, point: npt.NDArray[Any]) -> npt.NDArray[Any]:
    graph = from_proto(proto)
    x, y = graph.find_value("x"), graph.find_value("y")
    assert x is not None
    assert y is not None
    given = torch.tensor(point, requires_grad=True)
    result = TorchGraph(graph).run({x: given}, [y])[y]
    # Not the sum: that of a softmax is 1, whose derivative is 0.
    (result * torch.arange(1.0, 5.0)).sum().backward()
    assert given.grad is not None
    return given.grad.numpy()


def test_rewrites_are_entered_under_the_operators_that_they_end_in() -> None:
    for operator, entries in by_operator().items():
        assert all(operator in entry.operators for entry in entries)
    assert [entry.name for entry in all_rewrites()] == sorted(
        {entry.name for entries in by_operator().values() for entry in entries}
    )
