"""Verdicts: roots and consequences, proofs and their conditions, where a bad value goes, sizes, weights, determinism."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tensorproof import Verdict, check
from tensorproof.errors import ConfigurationError
from tests.commands import saved, tensorproof
from tests.models import found, model, static

pytestmark = pytest.mark.area("checking")


def test_a_consequence_is_listed_under_its_root() -> None:
    """exp overflows; inf - inf behind it is no defect of its own, and vanishes when the root is repaired."""
    proto = model("(float[4] x) => (float[4] y)", "e = Exp(x)\nt = Tanh(e)\ny = Sub(e, e)")
    report = static(proto, ranges={"x": (0, 100)})
    assert found(report) == {("NUM201", "e")}
    (consequence,) = [f for f in report.findings if f.consequence_of]
    assert (consequence.rule.code, consequence.node, consequence.consequence_of) == ("NUM109", "y", ("e",))
    assert "y" not in report.proven_safe
    assert consequence.is_note and not report.fails("confirmed")


def test_a_defect_behind_a_root_is_a_root_of_its_own() -> None:
    proto = model("(float[4] x) => (float[4] y)", "a = Log(x)\nb = Relu(a)\nc = Neg(b)\ny = Sqrt(c)")
    report = static(proto, ranges={"x": (0, 10)})
    assert found(report) == {("NUM101", "a"), ("NUM102", "y")}


def test_what_holds_only_behind_a_repair_is_never_proven_safe() -> None:
    proto = model("(float[4] x) => (float[4] y)", "a = Log(x)\ny = Exp(a)")
    report = static(proto, ranges={"x": (0, 10)})
    assert report.proven_safe == ()
    assert report.proven_safe_if == {"y": ("a",)}


def test_an_infinity_that_no_output_sees_is_a_note() -> None:
    """The guard of binary cross-entropy stands behind the logarithm: Max with -100."""
    proto = model("(float[4] p) => (float[4] y)", "l = Log(p)\nm = Constant<value_float=-100.0>()\ny = Max(l, m)")
    report = check(proto, ranges={"p": (0, 1)})
    (finding,) = report.roots()
    assert finding.verdict is Verdict.CONFIRMED and finding.reaches == "nowhere" and finding.is_note
    assert not report.fails("confirmed") and not report.fails("possible")


def test_masks_of_minus_infinity_are_legal() -> None:
    body = "p = Softmax<axis=-1>(s)\ny = Add(p, p)"
    masked = "n = Constant<value_float=-1e30>()\ns = Where(m, x, inf)\n" + body
    proto = model("(float[2,3] x, bool[2,3] m) => (float[2,3] y) <float inf = {0.0}>", masked)
    proto.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.array(-np.inf, np.float32), "inf"))
    report = static(proto, ranges={"x": (-5, 5)})
    assert found(report) == {("NUM108", "p")}
    causal = np.where(np.tril(np.ones((3, 3))) > 0, 0.0, -np.inf).astype(np.float32)
    proto = model(
        "(float[3,3] x) => (float[3,3] y) <float[3,3] mask = {0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0}>",
        "s = Add(x, mask)\n" + body,
    )
    proto.graph.initializer[0].CopyFrom(numpy_helper.from_array(causal, "mask"))
    assert not static(proto, ranges={"x": (-5, 5)}).findings


def test_every_declared_size_is_analysed() -> None:
    """Only the empty batch fails: its mean is 0/0."""
    proto = model("(float[N] x) => (float y)", "y = ReduceMean<keepdims=0>(x)")
    assert found(static(proto, ranges={"x": (0, 1)}, dims={"N": (1, 3)})) == set()
    report = static(proto, ranges={"x": (0, 1)}, dims={"N": (0, 3)})
    assert found(report) == {("NUM114", "y")}
    assert report.assumptions["dimensions"] == {"N": [0, 1, 2, 3]}
    assert report.proven_safe == ()


def test_too_many_sizes_are_said_to_be_incomplete() -> None:
    proto = model("(float[N] x) => (float y)", "y = ReduceSum<keepdims=0>(x)")
    report = static(proto, ranges={"x": (0, 1)}, dims={"N": (1, 1000)})
    assert not report.coverage.complete and "combinations" in report.coverage.remarks[0]
    assert report.fails("incomplete") and not report.fails("possible")


def division_by_weight() -> onnx.ModelProto:
    return model("(float[2] x) => (float[2] y) <float[2] w = {1.0, 2.0}>", "y = Div(x, w)")


@pytest.mark.parametrize(
    "weights, defect",
    [("fixed", False), ("init", True), ("ranum", True), ("debar", False), ("0.5:3", False), ("-1:1", True)],
)
def test_weights_as_ranges(weights: str, defect: bool) -> None:
    report = static(division_by_weight(), ranges={"x": (0, 1)}, weights=weights)
    assert (("NUM103", "y") in found(report)) == defect


def test_a_weight_named_in_the_ranges_is_a_range_and_is_searched() -> None:
    report = check(division_by_weight(), ranges={"x": (1, 1), "w": (0, 1)})
    (finding,) = report.roots()
    assert finding.rule.code == "NUM103" and finding.verdict is Verdict.CONFIRMED


def test_a_variance_is_never_negative_whatever_its_name() -> None:
    proto = model(
        "(float[2,3,4] x) => (float[2,3,4] y) <float[3] a = {1.0,1.0,1.0}, float[3] b = {0.0,0.0,0.0}, float[3] c = {0.0,0.1,0.0}, float[3] d = {0.0,0.2,0.1}>",
        "y = BatchNormalization(x, a, b, c, d)",
    )
    assert "NUM110" not in {f.rule.code for f in static(proto, ranges={"x": (-1, 1)}, weights="ranum").findings}


def test_domains_beyond_boxes() -> None:
    proto = model("(float[2,3] x) => (float[2,1] y)", "ax = Constant<value_ints=[1]>()\nl = ReduceMin(x, ax)\ny = Sqrt(l)")
    assert not static(proto, ranges={"x": "one-hot"}).findings
    assert not static(proto, ranges={"x": {"channels": [[0, 1], [2, 3], [0.5, 4]], "axis": 1}}).findings
    assert static(proto, ranges={"x": {"channels": [[0, 1], [-2, 3], [0.5, 4]], "axis": 1}}).findings
    assert not static(proto, ranges={"x": "{0,1,5}"}).findings
    assert static(proto, ranges={"x": "unit-norm"}).findings


def test_samples_give_ranges(tmp_path: Path) -> None:
    proto = model("(float[2] x) => (float[2] y)", "y = Log(x)")
    np.savez(tmp_path / "x.npz", x=np.array([0.5, 3.0]))
    report = static(proto, samples=str(tmp_path / "x.npz"))
    assert not report.findings
    assert report.assumptions["inputs"]["x"]["range"] == [0.5, 3.0]


def test_an_index_is_assumed_to_be_valid() -> None:
    proto = model("(int64[2] i) => (float[2] y) <float[3] t = {1.0, 2.0, 3.0}>", "g = Gather(t, i)\ny = Log(g)")
    report = static(proto)
    assert not report.findings
    assert report.assumptions["inputs"]["i"] == {
        "range": [0.0, 2.0],
        "domain": "box",
        "source": "role: index",
        "shape": [2],
        "text": "0:2",
    }


def test_the_same_seed_gives_the_same_report_and_witness(tmp_path: Path) -> None:
    proto = model("(float[2,4] x) => (float[2,4] y)", "p = Softmax<axis=-1>(x)\ny = Log(p)")
    reports = [check(proto, ranges={"x": (-80, 80)}, seed=3, witnesses=tmp_path / str(i)) for i in range(2)]
    contents = [
        {**r.to_json(), "time": None, "findings": [{**f, "witness": None, "replay": None} for f in r.to_json()["findings"]]}
        for r in reports
    ]
    assert contents[0] == contents[1]
    arrays = [sorted((tmp_path / str(i)).glob("*.npz"))[0].read_bytes() for i in range(2)]
    with (
        np.load(tmp_path / "0" / sorted((tmp_path / "0").glob("*.npz"))[0].name) as a,
        np.load(tmp_path / "1" / sorted((tmp_path / "1").glob("*.npz"))[0].name) as b,
    ):
        np.testing.assert_array_equal(a["array_0"], b["array_0"])
    assert len(arrays[0]) == len(arrays[1])


def test_the_bracket_shows_what_runs_reached() -> None:
    proto = model("(float16[4] x) => (float16[4] y)", "y = Mul(x, x)")
    assert not check(proto, ranges={"x": (0, 250)}).findings
    (finding,) = check(proto, ranges={"x": (0, 300)}).findings
    assert finding.verdict is Verdict.CONFIRMED
    assert finding.limit == 65504 and finding.high == pytest.approx(90000, rel=1e-2)
    assert finding.reached is not None and finding.reached[1] <= 65504


def test_exit_codes_and_policies(tmp_path: Path) -> None:
    defective = saved(model("(float[2] x) => (float[2] y)", "y = Log(x)"), tmp_path, "defective.onnx")
    sound = saved(model("(float[2] x) => (float[2] y)", "y = Exp(x)"), tmp_path, "sound.onnx")
    common = ("--witnesses", tmp_path / "w")
    assert tensorproof("check", sound, "--range", "x=0:1", *common).code == 0
    assert tensorproof("check", defective, "--range", "x=0:1", *common).code == 1
    assert tensorproof("check", defective, "--range", "x=0:1", "--no-confirm", *common).code == 0
    assert tensorproof("check", defective, "--range", "x=0:1", "--no-confirm", "--fail-on", "possible").code == 1
    assert tensorproof("check", defective, "--fail-on", "never", *common).code == 0
    assert tensorproof("check", defective, "--ignore", "NUM101", *common).code == 0
    assert tensorproof("check", sound, defective, "--range", "x=0:1", *common).code == 1
    result = tensorproof("check", defective, "--range", "x=0:1", "--write-baseline", tmp_path / "b.json", *common)
    assert result.code == 1
    again = tensorproof("check", defective, "--range", "x=0:1", "--baseline", tmp_path / "b.json", *common)
    assert again.code == 0
    report = json.loads(tensorproof("check", sound, "--range", "x=0:1", "--format", "json").out)
    assert report["schema_version"] == 1 and report["proven_safe"] == ["y"]


def test_configuration_in_pyproject(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(model("(float[2] x) => (float[2] y)", "y = Log(x)"), tmp_path)
    monkeypatch.chdir(tmp_path)
    config = tmp_path / "pyproject.toml"
    config.write_text("[tool.tensorproof]\nranges = {x = [1, 2]}\n")
    assert tensorproof("check", path).code == 0
    assert tensorproof("check", path, "--range", "x=0:1").code == 1
    config.write_text('[tool.tensorproof]\nignore = ["NUM101[y]"]\n')
    assert tensorproof("check", path).code == 0
    config.write_text('[tool.tensorproof]\nignore = ["NUM101[z]"]\n')
    assert tensorproof("check", path).code == 1
    for bad in ("[tool.tensorproof]\nrange = 1\n", "[tool.tensorproof]\nselect = 3\n", "not toml", "[tool]\ntensorproof = 1\n"):
        config.write_text(bad)
        assert tensorproof("check", path).code == 2


def test_explain_prints_the_page_of_every_rule() -> None:
    from tensorproof.rules import all_rules

    for code, rule in all_rules().items():
        result = tensorproof("explain", code)
        assert result.code == 0 and rule.name in result.out
    assert tensorproof("explain", "NUM000").code == 2


def test_a_target_that_flushes_subnormal_numbers_fails_earlier() -> None:
    """1e-40 is a number for IEEE arithmetic and zero for TensorFlow on the CPU: as an operand, and as a result."""
    logarithm = model("(float[2] x) => (float[2] y)", "y = Log(x)")
    product = model("(float[2] x) => (float[2] y)", "s = Mul(x, x)\ny = Log(s)")
    for proto, low in ((logarithm, 1e-40), (product, 1e-20)):
        assert not static(proto, ranges={"x": (low, 1)}, target="ieee").findings
        assert found(static(proto, ranges={"x": (low, 1)}, target="tensorflow-cpu")) == {("NUM101", "y")}


@pytest.mark.parametrize("thing", [3, b"model", ["model.onnx"], object()])
def test_what_is_no_model_is_refused_in_one_line(thing: object) -> None:
    with pytest.raises(ConfigurationError, match=f"{type(thing).__name__}: is no model; give a file"):
        check(thing)  # type: ignore[arg-type]
