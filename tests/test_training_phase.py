"""Training of PyTorch programs: the graph of the whole step against eager autograd, its findings, and steps in 16-bit formats."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tensorproof.assumptions import Declarations, Domain
from tensorproof.checking import analyse
from tensorproof.findings import Report, Verdict
from tensorproof.frontends import torch_joint
from tensorproof.frontends.torch_joint import NoJointGraph, joint_model
from tensorproof.preparing import Prepared
from tensorproof.targets import find_target
from tensorproof.training.backward import joint_findings, step_assumptions
from tensorproof.training.optimiser import adam_step

pytestmark = pytest.mark.area("training phase")

TORCH = find_target("torch-cpu")
POINTS = 12


def prepared(program: Any, inputs: Mapping[str, str], **options: Any) -> Prepared:
    torch.manual_seed(0)
    return Prepared.of(program() if isinstance(program, type) else program, inputs=inputs, phase="training", cache=False, **options)


def report_of(program: Any, inputs: Mapping[str, str], **options: Any) -> Report:
    ready = prepared(program, inputs, **options)
    return ready.checked(ready.quick_confirm())


def notes(report: Report) -> str:
    return "\n".join(report.assumptions["notes"])


def codes(report: Report) -> set[str]:
    return {finding.rule.code for finding in report.findings}


def line_of(text: str) -> int:
    """The line of this file that holds a text first."""
    return next(number for number, line in enumerate(Path(__file__).read_text().splitlines(), 1) if text in line)


# -- the joint graph against eager autograd ----------------------------------------------------------------------------


class Images(nn.Module):
    """Convolutions, grouped and transposed, pools, interpolation and normalisation over groups."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(2, 4, 3, stride=2, padding=1)
        self.grouped = nn.Conv2d(4, 4, 3, padding=1, groups=2, bias=False)
        self.back = nn.ConvTranspose2d(4, 4, 2, stride=2)
        self.norm = nn.GroupNorm(2, 4)

    def forward(self, x: Tensor) -> Tensor:
        h = F.max_pool2d(self.norm(self.first(x)), 2)
        h = F.interpolate(F.elu(self.grouped(h)), scale_factor=2, mode="bilinear")
        h = F.avg_pool2d(self.back(h), 3, stride=1)
        return F.adaptive_avg_pool2d(F.pad(h, (1, 1, 0, 2), mode="replicate"), 2).square().sum()


class Words(nn.Module):
    """An embedding, attention, layer normalisation and cross entropy: two outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(7, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, activation="gelu")
        self.head = nn.Linear(8, 5)

    def forward(self, words: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        h = self.layer(self.table(words)).mean(1)
        return F.cross_entropy(self.head(h), labels), h


class Rows(nn.Module):
    """Batch normalisation as in training, distances, and activations whose gradients have formulas of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 6)
        self.norm = nn.BatchNorm1d(6)

    def forward(self, x: Tensor) -> Tensor:
        h = F.silu(self.norm(self.first(x)))
        h = F.softplus(h) * F.logsigmoid(h) + F.softshrink(h) + F.hardtanh(h) + F.leaky_relu(h) + torch.tanh(h).sigmoid()
        return torch.cdist(h, h.flip(0)).sum() + h.std(0).sum() + h.norm(dim=1).sum()


def inputs_alone(x: Tensor, y: Tensor) -> Tensor:
    """Without weights, gradients are those of the inputs."""
    return torch.logsumexp(x * y, -1).sum() + x.amax(1).sum() + y[:, 1:].prod(-1).sum()


STEPS: dict[str, tuple[Any, dict[str, str]]] = {
    "images": (Images, {"x": "float32[2,2,8,8] in [-2,2]"}),
    "words": (Words, {"words": "int64[3,4] in [0,6]", "labels": "int64[3] in [0,4]"}),
    "rows": (Rows, {"x": "float32[5,3] in [-3,3]"}),
    "inputs": (inputs_alone, {"x": "float32[3,4] in [-2,1]", "y": "float32[3,4] in [0.5,3]"}),
}


@cache
def ready_step(name: str) -> Prepared:
    return prepared(*STEPS[name])


@cache
def faint_in_float16() -> Report:
    return report_of(Faint, ROWS, precision="float16")


def eager_gradients(ready: Prepared, seed: int) -> dict[str, np.ndarray]:
    """Gradients of the sum of all floating outputs by torch's own autograd, on a random point of the box."""
    assert ready.program is not None
    traced = ready.program.traced
    rng = np.random.default_rng(seed)
    point: dict[str, Tensor] = {}
    for name, example in traced.example.items():
        domain = ready.declared.domains[name]
        if example.is_floating_point():
            # Corners, and points where elements are equal, are where derivatives are special.
            numbers = rng.uniform(domain.low, domain.high, tuple(example.shape))
            numbers = numbers if seed % 3 else rng.choice([domain.low, domain.high], tuple(example.shape))
            point[name] = torch.from_numpy(numbers).to(example.dtype)
        else:
            point[name] = torch.from_numpy(rng.integers(int(domain.low), int(domain.high) + 1, tuple(example.shape)))
    leaves: dict[str, Tensor] = dict(traced.module.named_parameters())
    if not leaves:
        leaves = {name: tensor.requires_grad_() for name, tensor in point.items()}
    args, kwargs = traced.call(point)
    outputs = traced.module(*args, **kwargs)
    flat = outputs if isinstance(outputs, tuple) else (outputs,)
    found = torch.autograd.grad(torch.stack([output.sum() for output in flat]).sum(), list(leaves.values()))
    return {name: gradient.numpy() for name, gradient in zip(leaves, found, strict=True)}


@pytest.mark.parametrize("name", STEPS)
def test_ranges_of_gradients_hold_what_autograd_computes(name: str) -> None:
    ready = ready_step(name)
    assert ready.program is not None
    joint = joint_model(ready.program)
    analysis = analyse(joint.model, step_assumptions(joint.model, ready.declared), TORCH, effort=0)
    assert analysis.coverage.not_analysed == ()
    tried: set[str] = set()
    for seed in range(POINTS):
        for of, gradient in eager_gradients(ready, seed).items():
            summary = analysis.summaries[joint.gradients[of]]
            assert summary.special or np.isfinite(gradient).all()
            finite = gradient[np.isfinite(gradient)]
            assert summary.low <= finite.min() and finite.max() <= summary.high, (of, summary.low, finite.min(), finite.max())
            tried.add(of)
    assert tried == set(joint.gradients)


def products(a: Tensor, b: Tensor, c: Tensor, d: Tensor, e: Tensor, f: Tensor) -> Tensor:
    """Convolutions, plain, grouped and transposed, each on inputs of its own."""
    plain = F.conv2d(a, b, padding=1)
    grouped = F.conv1d(c, d, groups=2, dilation=2)
    return plain.sum() + grouped.sum() + F.conv_transpose1d(e, f, stride=2).sum()


def windows(a: Tensor, b: Tensor, c: Tensor, d: Tensor, e: Tensor, f: Tensor, g: Tensor) -> Tensor:
    """Pools, interpolation and padding, each on an input of its own."""
    pools = F.avg_pool2d(a, 3, stride=1).sum() + F.adaptive_max_pool2d(b, 2).sum() + F.max_pool3d(c, 2, stride=1).sum()
    sizes = F.interpolate(d, scale_factor=3).sum() + F.interpolate(e, size=9, mode="linear", align_corners=True).sum()
    return pools + sizes + F.pad(f, (2, 3), mode="replicate").sum() + torch.cdist(g, -g).sum()


@pytest.mark.parametrize(
    ("function", "shapes", "tightest"),
    [
        (products, ["2,3,6,6", "4,3,3,3", "2,4,9", "6,2,3", "2,3,5", "3,4,2"], 0.8),
        (windows, ["2,5,5", "1,2,5,5", "1,2,3,3,3", "1,2,3,3", "1,2,4", "1,2,4", "5,3"], 0.0),
    ],
)
def test_sums_of_gradients_are_bounded_by_the_number_of_their_terms(function: Any, shapes: list[str], tightest: float) -> None:
    """All elements are close to 1, so that the longest sums come close to their bounds."""
    names = list(inspect.signature(function).parameters)
    ready = prepared(function, {name: f"float32[{shape}] in [0.95,1]" for name, shape in zip(names, shapes, strict=True)})
    assert ready.program is not None
    joint = joint_model(ready.program)
    own = {node.op for node in joint.model.graph.walk() if node.phase == "backward" and node.domain == "tensorproof"}
    assert own & {"SumOfProducts", "ScatteredSum"}
    analysis = analyse(joint.model, step_assumptions(joint.model, ready.declared), TORCH, effort=0)
    assert analysis.coverage.not_analysed == ()
    for of, gradient in eager_gradients(ready, 1).items():
        summary = analysis.summaries[joint.gradients[of]]
        assert summary.low <= gradient.min() and gradient.max() <= summary.high, of
        assert gradient.max() >= tightest * summary.high, of


def test_nodes_of_the_backward_pass_have_the_line_of_the_value() -> None:
    ready = ready_step("rows")
    assert ready.program is not None
    joint = joint_model(ready.program)
    backward = [node for node in joint.model.graph.walk() if node.phase == "backward"]
    located = [node for node in backward if node.source is not None]
    assert len(backward) > 50 and len(located) >= 0.95 * len(backward)
    squashed = [node for node in backward if joint.partners.get(node.name, "").startswith("_native_batch_norm")]
    assert {node.source.line for node in squashed if node.source is not None} == {line_of("F.silu(self.norm(")}
    assert all(node.phase == "forward" for node in ready.graph.graph.walk())


# -- findings ----------------------------------------------------------------------------------------------------------


class Axes(nn.Module):
    """Gradients of eigenvectors divide by the differences of eigenvalues, which can be equal."""

    def __init__(self, *, of_vectors: bool) -> None:
        super().__init__()
        self.first = nn.Linear(3, 3, bias=False)
        self.of_vectors = of_vectors

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        values, vectors = torch.linalg.eigh(h.T @ h)
        return vectors[0].clamp(-2, 2) if self.of_vectors else values.clamp(0, 1e6)


AXES = {"x": "float32[4,3] in [-3,3]"}


def test_a_gradient_that_fails_in_a_run_is_reported_at_the_line_of_the_value() -> None:
    report = report_of(Axes(of_vectors=True), AXES)
    (found,) = [finding for finding in report.findings if finding.rule.code == "NUM405"]
    assert found.verdict is Verdict.CONFIRMED and found.phase == "backward" and found.reaches == "gradient"
    assert found.location is not None and found.location.line == line_of("values, vectors = torch.linalg.eigh(")
    assert found.node not in report.proven_safe


def test_what_no_run_shows_is_a_finding_from_an_effort_of_two_on() -> None:
    for of_vectors, effort, expected in ((True, 1, []), (True, 2, [Verdict.POSSIBLE])):
        ready = prepared(Axes(of_vectors=of_vectors), AXES)
        assert ready.program is not None
        outcome = joint_findings(ready.program, ready.declared, TORCH, effort=effort)
        assert [finding.verdict for finding in outcome.findings] == expected
        assert f"gradients of line {line_of('values, vectors = torch.linalg.eigh(')}" in outcome.notes[0]


def test_gradients_of_eigenvalues_alone_are_not_reported() -> None:
    assert "NUM405" not in codes(report_of(Axes(of_vectors=False), AXES))


@pytest.mark.parametrize("name", STEPS)
def test_safe_programs_have_no_finding_of_the_backward_pass(name: str) -> None:
    ready = ready_step(name)
    report = ready.checked(ready.quick_confirm(runs=11))
    assert [finding for finding in report.findings if finding.rule.code == "NUM405"] == []
    (said,) = [note for note in report.assumptions["notes"] if note.startswith("backward pass: ")]
    analysed, of = said.split()[2], said.split()[4]
    assert analysed == of and "not proven" not in said


def test_a_division_that_no_mask_guards_is_a_suspect() -> None:
    def norms(x: Tensor) -> Tensor:
        return x.norm(dim=1).sum() + x.std(1).sum() + x.amax(1).sum()

    def norms_by_hand(x: Tensor) -> Tensor:
        return x.square().sum(1).sqrt().sum()

    for function, line in ((norms, None), (norms_by_hand, line_of("return x.square().sum(1).sqrt()"))):
        ready = prepared(function, {"x": "float32[3,4] in [-1,1]"})
        assert ready.program is not None
        (said,) = joint_findings(ready.program, ready.declared, TORCH).notes
        assert ("not proven" not in said) if line is None else said.endswith(f"gradients of line {line}")


def test_without_the_graph_of_the_step_the_report_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_joint, "TESTED", ((1, 0), (1, 1)))
    ready = prepared(Axes(of_vectors=True), AXES)
    assert ready.program is not None
    with pytest.raises(NoJointGraph, match="not among the tested versions"):
        joint_model(ready.program)
    report = ready.checked(ready.quick_confirm())
    assert "was not analysed: torch" in notes(report) and "asked at the operators alone" in notes(report)
    # Runs alone find the gradient, too.
    assert "NUM405" in codes(report)


def test_a_step_that_torch_refuses_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("refused")

    monkeypatch.setattr(torch_joint, "_traced", refuse)
    ready = ready_step("inputs")
    assert ready.program is not None
    outcome = joint_findings(ready.program, ready.declared, TORCH)
    assert outcome.findings == [] and "cannot be traced (RuntimeError: refused)" in outcome.notes[0]


def test_a_program_without_a_floating_output_has_no_gradients() -> None:
    def largest(x: Tensor) -> Tensor:
        return x.argmax(-1)

    report = report_of(largest, {"x": "float32[2,3] in [-1,1]"})
    assert "no output is floating" in notes(report) and report.findings == ()


# -- low precision -----------------------------------------------------------------------------------------------------


class Steep(nn.Module):
    """Derivatives of a million on values that are small."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 3, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x * 1e-3) * 1000
        return (h * 1000).sum()


class Faint(nn.Module):
    """A loss with derivatives around 1e-7."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 32)
        self.second = nn.Linear(32, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.tanh(self.first(x))).square().mean() * 1e-5


class Automatic(nn.Module):
    """Weights in float32, products in bfloat16."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return self.first(x).float().square().mean()


ROWS = {"x": "float32[5,4] in [-1,1]"}


def test_a_gradient_that_overflows_in_float16_is_confirmed_at_its_line() -> None:
    report = report_of(Steep, {"x": "float32[4,3] in [-3,3]"}, precision="float16")
    (found,) = [finding for finding in report.findings if finding.rule.code == "NUM406"]
    assert found.verdict is Verdict.CONFIRMED
    assert found.location is not None and found.location.line == line_of("h = self.first(x * 1e-3) * 1000")
    assert codes(report_of(Steep, {"x": "float32[4,3] in [-3,3]"}, precision="bfloat16")).isdisjoint({"NUM406", "NUM407"})


def kept_at(scale: float) -> float:
    """The share of gradients of `Faint` that survive in float16 with a loss scale, by torch alone."""
    nonzero = kept = 0
    torch.manual_seed(0)
    low = Faint().half()
    exact = Faint().double()
    exact.load_state_dict(low.state_dict())
    for seed in range(6):
        x = torch.from_numpy(np.random.default_rng(seed).uniform(-1, 1, (5, 4)))
        half, double = low(x.half()), exact(x.half().double())
        got = torch.autograd.grad(half, list(low.parameters()), torch.tensor(scale, dtype=torch.float16))
        for gradient, reference in zip(got, torch.autograd.grad(double, list(exact.parameters()))):
            assert gradient.isfinite().all()
            nonzero += int((reference.float() != 0).sum())
            kept += int(((reference.float() != 0) & (gradient != 0)).sum())
    return kept / nonzero


def test_vanished_gradients_and_the_loss_scale_that_keeps_them() -> None:
    report = faint_in_float16()
    found = [finding for finding in report.findings if finding.rule.code == "NUM407"]
    assert found and all(finding.verdict is Verdict.POSSIBLE and finding.rule.severity == "warning" for finding in found)
    (said,) = [note for note in report.assumptions["notes"] if note.startswith("loss scale needed in float16: 2^")]
    power = int(said.split("2^")[1].split(",")[0])
    assert report.assumptions["training"] == {"format": "float16", "loss_scale": 2.0**power}
    assert kept_at(1.0) < 0.9
    # Points differ from those of the report, and so does the last element that survives.
    assert kept_at(2.0**power) >= 0.995
    assert kept_at(2.0 ** (power - 3)) < 0.999
    assert report_of(Faint, ROWS, precision="float16").to_json()["findings"] == report.to_json()["findings"]


def test_a_step_of_adam_in_float16_destroys_weights_and_is_confirmed() -> None:
    report = faint_in_float16()
    (found,) = [finding for finding in report.findings if finding.rule.code == "NUM408"]
    assert found.verdict is Verdict.CONFIRMED and "epsilon of 1e-08 is 0" in found.message
    assert "NUM408" not in codes(report_of(Faint, ROWS, precision="bfloat16"))


def test_adam_leaves_the_weights_that_it_is_given() -> None:
    weight = torch.ones(3, dtype=torch.float16)
    gradient = torch.tensor([1e-3, 0.0, 0.5], dtype=torch.float16)
    # 1e-6 is not zero in float16, a thousandth of it is; 0 / 0 is not finite either.
    assert adam_step({"w": (weight, gradient)}) == {"w": 2}
    assert adam_step({"w": (weight.float(), gradient.float())}) == {}
    assert weight.tolist() == [1.0, 1.0, 1.0] and adam_step({}) == {}


def test_autocast_is_compared_with_float64_and_has_no_step_in_low_precision() -> None:
    report = report_of(Automatic, ROWS)
    assert "no loss scale is needed in bfloat16" in notes(report)
    assert report.assumptions["training"] == {"format": "bfloat16", "loss_scale": 1.0}
    assert "training in bfloat16: " in notes(report) and codes(report).isdisjoint({"NUM406", "NUM407", "NUM408"})


def test_programs_that_draw_random_numbers_are_not_compared() -> None:
    class Random(Faint):
        def forward(self, x: Tensor) -> Tensor:
            return F.dropout(super().forward(x).expand(8) * x.sum(), 0.5, True).sum()

    assert "the program draws random numbers" in notes(report_of(Random, ROWS, precision="float16"))


def test_a_module_that_cannot_be_copied_is_not_run_in_low_precision() -> None:
    module = Automatic()
    module.last = module.first.weight.sum()  # pyright: ignore[reportArgumentType]
    report = report_of(module, ROWS)
    assert "training in bfloat16 was not run: " in notes(report)


def test_programs_in_float32_are_not_run_in_low_precision() -> None:
    assert "training in" not in notes(report_of(Faint, ROWS))


def test_declared_domains_hold_for_the_graph_of_the_step() -> None:
    ready = ready_step("words")
    assert ready.program is not None
    assumptions = step_assumptions(
        joint_model(ready.program).model, Declarations({**ready.declared.domains, "labels": Domain("box", 1, 2)})
    )
    assert [(domain.low, domain.high) for domain in assumptions.inputs.values()] == [(0, 6), (1, 2)]
