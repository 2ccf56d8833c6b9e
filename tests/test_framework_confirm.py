"""Confirmation in TensorFlow itself: findings, constants that TensorFlow gathers, witnesses, and programs that replay them."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensorproof.assumptions import resolve
from tensorproof.checking import analyse
from tensorproof.confirm.framework_confirm import FrameworkConfirm
from tensorproof.confirm.search import Budget
from tensorproof.findings import Finding, Report, Verdict
from tensorproof.frontends.framework_model import FrameworkRunner, ReadingOptions
from tensorproof.frontends.tensorflow_program import TensorflowModel, read_tensorflow
from tensorproof.frontends.tensorflow_reassociation import EITHER_OF, as_in_the_program, reassociated
from tensorproof.preparing import Prepared

tf = pytest.importorskip("tensorflow")
v1 = tf.compat.v1

pytestmark = pytest.mark.area("framework confirm")


def saved(path: Path, build: Callable[[], None]) -> Path:
    graph = tf.Graph()
    with graph.as_default():
        build()
    path.write_bytes(graph.as_graph_def().SerializeToString())
    return path


def checked(path: Path, *, folder: Path | None = None, budget: Budget | None = None, **options: Any) -> tuple[Report, list[str]]:
    prepared = Prepared.of(str(path), cache=False, **options)
    if budget is None:
        confirming = prepared.quick_confirm(folder=folder, runs=11)
    else:
        confirming = prepared.full_confirm(budget=budget, folder=folder, runs=11)
    assert isinstance(confirming, FrameworkConfirm)
    return prepared.checked(confirming), confirming.notes


def by_node(report: Report) -> dict[str, Finding]:
    return {finding.node: finding for finding in report.findings}


# -- findings ------------------------------------------------------------------------------------------------------------


def several() -> None:
    """Failures of several kinds, of a variable's value, in a loop, in an optimiser's part; and one that no point reaches."""
    x = v1.placeholder(tf.float32, [4], name="x")
    weight = v1.get_variable("weight", shape=[4], initializer=v1.truncated_normal_initializer(stddev=1.0))
    tf.divide(1.0, x, name="quotient")
    tf.exp(x * 100.0, name="power")
    tf.math.log(weight, name="of_weight")
    tf.identity(tf.while_loop(lambda i, a: i < 2, lambda i, a: (i + 1, tf.sqrt(a - 2.0)), (0, x))[1], name="looped")
    tf.sqrt(x * x - 2.0 * x + 1.01, name="never")


@pytest.fixture(scope="module")
def several_report(tmp_path_factory: pytest.TempPathFactory) -> tuple[Report, list[str], Path]:
    folder = tmp_path_factory.mktemp("several")
    path = saved(folder / "several.pb", several)
    report, notes = checked(path, folder=folder / "witnesses", ranges={"x": (0.0, 1.0)})
    return report, notes, path


@pytest.mark.parametrize("node", ["quotient", "power", "of_weight"])
def test_what_fails_in_tensorflow_is_confirmed(several_report: tuple[Report, list[str], Path], node: str) -> None:
    finding = by_node(several_report[0])[node]
    assert finding.verdict is Verdict.CONFIRMED
    assert finding.reaches == "output"
    assert finding.witness is not None


def test_a_failure_inside_a_loop_is_seen_at_what_the_loop_gives(several_report: tuple[Report, list[str], Path]) -> None:
    found = [f for f in several_report[0].findings if f.rule.code == "NUM102" and f.node.startswith("while")]
    assert [f.verdict for f in found] == [Verdict.CONFIRMED]


def test_integers_that_tensorflow_refuses_to_divide_are_confirmed(tmp_path: Path) -> None:
    def build() -> None:
        divisor = v1.placeholder(tf.int32, [2], name="divisor")
        tf.identity(tf.constant([7, 7]) // divisor, name="whole")

    report, notes = checked(saved(tmp_path / "integers.pb", build), ranges={"divisor": (0, 3)})
    (finding,) = report.findings
    assert (finding.rule.code, finding.verdict) == ("NUM107", Verdict.CONFIRMED)
    assert not notes


def test_what_fails_nowhere_stays_possible(several_report: tuple[Report, list[str], Path]) -> None:
    finding = by_node(several_report[0]).get("never")
    assert finding is None or finding.verdict is Verdict.POSSIBLE


def test_a_point_holds_the_values_of_variables_that_are_ranges(several_report: tuple[Report, list[str], Path]) -> None:
    witness = by_node(several_report[0])["of_weight"].witness
    assert witness is not None
    with np.load(witness.arrays) as archive:
        names = bytes(archive["names"]).decode()
    assert '"weight"' in names


def test_a_search_finds_what_samples_do_not(tmp_path: Path) -> None:
    def build() -> None:
        x = v1.placeholder(tf.float32, [16], name="x")
        away = tf.reduce_sum(tf.math.squared_difference(x, tf.constant(np.linspace(-0.9, 0.9, 16), tf.float32)))
        tf.math.log(away - 0.01, name="logarithm")

    path = saved(tmp_path / "narrow.pb", build)
    ranges = {"x": (-1.0, 1.0)}
    report, notes = checked(path, folder=tmp_path, budget=Budget(seed=0, evaluations=200), ranges=ranges)
    finding = by_node(report)["logarithm"]
    assert finding.verdict is Verdict.CONFIRMED, notes
    assert finding.witness is not None
    with np.load(finding.witness.arrays) as archive:
        assert np.abs(archive["array_0"]).max() <= 1.0


class _Refusing:
    """A runner whose framework rewrites everything to something finite."""

    def __init__(self, runner: FrameworkRunner) -> None:
        self._runner = runner

    def __enter__(self) -> _Refusing:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def shows(self, name: str) -> bool:
        return self._runner.shows(name)

    def values(self, point: Any, names: Sequence[str]) -> Any:
        return {"x": point["x"], "quotient": 1.0 / point["x"]}

    def replayed(self, point: Any, name: str | None) -> Any:
        return {"quotient": np.zeros(4, np.float32)}


def test_what_only_fails_as_it_is_written_is_not_confirmed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> None:
        tf.divide(1.0, v1.placeholder(tf.float32, [4], name="x"), name="quotient")

    path = saved(tmp_path / "quotient.pb", build)
    original = TensorflowModel.runner
    monkeypatch.setattr(TensorflowModel, "runner", lambda self, **limits: _Refusing(original(self, **limits)))  # pyright: ignore
    with np.errstate(divide="ignore"):
        report, _ = checked(path, ranges={"x": (0.0, 1.0)})
    assert by_node(report)["quotient"].verdict is Verdict.POSSIBLE


# -- constants that are gathered ---------------------------------------------------------------------------------------------


def discriminator(*, is_safe: bool) -> Callable[[], None]:
    def build() -> None:
        d = v1.placeholder(tf.float32, [8], name="d")
        inside = tf.clip_by_value(1.0 - d, 1e-8, 1.0) if is_safe else (1.0 - d) + 1e-8
        tf.reduce_mean(-tf.math.log(inside, name="logarithm"), name="loss")

    return build


@pytest.fixture(scope="module")
def lost_epsilon(tmp_path_factory: pytest.TempPathFactory) -> Report:
    folder = tmp_path_factory.mktemp("gan")
    path = saved(folder / "gan.pb", discriminator(is_safe=False))
    return checked(path, folder=folder / "witnesses", ranges={"d": (0.0, 1.0)})[0]


def test_an_epsilon_that_tensorflow_loses(lost_epsilon: Report) -> None:
    assert lost_epsilon.target == "tensorflow-cpu"
    assert {finding.node: finding.verdict for finding in lost_epsilon.findings} == {"logarithm": Verdict.CONFIRMED}


def test_an_epsilon_that_arithmetic_keeps(tmp_path: Path) -> None:
    path = saved(tmp_path / "gan.pb", discriminator(is_safe=False))
    report, _ = checked(path, ranges={"d": (0.0, 1.0)}, target="ieee")
    assert not report.findings
    assert "logarithm" in report.proven_safe


@pytest.mark.parametrize("target", ["tensorflow-cpu", "ieee"])
def test_a_clipped_operand_is_safe_on_both(tmp_path: Path, target: str) -> None:
    path = saved(tmp_path / "clipped.pb", discriminator(is_safe=True))
    report, _ = checked(path, ranges={"d": (0.0, 1.0)}, target=target)
    assert not report.findings
    assert "logarithm" in report.proven_safe


def constant(value: float | Sequence[float]) -> Any:
    return tf.constant(value, tf.float32)


VECTOR = [1.0, -2.0, 1e-8, 3e7]
FORMS: dict[str, Callable[[Any, Any], Any]] = {
    "(1 - x) + c": lambda x, y: (1.0 - x) + 1e-8,
    "(x + c) + d": lambda x, y: (x + 1.0) + 1e-8,
    "c + (d + x)": lambda x, y: 1e-8 + (1.0 + x),
    "(x - c) - d": lambda x, y: (x - 1.0) - 1e-8,
    "(x - c) + d": lambda x, y: (x - 1.0) + 1e-8,
    "c - (x + d)": lambda x, y: 2.0 - (x + 1e-8),
    "c - (d - x)": lambda x, y: 2.0 - (1e-8 - x),
    "(x * c) * d": lambda x, y: (x * 1e-30) * 1e-30,
    "(x * c) * d up": lambda x, y: (x * 1e30) * 1e-20,
    "x / c": lambda x, y: x / 49.0,
    "x / tiny": lambda x, y: x / 3e-38,
    "(x * c) / d": lambda x, y: (x * 3.0) / 7.0,
    "(x / c) * d": lambda x, y: (x / 3.0) * 7.0,
    "(x / c) / d": lambda x, y: (x / 3.0) / 7.0,
    "(c / x) * d": lambda x, y: (2.0 / (x + 2.0)) * 7.0,
    "(x + y) + c": lambda x, y: (x + y) + 1e-8,
    "(x - y) + c": lambda x, y: (x - y) + 1e-8,
    "(x - y) - c": lambda x, y: (x - y) - 1e-8,
    "c - (x - y)": lambda x, y: 1e-8 - (x - y),
    "c - (x + y)": lambda x, y: 1.0 - (x + y),
    "(x + y) - c": lambda x, y: (x + y) - 1.0,
    "(x * y) * c": lambda x, y: (x * y) * 3.0,
    "(x * y) / c": lambda x, y: (x * y) / 3.0,
    "(x / y) / c": lambda x, y: (x / (y + 2.0)) / 3.0,
    "((x + c) + d) + e": lambda x, y: ((x + 1.0) + 1e-8) + 1e-3,
    "((x - y) + c) + d": lambda x, y: ((x - y) + 1.0) + 1e-8,
    "((x + c) + y) + d": lambda x, y: ((x + 1.0) + y) + 1e-8,
    "((x * c) * y) * d": lambda x, y: ((x * 3.0) * y) * 7.0,
    "vector (v - x) + c": lambda x, y: (constant(VECTOR) - x) + 1e-8,
    "vector (1 - x) + v": lambda x, y: (1.0 - x) + constant(VECTOR),
    "vector (x + y) + v": lambda x, y: (x + y) + constant(VECTOR),
    "vector (x * v) * c": lambda x, y: (x * constant(VECTOR)) * 3.0,
    "scalar (m + x) + c": lambda x, y: (tf.reduce_mean(y) + x) + 1e-8,
    "scalar (x - m) + c": lambda x, y: (x - tf.reduce_mean(y)) + 1e-8,
    "bias (x + c) + b": lambda x, y: tf.nn.bias_add(tf.reshape(x, [2, 2]) + 1.0, constant([1e-8, 2e-8])),
    "bias (x + b) + c": lambda x, y: tf.nn.bias_add(tf.reshape(x, [2, 2]), constant([1.0, 2.0])) + 1e-8,
    "addn": lambda x, y: tf.add_n([x + 1.0, constant([1e-8] * 4)]),
    "used twice": lambda x, y: (lambda inner: (inner + 1e-8) * inner)(1.0 - x),
    "folded constants": lambda x, y: (tf.sqrt(constant(4.0)) - x) + tf.exp(constant(-20.0)),
}  # fmt: skip


def model_of(form: Callable[[Any, Any], Any], folder: Path) -> TensorflowModel:
    def build() -> None:
        x = v1.placeholder(tf.float32, [4], name="x")
        y = v1.placeholder(tf.float32, [4], name="y")
        # Not an output itself: what is fetched is computed as it is written more often.
        tf.identity(tf.abs(form(x, y)), name="out")

    return read_tensorflow(saved(folder / "form.pb", build), ReadingOptions())


def used(model: TensorflowModel, points: Sequence[dict[str, Any]]) -> list[Any]:
    """What users get, in this process."""
    graph = tf.Graph()
    assert model.path is not None
    with graph.as_default():
        tf.graph_util.import_graph_def(v1.GraphDef.FromString(Path(model.path).read_bytes()), name="")
    with v1.Session(graph=graph) as session:
        return [session.run("out:0", {f"{name}:0": value for name, value in point.items()}) for point in points]


@pytest.mark.parametrize("name", FORMS)
def test_what_tensorflow_gives_lies_within_the_range(tmp_path: Path, name: str) -> None:
    """Narrow boxes, so that one unit in the last place counts."""
    model = model_of(FORMS[name], tmp_path)
    rng = np.random.default_rng([7, *name.encode()])
    ends = [0.0, 1.0, -1.0, 0.5, 49.0, 3.0, 1e-8, 0.99999994]
    centres = [*itertools.product(ends, (1.0, -1.0)), *(tuple(rng.uniform(-2, 2, 2)) for _ in range(8))]
    points = [{"x": np.full(4, a, np.float32), "y": np.full(4, b, np.float32)} for a, b in centres]
    for point, result in zip(points, used(model, points)):
        inputs = {model.model.name_of(number) for number in model.model.graph.inputs}
        ranges = {key: (float(array[0]), float(array[0])) for key, array in point.items() if key in inputs}
        prepared = Prepared.of(model.path, cache=False, ranges=ranges)
        (assumed,), _ = resolve(prepared.graph, prepared.declared)
        found = analyse(prepared.graph, assumed, prepared.target).summaries[prepared.graph.graph.outputs[0]]
        if np.isfinite(result).all():
            assert found.low <= result.min() and result.max() <= found.high, (name, point, result, found)


def nodes_of(form: Callable[[Any, Any], Any], folder: Path) -> list[str]:
    model = model_of(form, folder)
    graph = reassociated(model.model, model.operators()).graph
    return [node.op for node in graph.nodes]


@pytest.mark.parametrize("name", ["bias (x + c) + b", "bias (x + b) + c", "addn", "used twice", "(c / x) * d"])
def test_what_tensorflow_computes_as_written_is_left_alone(tmp_path: Path, name: str) -> None:
    assert EITHER_OF not in nodes_of(FORMS[name], tmp_path)


def test_names_stay(tmp_path: Path) -> None:
    model = model_of(FORMS["(1 - x) + c"], tmp_path)
    before, after = model.model, reassociated(model.model, model.operators())
    assert {node.name for node in before.graph.nodes} <= {node.name for node in after.graph.nodes}
    assert [after.name_of(n) for n in after.graph.outputs] == [before.name_of(n) for n in before.graph.outputs]
    (either,) = [node for node in after.graph.nodes if node.op == EITHER_OF]
    assert after.name_of(either.outputs[0]) == as_in_the_program(after.name_of(either.inputs[0])) == "add"


def test_variables_are_no_constants(tmp_path: Path) -> None:
    def build() -> None:
        x = v1.placeholder(tf.float32, [4], name="x")
        bias = v1.get_variable("bias", shape=[4])
        tf.identity((bias - x) + 1e-8, name="gathered")
        tf.identity(tf.abs((1.0 - x) + bias), name="as_written")

    model = read_tensorflow(saved(tmp_path / "bias.pb", build), ReadingOptions())
    graph = reassociated(model.model, model.operators()).graph
    # (bias - x) + c has a constant to gather; (1 - x) + bias has none: its own is the inner one.
    assert sum(node.op == EITHER_OF for node in graph.nodes) == 1


# -- witnesses ---------------------------------------------------------------------------------------------------------------


def replayed(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": ""}
    return subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True, env=environment, check=False)


def test_a_witness_of_a_graph_fails_until_the_graph_is_repaired(tmp_path: Path, lost_epsilon: Report) -> None:
    repaired = saved(tmp_path / "repaired.pb", discriminator(is_safe=True))
    witness = by_node(lost_epsilon)["logarithm"].witness
    assert witness is not None and witness.script is not None
    ended = replayed(witness.script)
    assert ended.returncode == 1, ended.stderr[-2000:]
    assert "NUM101" in ended.stdout and "is there" in ended.stdout and "not finite logarithm:0" in ended.stdout
    ended = replayed(witness.script, str(repaired))
    assert ended.returncode == 0, ended.stdout + ended.stderr[-2000:]
    assert "is gone" in ended.stdout


class Scaled(tf.Module):  # pyright: ignore[reportUntypedBaseClass]
    """A model with a variable whose values come from the checkpoint of the SavedModel."""

    def __init__(self, floor: float) -> None:
        super().__init__()
        self.weight = tf.Variable([1.0, 2.0, 3.0], name="weight")
        self.floor = floor

    @tf.function(input_signature=[tf.TensorSpec([3], tf.float32, name="x")])
    def __call__(self, x: Any) -> Any:
        return {"result": tf.math.log(tf.maximum(x * self.weight, self.floor), name="logarithm")}


def test_a_witness_of_a_saved_model_fails_until_the_model_is_repaired(tmp_path: Path) -> None:
    tf.saved_model.save(Scaled(0.0), str(tmp_path / "model"))
    tf.saved_model.save(Scaled(1e-6), str(tmp_path / "repaired"))
    report, notes = checked(tmp_path / "model", folder=tmp_path / "witnesses", ranges={"x": (0.0, 1.0)})
    (finding,) = [f for f in report.findings if f.rule.code == "NUM101"]
    assert finding.verdict is Verdict.CONFIRMED, notes
    assert finding.witness is not None and finding.witness.script is not None
    ended = replayed(finding.witness.script)
    assert ended.returncode == 1, ended.stdout + ended.stderr[-2000:]
    ended = replayed(finding.witness.script, str(tmp_path / "repaired"))
    assert ended.returncode == 0, ended.stdout + ended.stderr[-2000:]
