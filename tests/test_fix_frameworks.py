"""`fix` of models of TensorFlow, Keras and JAX: what is written loads in TensorFlow and is finite there; the rest is said in words."""

from __future__ import annotations

import importlib.util
import json
import math
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorproof as package
from tensorproof.confirm.framework_confirm import FrameworkConfirm
from tensorproof.errors import ConfigurationError
from tensorproof.execute.tensorflow_graph import TensorflowRunner, TensorflowWorker
from tensorproof.formats import BFLOAT16, FLOAT16, FLOAT32, FLOAT64
from tensorproof.frontends.framework_model import RunFailed
from tensorproof.preparing import Prepared
from tensorproof.repair.fixing import BY_HAND, Fixed, Outcome, case_of
from tensorproof.repair.graph_file import GraphFile
from tensorproof.repair.graph_guard import FrameworkOperator, Guard, Held
from tensorproof.repair.operand.block import Interval
from tensorproof.repair.proposal import Declined
from tensorproof.repair.tensorflow_graph import Place
from tensorproof.repair.tensorflow_verifying import TensorflowVerifier
from tensorproof.repair.verify import Refused, scanned
from tests.commands import Result, tensorproof

tf = pytest.importorskip("tensorflow")
v1 = tf.compat.v1

from tests import framework_files as files  # noqa: E402

pytestmark = pytest.mark.area("fix frameworks")

ROOT = Path(__file__).parents[1]
SMALLEST = float(np.finfo(np.float32).tiny)
ORDINARY = [[1.0, 0.5, 0.25], [0.1, 0.2, 1e-30]]
QUICK = ("--range", "x=0:1", "--runs", "8")

each_form = pytest.mark.parametrize("form", files.FORMS)


@pytest.fixture(scope="module", autouse=True)
def one_process() -> Iterator[None]:
    """One process of TensorFlow for all tests here: starting one takes seconds."""
    kept: list[TensorflowWorker] = []
    start = TensorflowRunner._started  # pyright: ignore[reportPrivateUsage]

    def started(runner: Any) -> TensorflowWorker:
        if runner._worker is None and kept:
            runner._worker = kept[0]
        worker = start(runner)
        kept[:] = [worker]
        return worker

    def left(runner: Any, *_: object) -> None:
        runner._worker = None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TensorflowRunner, "_started", started)
        patch.setattr(TensorflowRunner, "__exit__", left)
        yield
    for worker in kept:
        worker.close()


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    files.build_forms(folder)
    return folder


@pytest.fixture(autouse=True)
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def repaired(models: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Result]]:
    """Each form, repaired on the command line: what was written, and what the command said."""
    folder = tmp_path_factory.mktemp("repaired")
    made: dict[str, tuple[Path, Result]] = {}
    for form in files.FORMS:
        target = folder / f"new_{form}"
        words = ("--format", "json", "--witnesses", folder / "witnesses", "--apply", target)
        made[form] = target, tensorproof("fix", models / form, *QUICK, *words)
    return made


def graph(build: Callable[[], object], name: str = "model.pb") -> Path:
    return files.written_graph(Path(name), build)


def only(fixed: Fixed) -> Outcome:
    (outcome,) = fixed.outcomes
    return outcome


def left_to_the_user(fixed: Fixed) -> str:
    ((_, words),) = fixed.by_hand
    return words


# -- what is written -----------------------------------------------------------------------------------------------------------


@each_form
def test_the_written_model_is_finite_where_the_original_fails(
    models: Path, repaired: dict[str, tuple[Path, Result]], form: str
) -> None:
    target, result = repaired[form]
    assert result.code == 0 and "1 repair applied" in result.err, result
    points = [[0.0, 0.5, 1.0], *ORDINARY]
    before, after = files.results(models / form, points), files.results(target, points)
    assert before[0][0][0] == -np.inf
    assert np.isfinite(after[0][0]).all() and after[0][0][0] == pytest.approx(math.log(SMALLEST), rel=1e-6)
    np.testing.assert_array_equal(before[0][0][1:], after[0][0][1:])
    for old, new in zip(before[1:], after[1:]):
        np.testing.assert_array_equal(old[0], new[0])
    assert [old[1] for old in before] == [new[1] for new in after], "the other signature"


@each_form
def test_a_check_of_the_written_model_is_silent(models: Path, repaired: dict[str, tuple[Path, Result]], form: str) -> None:
    assert tensorproof("check", models / form, "--range", "x=0:1").code == 1
    again = tensorproof("check", repaired[form][0], "--range", "x=0:1", "--fail-on", "incomplete", "--format", "json")
    assert again.code == 0, again.out
    assert not json.loads(again.out)["findings"]


@each_form
def test_all_else_of_the_file_stays(models: Path, repaired: dict[str, tuple[Path, Result]], form: str) -> None:
    before, after = files.message_of(models / form), files.message_of(repaired[form][0])
    graph_def = files.graph_of(after)
    (nodes,) = [
        nodes
        for nodes in (graph_def.node, *(function.node_def for function in graph_def.library.function))
        if any(node.name == "logarithm" for node in nodes)
    ]
    added = [node for node in nodes if node.name.startswith("logarithm/")]
    assert [node.op for node in added] == ["Const", "Maximum"]
    (logarithm,) = [node for node in nodes if node.name == "logarithm"]
    assert logarithm.input[0].partition(":")[0] == added[1].name
    logarithm.input[0] = added[1].input[0]
    for node in added:
        nodes.remove(node)
    assert before == after


@each_form
def test_all_else_of_the_folder_stays(models: Path, repaired: dict[str, tuple[Path, Result]], form: str) -> None:
    old, new = models / form, repaired[form][0]
    if old.is_dir():
        names = {str(path.relative_to(old)) for path in old.rglob("*")}
        assert "variables/variables.index" in names and (form == "saved_text" or "assets/vocabulary.txt" in names)
        # What the fingerprint says would not be true any more.
        assert names - {str(path.relative_to(new)) for path in new.rglob("*")} <= {"fingerprint.pb"}
        for name in sorted(names):
            if (new / name).is_file() and not name.startswith("saved_model."):
                assert (old / name).read_bytes() == (new / name).read_bytes()
    elif form.endswith(".meta"):
        for ending in ("index", "data-00000-of-00001"):
            assert new.with_suffix(f".{ending}").read_bytes() == old.with_suffix(f".{ending}").read_bytes()


@pytest.mark.parametrize("form", ["frozen.pb", "model.ckpt.meta", "saved_v1", "saved_v2"])
def test_fields_that_nobody_knows_stay(repaired: dict[str, tuple[Path, Result]], form: str) -> None:
    target = repaired[form][0]
    assert files.UNKNOWN in (target / "saved_model.pb" if target.is_dir() else target).read_bytes()


def test_the_report_says_what_was_done(repaired: dict[str, tuple[Path, Result]]) -> None:
    (finding,) = json.loads(repaired["saved_v2"][1].out)["findings"]
    fix = finding["fix"]
    assert (fix["kind"], fix["name"], fix["safe"], fix["applied"]) == ("operand", "clamp", True, True)
    assert "/mul' is held at least 1.17549435e-38 before Log '" in fix["summary"]
    seen = fix["verification"]
    assert seen["proven"] and seen["witness_replayed"] and seen["runs"] == 8
    assert seen["values"]["elements"] > 0 and seen["values"]["ulp"] == seen["outputs"]["ulp"] == 0
    assert seen["gradients"]["points"] > 0 and seen["gradients"]["dead"] == seen["gradients"]["worse"] == 0


def test_the_report_for_a_person_and_its_command(models: Path) -> None:
    result = tensorproof("fix", models / "frozen.pb", *QUICK)
    assert "operand clamp (safe): 'mul' is held at least 1.17549435e-38 before Log 'logarithm'" in result.out
    assert "the failing input gives finite values; 8 points run, none fails" in " ".join(result.out.split())
    (finding,) = json.loads(tensorproof("fix", models / "frozen.pb", *QUICK, "--format", "json").out)["findings"]
    words = finding["fix"]["apply"].split()
    assert words[-2:] == ["--apply", "OUT.pb"]
    assert tensorproof(*words[1:]).code == 0
    assert np.isfinite(files.results(Path("OUT.pb"), [[0.0, 0.0, 0.0]])[0][0]).all()


@pytest.mark.parametrize(("form", "source", "limit"), [("frozen.pb", "mul", ""), ("saved_v2", "mul:z:0", ":output:0")])
def test_the_change_is_shown(models: Path, form: str, source: str, limit: str) -> None:
    result = tensorproof("fix", models / form, *QUICK, "--diff")
    changes = [line for line in result.out.splitlines() if line[:1] in "+-"]
    indent = "  " if form == "saved_v2" else ""
    behind = ":z:0" if form == "saved_v2" else ""
    assert changes == [
        f"--- a/{form}",
        f"+++ b/{form}",
        f"-{indent}logarithm = Log({source})",
        f"+{indent}logarithm/maximum_0/limit = Const({SMALLEST!r})",
        f"+{indent}logarithm/maximum_0 = Maximum({source}, logarithm/maximum_0/limit{limit})",
        f"+{indent}logarithm = Log(logarithm/maximum_0{behind})",
    ]


@pytest.mark.parametrize("form", ["frozen.pb", "saved_v2", "graph.pbtxt"])
def test_a_model_without_findings_is_written_as_it_is(repaired: dict[str, tuple[Path, Result]], form: str) -> None:
    source, target = repaired[form][0], Path("again") / form
    result = tensorproof("fix", source, *QUICK, "--apply", target)
    assert result.code == 0 and "0 repairs applied" in result.err
    pairs = [(source, target)] if source.is_file() else [(p, target / p.relative_to(source)) for p in source.rglob("*")]
    assert all(new.is_dir() or old.read_bytes() == new.read_bytes() for old, new in pairs)
    assert "nothing changes" in tensorproof("fix", source, *QUICK, "--diff").out


def test_one_signature_of_several_is_repaired() -> None:
    class Two(tf.Module):  # pyright: ignore[reportUntypedBaseClass]
        @tf.function(input_signature=[tf.TensorSpec([2], tf.float32, name="x")])
        def first(self, x: Any) -> Any:
            return {"first": tf.sqrt(x, name="root")}

        @tf.function(input_signature=[tf.TensorSpec([2], tf.float32, name="x")])
        def second(self, x: Any) -> Any:
            return {"second": tf.math.log(tf.identity(x), name="logarithm")}

    module = Two()
    tf.saved_model.save(module, "two", {"first": module.first, "second": module.second})
    fixed = package.fix("two", signature="second", ranges={"x": (-1, 1)}, runs=8)
    assert only(fixed).is_applied and fixed.graph_file is not None
    fixed.graph_file.write(Path("new"))
    found = tf.saved_model.load("new").signatures
    x = tf.constant([-1.0, 0.0])
    assert np.isfinite(found["second"](x)["second"].numpy()).all()
    assert np.isnan(found["first"](x)["first"].numpy()[0]), "nobody asked for this one"


# -- as TensorFlow computes it -------------------------------------------------------------------------------------------------


def discriminator() -> None:
    d = v1.placeholder(tf.float32, [8], name="d")
    tf.reduce_mean(-tf.math.log((1.0 - d) + 1e-8, name="logarithm"), name="loss")


def test_an_epsilon_that_tensorflow_loses_is_repaired_as_tensorflow_computes_it() -> None:
    """With processes of its own, as users have it."""
    path = graph(discriminator)
    words = ["fix", str(path), "--range", "d=0:1", "--apply", "new.pb", "--witnesses", "witnesses"]
    ended = subprocess.run([sys.executable, "-m", "tensorproof", *words], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "tensorproof: new.pb: 1 repair applied\n"), ended
    for d in (1.0, 0.0, 0.99999994):
        (before,), (after,) = (files.values(file, ["loss"], {"d": np.full(8, d, np.float32)}) for file in (path, Path("new.pb")))
        assert after == before if d < 1 else (before == np.inf and np.isfinite(after)), d
    (script,) = Path("witnesses").glob("*.py")
    done = subprocess.run([sys.executable, str(script), str(Path("new.pb").resolve())], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "is gone" in done.stdout, done.stdout + done.stderr[-2000:]


def test_the_example_whose_epsilon_is_lost_is_repaired_as_a_saved_model() -> None:
    specification = importlib.util.spec_from_file_location("gan", ROOT / "examples" / "tensorflow_gan.py")
    assert specification is not None and specification.loader is not None
    example = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(example)
    specs = [tf.TensorSpec([2, 1], tf.float32, name=name) for name in ("real", "fake")]
    module = tf.Module()
    module.loss = tf.function(example.discriminator_loss, input_signature=specs)
    tf.saved_model.save(module, "gan", {"serving_default": module.loss})
    ranges = ("--range", "real=-20:20", "--range", "fake=-20:20")
    assert tensorproof("fix", "gan", *ranges, "--runs", "8", "--apply", "new").code == 0
    inputs = {"real": tf.zeros((2, 1)), "fake": tf.fill((2, 1), 20.0)}
    (before,), (after,) = (tf.saved_model.load(name).signatures["serving_default"](**inputs).values() for name in ("gan", "new"))
    assert before.numpy() == np.inf and np.isfinite(after.numpy())
    assert tensorproof("check", "new", *ranges).code == 0


def test_what_only_tensorflow_computes_so_is_still_looked_for_behind_another_repair() -> None:
    def build() -> None:
        d = v1.placeholder(tf.float32, [8], name="d")
        root = tf.sqrt(d - 0.5, name="root")
        tf.identity(root * tf.math.log((1.0 - d) + 1e-8, name="logarithm"), name="out")

    fixed = package.fix(graph(build), ranges={"d": (0, 1)}, runs=8)
    assert {o.finding.node: o.along_with for o in fixed.outcomes if o.is_applied} == {"root": None, "logarithm": None}
    assert fixed.graph_file is not None
    fixed.graph_file.write(Path("new.pb"))
    (out,) = files.values(Path("new.pb"), ["out"], {"d": np.linspace(0.0, 1.0, 8)})
    assert np.isfinite(out).all()


def a_guard(path: Path) -> tuple[Prepared, Guard, dict[str, Any]]:
    """The guard of the one finding of a model, and its failing input."""
    prepared = Prepared.of(str(path), ranges={"d": (0.0, 1.0)}, cache=False)
    confirming = prepared.quick_confirm()
    assert isinstance(confirming, FrameworkConfirm)
    (finding,) = prepared.checked(confirming).findings
    case = case_of(prepared, scanned(prepared), finding)
    assert case is not None
    held = Held(case.node.inputs[0], FLOAT32, Interval(low=SMALLEST))
    operator = FrameworkOperator("Log", "logarithm", (case.node,))
    return prepared, Guard(case, operator, (held,), True), confirming.failing[finding.rule.code, finding.node]


def test_a_repair_that_tensorflow_does_not_feel_is_refused() -> None:
    prepared, guard, witness = a_guard(graph(discriminator))
    with TensorflowVerifier(seed=0, runs=4) as verifier:
        with pytest.raises(Refused, match="the failing input still fails"):
            verifier.run_both(prepared, prepared, guard, scanned(prepared), witness)
        with pytest.raises(Refused, match="is NaN or infinite at a point of the box"):
            half = graph(lambda: tf.math.log(v1.placeholder(tf.float32, [8], name="d") - 0.5, name="logarithm"), "half.pb")
            after = Prepared.of(str(half), ranges={"d": (0.0, 1.0)}, cache=False)
            verifier.run_both(prepared, after, guard, scanned(prepared), None)


def test_a_claim_of_safety_that_runs_refute_is_dropped() -> None:
    """TensorFlow itself computes log(softmax(x)) as log_softmax(x), which no clamp of the softmax lets it do."""

    def build() -> None:
        x = v1.placeholder(tf.float32, [4], name="x")
        tf.math.log(tf.nn.softmax(x * 2.0), name="logarithm")

    fixed = package.fix(graph(build), ranges={"x": (0, 200)}, runs=12)
    outcome = only(fixed)
    assert outcome.repair is not None and outcome.repair.verification.values.ulp > 1e3
    assert not outcome.repair.is_safe and not outcome.is_applied


def test_a_model_that_is_not_run_is_left_to_the_user(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing(*_: object) -> None:
        raise RunFailed("not run: TensorFlow is not installed")

    monkeypatch.setattr(TensorflowRunner, "_started", refusing)
    fixed = package.fix(models / "frozen.pb", ranges={"x": (0, 1)})
    assert "TensorFlow is not installed" in only(fixed).declined[0][1]
    assert left_to_the_user(fixed) == "apply by hand: clamp operand 'mul' of Log 'logarithm' to [1.17549435e-38, inf]"


# -- formats and operators -----------------------------------------------------------------------------------------------------


def of_several_formats() -> None:
    half, double, brain = (v1.placeholder(kind, [4], name=kind.name) for kind in (tf.float16, tf.float64, tf.bfloat16))
    whole = v1.placeholder(tf.int32, [4], name="whole")
    tf.exp(half, name="exp_half")
    tf.math.log(double, name="log_double")
    tf.sqrt(brain, name="root_brain")
    tf.identity(tf.constant([7, 7, 7, 7]) // whole, name="quotient")
    tf.math.rsqrt(half * half, name="inverse_root")
    tf.math.acos(double * 3, name="angle")


@pytest.fixture(scope="module")
def formats_fixed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Fixed]:
    path = files.written_graph(tmp_path_factory.mktemp("formats") / "formats.pb", of_several_formats)
    ranges = {"half": (-60, 60), "float64": (-1, 1), "bfloat16": (-1, 1), "whole": (0, 3)}
    ranges["float16"] = ranges.pop("half")
    return path, package.fix(path, ranges=ranges, runs=20, unsafe=True)


def test_every_finding_of_every_format_is_repaired(formats_fixed: tuple[Path, Fixed], tmp_path: Path) -> None:
    path, fixed = formats_fixed
    assert {outcome.finding.node for outcome in fixed.outcomes if outcome.is_applied} == {
        "exp_half", "log_double", "root_brain", "floordiv", "inverse_root", "angle"
    }  # fmt: skip
    assert not fixed.left().findings and fixed.graph_file is not None
    fixed.graph_file.write(tmp_path / "new.pb")
    names = ["exp_half", "log_double", "root_brain", "quotient", "inverse_root", "angle"]
    types = [tf.float16, tf.float64, tf.bfloat16, tf.int32, tf.float16, tf.float64]
    failing = {"float16": [60, 0, -60, 1], "float64": [-1, 0, 1, 0.5], "bfloat16": [-1, -0.5, 0, 1], "whole": [0, 1, 2, 3]}
    ordinary = {"float16": [1, 2, 3, 4], "float64": [0.1, 0.2, 0.3, 0.1], "bfloat16": [1, 0.5, 0.25, 2], "whole": [1, 2, 3, 3]}
    for result, kind in zip(files.values(tmp_path / "new.pb", names, failing), types):
        assert result.dtype == kind.as_numpy_dtype and np.isfinite(result.astype(np.float64)).all()
    for old, new in zip(files.values(path, names, ordinary), files.values(tmp_path / "new.pb", names, ordinary)):
        np.testing.assert_array_equal(old, new)


def test_values_are_compared_in_their_own_format(formats_fixed: tuple[Path, Fixed]) -> None:
    formats = {o.finding.node: o.repair.verification.values.format for o in formats_fixed[1].outcomes if o.repair is not None}
    expected = {"exp_half": FLOAT16, "log_double": FLOAT64, "root_brain": BFLOAT16, "inverse_root": FLOAT16, "angle": FLOAT64}
    assert {node: formats[node] for node in expected} == expected


def test_a_difference_of_half_precision_counts_in_its_own_units() -> None:
    """TensorFlow computes with subnormal numbers of float16, so that a clamp at the smallest normal one moves some."""

    def build() -> None:
        tf.math.log(v1.placeholder(tf.float16, [64], name="x"), name="logarithm")

    outcome = only(package.fix(graph(build), ranges={"x": (0, 1e-4)}, runs=20))
    assert outcome.repair is not None and not outcome.repair.is_safe
    assert 2 < outcome.repair.verification.values.ulp < 2048


def test_unsafe_repairs_are_shown_and_applied_only_when_asked_for() -> None:
    """A product overflows; a clamp of both factors changes finite values."""

    def build() -> None:
        x, z = (v1.placeholder(tf.float32, [4], name=name) for name in "xz")
        tf.multiply(x, z, name="product")

    path = graph(build)
    ranges = ("--range", "*=-1e30:1e30", "--runs", "8")
    shown = tensorproof("fix", path, *ranges, "--apply", "out.pb")
    assert shown.code == 1 and "unsafe: it changes values" in shown.out and "1 more with --unsafe" in shown.err
    assert Path("out.pb").read_bytes() == path.read_bytes()
    assert tensorproof("fix", path, *ranges, "--unsafe", "--apply", "out.pb").code == 0
    assert tensorproof("check", "out.pb", "--range", "*=-1e30:1e30").code == 0
    (product,) = files.values(Path("out.pb"), ["product"], {"x": np.full(4, 1e30), "z": np.full(4, -1e30)})
    assert np.isfinite(product).all() and (product < -1e37).all()


def test_an_operand_that_is_read_twice_is_held_at_both_places() -> None:
    def build() -> None:
        x = v1.placeholder(tf.float32, [4], name="x")
        shifted = x + 0.0
        tf.multiply(shifted, shifted, name="square")

    fixed = package.fix(graph(build), ranges={"x": (-1e30, 1e30)}, unsafe=True, runs=8)
    assert only(fixed).is_applied and fixed.graph_file is not None
    fixed.graph_file.write(Path("new.pb"))
    (square,) = files.values(Path("new.pb"), ["square"], {"x": np.full(4, 1e30)})
    assert np.isfinite(square).all()


def test_several_findings_of_one_model_are_repaired_one_after_another() -> None:
    def build() -> None:
        x = v1.placeholder(tf.float32, [4], name="x")
        with tf.device("/cpu:0"):
            root = tf.sqrt(x - 0.5, name="root")
        tf.math.log(root, name="logarithm")
        tf.divide(tf.constant(2.0), tf.exp(x * 100.0, name="power") - 1.0, name="quotient")

    path = graph(build)
    fixed = package.fix(path, ranges={"x": (0, 1)}, runs=8, unsafe=True)
    assert {outcome.finding.node for outcome in fixed.outcomes} >= {"root", "logarithm", "power", "quotient"}
    assert all(outcome.is_applied for outcome in fixed.outcomes) and fixed.graph_file is not None
    fixed.graph_file.write(Path("new.pb"))
    for x in ([0.0, 0.5, 1.0, 0.25], [0.75, 0.8, 0.6, 0.9]):
        old, new = (files.values(file, ["logarithm", "quotient"], {"x": x}) for file in (path, Path("new.pb")))
        for before, after in zip(old, new):
            assert np.isfinite(after).all()
            np.testing.assert_array_equal(before[np.isfinite(before)], after[np.isfinite(before)])
    devices = {node.name: node.device for node in files.message_of(Path("new.pb")).node}
    assert devices["root/maximum_0"] == devices["root/maximum_0/limit"] == devices["root"] != ""


def test_only_the_chosen_findings_are_repaired() -> None:
    def build() -> None:
        x = v1.placeholder(tf.float32, [4], name="x")
        tf.sqrt(x, name="root")
        tf.math.log(x, name="logarithm")

    path = graph(build)
    assert tensorproof("fix", path, "--range", "x=-1:1", "--runs", "8", "--node", "ro*", "--apply", "out.pb").code == 1
    assert {f.node for f in package.check("out.pb", ranges={"x": (-1, 1)}, confirm=False).roots()} == {"logarithm"}


def test_a_graph_in_training_is_repaired() -> None:
    def build() -> None:
        x = v1.placeholder(tf.float32, [4], name="x")
        weight = v1.get_variable("weight", shape=[4], initializer=v1.truncated_normal_initializer(stddev=1.0))
        loss = -tf.reduce_mean(tf.math.log(tf.sigmoid(x * weight), name="logarithm"), name="loss")
        v1.train.GradientDescentOptimizer(0.1).minimize(loss)

    ranges = ("--range", "x=-200:200", "--phase", "training", "--runs", "8")
    result = tensorproof("fix", graph(build), *ranges, "--apply", "out.pb")
    assert "repair applied" in result.err, result
    again = tensorproof("check", "out.pb", "--range", "x=-200:200", "--phase", "training", "--format", "json")
    # The gradients that the file holds read the operand as it was before: what fails in them is told.
    left = [(finding["rule"], finding["phase"]) for finding in json.loads(again.out)["findings"] if finding["node"] == "logarithm"]
    assert left == [("NUM405", "backward")]


# -- what is left to the user --------------------------------------------------------------------------------------------------


def loop(x: Any) -> Any:
    return tf.while_loop(lambda i, a: i < 2, lambda i, a: (i + 1, tf.sqrt(a - 2.0)), (0, x))[1]


IN_WORDS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "loop": (loop, r"apply by hand: clamp operand '.*sub' of Sqrt '.*Sqrt' to \[0, inf\]"),
    "branch": (
        lambda x: tf.cond(tf.reduce_sum(x) > 0, lambda: tf.sqrt(x - 2.0), lambda: x),
        r"apply by hand: clamp operand '.*sub' of Sqrt '.*Sqrt' to \[0, inf\]",
    ),
    "divisor of both signs": (
        lambda x: tf.divide(1.0, x - 0.5, name="quotient"),
        r"apply by hand at RealDiv 'quotient': holds sub at least 1.17549435e-38 away from zero in Div, its sign kept",
    ),
    "whole divisor of both signs": (
        lambda x: tf.constant([7, 7]) // (tf.cast(x, tf.int32) * 2 - 1 + tf.cast(x > 0.5, tf.int32)),
        r"apply by hand: hold operand '.*' of FloorDiv 'floordiv' at least 1 away from zero, its sign kept",
    ),
    "operator of several operands": (
        lambda x: tf.math.squared_difference(x * 1e30, x * -1e30, name="squared"),
        r"apply by hand: clamp operand 'squared/Sub' of Mul 'squared' to \[.*, 1\.844674\d+e\+19\]",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", IN_WORDS)
def test_what_a_graph_file_does_not_allow_is_said(name: str) -> None:
    function, words = IN_WORDS[name]
    path = graph(lambda: tf.identity(function(v1.placeholder(tf.float32, [2], name="x")), name="out"))
    result = tensorproof("fix", path, "--range", "x=0:1", "--format", "json", "--apply", "out.pb", "--fail-on", "possible")
    assert result.code == 1 and "1 finding without a repair" in result.err, result
    fixes = [finding["fix"] for finding in json.loads(result.out)["findings"] if finding["fix"] is not None]
    ((said,),) = [[entry["reason"] for entry in fix["declined"] if entry["name"] == BY_HAND] for fix in fixes]
    assert re.fullmatch(words, said), said
    assert fixes[0]["kind"] is None and Path("out.pb").read_bytes() == path.read_bytes()
    shown = tensorproof("fix", path, "--range", "x=0:1", "--diff").out.splitlines()
    assert shown[0] == "no repair is applied: nothing changes" and shown[1].endswith(said)


def test_an_infinite_derivative_is_not_guarded() -> None:
    class Root(tf.Module):  # pyright: ignore[reportUntypedBaseClass]
        @tf.function(input_signature=[tf.TensorSpec([2], tf.float32, name="x")])
        def __call__(self, x: Any) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = tf.sqrt(x)
            return {"gradient": tape.gradient(y, x)}

    tf.saved_model.save(Root(), "root")
    outcomes = package.fix("root", ranges={"x": (0, 1)}, phase="training", runs=8).outcomes
    declined = {outcome.finding.rule.code: outcome.declined for outcome in outcomes if not outcome.is_applied}
    assert "its derivative is not" in declined["NUM401"][0][1]


def program(name: str, text: str) -> Path:
    path = Path(name).resolve()
    path.write_text(text)
    return path


def test_a_program_of_tensorflow_is_repaired_by_hand() -> None:
    path = program(
        "loss.py",
        "import tensorflow as tf\n\n# tensorproof: x = float32[4] in [0,1]\n\n\ndef loss(x):\n    return tf.math.log(x * 2.0)\n",
    )
    before = path.read_bytes()
    result = tensorproof("fix", f"{path}:loss", "--apply", "out.py")
    assert result.code == 1 and not Path("out.py").exists() and path.read_bytes() == before
    assert f"apply by hand: clamp operand 'mul' of Log at {path}:7 to [1.17549435e-38, inf]" in " ".join(result.out.split())
    assert "out.py: not written, the model is repaired by hand; 1 finding without a repair" in result.err
    assert tensorproof("fix", f"{path}:loss", "--in-place").code == 1 and path.read_bytes() == before


def test_a_function_of_jax_is_repaired_by_hand() -> None:
    pytest.importorskip("jax")
    path = program(
        "distance.py",
        "import jax.numpy as jnp\nfrom jax import lax\n\n# tensorproof: x = float32[4] in [0,1]\n\n\n"
        "def distance(x):\n    y = jnp.log(x - 0.5)\n    return y + lax.rsqrt(x)\n",
    )
    fixed = package.fix(f"{path}:distance")
    assert {words for _, words in fixed.by_hand} == {
        f"apply by hand: clamp operand 'sub' of Log at {path}:8 to [1.17549435e-38, inf]",
        f"apply by hand: clamp operand 'x' of rsqrt at {path}:9 to [1.17549435e-38, inf]",
    }
    assert fixed.graph_file is None and not fixed.applied


def test_numbers_that_a_scan_refuses_are_not_said() -> None:
    """Next to the smallest divisor the derivative overflows."""
    path = program(
        "inverse.py",
        "import tensorflow as tf\n\n# tensorproof: x = float32[4] in [0,1]\n\n\ndef inverse(x):\n    return 1.0 / x\n",
    )
    fixed = package.fix(f"{path}:inverse", phase="training")
    assert left_to_the_user(fixed) == f"apply by hand: clamp operand 'x' of RealDiv at {path}:7 to [5.96046448e-08, inf]"
    reasons = [reason for name, reason in only(fixed).declined if name == "clamp"]
    assert reasons == ["at least 1.17549435e-38: the scan finds NUM403 at truediv, which was not there before"]


def test_a_file_of_keras_is_repaired_by_hand() -> None:
    keras = pytest.importorskip("keras")
    features = keras.Input((4,), name="features")
    keras.Model(features, keras.ops.log(keras.ops.relu(features))).save("model.keras")
    before = Path("model.keras").read_bytes()
    result = tensorproof("fix", "model.keras", "--range", "features=0:1", "--in-place")
    assert result.code == 1 and Path("model.keras").read_bytes() == before
    said = " ".join(result.out.split())
    # How small the number may be depends on the backend of Keras.
    assert re.search(
        r"files of Keras are not rewritten; apply by hand: clamp operand '.*' of Log .* to \[1\.\d+e-\d\d, inf\]", said
    )
    assert "not written" in result.err and result.err.count("\n") == 1


def test_a_text_with_fields_that_are_not_known_is_not_written(models: Path) -> None:
    Path("graph.pbtxt").write_text((models / "graph.pbtxt").read_text() + "\nnot_known: 7\n")
    fixed = package.fix("graph.pbtxt", ranges={"x": (0, 1)}, runs=8)
    assert fixed.graph_file is None
    assert "would be lost" in only(fixed).declined[0][1]
    assert "clamp operand 'mul' of Log 'logarithm'" in left_to_the_user(fixed)


def test_the_file_inside_a_saved_model_is_not_written_alone(models: Path) -> None:
    with pytest.raises(Declined, match="name its folder"):
        GraphFile.read(models / "saved_v1" / "saved_model.pb")


# -- writing -------------------------------------------------------------------------------------------------------------------


def changed(path: Path) -> GraphFile:
    """A file with a repair in it, without a search for one."""
    return GraphFile.read(path).held(Place("", "logarithm", (0,)), Interval(low=SMALLEST), FLOAT32)


def contents(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


@pytest.mark.parametrize("form", ["frozen.pb", "saved_v2"])
def test_mistakes_are_one_line(models: Path, form: str) -> None:
    source = models / form
    Path("full").mkdir()
    Path("full", "something").write_text("mine")
    Path("file").write_text("mine")
    before = contents(models)
    cases: list[tuple[tuple[object, ...], str]] = [
        (("--apply", source), "--in-place"),
        (("--apply", "full"), "is a folder"),
        (("--apply", "file/below"), "cannot be written"),
        (("--at", "inputs", "--apply", "new"), "--at"),
        (("--runs", "0"), "--runs"),
    ]
    if source.is_dir():
        cases += [(("--apply", "file"), "is a file"), (("--apply", source / "new"), "lies in the folder of the model itself")]
    else:
        cases += [(("--apply", "new.pbtxt"), "end the name with .pb")]
    for arguments, words in cases:
        result = tensorproof("fix", source, *QUICK, *arguments)
        assert result.code == 2 and words in result.err and result.err.count("\n") == 1, (arguments, result)
    assert contents(models) == before
    assert Path("full", "something").read_text() == Path("file").read_text() == "mine"
    assert {path.name for path in Path().iterdir()} <= {"full", "file", "tensorproof-witnesses"}


@pytest.mark.parametrize("form", ["frozen.pb", "model.ckpt.meta", "saved_v2"])
def test_in_place_overwrites_the_model(models: Path, form: str) -> None:
    shutil.copytree(models, "mine")
    path = Path("mine") / form
    assert tensorproof("fix", path, *QUICK, "--in-place").code == 0
    assert np.isfinite(files.results(path, [[0.0, 0.0, 0.0]])[0][0]).all()
    assert tensorproof("check", path, "--range", "x=0:1").code == 0
    assert not (path / "fingerprint.pb").exists()
    assert {p.name for p in Path("mine").iterdir()} == {p.name for p in models.iterdir()}


def test_a_file_that_is_there_is_replaced_and_an_empty_folder_is_filled(models: Path) -> None:
    Path("old.pb").write_text("old")
    changed(models / "frozen.pb").write(Path("old.pb"))
    assert Path("old.pb").stat().st_size > 100
    Path("empty").mkdir()
    changed(models / "saved_v1").write(Path("empty"))
    assert Path("empty", "variables", "variables.index").is_file()


@pytest.mark.parametrize("form", ["frozen.pb", "model.ckpt.meta", "saved_v1"])
def test_a_write_that_fails_leaves_nothing_behind(models: Path, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(models, "mine")
    before = contents(Path("mine"))

    def full(path: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tensorproof.repair.graph_file.write_bytes", full)
    for target, in_place in ((Path("mine") / form, True), (Path("mine") / f"new_{form}", False)):
        with pytest.raises(ConfigurationError, match="cannot be written \\(No space left on device\\)"):
            changed(Path("mine") / form).write(target, in_place=in_place)
    left = contents(Path("mine"))
    # A checkpoint is brought first: without its graph it is only a copy.
    assert {name: data for name, data in left.items() if not name.startswith("new_model.ckpt.")} == before


def test_the_checkpoint_of_another_model_is_not_overwritten(models: Path) -> None:
    Path("other.index").write_text("mine")
    with pytest.raises(ConfigurationError, match=r"other\.index: belongs to another model"):
        changed(models / "model.ckpt.meta").write(Path("other.meta"))
    assert Path("other.index").read_text() == "mine" and not Path("other.meta").exists()
    for _ in range(2):
        changed(models / "model.ckpt.meta").write(Path("again.meta"))


def test_a_file_of_the_folder_that_cannot_be_read_is_one_line(models: Path) -> None:
    shutil.copytree(models / "saved_v1", "mine")
    file = changed(Path("mine"))
    Path("mine", "assets", "gone").symlink_to("nowhere")
    with pytest.raises(ConfigurationError) as raised:
        file.write(Path("new"))
    assert "\n" not in str(raised.value) and "gone" in str(raised.value)
    assert not Path("new").exists()


def test_nodes_that_are_there_already_keep_their_names(models: Path) -> None:
    once = changed(models / "frozen.pb")
    twice = once.held(Place("", "logarithm", (0,)), Interval(2.0**-10, 2.0**10), FLOAT32)
    twice.write(Path("new.pb"))
    names = [node.name for node in files.message_of(Path("new.pb")).node if node.name.startswith("logarithm/")]
    assert names == [
        *("logarithm/maximum_0/limit", "logarithm/maximum_0"),
        *("logarithm/maximum_0_2/limit", "logarithm/maximum_0_2"),
        *("logarithm/minimum_0/limit", "logarithm/minimum_0"),
    ]
    results = files.results(Path("new.pb"), [[0.0, 1e30, 1.0]])[0][0]
    np.testing.assert_allclose(results, [math.log(2.0**-10), math.log(2.0**10), math.log(3.0)], rtol=1e-6)
