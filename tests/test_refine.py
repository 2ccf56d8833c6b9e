"""Refinement: each step proves what those before it cannot, and never what is not so; budgets, reports and options."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import numpy_helper

from tensorproof import check
from tensorproof.assumptions import Declarations, domain_from_json, resolve
from tensorproof.checking import Analysis, ConstantRanges, analyse, input_values
from tensorproof.configuration import read_configuration
from tensorproof.errors import ConfigurationError
from tensorproof.formats import FLOAT16, FLOAT32, FLOAT64, INT64, Format
from tensorproof.frontends.onnx_file import from_proto
from tensorproof.frontends.onnx_precision import converted
from tensorproof.ranges.abstraction import FIRST_PASS, PRECISE, chosen
from tensorproof.ranges.propagate import propagate
from tensorproof.ranges.range import Range
from tensorproof.refine import local_steps
from tensorproof.refine.alarms import Alarms, Budget
from tensorproof.refine.cases import Dimension, neighbours
from tensorproof.refine.cone import Structure
from tensorproof.refine.lines import LINES
from tensorproof.refine.local_steps import RELAXATION
from tensorproof.refine.relaxation import Relaxation
from tensorproof.refine.window import Window
from tensorproof.targets import IEEE, ONNXRUNTIME_CPU, TENSORFLOW_CPU, Target
from tests.commands import saved, tensorproof
from tests.models import found, model, static, with_bodies
from tests.random_guards import failing, random_graph
from tests.refinement_graphs import EXAMPLES, Example, guarded_logarithm, layers, with_weights
from tests.soundness.containment import violation
from tests.test_whole_models import exported, outside
from tests.torch_models import EXPORTED

pytestmark = pytest.mark.area("refinement")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.name)
def test_each_step_proves_what_the_steps_before_cannot(example: Example) -> None:
    for effort in range(4):
        report = static(example.safe, ranges=example.ranges, effort=effort, target="ieee")
        if effort < example.effort:
            assert any(node == "y" for _, node in found(report)), effort
            assert "y" not in report.proven_by
        else:
            assert found(report) == set(), effort
            assert report.proven_by["y"] == example.step
            assert "y" in report.proven_safe


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.name)
def test_what_only_looks_alike_stays_flagged(example: Example) -> None:
    for effort in range(4):
        report = static(example.defective, ranges=example.defective_ranges or example.ranges, effort=effort, target="ieee")
        assert any(node == "y" for _, node in found(report)), effort
        assert "y" not in report.proven_safe and "y" not in report.proven_by


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.name)
def test_ranges_hold_real_runs_after_every_step(example: Example) -> None:
    for effort in range(4):
        assert outside(example.safe, example.ranges, {}, abstraction=FIRST_PASS, effort=effort) == []
    for abstraction in (chosen("smash"), chosen("expand", "affine")):
        assert outside(example.safe, example.ranges, {}, abstraction=abstraction, effort=example.effort) == []


@pytest.mark.parametrize("name", EXPORTED)
@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_exported_models_hold_real_runs_after_refinement(name: str, precision: str) -> None:
    """Smashed tensors and float16 begin with alarms: every step has work to do."""
    proto = exported(name)
    if precision == "float32":
        assert outside(proto, EXPORTED[name][1], {}, abstraction=chosen("smash"), effort=2) == []
        return
    proto, _ = converted(proto, FLOAT16)
    assert outside(proto, EXPORTED[name][1], {}, abstraction=FIRST_PASS, effort=3) == []


@pytest.mark.parametrize("index", range(3))
def test_bodies_hold_real_runs_after_refinement(index: int) -> None:
    assert outside(with_bodies()[index], {"*": (0, 1)}, {}, abstraction=FIRST_PASS, effort=3) == []


# -- verdicts ---------------------------------------------------------------------------------------------------------


def test_what_is_proven_behind_a_root_is_safe_only_without_it() -> None:
    """Proven where the first logarithm is finite; where it is not, the difference is NaN and the second one follows."""
    body = "l = Log(x)\nm = Constant<value_float=20000.0>()\no = Constant<value_float=1.0>()\nt = Mul(l, m)\n"
    proto = model("(float[6] x) => (float[6] y)", body + "a = Add(t, o)\nd = Sub(a, t)\ny = Log(d)")
    assert found(static(proto, ranges={"x": (0, 5)}, effort=0, target="ieee")) == {("NUM101", "l"), ("NUM101", "y")}
    report = static(proto, ranges={"x": (0, 5)}, target="ieee")
    assert found(report) == {("NUM101", "l")}
    assert report.proven_by == {"y": "affine forms"} and "y" not in report.proven_safe
    assert [f.consequence_of for f in report.findings if f.node == "y"] == [("l",)]


def test_a_vanished_division_by_zero_does_not_hide_an_overflow() -> None:
    """1 / where(x > 0, x, 1) has no zero divisor, but x may be so small that the quotient overflows."""
    body = "z = Constant<value_float=0.0>()\no = Constant<value_float=1.0>()\ng = Greater(x, z)\ns = Where(g, x, o)\ny = Div(o, s)"
    report = static(model("(float[4] x) => (float[4] y)", body), ranges={"x": (-3, 3)}, effort=3, target="ieee")
    assert [node for _, node in found(report)] == ["y"]


def test_the_same_twice_is_the_same() -> None:
    for example in EXAMPLES:
        reports = [static(example.safe, ranges=example.ranges, effort=3, target="ieee").to_json() for _ in range(2)]
        for report in reports:
            del report["time"]
        assert reports[0] == reports[1]


@pytest.mark.parametrize("example", [e for e in EXAMPLES if e.effort > 1], ids=lambda e: e.name)
def test_a_spent_budget_leaves_findings_possible(example: Example, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_steps, "SMALL_BUDGET", 0)
    report = static(example.safe, ranges=example.ranges, effort=3, target="ieee")
    assert any(node == "y" for _, node in found(report))
    assert report.proven_by == {} and "y" not in report.proven_safe


def test_flushed_numbers_are_no_neighbours_of_zero() -> None:
    """Where subnormal operands are taken for zero, x > 0 is no guard of log(x)."""
    report = static(guarded_logarithm("Greater"), ranges={"x": (-3, 3)}, effort=3, target="tensorflow-cpu")
    assert found(report) == {("NUM101", "y")}


def test_tensors_are_not_cut_where_elements_mix() -> None:
    """sum(x) > 0 says nothing about single elements: the cut that would prove this is none."""
    body = "z = Constant<value_float=0.0>()\no = Constant<value_float=1.0>()\nt = ReduceMax<keepdims=0>(x)\n"
    body += "g = Greater(t, z)\ns = Where(g, x, o)\ny = Log(s)"
    report = static(model("(float[9] x) => (float[9] y)", body), ranges={"x": (-3, 3)}, effort=3, target="ieee")
    assert found(report) == {("NUM101", "y")}


def without_idioms(proto: onnx.ModelProto, effort: int) -> Analysis:
    """Nothing is proven by the structure of the graph: the steps have more to do."""
    graph = from_proto(proto)
    (assumptions, *_), _ = resolve(graph, Declarations({"*": domain_from_json((-3, 3), "*")}))
    return analyse(graph, assumptions, ONNXRUNTIME_CPU, effort=effort, abstraction=replace(FIRST_PASS, idioms=False, norms=False))


def test_random_guards_prove_nothing_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over random graphs, no node that a step proves gives NaN or infinity from finite operands in a real run."""
    monkeypatch.setattr(local_steps, "SMALL_BUDGET", 600)
    steps: set[str] = set()
    for seed in range(50):
        proto = random_graph(seed)
        analysis = without_idioms(proto, effort=2)
        if analysis.proven_by:
            proven = {*analysis.proven_safe, *analysis.proven_safe_if, *analysis.proven_by}
            assert failing(proto, -3, 3, 60, seed) & proven == set(), seed
            steps.update(analysis.proven_by.values())
    assert "predicate splitting" in steps


# -- cones, cases, lines ----------------------------------------------------------------------------------------------


def test_a_cone_holds_what_bodies_read() -> None:
    proto = model(
        "(float[2] x, float[2] u, bool c) => (float[2] y)",
        """
        a = Exp(x)
        b = Exp(u)
        y = If(c) <then_branch = p () => (float[2] left) { left = Log(a) },
                   else_branch = q () => (float[2] right) { right = Abs(a) }>
        """,
    )
    graph = from_proto(proto)
    structure = Structure(graph)
    inner = next(node for node in graph.graph.walk() if node.op == "Log")
    assert structure.is_inside(inner.number) and structure.at_top(inner.number).op == "If"
    part = structure.behind([structure.at_top(inner.number)])
    assert [node.op for node in part.nodes] == ["Exp", "If"]
    assert {graph.name_of(n) for n in part.entering} == {"x", "c"}
    assert [node.op for node in structure.behind([structure.at_top(inner.number)], 1).nodes] == ["If"]


@pytest.mark.parametrize("format", [FLOAT32, FLOAT16], ids=str)
def test_neighbours_are_the_next_numbers(format: Format) -> None:
    for value in (0.0, 1.0, -1.0, 0.5, 3.0, -4.0, format.smallest_normal, -format.smallest_normal, format.smallest_subnormal, 1.5):
        number = format.dtype.type(value)
        expected = tuple(float(np.nextafter(number, format.dtype.type(end))) for end in (-np.inf, np.inf))
        assert neighbours(value, format, IEEE) == expected
    assert neighbours(0.0, format, TENSORFLOW_CPU) == (0.0, 0.0)
    assert neighbours(1.0, FLOAT16, ONNXRUNTIME_CPU) == neighbours(1.0, FLOAT32, IEEE)
    assert neighbours(2.0, INT64, IEEE) == (1.0, 3.0)
    assert neighbours(1.0, FLOAT64, IEEE)[1] == np.nextafter(1.0, 2.0)


def test_cases_together_hold_every_value() -> None:
    low, high = np.array([[-2.0, 1.0, 0.0]]), np.array([[3.0, 2.0, 0.0]])
    x = Range.elements(FLOAT32, low, high)
    values = np.array([[-2.0, 1.5, 0.0]]), np.array([[0.0, 1.0, 0.0]]), np.array([[3.0, 2.0, 0.0]])
    for dimension in (Dimension(0), Dimension(0, 0)):
        for parts in (dimension.cut_at(x, 0.0, IEEE), dimension.halves(x)):
            assert len(parts) > 1
            for value in values:
                assert any(violation(part, value.astype(np.float32)) is None for part in parts)
    assert len(Dimension(0, 1).halves(x)) == 2
    assert Dimension(0, 1).restricted(x, 5.0, 6.0) is None


@pytest.mark.parametrize("name", LINES)
def test_lines_bound_their_functions(name: str) -> None:
    functions = {"Relu": lambda x: np.maximum(x, 0), "Exp": np.exp, "Tanh": np.tanh, "Sigmoid": lambda x: 1 / (1 + np.exp(-x))}
    rng = np.random.default_rng(0)
    ends = np.sort(rng.normal(0, rng.choice([0.1, 3.0, 30.0], (1, 4000)), (2, 4000)), axis=0)
    lines = LINES[name](*ends)
    assert lines is not None
    with np.errstate(over="ignore"):
        for part in np.linspace(0, 1, 33):
            x = ends[0] + part * (ends[1] - ends[0])
            exact = functions[name](x)
            slack = 1e-13 * (np.abs(exact) + 1e-300)
            assert (lines.lower * x + lines.lower_at <= exact + slack).all()
            assert (lines.upper * x + lines.upper_at >= exact - slack).all()


# -- relaxation -------------------------------------------------------------------------------------------------------


def chain(format: str, seed: int) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """One of every operator that can be substituted, with weights of that format."""
    rng = np.random.default_rng(seed)
    body = """
        f = Flatten(x)
        g = Gemm<transB=1>(f, V, v)
        h = Tanh(g)
        s = Sigmoid(g)
        d = Sub(h, s)
        r = Reshape(d, shape)
        k = Conv<pads=[1,0,0,1], strides=[1,2], group=2>(r, K, kb)
        u = Relu(k)
        n = Neg(u)
        t = Transpose<perm=[0,2,3,1]>(n)
        w = Mul(t, c)
        m = MatMul(w, M)
        q = Div(m, c2)
        e = Exp(q)
        z = Unsqueeze(e, axes)
        i = Identity(z)
        y = Add(i, i)
    """
    kind = {"float": np.float32, "float16": np.float16}[format]
    weights = {
        "V": rng.normal(0, 0.5, (24, 6)),
        "v": rng.normal(0, 0.5, 24),
        "K": rng.normal(0, 0.5, (4, 1, 2, 2)),
        "kb": rng.normal(0, 0.5, 4),
        "c": rng.normal(0, 1.0, 4),
        "M": rng.normal(0, 0.5, (4, 3)),
        "c2": np.array(1.7),
    }
    arrays = {name: array.astype(kind) for name, array in weights.items()}
    proto = model(f"({format}[1,2,3] x) => ({format} y)", body)
    proto = with_weights(proto, **arrays, shape=np.array([1, 2, 3, 4]), axes=np.array([0]))
    return proto, arrays


@pytest.mark.parametrize("format", ["float", "float16"])
@pytest.mark.parametrize("target", [IEEE, ONNXRUNTIME_CPU, TENSORFLOW_CPU], ids=lambda t: t.name)
@pytest.mark.parametrize("seed", range(3))
def test_relaxed_bounds_hold_what_is_computed(format: str, target: Target, seed: int) -> None:
    """Every value of the chain is bounded linearly; real runs stay inside, and the bounds are no mere intervals."""
    proto, _ = chain(format, seed)
    graph = from_proto(proto)
    declared = Declarations({"x": domain_from_json((-0.25, 0.25), "x")})
    (assumptions, *_), _ = resolve(graph, declared)
    constants, inputs = ConstantRanges(graph, assumptions), input_values(graph, assumptions)
    ranged = propagate(graph, inputs, target, constants=constants, keep_ranges=True, strict=True, abstraction=PRECISE)
    ranges = {n: flow.clean for n, flow in ranged.ranges.items() if isinstance(flow.clean, Range)}
    alarms = Alarms.of(ranged, inputs, constants, None)
    relaxation = Relaxation(alarms, graph.graph.nodes, ranges, Budget(10**6))
    bounds = {n: relaxation.bound(n) for node in graph.graph.nodes for n in node.outputs}
    assert all(found is not None for found in bounds.values())
    names = [graph.name_of(n) for n in bounds]
    shown = onnx.ModelProto()
    shown.CopyFrom(proto)
    del shown.graph.output[:]
    shown.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(shown.SerializeToString(), options)
    rng = np.random.default_rng(seed)
    kind = np.float32 if format == "float" else np.float16
    for run in range(60):
        x = rng.uniform(-0.25, 0.25, (1, 2, 3)) if run % 2 else rng.choice([-0.25, 0.25], (1, 2, 3))
        for number, result in zip(bounds, session.run(names, {"x": x.astype(kind)})):
            ends = bounds[number]
            assert ends is not None
            computed = np.asarray(result, np.float64)
            assert (ends[0] <= computed).all() and (computed <= ends[1]).all(), graph.name_of(number)
    tighter = [n for n, ends in bounds.items() if ends is not None and (ends[1] - ends[0]).mean() < 0.999 * _width(ranges[n])]
    assert {graph.name_of(n) for n in tighter} >= {"k", "m"}


def _width(x: Range) -> float:
    low, high, _ = x.expanded()
    return float((high - low).mean())


def test_a_relaxation_gives_up_beyond_its_budget_and_size() -> None:
    graph = from_proto(layers(1.0))
    declared = Declarations({"x": domain_from_json((-1, 1), "x")})
    (assumptions, *_), _ = resolve(graph, declared)
    constants, inputs = ConstantRanges(graph, assumptions), input_values(graph, assumptions)
    ranged = propagate(graph, inputs, IEEE, constants=constants, keep_ranges=True)
    ranges = {n: flow.clean for n, flow in ranged.ranges.items() if isinstance(flow.clean, Range)}
    alarms = Alarms.of(ranged, inputs, constants, None)
    value = next(node.outputs[0] for node in graph.graph.nodes if node.name == "q")
    with_budget = Relaxation(alarms, graph.graph.nodes, ranges, Budget(1000)).bound(value)
    without = Relaxation(alarms, graph.graph.nodes, ranges, Budget(0)).bound(value)
    assert with_budget is not None and without is not None
    low, high, _ = ranges[value].expanded()
    assert (without[0] <= low).all() and (without[1] >= high).all()
    assert (with_budget[0] > low).any()
    number = next(iter(alarms.open))
    window = Window.of(alarms, number, alarms.structure.behind([alarms.structure.at_top(number)]), PRECISE, RELAXATION)
    assert window is not None and window.evaluate({}, Budget(0)) is None


# -- abstractions -----------------------------------------------------------------------------------------------------


def parts() -> onnx.ModelProto:
    """log of the positive part of a concatenation."""
    starts, ends = numpy_helper.from_array(np.array([3]), "s"), numpy_helper.from_array(np.array([6]), "e")
    proto = model("(float[3] a, float[3] b) => (float[3] y)", "c = Concat<axis=0>(a, b)\np = Slice(c, s, e)\ny = Log(p)")
    proto.graph.initializer.extend([starts, ends])
    return proto


def test_tensors_and_values_of_the_first_pass_are_chosen() -> None:
    ranges = {"a": (-2, -1), "b": (1, 2)}
    flagged = {
        tensors: bool(found(static(parts(), ranges=ranges, effort=0, tensors=tensors)))
        for tensors in ("smash", "partition", "expand")
    }
    assert flagged == {"smash": True, "partition": False, "expand": False}
    lines = next(e for e in EXAMPLES if e.name == "two lines")
    assert found(static(lines.safe, ranges=lines.ranges, effort=0, values="interval"))
    assert not found(static(lines.safe, ranges=lines.ranges, effort=0, values="affine"))


def test_a_smashed_first_pass_is_refined_like_any_other() -> None:
    report = static(parts(), ranges={"a": (-2, -1), "b": (1, 2)}, effort=1, tensors="smash")
    assert found(report) == set() and set(report.proven_by) == {"y"}


def test_tensors_too_large_to_expand_are_counted() -> None:
    proto = model("(float[300,300] x, float[3] u) => (float[300,300] y, float[3] v)", "y = Exp(x)\nv = Exp(u)")
    stated = static(proto, ranges={"*": (0, 1)}, tensors="expand").assumptions["abstraction"]
    assert stated["tensors"] == "expand" and stated["coarser"] == 2 and stated["cells"] == 65536


# -- reports and options ----------------------------------------------------------------------------------------------


def test_reports_say_which_step_proved_a_node(tmp_path: Path) -> None:
    path = saved(guarded_logarithm("Greater"), tmp_path)
    options = ("check", path, "--range", "x=-3:3", "--no-confirm", "--effort", "2", "--target", "ieee")
    content = json.loads(tensorproof(*options, "--format", "json").out)
    assert content["proven_by"] == {"y": "predicate splitting"}
    assert content["assumptions"]["abstraction"] == {"effort": 2, "tensors": "partition", "values": "interval"}
    text = tensorproof(*options).out
    assert "1 node proven by: predicate splitting 1" in text
    assert json.loads(tensorproof(*options[:-4], "--format", "json").out)["proven_by"] == {}


@pytest.mark.parametrize(
    "option, text",
    [
        (("--effort", "4"), "effort 4"),
        (("--effort", "-1"), "effort -1"),
        (("--tensors", "coarse"), "tensors 'coarse'"),
        (("--values", "zonotope"), "values 'zonotope'"),
        (("--effort", "much"), "effort"),
    ],
)
def test_options_that_are_wrong_are_one_line(tmp_path: Path, option: tuple[str, str], text: str) -> None:
    result = tensorproof("check", saved(guarded_logarithm("Greater"), tmp_path), "--no-confirm", *option)
    assert result.code == 2 and result.out == ""
    assert text in result.err and result.err.count("\n") == 1


def test_settings_of_a_project_choose_effort_and_abstraction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = tmp_path / "pyproject.toml"
    settings.write_text('[tool.tensorproof]\neffort = 2\ntensors = "expand"\nvalues = "affine"\ntarget = "ieee"\n')
    configuration = read_configuration(settings)
    assert configuration is not None
    assert (configuration.effort, configuration.tensors, configuration.values) == (2, "expand", "affine")
    path = saved(guarded_logarithm("Greater"), tmp_path)
    monkeypatch.chdir(tmp_path)
    options = ("check", path, "--range", "x=-3:3", "--no-confirm", "--format", "json")
    stated = json.loads(tensorproof(*options).out)["assumptions"]["abstraction"]
    assert (stated["effort"], stated["tensors"], stated["values"]) == (2, "expand", "affine")
    assert json.loads(tensorproof(*options, "--effort", "0").out)["assumptions"]["abstraction"]["effort"] == 0
    settings.write_text('[tool.tensorproof]\neffort = "much"\n')
    with pytest.raises(ConfigurationError, match="effort must be a int"):
        read_configuration(settings)


def test_progress_names_the_steps() -> None:
    stages: list[str] = []
    check(layers(1.0), ranges={"x": (-1, 1)}, effort=3, confirm=False, progress=lambda stage, done: stages.append(stage))
    assert {"ranges", "affine forms", "linear relaxation"} <= set(stages)


def test_statistics_show_every_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On standard error, so that the report stays what it is; without a cache nothing is written into its folder."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("TENSORPROOF_CACHE", str(folder))
    options = ("check", saved(layers(1.0), tmp_path), "--range", "x=-1:1", "--no-confirm", "--effort", "2", "--no-cache")
    plain, counted = tensorproof(*options, "--format", "json"), tensorproof(*options, "--format", "json", "--stats")
    assert plain.err == "" and "passes" in counted.err and "Gemm" in counted.err
    without_times = [{**json.loads(result.out), "time": None} for result in (plain, counted)]
    assert without_times[0] == without_times[1]
    assert not folder.exists()
