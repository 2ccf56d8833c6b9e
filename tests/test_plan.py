"""Mixed precision: plans are small, hold where the plain conversion fails, and are the same for the same seed."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort
import pytest

from tensorproof.confirm.sampling import Point
from tensorproof.errors import AssumptionError, ConfigurationError, ModelError
from tensorproof.execute.instrument import rounded
from tensorproof.formats import BFLOAT16, FLOAT16
from tensorproof.frontends.onnx_file import from_proto
from tensorproof.low_precision.lists import LISTS, autocast, find_list, trtexec
from tensorproof.low_precision.mixed import Blueprint, low_values
from tensorproof.low_precision.plan import Plan, plan_precision
from tensorproof.low_precision.search import Budget, BudgetSpent, Reasons, grown, minimised
from tests import low_precision_models
from tests.commands import saved, tensorproof
from tests.models import model, with_bodies

pytestmark = pytest.mark.area("low precision")

RANGES: dict[str, dict[str, Any]] = {
    "bert": {"ids": (0, low_precision_models.WORDS - 1), "mask": "mask@-1"},
    "diffusion": {"x": (-4, 4), "time": (0, 1000)},
}
SMALL = model(
    "(float[4] x) => (float[4] y)",
    "two = Constant<value = float {2.0}>()\nsquare = Mul(x, x)\nroot = Sqrt(square)\nhalf = Div(root, two)\ny = Add(half, two)",
)


def run(proto: onnx.ModelProto, point: Point) -> list[npt.NDArray[Any]]:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, point)


def blueprint(proto: onnx.ModelProto, **options: Any) -> Blueprint:
    return Blueprint(proto, from_proto(proto), options.pop("format", FLOAT16), **options)


def planned(proto: onnx.ModelProto | Path, **options: Any) -> Plan:
    return plan_precision(proto, **{"precision": "float16", "runs": 33, **options})


def types_of(proto: onnx.ModelProto) -> dict[str, int]:
    """The type of every value, inferred strictly: a model whose types do not fit raises."""
    graph = onnx.shape_inference.infer_shapes(proto, check_type=True, strict_mode=True).graph
    return {info.name: info.type.tensor_type.elem_type for info in (*graph.input, *graph.value_info, *graph.output)}


# -- the two networks -------------------------------------------------------------------------------------------------


@cache
def network(name: str) -> tuple[onnx.ModelProto, Plan]:
    proto = getattr(low_precision_models, name)()
    return proto, planned(proto, ranges=RANGES[name])


@pytest.mark.parametrize("name", RANGES)
def test_a_tenth_of_the_nodes_is_enough(name: str) -> None:
    _, plan = network(name)
    assert plan.floating_nodes > 100 and plan.kept and not plan.fixed
    assert plan.share <= 0.10, [node.name for node in plan.kept]
    assert plan.is_minimal


@pytest.mark.parametrize("name", RANGES)
def test_the_mixed_model_works_where_plain_float16_fails(name: str) -> None:
    proto, plan = network(name)
    plain = blueprint(proto).mixed(())
    assert plan.plain_failures and plan.check is not None and plan.check.passed
    rng = np.random.default_rng(7)
    if name == "bert":
        point = {"ids": np.zeros((1, 12), np.int64), "mask": np.zeros((1, 12), np.float32)}
        point["mask"][0, :3] = 1.0
    else:
        point = {"x": rng.uniform(-4, 4, (1, 4, 8, 8)).astype(np.float32), "time": np.array([999.3], np.float32)}
    (exact,) = run(proto, point)
    (failed,) = run(rounded(plain.proto, low_values(plain)), point)
    (found,) = run(plan.mixed, point)
    assert np.isfinite(exact).all() and not np.isfinite(failed).all()
    assert found.dtype == np.float32 and np.isfinite(found).all()
    assert np.abs(found - exact).max() <= 32 * 2.0**-10 * np.abs(exact).max()


def size_of_weights(proto: onnx.ModelProto) -> int:
    return sum(tensor.ByteSize() for tensor in proto.graph.initializer)


@pytest.mark.parametrize("name", RANGES)
def test_the_mixed_model_is_valid_and_mostly_float16(name: str) -> None:
    proto, plan = network(name)
    onnx.checker.check_model(plan.mixed, full_check=True)
    codes = list(types_of(plan.mixed).values())
    assert codes.count(FLOAT16.onnx_code) > 4 * codes.count(1)
    assert size_of_weights(plan.mixed) < 0.6 * size_of_weights(proto)


def test_what_was_planted_in_bert_is_kept() -> None:
    proto, plan = network("bert")
    # The mask and the scores that it is added to, the squares of the outliers, the first sum with the epsilon.
    assert {"Mul", "Add", "Softmax", "Pow", "ReduceMean"} <= {node.op for node in plan.kept}
    vanishing = [node.name for node in proto.graph.node if "norm.epsilon" in node.input]
    assert vanishing[0] in {node.name for node in plan.kept}


def test_the_angles_of_the_time_embedding_are_kept() -> None:
    proto, plan = network("diffusion")
    angles = next(node for node in proto.graph.node if node.op_type == "Sin").input[0]
    producer = next(node.name for node in proto.graph.node if angles in node.output)
    assert any(node.name == producer and "epsilons" in node.why for node in plan.kept)


def test_a_proof_keeps_more_and_says_how_much() -> None:
    proto, _ = network("diffusion")
    plan = planned(proto, ranges=RANGES["diffusion"], guarantee="proven", runs=11, evaluations=25, effort=0)
    print(f"diffusion, proven: {len(plan.kept)} of {plan.floating_nodes} nodes stay in float32 ({plan.share:.1%})")
    assert plan.guarantee == "proven" and plan.check is not None and plan.check.passed
    assert len(plan.kept) < plan.floating_nodes // 2
    assert len(plan.kept) >= 9


# -- the mixed model --------------------------------------------------------------------------------------------------


def test_a_value_is_cast_once_in_each_direction() -> None:
    proto = model(
        "(float[4] x) => (float[4] y)",
        "a = Mul(x, x)\nb = Sqrt(a)\nc = Exp(a)\nd = Add(b, c)\ne = Sub(b, c)\ny = Mul(d, e)",
    )
    mixed = blueprint(proto).mixed({"b", "c"})
    casts = [(node.input[0], node.attribute[0].i) for node in mixed.proto.graph.node if node.op_type == "Cast"]
    assert len(casts) == len(set(casts)) == 5  # x and the two results into float16, a out of it, y out of it
    assert types_of(mixed.proto)["a"] == FLOAT16.onnx_code


def test_a_constant_that_both_sides_read_exists_in_both_forms() -> None:
    kept_both = blueprint(SMALL).mixed({"half"}).proto
    constants = {n.output[0]: n.attribute[0].t.data_type for n in kept_both.graph.node if n.op_type == "Constant"}
    assert sorted(constants.values()) == [1, FLOAT16.onnx_code]
    weights = onnx.ModelProto()
    weights.CopyFrom(SMALL)
    weights.graph.initializer.append(onnx.numpy_helper.from_array(np.float32(2.0), "two"))
    del weights.graph.node[0]
    shared = blueprint(weights).mixed({"half"}).proto
    assert sorted(t.data_type for t in shared.graph.initializer) == [1, FLOAT16.onnx_code]
    for proto in (kept_both, shared):
        types_of(proto)
        (found,) = run(proto, {"x": np.full(4, 3.0, np.float32)})
        assert np.allclose(found, 3.5)


def test_inputs_and_outputs_change_their_type_only_on_request() -> None:
    kept = blueprint(SMALL).mixed(()).proto
    assert [info.type.tensor_type.elem_type for info in (*kept.graph.input, *kept.graph.output)] == [1, 1]
    changed = blueprint(SMALL, keep_io=False).mixed(()).proto
    assert [i.type.tensor_type.elem_type for i in (*changed.graph.input, *changed.graph.output)] == [FLOAT16.onnx_code] * 2
    assert not any(node.op_type == "Cast" for node in changed.graph.node)
    (found,) = run(changed, {"x": np.full(4, 3.0, np.float16)})
    assert found.dtype == np.float16 and np.allclose(found, 3.5)


def test_keeping_all_changes_nothing() -> None:
    everything = {part.name for part in blueprint(SMALL).free}
    mixed = blueprint(SMALL).mixed(everything).proto
    point = {"x": np.array([300.0, -300.0, 1e-6, 7.1], np.float32)}
    assert np.array_equal(run(mixed, point)[0], run(SMALL, point)[0])
    assert [node.op_type for node in mixed.graph.node] == [node.op_type for node in SMALL.graph.node]


def test_types_that_a_schema_fixes_stay() -> None:
    text = "r = Constant<value = float[0] {}>()\ns = Constant<value = float[4] {1,1,2,2}>()\ny = Resize(x, r, s)"
    mixed = blueprint(model("(float[1,1,4,4] x) => (float[1,1,8,8] y)", text)).mixed(()).proto
    assert types_of(mixed)["s"] == 1
    (found,) = run(mixed, {"x": np.ones((1, 1, 4, 4), np.float32)})
    assert found.shape == (1, 1, 8, 8) and (found == 1).all()


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("number", range(3))
def test_nodes_with_bodies_are_kept_or_converted_whole(number: int, kept: bool) -> None:
    proto = with_bodies()[number]
    made = blueprint(proto)
    mixed = made.mixed({part.name for part in made.free} if kept else ()).proto
    onnx.checker.check_model(mixed, full_check=True)
    code = 1 if kept else FLOAT16.onnx_code
    bodies = [a.g for node in mixed.graph.node for a in node.attribute if a.HasField("g")]
    declared = [info.type.tensor_type.elem_type for body in bodies for info in body.output]
    assert bodies and code in declared and {1, FLOAT16.onnx_code} - {code} not in [set(declared)]
    point = {"x": np.array([0.9, 1.01], np.float32), "c": np.array(True)}
    names = {info.name for info in proto.graph.input}
    point = {name: array for name, array in point.items() if name in names}
    assert np.allclose(run(mixed, point)[0], run(proto, point)[0], rtol=2e-2, atol=2e-3)


def test_an_operator_without_the_format_stays_in_a_body_too() -> None:
    proto = model(
        "(float[2] x, bool c) => (float[2] y)",
        """
        s = Constant<value = float {0.1}>()
        z = Constant<value = int8 {0}>()
        y = If(c) <then_branch = a () => (float[2] left) { q = QuantizeLinear(x, s, z)
                   left = DequantizeLinear(q, s, z) },
                   else_branch = b () => (float[2] right) { right = Abs(x) }>
        """,
    )
    (part,) = blueprint(proto).fixed
    assert "QuantizeLinear" in part.why_fixed
    with pytest.raises(ModelError, match="no floating node can be converted"):
        planned(proto)


def test_floats_that_only_a_body_holds_are_converted_with_it() -> None:
    proto = model(
        "(bool c) => (int64[2] y)",
        """
        y = If(c) <then_branch = a () => (int64[2] left) { f = Constant<value = float[2] {1.5, 2.5}>()
                   left = Cast<to = 7>(f) },
                   else_branch = b () => (int64[2] right) { right = Constant<value = int64[2] {3, 4}>() }>
        """,
    )
    proto.graph.node[0].attribute[0].g.value_info.append(onnx.helper.make_tensor_value_info("f", 1, [2]))
    made = blueprint(proto)
    assert [part.name for part in made.free] == ["y"]
    mixed = made.mixed(()).proto
    assert mixed.graph.node[0].attribute[0].g.node[0].attribute[0].t.data_type == FLOAT16.onnx_code
    assert run(mixed, {"c": np.array(True)})[0].tolist() == [1, 2]


def test_external_data_becomes_part_of_the_mixed_model(tmp_path: Path) -> None:
    weight = np.linspace(-1, 1, 64 * 64, dtype=np.float32).reshape(64, 64)
    proto = model("(float[1,64] x) => (float[1,64] y)", "a = MatMul(x, w)\nb = Mul(a, a)\ny = Sqrt(b)")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    path = tmp_path / "external.onnx"
    onnx.save_model(proto, str(path), save_as_external_data=True, location="w.bin", size_threshold=0)
    plan = planned(path, ranges={"x": (0, 100)})
    assert {node.name for node in plan.kept} == {"b", "y"}
    assert [tensor.data_type for tensor in plan.mixed.graph.initializer] == [FLOAT16.onnx_code]
    (found,) = run(plan.mixed, {"x": np.full((1, 64), 3.0, np.float32)})
    assert np.allclose(found, np.abs(3.0 * weight.sum(0)), rtol=1e-2, atol=1e-1)


def test_weights_of_old_files_are_inputs_no_more() -> None:
    proto = model("(float[4] x, float[4] w) => (float[4] y)", "y = Mul(x, w)", ir_version=3)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.full(4, 0.5, np.float32), "w"))
    mixed = blueprint(proto).mixed(()).proto
    assert [info.name for info in mixed.graph.input] == ["x"] and mixed.ir_version >= 4
    assert np.allclose(run(mixed, {"x": np.ones(4, np.float32)})[0], 0.5)


def test_names_of_casts_never_meet_those_of_the_file() -> None:
    proto = model("(float[4] x) => (float[4] y)", "a = Mul(x, x)\ny = Exp(a)")
    proto.graph.node[0].output[0] = proto.graph.node[1].input[0] = "x.float16"
    proto.graph.node[0].name = "x.float16_.cast"
    mixed = blueprint(proto).mixed({"y"}).proto
    onnx.checker.check_model(mixed, full_check=True)
    assert np.allclose(run(mixed, {"x": np.ones(4, np.float32)})[0], np.e)


def test_bfloat16_is_emulated_by_rounding() -> None:
    made = blueprint(SMALL, format=BFLOAT16)
    emulated = made.emulated({"square"})
    assert {t.data_type for n in emulated.proto.graph.node for a in n.attribute if a.HasField("t") for t in [a.t]} == {1}
    value = np.float32(1.01)
    (found,) = run(emulated.proto, {"x": np.full(4, value)})

    def low(number: Any) -> Any:
        return np.float32(np.float32(number).astype(BFLOAT16.dtype))

    expected = low(low(low(np.sqrt(low(value * value))) / np.float32(2)) + np.float32(2))
    assert (found == expected).all()
    assert expected != np.float32(np.sqrt(value * value) / 2 + 2)


# -- plans ------------------------------------------------------------------------------------------------------------


def test_only_what_leaves_the_format_is_kept() -> None:
    plan = planned(SMALL, ranges={"x": (-1000, 1000)})
    assert [node.name for node in plan.kept] == ["square", "root"]
    assert "its result reaches 1e+06" in plan.kept[0].why and "reads square" in plan.kept[1].why
    assert plan.floating_nodes == 4 and plan.share == 0.5


def test_nothing_is_kept_where_nothing_fails() -> None:
    plan = planned(SMALL, ranges={"x": (-10, 10)})
    assert plan.kept == () and plan.plain_failures == 0 and plan.passed


def test_a_constant_that_overflows_is_kept_with_its_readers() -> None:
    proto = model("(float[4] x) => (float[4] y)", "big = Constant<value = float {1e6}>()\na = Div(x, big)\ny = Mul(a, big)")
    plan = planned(proto, ranges={"x": (0, 1)})
    assert [node.name for node in plan.kept] == ["a", "y"]


def test_the_same_seed_gives_the_same_plan() -> None:
    first, second = (planned(SMALL, ranges={"x": (-300, 300)}, seed=5).to_json() for _ in range(2))
    assert first == second
    assert json.loads(json.dumps(first)) == first


def test_a_model_that_is_mixed_already_is_told() -> None:
    proto = model("(float[4] x, float16[4] h) => (float[4] y, float16[4] z)", "a = Mul(x, x)\ny = Sqrt(a)\nz = Exp(h)")
    plan = planned(proto, ranges={"x": (0, 1000), "h": (0, 1)})
    assert [node.name for node in plan.kept] == ["a", "y"] and plan.floating_nodes == 2
    assert any("partly in float16 already" in remark for remark in plan.remarks)


def test_missing_ranges_are_stated() -> None:
    plan = planned(SMALL)
    assert plan.assumptions["inputs"]["x"] == {**plan.assumptions["inputs"]["x"], "range": [-100.0, 100.0], "source": "default"}


def test_samples_of_the_user_are_run(tmp_path: Path) -> None:
    proto = model("(float[1,4] x) => (float[1,4] y)", "s = ReduceSum(x)\nq = Mul(s, s)\ny = Div(x, q)")
    data = np.zeros((3, 4), np.float32) + 0.25
    data[1] = 100.0  # the square of the sum, 160000, leaves float16; a few samples of the box do not reach it
    np.savez(tmp_path / "data.npz", x=data)
    plan = planned(proto, samples=str(tmp_path / "data.npz"), ranges={"x": (0.2, 1.0)}, runs=5)
    assert plan.samples == 8
    assert "q" in {node.name for node in plan.kept}
    np.savez(tmp_path / "other.npz", x=np.full((7,), 0.5, np.float32))
    assert any("ranges alone" in remark for remark in planned(proto, samples=str(tmp_path / "other.npz"), runs=5).remarks)


def test_quantised_parts_stay_as_they_are() -> None:
    proto = model(
        "(float[4] x) => (float[4] y)",
        """
        s = Constant<value = float {0.1}>()
        z = Constant<value = int8 {0}>()
        a = Mul(x, x)
        q = QuantizeLinear(a, s, z)
        d = DequantizeLinear(q, s, z)
        y = Exp(d)
        """,
    )
    plan = planned(proto, ranges={"x": (-3, 3)})
    assert [node.name for node in plan.fixed] == ["q", "d"] and plan.kept == ()
    assert plan.share == 0.5 and plan.passed


@pytest.fixture
def custom() -> onnx.ModelProto:
    proto = model("(float[4] x) => (float[4] y)", "a = Mul(x, x)\nb = Relu(a)\ny = Relu(b)")
    proto.graph.node[1].domain, proto.graph.node[1].op_type = "my.domain", "Odd"
    proto.opset_import.append(onnx.helper.make_opsetid("my.domain", 1))
    proto.graph.value_info.append(onnx.helper.make_tensor_value_info("b", 1, [4]))
    return proto


def test_a_custom_operator_is_kept_and_not_analysed(custom: onnx.ModelProto) -> None:
    with pytest.raises(ModelError, match="--guarantee proven needs no runs"):
        planned(custom)
    plan = planned(custom, guarantee="proven", ranges={"x": (-300, 300)})
    assert [node.name for node in plan.fixed] == ["b"] and "a" in {node.name for node in plan.kept}
    assert plan.check is None and plan.plain_failures is None
    assert any("not analysed" in remark and "b" in remark for remark in plan.remarks)
    assert any("no samples were run" in remark for remark in plan.remarks)


def test_a_proof_covers_what_samples_miss() -> None:
    # No sample hits the one element in a thousand whose reciprocal leaves float16.
    proto = model(
        "(float[4] x) => (float[4] y)",
        "c = Constant<value = float {1e-4}>()\nd = Sub(x, c)\ne = Abs(d)\nf = Constant<value = float {1e-5}>()\n"
        "g = Add(e, f)\nr = Reciprocal(g)\ny = Tanh(r)",
    )
    ranges = {"x": (0.0, 1.0)}
    sampled = planned(proto, ranges=ranges, runs=3)
    proven = planned(proto, ranges=ranges, runs=3, guarantee="proven")
    assert "r" not in {node.name for node in sampled.kept}
    assert {"r", "y"} <= {node.name for node in proven.kept}


def test_alarms_of_float32_itself_are_told() -> None:
    proto = model("(float[4] x) => (float[4] y)", "a = Log(x)\ny = Exp(a)")
    plan = planned(proto, ranges={"x": (-1, 1)}, guarantee="proven")
    assert any("alarms of the float32 model itself" in remark for remark in plan.remarks)


def test_bfloat16_says_what_was_not_run() -> None:
    plan = planned(SMALL, precision="bfloat16", ranges={"x": (-1000, 1000)})
    assert plan.kept == () and any("the mixed model itself was not run" in remark for remark in plan.remarks)
    onnx.checker.check_model(plan.mixed, full_check=True)
    assert BFLOAT16.onnx_code in types_of(plan.mixed).values()


@pytest.mark.parametrize(
    "proto, options, message",
    [
        (model("(float16[4] x) => (float16[4] y)", "y = Exp(x)"), {}, "in float16 already"),
        (model("(int64[4] x) => (int64[4] y)", "y = Add(x, x)"), {}, "nothing to convert"),
        (model("(float[4] x) => (float[4] y)", "y = Exp(x)", opset=11), {"precision": "bfloat16"}, "no bfloat16 form"),
    ],
)
def test_models_without_a_plan_are_refused(proto: onnx.ModelProto, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        planned(proto, **options)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"precision": "float32"}, "lower precision"),
        ({"precision": "float7"}, "float7"),
        ({"guarantee": "hoped"}, "hoped"),
        ({"runs": 0}, "runs 0"),
        ({"tolerance": float("nan")}, "tolerance nan"),
        ({"evaluations": 0}, "evaluations 0"),
        ({"evaluations": 5, "ranges": {"x": (-1000, 1000)}}, "spent before a plan was found"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        planned(SMALL, **options)


def test_ranges_of_unknown_inputs_are_refused() -> None:
    with pytest.raises(AssumptionError, match="no input or weight is named 'z'"):
        planned(SMALL, ranges={"z": (0, 1)})


# -- the search -------------------------------------------------------------------------------------------------------


class Needs:
    """A judge that wants some nodes, and asks for one more than it needs at each step."""

    def __init__(self, needed: set[str], every: list[str], budget: int = 1000) -> None:
        self.needed, self.every, self.budget = needed, every, Budget(budget)

    def objections(self, kept: Any) -> Reasons:
        missing = [name for name in self.every if name not in kept]
        return {} if self.accepts(kept) else dict.fromkeys(missing[:2], "why")

    def accepts(self, kept: Any) -> bool:
        self.budget.spend()
        return self.needed <= set(kept)


def test_the_search_ends_with_what_is_needed() -> None:
    every = [f"n{number}" for number in range(40)]
    judge = Needs({"n3", "n17", "n18", "n39"}, every)
    start = grown(judge, {})
    left, complete = minimised(judge, list(start))
    assert left == ["n3", "n17", "n18", "n39"] and complete


def test_a_spent_budget_leaves_a_set_that_still_works() -> None:
    every = [f"n{number}" for number in range(40)]
    judge = Needs({"n3", "n39"}, every, budget=6)
    left, complete = minimised(judge, every)
    assert not complete and {"n3", "n39"} <= set(left)
    with pytest.raises(BudgetSpent, match="--evaluations"):
        grown(Needs({"n39"}, every, budget=3), {})


# -- lists and the command --------------------------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return saved(SMALL, tmp_path)


def test_lists_are_in_the_words_of_their_tools() -> None:
    plan = planned(SMALL, ranges={"x": (-1000, 1000)})
    assert json.loads(find_list("onnxconverter")(plan)) == ["square", "root"]
    assert json.loads(find_list("coreml")(plan)) == ["square", "root"]
    assert trtexec(plan) == (
        "--fp16 --precisionConstraints=obey --layerPrecisions=square:fp32,root:fp32 --layerOutputTypes=square:fp32,root:fp32"
    )
    assert json.loads(autocast(plan)) == ["square$", "root$"]


def test_names_with_special_characters() -> None:
    proto = onnx.ModelProto()
    proto.CopyFrom(SMALL)
    proto.graph.node[1].name, proto.graph.node[2].name = "/a.b/Mul (1)", "/a,b"
    plan = planned(proto, ranges={"x": (-1000, 1000)})
    patterns = json.loads(autocast(plan))
    assert re.match(patterns[0], "/a.b/Mul (1)") and not re.match(patterns[0], "/a.b/Mul (1)0")
    with pytest.raises(ConfigurationError, match="commas"):
        trtexec(plan)
    proto.graph.node[2].name = ""
    unnamed = planned(proto, ranges={"x": (-1000, 1000)})
    for tool in LISTS.values():
        with pytest.raises(ConfigurationError, match=r"Sqrt\(root\).*--apply"):
            tool(unnamed)


def test_the_command_prints_the_plan(small: Path) -> None:
    answer = tensorproof("plan", small, "--precision", "float16", "--range", "x=-1000:1000", "--runs", "22")
    assert answer.code == 0, answer.err
    assert "2 of 4 floating nodes (50.0%) stay in float32" in answer.out
    assert "guarantee: sampled" in answer.out and "keep square (Mul)" in answer.out and "check: passed" in answer.out


def test_the_command_writes_the_mixed_model_and_lists(small: Path, tmp_path: Path) -> None:
    before = small.read_bytes()
    out = tmp_path / "mixed" / "out.onnx"
    arguments = ("plan", small, "--precision", "float16", "--range", "x=-1000:1000", "--runs", "22", "--apply", out)
    answer = tensorproof(*arguments, "--lists", "onnxconverter")
    assert answer.code == 0, answer.err
    assert json.loads(answer.out) == ["square", "root"] and "stay in float32" in answer.err
    assert small.read_bytes() == before
    (found,) = run(onnx.load(out), {"x": np.full(4, 900.0, np.float32)})
    assert np.allclose(found, 452.0)
    content = json.loads(tensorproof(*arguments, "--lists", "trtexec", "--format", "json").out)
    assert content["list"].startswith("--fp16") and [node["name"] for node in content["kept"]] == ["square", "root"]


@pytest.mark.parametrize(
    "options, message",
    [
        ((), "--precision float16"),
        (("--precision", "float16", "--lists", "word"), "unknown list 'word'"),
        (("--precision", "float16", "--format", "sarif"), "sarif"),
        (("--precision", "float16", "--apply", "{model}"), "never overwritten"),
        (("--precision", "float16", "--range", "x=two"), "two"),
        (("--precision", "bfloat16", "--lists", "coreml"), "Core ML has no bfloat16"),
    ],
)
def test_mistakes_are_told_in_one_line(small: Path, options: tuple[str, ...], message: str) -> None:
    answer = tensorproof("plan", small, *(option.format(model=small) for option in options))
    assert answer.code == 2 and message in answer.err
    assert len(answer.err.strip().splitlines()) == 1


def test_a_plan_that_fails_its_check_says_so(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tensorproof.low_precision.sampled import Check, Sampled

    def failing(self: Sampled, kept: Any) -> tuple[Check, list[Point]]:
        return Check(len(self.points), 1, 1.0, 1.0, 1024.0), self.points[:1]

    monkeypatch.setattr(Sampled, "check", failing)
    answer = tensorproof("plan", small, "--precision", "float16", "--range", "x=0:1", "--runs", "11")
    assert answer.code == 1 and "check: FAILED on 1" in answer.out
