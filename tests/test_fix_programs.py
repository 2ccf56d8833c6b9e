"""Repairs of PyTorch programs: found in the source, verified as a whole program, written, and clean when they are checked again."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

import tensorproof
from tensorproof.errors import ConfigurationError, ModelError
from tensorproof.repair.fixing import Fixed
from tensorproof.repair.program.text import LineMap, SourceText
from tests.commands import tensorproof as tensorproof_command

pytestmark = pytest.mark.area("fix programs")

#: Points that verify a repair; the corners of the box are among the first.
RUNS = 40


@dataclass(frozen=True)
class Defect:
    """A program with one defect: the declarations of its inputs and the function, and the repair that it is to get."""

    inputs: tuple[str, ...]
    body: str
    rule: str
    repair: str
    is_safe: bool
    becomes: str
    phase: str = "inference"

    @property
    def source(self) -> str:
        declared = "".join(f"# tensorproof: {text}\n" for text in self.inputs)
        return f"import torch\nimport torch.nn.functional as F\n\n\n{declared}{self.body}\n"


DEFECTS = {
    "log of softmax": Defect(
        ("x = float32[4,8] in [-200,200]",),
        "def f(x):\n    p = torch.softmax(x, dim=-1)\n    return torch.log(p)",
        "NUM101",
        "log-softmax",
        True,
        "return torch.log_softmax(x, dim=-1)",
    ),
    "log of sigmoid": Defect(
        ("x = float32[8] in [-200,200]",),
        "def f(x):\n    return torch.log(1 - torch.sigmoid(x))",
        "NUM101",
        "log-sigmoid",
        True,
        "return F.logsigmoid(-x)",
    ),
    "cross-entropy by hand": Defect(
        ("x = float32[8] in [-200,200]", "y = float32[8] in [0,1]"),
        "def f(x, y):\n    p = torch.sigmoid(x)\n    return -(y * torch.log(p) + (1 - y) * torch.log(1 - p)).mean()",
        "NUM101",
        "cross-entropy-with-logits",
        False,
        'F.binary_cross_entropy_with_logits(x, y, reduction="none")',
    ),
    "root of a negative number": Defect(
        ("x = float32[8] in [-1,4]",),
        "def f(x):\n    return torch.sqrt(x).sum()",
        "NUM102",
        "root-of-nonnegative",
        True,
        "torch.sqrt(torch.clamp(x, min=0)).sum()",
    ),
    "division": Defect(
        ("x = float32[8] in [-1,1]", "d = float32[8] in [0,1]"),
        "def f(x, d):\n    return x / d",
        "NUM103",
        "operand-clamp",
        False,
        "x / d.clamp(min=",
    ),
    "logsumexp": Defect(
        ("x = float32[4,8] in [-200,200]",),
        "def f(x):\n    total = torch.exp(x).sum(dim=-1)\n    return torch.log(total)",
        "NUM201",
        "log-sum-exp",
        True,
        "return torch.logsumexp(x, dim=-1)",
    ),
    "exponential": Defect(
        ("x = float32[8] in [-10,100]",),
        "def f(x):\n    return x + x.exp()",
        "NUM201",
        "operand-clamp",
        True,
        "x + x.clamp(max=88.72283).exp()",
    ),
    "mask constant in float16": Defect(
        ("x = float16[4,8] in [-5,5]", "mask = bool[4,8]"),
        "def f(x, mask):\n    scores = x.masked_fill(mask, float('-inf'))\n    return torch.softmax(scores, dim=-1)",
        "NUM108",
        "mask-constant",
        False,
        "x.masked_fill(mask, torch.finfo(x.dtype).min)",
    ),
    "angle of parallel vectors": Defect(
        ("x = float32[8] in [-2,2]",),
        "def f(x):\n    return torch.acos(x.clamp(-1, 1))",
        "NUM402",
        "inside-edges",
        False,
        "torch.acos(x.clamp(min=-1 + 1e-6, max=1 - 1e-6))",
        "training",
    ),
    "derivative of a root": Defect(
        ("x = float32[8] in [0,4]",),
        "def f(x):\n    return torch.sqrt(x)",
        "NUM401",
        "square-root",
        False,
        "torch.sqrt(torch.clamp(x, min=torch.finfo(x.dtype).tiny))",
        "training",
    ),
    "branch that is not selected": Defect(
        ("x = float32[8] in [-1,4]",),
        "def f(x):\n    root = torch.sqrt(x)\n    return torch.where(x > 0, root, x)",
        "NUM404",
        "choice-before-function",
        True,
        "root = torch.sqrt(torch.where(x > 0, x, 1.0))",
        "training",
    ),
    "root of a variance": Defect(
        ("x = float32[4,8] in [-1,1]",),
        "def f(x):\n    return x.var(dim=-1).sqrt()",
        "NUM401",
        "standard-deviation",
        True,
        "return x.std(dim=-1)",
        "training",
    ),
    "power of one half": Defect(
        ("x = float32[8] in [0,4]",),
        "def f(x):\n    return x ** 0.5",
        "NUM401",
        "square-root",
        False,
        "(x.clamp(min=torch.finfo(x.dtype).tiny) ** 0.5)",
        "training",
    ),
    "norm by hand": Defect(
        ("a = float32[4,8] in [-1,1]", "b = float32[4,8] in [-1,1]"),
        "def f(a, b):\n    return ((a - b) ** 2).sum(-1).sqrt()",
        "NUM401",
        "vector-norm",
        True,
        "torch.linalg.vector_norm(a - b, dim=-1)",
        "training",
    ),
}


def written(folder: Path, source: str, name: str = "program.py") -> Path:
    path = folder / name
    path.write_text(source)
    return path


def fixed(path: Path, phase: str = "inference", *, unsafe: bool = True, **options: Any) -> Fixed:
    return tensorproof.fix(f"{path}:f", phase=phase, unsafe=unsafe, runs=RUNS, **options)


def function(path: Path) -> Callable[..., torch.Tensor]:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.f


def moderate(defect: Defect) -> list[torch.Tensor]:
    """Inputs inside of the declared ranges, at which nothing fails: between 1/4 and 3/4, and no entry masked."""
    generator = torch.Generator().manual_seed(1)
    found: list[torch.Tensor] = []
    for text in defect.inputs:
        format, _, rest = text.partition(" = ")[2].partition("[")
        shape = [int(size) for size in rest.partition("]")[0].split(",")]
        numbers = 0.25 + 0.5 * torch.rand(shape, generator=generator)
        found.append(torch.zeros(shape, dtype=torch.bool) if format == "bool" else numbers.to(getattr(torch, format)))
    return found


@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_is_repaired(name: str, tmp_path: Path):
    defect = DEFECTS[name]
    path = written(tmp_path, defect.source)
    found = fixed(path, defect.phase)
    first = found.outcomes[0]
    assert first.finding.rule.code == defect.rule and first.repair is not None, first
    assert (first.repair.proposal.name, first.repair.is_safe) == (defect.repair, defect.is_safe), first
    assert first.repair.verification.witness_replayed and first.repair.verification.runs >= RUNS
    assert all(outcome.is_applied for outcome in found.outcomes)
    assert found.proto is None and found.source is not None and defect.becomes in found.source
    assert path.read_text() == defect.source

    patched = written(tmp_path, found.source, "patched.py")
    again = tensorproof.check(f"{patched}:f", phase=defect.phase)
    assert not [finding for finding in again.findings if not finding.is_note] and again.coverage.complete
    inputs = moderate(defect)
    torch.testing.assert_close(function(patched)(*inputs), function(path)(*inputs))


def test_a_repaired_program_stays_as_it_is(tmp_path: Path):
    path = written(tmp_path, DEFECTS["log of softmax"].source)
    out, twice, once_more = (tmp_path / name for name in ("out.py", "twice.py", "once_more.py"))
    for source, target in ((path, out), (path, once_more), (out, twice)):
        command = ("fix", f"{source}:f", "--apply", target, "--runs", RUNS, "--witnesses", tmp_path)
        assert tensorproof_command(*command).code == 0
    assert out.read_bytes() == once_more.read_bytes() == twice.read_bytes() != path.read_bytes()
    assert tensorproof_command("check", f"{out}:f", "--witnesses", tmp_path).code == 0


def test_a_diff_names_the_file_and_changes_one_line(tmp_path: Path):
    path = written(tmp_path, DEFECTS["root of a variance"].source)
    options = ("--phase", "training", "--diff", "--runs", RUNS, "--witnesses", tmp_path, "--source-root", tmp_path)
    result = tensorproof_command("fix", f"{path}:f", *options)
    assert result.code == 0, result.err
    changed = [line for line in result.out.splitlines() if line[:1] in "+-"]
    assert changed == [
        "--- a/program.py",
        "+++ b/program.py",
        "-    return x.var(dim=-1).sqrt()",
        "+    return x.std(dim=-1)",
    ]


def test_what_changes_values_is_shown_and_not_applied(tmp_path: Path):
    defect = DEFECTS["derivative of a root"]
    path, out = written(tmp_path, defect.source), tmp_path / "out.py"
    options = ("--phase", "training", "--runs", RUNS, "--witnesses", tmp_path, "--format", "json")
    result = tensorproof_command("fix", f"{path}:f", *options, "--apply", out)
    assert result.code == 1 and out.read_text() == defect.source
    fix = json.loads(result.out)["findings"][0]["fix"]
    assert (fix["kind"], fix["name"], fix["safe"], fix["applied"]) == ("source", "square-root", False, False)
    assert fix["verification"]["witness_replayed"] and fix["verification"]["outputs"]["ulp"] > 0
    assert "--unsafe" in fix["apply"] and fix["apply"].endswith("--apply OUT.py")


def test_a_module_keeps_its_weights_and_its_folder(tmp_path: Path):
    """The patched file is loaded as if it stood in the place of the original, and has its random weights."""
    (tmp_path / "scales_of_the_program.py").write_text("SCALE = 3.0\n")
    (tmp_path / "shift.txt").write_text("2.0")
    source = """
from pathlib import Path

import torch
from scales_of_the_program import SCALE
from torch import nn

SHIFT = float((Path(__file__).parent / "shift.txt").read_text())


# tensorproof: x = float32[N,4] in [-100,100]
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return torch.log(torch.sigmoid(SCALE * self.layer(x) + SHIFT))
"""
    path = written(tmp_path, source)
    found = tensorproof.fix(f"{path}:Net", runs=RUNS)
    (outcome,) = found.outcomes
    assert outcome.repair is not None and outcome.is_applied, outcome
    assert outcome.repair.verification.values.keeps_values and outcome.repair.verification.gradients.kept
    assert "nn.functional.logsigmoid(SCALE * self.layer(x) + SHIFT)" in (found.source or "")


def test_line_ends_and_encoding_stay(tmp_path: Path):
    source = DEFECTS["log of sigmoid"].source.replace("\n", "\r\n")
    data = f"# -*- coding: latin-1 -*-\r\n# caf\u00e9\r\n{source}".encode("latin-1")
    path = tmp_path / "program.py"
    path.write_bytes(data)
    out = tmp_path / "out.py"
    result = tensorproof_command("fix", f"{path}:f", "--apply", out, "--runs", RUNS, "--witnesses", tmp_path)
    assert result.code == 0, result.err
    assert out.read_bytes() == data.replace(b"torch.log(1 - torch.sigmoid(x))", b"F.logsigmoid(-x)")


DECLINED = {
    # The name says that it is not negative, and the text would be believed; the numbers are not.
    "a mask that is negative": (
        ("x = float32[4,8] in [-1,1]", "mask = float32[4,8] in [-1,1]"),
        "def f(x, mask):\n    return x.sum(-1) / mask.sum(-1)",
        "inference",
        "another function",
    ),
    "a line of another file": (
        ("x = float32[8] in [-1,1]",),
        "def f(x):\n    from steps_of_the_program import logarithm\n    return logarithm(x)",
        "inference",
        "in another file than the one that is named",
    ),
    "no pattern at all": (
        ("x = float16[8,8] in [-300,300]",),
        "def f(x):\n    return x @ x",
        "inference",
        "write it by hand: clamps x to between",
    ),
    "a value with other readers": (
        ("x = float32[8] in [-100,100]",),
        "def f(x):\n    grown = torch.exp(x)\n    low = torch.where(x < 0, grown, x)\n    return torch.where(x < -1, grown, low)",
        "training",
        "grown has other users",
    ),
}


@pytest.mark.parametrize("name", DECLINED)
def test_a_near_miss_is_declined(name: str, tmp_path: Path):
    inputs, body, phase, reason = DECLINED[name]
    (tmp_path / "steps_of_the_program.py").write_text("import torch\n\n\ndef logarithm(x):\n    return torch.log(x)\n")
    source = Defect(inputs, body, "", "", False, "").source
    found = fixed(written(tmp_path, source), phase)
    assert found.outcomes and not any(outcome.is_applied for outcome in found.outcomes)
    assert any(reason in text for outcome in found.outcomes for _, text in outcome.declined), found.outcomes
    assert found.source == source
    assert found.report().findings[0].fix is not None and found.left().fails("confirmed")


def test_only_source_files_are_repaired(tmp_path: Path):
    with pytest.raises(ConfigurationError, match=r"name the program as module\.py:name"):
        tensorproof.fix(torch.nn.Softmax(dim=-1), inputs={"input": "float32[4] in [0,1]"})  # type: ignore[arg-type]
    path = written(tmp_path, DEFECTS["division"].source)
    with pytest.raises(ConfigurationError, match="preconditions are for ONNX files"):
        fixed(path, at="inputs")
    assert tensorproof_command("fix", f"{path}:f", "--apply", path).code == 2
    assert tensorproof_command("fix", f"{tmp_path / 'missing.py'}:f").code == 2


def test_a_file_that_is_not_text_is_refused(tmp_path: Path):
    path = tmp_path / "program.py"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ModelError, match="cannot be read as Python source"):
        SourceText.read(path)


def test_lines_are_followed_through_a_change():
    lines = LineMap("a\nb\nc\nd\n", "new\na\nx\ny\nd\n")
    assert [lines.old(line) for line in (1, 2, 3, 4)] == [1, 2, 2, 4]
    assert [lines.new(line) for line in (1, 2, 3, 4, 5)] == [1, 1, 2, 2, 4]
