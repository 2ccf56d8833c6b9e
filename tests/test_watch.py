"""Training under observation: the operator, the line and the module that fail, in real runs; and nothing said where nothing fails."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import tensorproof
from tensorproof.errors import ConfigurationError, ModelError
from tensorproof.findings import Coverage, Finding, Report, Verdict
from tensorproof.observe.bundle import load_module, main, replay
from tensorproof.observe.eager import Failure, Observation, observe
from tensorproof.observe.watching import NonFiniteError, NonFiniteWarning, Watcher
from tests import watched_models as models

pytestmark = pytest.mark.area("watch")

LEVELS = ("module", "operator")
BATCH = torch.ones(4, 3)


def train(watcher: Watcher, module, loss=torch.sum, batch=BATCH, steps: int = 1) -> None:
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01)
    with watcher:
        for _ in range(steps):
            optimizer.zero_grad()
            loss(module(batch)).backward()
            optimizer.step()


def watched(module, level, loss=torch.sum, batch=BATCH, steps: int = 1, **options) -> tuple[Watcher, list[str]]:
    """Train, and give back what was said."""
    watcher = tensorproof.watch(module, level=level, **options)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        train(watcher, module, loss, batch, steps)
    assert all(warning.category is NonFiniteWarning for warning in said), [str(w.message) for w in said]
    return watcher, [str(warning.message) for warning in said]


def root(watcher: Watcher) -> Finding:
    (finding,) = [f for f in watcher.findings if not f.consequence_of]
    return finding


def only(failures: list[Failure]) -> Failure:
    (failure,) = failures
    return failure


def named(observation: Observation) -> list[tuple[str, str]]:
    return [(f.phase, f.operator) for f in (*observation.forward, *observation.backward)]


# -- a training step -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("kind", "code", "phase", "op", "reached"),
    [
        (models.Log, "NUM101", "forward", "aten.log", (0.0, 0.0)),
        (models.Exp, "NUM201", "forward", "aten.exp", (100.0, 100.0)),
        (models.Division, "NUM103", "forward", "aten.reciprocal", (0.0, 0.0)),
        (models.InPlace, "NUM101", "forward", "aten.log_", (0.0, 0.0)),
        (models.Sqrt, "NUM401", "backward", "aten.sqrt", (0.0, 0.0)),
        (models.Where, "NUM404", "backward", "aten.sqrt", None),
    ],
)
def test_the_operator_the_line_and_the_module_are_named(kind, code, phase, op, reached, level) -> None:
    watcher, said = watched(models.Nested(kind()), level)
    finding = root(watcher)
    assert (finding.rule.code, finding.phase, finding.op) == (code, phase, op)
    assert finding.verdict is Verdict.CONFIRMED and finding.target == "torch-cpu" and finding.format == "float32"
    assert finding.location is not None
    assert finding.location.file == models.__file__
    assert finding.location.line == models.failing_line(kind)
    assert finding.location.module == "body.1.inner"
    assert finding.reaches == ("loss" if phase == "forward" else "gradient")
    if reached is not None:
        assert finding.reached == reached
    assert len(said) == 1 and code in said[0] and f"{models.__file__}:{models.failing_line(kind)}" in said[0]


@pytest.mark.parametrize("level", LEVELS)
def test_a_failure_is_told_once(level) -> None:
    """The optimiser spoils the parameters with the first step; the later ones have no operator to blame."""
    watcher, said = watched(models.Nested(models.Log()), level, steps=4)
    assert watcher.steps == 4
    assert root(watcher).rule.code == "NUM101"
    assert [line[:6] for line in said] == ["NUM101", "step 2"]
    assert said[1].endswith("parameters are not finite")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("loss", "code", "phase"),
    [
        (lambda y: torch.log(y * 0).sum(), "NUM101", "forward"),
        (lambda y: torch.sqrt((y * 0).sum()), "NUM401", "backward"),
        (lambda y: torch.where(y > 1e9, torch.sqrt(-1 - y * y), y).sum(), "NUM404", "backward"),
    ],
)
def test_a_loss_outside_of_the_module_is_seen(loss, code, phase, level) -> None:
    watcher, _ = watched(nn.Linear(3, 3), level, loss)
    finding = root(watcher)
    assert (finding.rule.code, finding.phase) == (code, phase)
    assert finding.location is not None and finding.location.module is None
    assert finding.location.file == __file__ and finding.location.line == loss.__code__.co_firstlineno


@pytest.mark.parametrize("level", LEVELS)
def test_the_line_of_a_module_without_code_of_the_user_is_that_of_its_call(level) -> None:
    module = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    for part in module:
        nn.init.constant_(part.weight, 1e30)
    watcher, _ = watched(module, level)
    finding = root(watcher)
    assert finding.rule.code == "NUM203" and finding.location is not None and finding.location.module == "1"
    assert finding.location.file == __file__
    assert finding.location.line == train.__code__.co_firstlineno + 5


@pytest.mark.parametrize("level", LEVELS)
def test_the_replay_repeats_dropout_and_batch_statistics(level) -> None:
    torch.manual_seed(3)
    module = models.Nested(models.Dropped())
    before = {name: buffer.clone() for name, buffer in module.named_buffers()}
    watcher, _ = watched(module, level, batch=torch.randn(8, 3))
    assert root(watcher).rule.code == "NUM101"
    counted = module.get_buffer("body.1.inner.norm.num_batches_tracked")
    assert counted == before["body.1.inner.norm.num_batches_tracked"] + 1


def test_a_replay_leaves_random_generators_and_gradients_alone() -> None:
    def trained(level: str | None) -> tuple[torch.Tensor, list[torch.Tensor]]:
        torch.manual_seed(5)
        module = models.Nested(models.Dropped())
        batch = torch.randn(8, 3)
        if level is None:
            module(batch).sum().backward()
        else:
            with tensorproof.watch(module) as watcher, pytest.warns(NonFiniteWarning):
                module(batch).sum().backward()
                watcher.look()
        return torch.get_rng_state(), [p.grad for p in module.parameters() if p.grad is not None]

    (plain_state, plain), (state, gradients) = trained(None), trained("module")
    assert torch.equal(plain_state, state)
    assert len(plain) == len(gradients) > 0
    assert all(torch.equal(a, b) or (a.isnan() == b.isnan()).all() for a, b in zip(plain, gradients))


@pytest.mark.parametrize("level", LEVELS)
def test_autocast_is_replayed(level) -> None:
    class Casting(models.Layer):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                h = self.linear(x)
                assert h.dtype is torch.bfloat16
                return torch.log(h)

    def loss(y: torch.Tensor) -> torch.Tensor:
        return y.float().sum()

    watcher, _ = watched(Casting(), level, loss)
    assert (root(watcher).rule.code, root(watcher).format) == ("NUM101", "bfloat16")
    module = nn.Linear(3, 3)
    nn.init.constant_(module.weight, 2e38)
    outer = tensorproof.watch(module, level=level)
    with pytest.warns(NonFiniteWarning), outer, torch.autocast("cpu", dtype=torch.bfloat16):
        module(BATCH).float().sum().backward()
    assert (root(outer).rule.code, root(outer).format) == ("NUM203", "bfloat16")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("make", [models.Masked, models.MaskedLogits, lambda: nn.Sequential(nn.Linear(3, 8), nn.GELU())])
def test_nothing_is_said_where_nothing_fails(make, level) -> None:
    watcher, said = watched(make(), level, loss=lambda y: torch.softmax(y, -1)[..., 0].sum(), batch=torch.randn(4, 3), steps=3)
    assert watcher.findings == [] and said == [] and watcher.steps == 3
    assert watcher.report().coverage.complete


@pytest.mark.parametrize("level", LEVELS)
def test_a_batch_that_is_not_finite_is_no_failure_of_an_operator(level) -> None:
    watcher, said = watched(nn.Linear(3, 3), level, batch=torch.full((4, 3), math.nan))
    assert watcher.findings == []
    assert said == [
        "step 1: values are not finite, and no operator made them so: the arguments of the module hold NaN or infinities"
    ]
    assert watcher.report().coverage.remarks == (said[0].replace("step 1", "from step 1 on"),)


@pytest.mark.parametrize("level", LEVELS)
def test_a_model_that_is_only_run_is_watched_too(level) -> None:
    module = models.Nested(models.Exp())
    watcher = tensorproof.watch(module, level=level)
    with pytest.warns(NonFiniteWarning, match="NUM201"), watcher, torch.no_grad():
        for _ in range(3):
            module(BATCH)
    assert watcher.steps == 3 and root(watcher).reaches == "output"


def test_parts_that_are_called_one_by_one_are_watched() -> None:
    parts = nn.ModuleDict({"encoder": nn.Linear(3, 3), "decoder": models.Log()})
    watcher = tensorproof.watch(parts)
    with pytest.warns(NonFiniteWarning, match="NUM101"), watcher:
        parts["decoder"](parts["encoder"](BATCH)).sum().backward()
    assert root(watcher).location is not None and root(watcher).location.module == "decoder"


# -- the context ---------------------------------------------------------------------------------------------------------


def hooks_of(module: nn.Module) -> int:
    return sum(len(part._forward_hooks) + len(part._forward_pre_hooks) for part in module.modules())


@pytest.mark.parametrize("level", LEVELS)
def test_hooks_and_modes_go_when_the_context_ends(level) -> None:
    from torch.optim import optimizer
    from torch.overrides import _get_current_function_mode_stack
    from torch.utils._python_dispatch import _get_current_dispatch_mode

    class Breaking(models.Layer):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise KeyError("of the user")

    for module in (models.Nested(Breaking()), nn.Linear(3, 3)):
        with pytest.raises(KeyError), tensorproof.watch(module, level=level):
            assert hooks_of(module) > 0
            module(BATCH).sum().backward()
            raise KeyError("of the user")
        assert hooks_of(module) == 0
        assert not optimizer._global_optimizer_pre_hooks
        assert _get_current_dispatch_mode() is None and not _get_current_function_mode_stack()


@pytest.mark.parametrize("level", LEVELS)
def test_raising_comes_before_the_optimiser(level) -> None:
    module = models.Nested(models.Sqrt())
    before = [parameter.clone() for parameter in module.parameters()]
    with pytest.raises(NonFiniteError, match="NUM401") as raised:
        train(tensorproof.watch(module, level=level, raises=True), module)
    assert raised.value.findings[0].op == "aten.sqrt"
    assert all(torch.equal(a, b) for a, b in zip(before, module.parameters()))
    assert hooks_of(module) == 0


def test_the_given_optimiser_ends_a_step_and_another_one_does_not() -> None:
    module = nn.Linear(3, 3)
    own, other = (torch.optim.SGD(module.parameters(), lr=0.0) for _ in range(2))
    with tensorproof.watch(module, optimizer=own) as watcher:
        module(BATCH).sum().backward()
        other.step()
        assert watcher.steps == 0
        own.step()
        assert watcher.steps == 1


def test_a_function_mode_of_the_user_is_left_in_order() -> None:
    from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack

    class Counting(TorchFunctionMode):
        calls = 0

        def __torch_function__(self, func, types, args=(), kwargs=None):
            Counting.calls += 1
            return func(*args, **(kwargs or {}))

    module = models.Nested(models.Log())
    with pytest.warns(NonFiniteWarning, match="NUM101"), tensorproof.watch(module):
        with Counting():
            module(BATCH).sum().backward()
        assert not _get_current_function_mode_stack()
    assert Counting.calls > 0


def test_a_loop_that_updates_its_parameters_itself_is_told_when_to_look() -> None:
    module = models.Nested(models.Sqrt())
    with tensorproof.watch(module) as watcher, pytest.warns(NonFiniteWarning, match="NUM401"):
        module(BATCH).sum().backward()
        watcher.look()
    with pytest.warns(NonFiniteWarning, match="parameters are not finite"), tensorproof.watch(module) as watcher:
        module(BATCH).sum().backward()
        with torch.no_grad():
            for parameter in module.parameters():
                parameter -= 0.1 * parameter.grad
    assert watcher.findings == []


def test_wrong_arguments_are_told_in_one_line() -> None:
    with pytest.raises(ConfigurationError, match="unknown level 'line'"):
        tensorproof.watch(nn.Linear(1, 1), level="line")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"a torch\.nn\.Module is watched, not int"):
        tensorproof.watch(3)  # type: ignore[arg-type]
    watcher = tensorproof.watch(nn.Linear(1, 1))
    with watcher, pytest.raises(ConfigurationError, match="in use already"):
        watcher.__enter__()


def test_a_seed_makes_a_run_repeatable() -> None:
    drawn = []
    for _ in range(2):
        with tensorproof.watch(nn.Linear(1, 1), seed=7):
            drawn.append(torch.rand(3))
    assert torch.equal(*drawn)


# -- bundles -------------------------------------------------------------------------------------------------------------


def test_a_bundle_replays_in_a_fresh_process(tmp_path: Path) -> None:
    torch.manual_seed(3)
    folder = tmp_path / "bundle"
    _, said = watched(models.nested_dropped(), "module", batch=torch.randn(8, 3), bundle=folder)
    assert f"python {folder / 'replay.py'}" in said[0]
    assert sorted(path.name for path in folder.iterdir()) == ["batch.safetensors", "bundle.json", "replay.py", "state.safetensors"]
    described = json.loads((folder / "bundle.json").read_text())
    assert described["findings"][0]["rule"] == "NUM101" and described["versions"]["torch"] == torch.__version__

    command = [sys.executable, str(folder / "replay.py"), f"{models.__file__}:nested_dropped"]
    happened = subprocess.run(command, capture_output=True, text=True, check=False)
    assert happened.returncode == 0, happened.stderr
    assert f"{models.__file__}:{models.failing_line(models.Dropped)}" in happened.stdout


def test_another_module_than_that_of_the_bundle_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    watched(models.nested_dropped(), "module", batch=torch.randn(8, 3), bundle=tmp_path)
    assert main(tmp_path, [f"{models.__file__}:nested_log"]) == 2
    assert "not the one of the bundle" in capsys.readouterr().err
    assert main(tmp_path, []) == 2
    assert "name the module" in capsys.readouterr().err


def test_a_bundle_says_when_the_failure_is_gone(tmp_path: Path) -> None:
    watched(models.nested_log(), "module", bundle=tmp_path)
    observation, happened = replay(tmp_path, models.nested_log())
    assert happened and observation.forward[0].operator == "log"
    repaired = models.Nested(models.Layer())
    repaired.body[1].inner.forward = repaired.body[1].inner.linear.forward  # type: ignore[union-attr, assignment]
    observation, happened = replay(tmp_path, repaired)
    assert not happened and observation.forward == []


def test_a_bundle_of_a_failing_loss_says_that_it_is_not_repeated(tmp_path: Path) -> None:
    module = nn.Linear(3, 3)
    _, said = watched(module, "module", loss=lambda y: torch.log(y * 0).sum(), bundle=tmp_path)
    assert "the failure is outside of the module" in said[0]
    assert json.loads((tmp_path / "bundle.json").read_text())["is_repeated"] is False
    assert replay(tmp_path, nn.Linear(3, 3))[1] is False


def test_a_broken_bundle_is_told_in_one_line(tmp_path: Path) -> None:
    watched(models.nested_log(), "module", bundle=tmp_path)
    for name, content in (("bundle.json", "{}"), ("bundle.json", "["), ("state.safetensors", "x"), ("batch.safetensors", "")):
        kept = (tmp_path / name).read_bytes()
        (tmp_path / name).write_text(content)
        with pytest.raises(ModelError):
            replay(tmp_path, models.nested_log())
        (tmp_path / name).write_bytes(kept)
    for reference in ("nowhere.py:name", models.__file__, f"{models.__file__}:missing", f"{models.__file__}:math"):
        with pytest.raises(ModelError):
            load_module(reference)


def test_arguments_that_cannot_be_kept_are_told(tmp_path: Path) -> None:
    class Taking(models.Layer):
        def forward(self, x: torch.Tensor, thing: object) -> torch.Tensor:
            return torch.log(self.linear(x))

    module = Taking()
    with (
        pytest.warns(NonFiniteWarning, match="no bundle was written: an argument is a object"),
        tensorproof.watch(module, bundle=tmp_path / "bundle"),
    ):
        module(BATCH, object()).sum().backward()
    assert not (tmp_path / "bundle").exists()


# -- operators, one by one -----------------------------------------------------------------------------------------------


def zeros() -> torch.Tensor:
    return torch.zeros(3, requires_grad=True)


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (lambda: torch.log(torch.zeros(3)), [("forward", "log")]),
        (lambda: torch.log(torch.zeros(2, dtype=torch.complex64)), [("forward", "log")]),
        (lambda: torch.full((3,), 1e5).half(), [("forward", "_to_copy")]),
        (lambda: torch.zeros(0).mean(), [("forward", "mean")]),
        (lambda: torch.zeros(3).log_().add_(1).exp(), [("forward", "log_")]),
        (lambda: torch.exp(torch.full((3,), 100.0)) - torch.exp(torch.full((3,), 100.0)), [("forward", "exp")] * 2),
        (lambda: torch.softmax(torch.full((3,), -math.inf), 0), [("forward", "_softmax")]),
        (lambda: torch.zeros(3) * torch.full((3,), math.inf), [("forward", "mul")]),
        (lambda: torch.sqrt(zeros()).sum().backward(), [("backward", "sqrt")]),
        (lambda: (zeros() ** 0.5).sum().backward(), [("backward", "pow")]),
        (lambda: torch.acos(zeros() + 1).sum().backward(), [("backward", "acos")]),
    ],
)
def test_failing_operators(run, expected) -> None:
    assert named(observe(run)) == expected


@pytest.mark.parametrize(
    "run",
    [
        lambda: torch.zeros(0).log(),
        lambda: torch.arange(3) // 2,
        lambda: torch.full((3,), -math.inf) + 1,
        lambda: torch.exp(torch.full((3,), -math.inf)),
        lambda: torch.ones(3).masked_fill_(torch.tensor([True, False, True]), -math.inf).amax(),
        lambda: torch.empty(4096) * 0,
        lambda: torch.full((5, 5), 6e4).half() + 0,
        lambda: torch.full((3,), 3e38).abs(),
        lambda: torch.linalg.vector_norm(zeros()).backward(),
        lambda: (torch.zeros(3) ** (zeros() + 2)).sum().backward(),
        lambda: zeros().std().backward(),
        lambda: torch.tensor([math.nan, 1.0]).nan_to_num(1.0).log(),
        lambda: functional.scaled_dot_product_attention(*[torch.randn(1, 1, 4, 4)] * 3, is_causal=True),
    ],
)
def test_operators_that_do_not_fail(run) -> None:
    assert named(observe(run)) == []


def test_columns_and_ranges() -> None:
    x = torch.tensor([0.0, 2.0])
    failure = only(observe(lambda: 1.0 + torch.log(x)).forward)
    line = Path(__file__).read_text("utf-8").splitlines()[failure.place.line - 1]
    assert line.encode()[failure.place.column : failure.place.end_column].decode() == "torch.log(x)"
    operand = failure.operands[0]
    assert (operand.name, operand.low, operand.high, operand.shape, operand.format) == ("self", 0.0, 2.0, (2,), "float32")
    assert (failure.results[0].nans, failure.results[0].infinities) == (0, 1)


def test_the_gradient_of_a_view_that_was_changed_in_place() -> None:
    def run() -> None:
        y = zeros() + 0
        y[1:].sqrt_()
        y.sum().backward()

    failure = only(observe(run).backward)
    assert (failure.operator, failure.node, failure.place.line) == ("sqrt_", "CopySlices", run.__code__.co_firstlineno + 2)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints(reentrant: bool) -> None:
    x = zeros()

    def part(v: torch.Tensor) -> torch.Tensor:
        return torch.sqrt(v) * 2

    failure = only(observe(lambda: checkpoint(part, x, use_reentrant=reentrant).sum().backward()).backward)
    assert (failure.operator, failure.node, failure.place.line) == ("sqrt", "SqrtBackward0", part.__code__.co_firstlineno + 1)


def test_a_failing_operator_in_a_loop_is_one_failure() -> None:
    def run() -> None:
        for _ in range(5):
            torch.log(torch.zeros(1))

    assert only(observe(run).forward).times == 5


def test_parameters_with_bad_gradients_are_named() -> None:
    module = models.Nested(models.Sqrt())
    observation = observe(lambda: module(BATCH).sum().backward(), module=module)
    assert observation.is_loss_finite is True and observation.forward == []
    assert observation.parameters == tuple(name for name, _ in module.named_parameters())


def test_an_exception_goes_through_and_leaves_no_mode() -> None:
    from torch.utils._python_dispatch import _get_current_dispatch_mode

    def run() -> None:
        raise KeyError("of the user")

    with pytest.raises(KeyError):
        observe(run)
    assert _get_current_dispatch_mode() is None


# -- reports -------------------------------------------------------------------------------------------------------------


def test_a_report_in_a_notebook_and_in_a_terminal() -> None:
    watcher, _ = watched(models.Nested(models.Log()), "module")
    report = watcher.report()
    page = report._repr_html_()
    assert "NUM101" in page and f"watched_models.py:{models.failing_line(models.Log)} body.1.inner" in page
    assert page.count("<tr>") == len(report.findings) + 1
    assert "NUM101 confirmed" in str(report) and "1 training step watched at level module" in str(report)
    assert json.dumps(report.to_json())


def test_a_notebook_obeys_nothing_that_a_model_says() -> None:
    hostile = "<script>alert('x')</script>\"&"
    watcher, _ = watched(models.Nested(models.Log()), "module")
    finding = replace(root(watcher), node=hostile, op=hostile, operand=hostile, message=hostile)
    report = Report(hostile, "torch-cpu", None, {}, Coverage(1, 1, 1, remarks=(hostile,)), (finding,) * 60, (), {})
    page = report._repr_html_()
    assert "<script" not in page and "&lt;script&gt;" in page
    assert page.count("<tr>") == 9 and "and 52 more findings" in page
