"""System tests: a training example and an inference input that make a node fail after one true step of training."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.zoo import Entry, program
from onnx import numpy_helper

from tensorproof.assumptions import Assumptions, Domain, resolve
from tensorproof.checking import analyse
from tensorproof.confirm.matching import Matching
from tensorproof.confirm.observing import domains_of
from tensorproof.confirm.patchwork import patchworks
from tensorproof.confirm.sampling import sample
from tensorproof.confirm.saturation import Saturation
from tensorproof.confirm.search import Budget, Method
from tensorproof.confirm.system_test import SystemConfirm, SystemTest, find_system_tests
from tensorproof.confirm.training import Training, TrainingFailed, trainable
from tensorproof.confirm.vertices import KINDS, vertex
from tensorproof.errors import ConfigurationError
from tensorproof.findings import Verdict
from tensorproof.formats import FLOAT32
from tensorproof.preparing import Prepared
from tests.models import model

pytestmark = pytest.mark.area("system tests")

#: Entries of the zoo and their nodes: softmax regression, logistic regression, a perceptron, a convolutional network.
CASES = {"40": "loss/log", "26": "loss/log", "9": "loss/log_of_rest", "44": "loss/log"}


def _prepared(entry: Entry) -> Prepared:
    return Prepared.of(entry.onnx(), ranges=entry.declarations().domains, cache=False)


def _assumptions(prepared: Prepared) -> Assumptions:
    (assumptions,), _ = resolve(prepared.graph, prepared.declared)
    return assumptions


def _found(id: str, node: str, seed: int, method: Method = "full", evaluations: int = 600) -> SystemTest | None:
    prepared = _prepared(program(id))
    confirming = SystemConfirm(
        prepared.proto,
        nodes=(node,),
        declared=prepared.declared,
        loss="loss",
        budget=Budget(seed, evaluations, method),
        shrink=False,
    )
    report = prepared.checked(confirming)
    assert list(confirming.tests) == [f.identity for f in report.confirmed]
    return next(iter(confirming.tests.values()), None)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("id", CASES)
def test_is_found_inside_the_declared_domains(id: str, seed: int) -> None:
    test = _found(id, CASES[id], seed)
    assert test is not None
    declared = program(id).declarations().domains
    for name, array in (*test.training.items(), *test.inference.items()):
        assert declared[name].low <= array.min() and array.max() <= declared[name].high
        if declared[name].kind == "one-hot":
            assert (array.sum(axis=-1) == 1).all() and set(np.unique(array)) <= {0.0, 1.0}
    assert all(np.isfinite(array).all() for array in test.weights.values())
    assert not test.fails_untrained


@pytest.mark.parametrize("id", CASES)
def test_replays_in_a_process_of_its_own(id: str, tmp_path: Path) -> None:
    report = find_system_tests(_prepared(program(id)), loss="loss", nodes=[CASES[id]], witnesses=tmp_path, shrink=id != "44")
    (finding,) = report.confirmed
    assert finding.witness is not None
    ended = subprocess.run([sys.executable, finding.witness.script], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    assert "happened again" in ended.stdout
    assert {path.suffix for path in tmp_path.iterdir()} == {".npz", ".onnx", ".py"}


def test_a_replay_without_the_failure_says_so(tmp_path: Path) -> None:
    report = find_system_tests(_prepared(program("26")), loss="loss", nodes=["loss/log"], witnesses=tmp_path)
    (finding,) = report.confirmed
    assert finding.witness is not None
    script = Path(finding.witness.script)
    text = script.read_text("utf-8")
    assert "LEARNING_RATE = 1.0\n" in text
    script.write_text(text.replace("LEARNING_RATE = 1.0\n", "LEARNING_RATE = 0.0\n"), "utf-8")
    ended = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 1, ended.stdout
    assert "did NOT happen again" in ended.stdout


@pytest.mark.parametrize("id", ["3", "9"])
def test_a_repaired_program_never_yields_one(id: str) -> None:
    """Even if the scan flagged the node: the search gets the finding of the broken program."""
    entry = program(id)
    twin = entry.safe
    assert twin is not None
    broken, repaired = _prepared(entry), _prepared(twin)
    flagged = [f for f in analyse(broken.graph, _assumptions(broken), broken.target).findings if f.rule.code == "NUM101"]
    analysis = analyse(repaired.graph, _assumptions(repaired), repaired.target)
    nodes = {node.name: node for node in repaired.graph.graph.nodes}
    operands = {f.node: repaired.graph.name_of(nodes[f.node].inputs[0]) for f in flagged}
    claimed = tuple(replace(f, operand=operands[f.node]) for f in flagged if not f.consequence_of)
    assert claimed
    confirming = SystemConfirm(repaired.proto, declared=repaired.declared, loss="loss", budget=Budget(0, 60))
    findings = list(confirming(repaired.graph, replace(analysis, findings=claimed)))
    assert [f.verdict for f in findings] == [Verdict.POSSIBLE] * len(claimed)
    assert len(confirming.notes) == len(claimed)


@pytest.mark.parametrize(("id", "node"), [("40", "loss/log"), ("26", "loss/log")])
def test_the_same_seed_gives_the_same_arrays(id: str, node: str) -> None:
    one, other = _found(id, node, 7), _found(id, node, 7)
    assert one is not None and other is not None
    assert one.how == other.how
    for part in ("training", "inference", "weights"):
        mine, theirs = getattr(one, part), getattr(other, part)
        assert list(mine) == list(theirs)
        assert all((mine[name] == theirs[name]).all() for name in mine)


def test_samples_alone_find_fewer() -> None:
    assert [_found("40", "loss/log", seed, "random") for seed in range(3)] == [None] * 3
    assert _found("9", "loss/log_of_rest", 0, "random", 100) is None


def test_more_steps_reach_further() -> None:
    """One step parts the logits of this program by 87.2 at most, and a softmax is exactly 0 below -104."""
    entry = program("2")
    once = find_system_tests(_prepared(entry), loss="loss", nodes=["loss/log"], evaluations=120)
    assert not once.confirmed
    assert "no system test was found" in once.assumptions["confirm"][0]
    twice = find_system_tests(_prepared(entry), loss="loss", nodes=["loss/log"], steps=2, shrink=False)
    assert [f.node for f in twice.confirmed] == ["loss/log"]
    assert twice.assumptions["training"] == {"loss": "loss", "rate": 1.0, "steps": 2, "batch": None}


def test_the_node_is_looked_at_after_each_step() -> None:
    """Many steps are allowed; the test that is kept has as many as it takes, and the weights after them."""
    prepared = _prepared(program("2"))
    found: dict[int, SystemTest] = {}
    for steps in (10, 2):
        confirming = SystemConfirm(
            prepared.proto,
            nodes=("loss/log",),
            declared=prepared.declared,
            loss="loss",
            steps=steps,
            budget=Budget(0, 20, "random"),
            shrink=False,
        )
        prepared.checked(confirming)
        (found[steps],) = confirming.tests.values()
    assert found[10].steps == found[2].steps == 2
    assert all((found[10].weights[name] == array).all() for name, array in found[2].weights.items())


# -- patchworks ----------------------------------------------------------------------------------------------------------


def test_labels_of_a_patchwork_follow_its_patches() -> None:
    """The middle of an image that is larger than its labels; the inference input is the image of the example."""
    image, label = Domain("box", 0.0, 2.0), Domain("one-hot", 0.0, 1.0, axis=-1)
    domains = {
        "training:x": (image, (2, 40, 40, 1), FLOAT32),
        "training:y": (label, (2, 32, 32, 3), FLOAT32),
        "inference:x": (image, (2, 40, 40, 1), FLOAT32),
    }
    drawn = list(patchworks(3, domains, 6))
    assert len(drawn) == 6
    for point in drawn:
        x, y = point["training:x"], point["training:y"]
        assert set(np.unique(x)) == {0.0, 2.0}
        assert (point["inference:x"] == x).all()
        middle = x[:, 4:36, 4:36, 0]
        classes = {level: np.unique(y.argmax(-1)[middle == level]) for level in (0.0, 2.0)}
        assert all(len(seen) == 1 for seen in classes.values()) and classes[0.0] != classes[2.0]
        assert (y.sum(-1) == 1.0).all()


def test_rows_of_a_patchwork_are_labelled_by_what_is_in_them() -> None:
    domains = {"x": (Domain("box", -1.0, 1.0), (20, 12), FLOAT32), "y": (Domain("one-hot", 0.0, 1.0, axis=-1), (20, 4), FLOAT32)}
    (point,) = patchworks(0, domains, 1)
    mean = point["x"].mean(axis=1)
    chosen = point["y"].argmax(-1)
    assert len(set(chosen)) == 2
    assert len(set(chosen[mean > mean.mean()])) == len(set(chosen[mean < mean.mean()])) == 1


def test_without_labels_there_is_no_patchwork() -> None:
    assert not list(patchworks(0, {"x": (Domain("box", 0.0, 1.0), (4, 9), FLOAT32)}, 3))


# -- training ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("id", ["26", "61", "22", "9"])
def test_a_step_is_that_of_pytorch(id: str) -> None:
    """The program in its other form, trained by PyTorch's own optimiser; substitutes of the search must not be felt."""
    import torch

    entry = program(id)
    prepared = _prepared(entry)
    training = Training(prepared.graph, "loss", trainable(prepared.graph, _assumptions(prepared).weights), rate=0.01, steps=2)
    example = entry.plain_inputs()
    module = entry.torch()
    optimiser = torch.optim.SGD(module.parameters(), lr=0.01)
    for _ in range(2):
        optimiser.zero_grad()
        module(**{name: torch.from_numpy(array.copy()) for name, array in example.items()})["loss"].sum().backward()
        optimiser.step()
    expected = {name: tensor.detach().numpy() for name, tensor in module.named_parameters()}
    own = training.trained(example)
    exact = training.differentiable({name: training.example_tensor(name, array) for name, array in example.items()})
    assert set(own) == set(expected)
    for number, name in zip(training.weights, training.names, strict=True):
        np.testing.assert_allclose(own[name], expected[name], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(exact[number].detach().numpy(), expected[name], rtol=1e-3, atol=1e-4)


def _line(batch: str = "N") -> Any:
    """The logarithm of a sum with a weight that starts at 1; the loss makes the weight follow the inputs."""
    return model(
        f"(float[{batch},2] x) => (float loss, float[{batch},1] y)",
        """
        p = MatMul(x, w)
        loss = ReduceMean<keepdims=0>(p)
        y = Log(p)
        """,
    )


def _with_weights() -> Any:
    proto = _line()
    proto.graph.initializer.append(numpy_helper.from_array(np.ones((2, 1), np.float32), "w"))
    return proto


def test_the_batch_of_the_example_may_differ() -> None:
    prepared = Prepared.of(_with_weights(), ranges={"x": (0.5, 2.0)}, dims={"N": 3}, weights="init", cache=False)
    confirming = SystemConfirm(prepared.proto, declared=prepared.declared, loss="loss", batch=5)
    report = prepared.checked(confirming)
    assert [f.node for f in report.confirmed] == ["y"]
    (test,) = confirming.tests.values()
    assert test.training["x"].shape == (5, 2)
    assert test.inference["x"].shape == (3, 2)
    np.testing.assert_allclose(test.weights["w"][:, 0], 1.0 - test.training["x"].mean(axis=0), rtol=1e-6)


def test_a_node_in_a_body_and_a_weight_that_the_loss_does_not_see(tmp_path: Path) -> None:
    proto = model(
        "(float[3,2] x, bool c) => (float loss, float[3,1] y)",
        """
        p = MatMul(x, w)
        loss = ReduceMean<keepdims=0>(p)
        q = Mul(p, v)
        y = If(c) <then_branch = a () => (float[3,1] left) { left = Log(q) },
                   else_branch = b () => (float[3,1] right) { right = Abs(q) }>
        """,
    )
    proto.graph.initializer.append(numpy_helper.from_array(np.ones((2, 1), np.float32), "w"))
    proto.graph.initializer.append(numpy_helper.from_array(np.ones((3, 1), np.float32), "v"))
    prepared = Prepared.of(proto, ranges={"x": (0.5, 2.0)}, weights="init", cache=False)
    (finding,) = find_system_tests(prepared, loss="loss", witnesses=tmp_path).confirmed
    assert finding.node == "left" and finding.witness is not None
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", finding.witness.script]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert ended.returncode == 0, ended.stdout


def test_training_that_fails_is_no_system_test() -> None:
    prepared = Prepared.of(_with_weights(), weights="init", cache=False)
    training = Training(prepared.graph, "loss", trainable(prepared.graph, {}))
    with pytest.raises(TrainingFailed):
        training.trained({"x": np.full((1, 2), np.inf, np.float32)})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "nothing"}, "no value of the model"),
        ({"loss": "y"}, "single number"),
        ({"loss": "loss", "steps": 0}, "at least one"),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], message: str) -> None:
    prepared = Prepared.of(_with_weights(), ranges={"x": (0.5, 2.0)}, dims={"N": 3}, weights="init", cache=False)
    with pytest.raises(ConfigurationError, match=message):
        find_system_tests(prepared, **options)


def test_an_interrupt_keeps_what_was_found() -> None:
    def interrupt(node: str, done: int, closest: float) -> None:
        raise KeyboardInterrupt

    report = find_system_tests(_prepared(program("40")), loss="loss", search_progress=interrupt)
    assert any("interrupted" in note for note in report.assumptions["confirm"])


def test_an_interrupt_while_a_test_is_made_plain_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tensorproof.confirm.system_test.shrunk", interrupt)
    report = find_system_tests(_prepared(program("26")), loss="loss", nodes=["loss/log"])
    assert [f.node for f in report.confirmed] == ["loss/log"]


# -- parts of the search -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("id", ["26", "40"])
def test_matching_alone_finds_system_tests(id: str) -> None:
    prepared = _prepared(program(id))
    confirming = SystemConfirm(
        prepared.proto, nodes=(CASES[id],), declared=prepared.declared, loss="loss", direct=False, shrink=False
    )
    report = prepared.checked(confirming)
    assert [f.node for f in report.confirmed] == [CASES[id]]
    assert [test.how for test in confirming.tests.values()] == ["matching"]


def test_matching_finds_an_example_for_given_weights() -> None:
    prepared = _prepared(program("40"))
    assumptions = _assumptions(prepared)
    analysis = analyse(prepared.graph, assumptions, prepared.target)
    domains = {name: where for name, where in domains_of(prepared.graph, analysis).items() if name in ("x", "y")}
    training = Training(prepared.graph, "loss", trainable(prepared.graph, assumptions.weights))
    rng = np.random.default_rng(0)
    target = training.trained({name: sample(rng, *where, "uniform") for name, where in domains.items()})
    best = np.inf
    matching = Matching(training, domains, target, seed=1)
    for example in matching.examples(150):
        reached = training.trained(example)
        best = min(best, sum(float(((reached[name] - target[name]) ** 2).sum()) for name in target))
    start = sum(float((target[name] ** 2).sum()) for name in target)
    assert matching.evaluations <= 150 + 30
    assert best < 0.2 * start


@pytest.mark.parametrize("kind", KINDS)
def test_a_vertex_is_legal_and_best(kind: Any) -> None:
    domain = Domain(kind, -1.0 if kind == "unit-norm" else 0.0, 1.0, values=(0.0, 1.0))
    rng = np.random.default_rng(3)
    slope = rng.standard_normal((6, 5))
    start = sample(rng, domain, (6, 5), FLOAT32, "uniform")
    found = vertex(start, slope, domain, FLOAT32)
    others = [sample(rng, domain, (6, 5), FLOAT32, tactic) for tactic in ("low", "high", "uniform", "corners") for _ in range(50)]
    for row in range(6):
        assert all((slope[row] * found[row]).sum() <= (slope[row] * other[row]).sum() + 1e-6 for other in others)
    assert (vertex(start, np.zeros((6, 5)), domain, FLOAT32) == start).all()
    part = vertex(start, slope, domain, FLOAT32, share=0.34)
    assert ((part == start).all(axis=1) | (part == found).all(axis=1)).all() or kind == "values"
    assert 0 < (part != start).any(axis=1).sum() <= 6


# -- examples at which clips are active --------------------------------------------------------------------------------


def test_examples_carry_operands_just_beyond_the_bounds_of_clips() -> None:
    proto = model(
        "(float[3,4] x) => (float loss)",
        """w = Constant<value = float[4,2] {1, -1, 1, 1, -1, 1, 0.5, 0.25}>()
        h = MatMul(x, w)
        low = Constant<value = float {-1.5}>()
        high = Constant<value = float {1.5}>()
        c = Clip(h, low, high)
        loss = ReduceMean<keepdims=0>(c)""",
    )
    prepared = Prepared.of(proto, ranges={"x": (-1, 1)}, cache=False)
    analysis = analyse(prepared.graph, _assumptions(prepared), prepared.target, effort=0)
    domains = domains_of(prepared.graph, analysis)
    (loss,) = prepared.graph.graph.outputs
    weights = np.array([[1, -1], [1, 1], [-1, 1], [0.5, 0.25]])
    saturation = Saturation(prepared.graph, loss, domains, seed=0)
    reached: set[float] = set()
    for example, lead_back in saturation.examples():
        for point in (example, lead_back(example)):
            assert np.abs(point["x"]).max() <= 1.0
        operand = example["x"] @ weights
        beyond = np.abs(operand) > 1.5
        assert beyond.any() and np.abs(operand)[beyond].min() < 1.7, "just beyond the bound"
        reached |= set(np.sign(operand[beyond]))
    assert reached == {-1.0, 1.0}, "both bounds"
    (first, _), (again, _) = (next(saturation.examples(draw)) for draw in (0, 1))
    assert not np.array_equal(first["x"], again["x"]), "each draw gives others"


def test_a_clip_that_is_active_lets_a_step_do_what_it_cannot_do_elsewhere() -> None:
    """All logits of a row fall at once only where the numerator of the softmax by hand is clipped (11c)."""
    assert _found("11ac", "softmax/quotient", 1) is not None
