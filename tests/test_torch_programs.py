"""PyTorch programs as users name them: files, archives, modules and functions; inputs, weights, initialisation, confirmation."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import tensorproof
from tensorproof.errors import TensorproofError
from tensorproof.findings import Finding, Verdict
from tensorproof.frontends.input_declarations import declarations_in, parse_declaration
from tensorproof.frontends.torch_initialisation import DEVIATIONS, observed_initialisation
from tensorproof.preparing import Prepared

pytestmark = pytest.mark.area("torch programs")

NET = """\
import torch
from torch import nn

# tensorproof: x = float32[N,4] in [-1,1]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(4, 3), nn.ReLU())

    def forward(self, x):
        hidden = self.encoder(x)
        return torch.log(hidden)


def loss(prediction, target):
    return -(target * torch.log(prediction)).mean()
"""


@pytest.fixture
def program(tmp_path: Path) -> Callable[..., Path]:
    def write(text: str, name: str = "program.py") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def only(report: tensorproof.Report) -> Finding:
    (finding,) = report.roots()
    return finding


# -- what is named ----------------------------------------------------------------------------------------------------


def test_a_class_of_a_file(program: Callable[..., Path]) -> None:
    path = program(NET)
    report = tensorproof.check(f"{path}:Net")
    finding = only(report)
    assert (finding.rule.code, finding.verdict, finding.reaches) == ("NUM101", Verdict.CONFIRMED, "output")
    assert finding.location is not None
    assert (finding.location.file, finding.location.line) == (str(path), 14)
    assert report.target == "torch-cpu"
    assert report.assumptions["dimensions"] == {"N": [2]}
    assert report.coverage.complete


def test_modules_have_their_paths(program: Callable[..., Path]) -> None:
    prepared = Prepared.of(f"{program(NET)}:Net")
    paths = {node.op: node.module for node in prepared.graph.graph.nodes}
    assert paths == {"Gemm": "encoder.0", "Relu": "encoder.1", "Log": ""}
    assert {prepared.graph.name_of(n) for n in prepared.graph.weights} == {"encoder.0.weight", "encoder.0.bias"}


def test_the_batch_stays_symbolic(program: Callable[..., Path]) -> None:
    prepared = Prepared.of(f"{program(NET)}:Net", dims={"N": 7})
    (number,) = prepared.graph.graph.inputs
    assert prepared.graph.values[number].shape == ("N", 4)
    report = prepared.checked(None)
    assert report.assumptions["dimensions"] == {"N": [7]}


def test_a_function_with_declarations_from_outside(program: Callable[..., Path]) -> None:
    path = program(NET)
    inputs = {"prediction": "float32[8] in [0,1]", "target": "float32[8] in {0,1}"}
    finding = only(tensorproof.check(f"{path}:loss", inputs=inputs))
    assert (finding.rule.code, finding.verdict) == ("NUM101", Verdict.CONFIRMED)
    assert finding.operand == "prediction"


def test_a_module_and_example_inputs() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Softmax(-1))
    report = tensorproof.check(model, torch.rand(2, 3))
    assert not report.findings
    assert report.coverage.complete


def test_a_function_and_example_inputs_by_name(tmp_path: Path) -> None:
    def ratio(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a / b

    example = {"a": torch.rand(3), "b": torch.rand(3)}
    report = tensorproof.check(ratio, example, ranges={"*": (-1, 1)}, witnesses=tmp_path)
    finding = only(report)
    assert (finding.rule.code, finding.verdict) == ("NUM103", Verdict.CONFIRMED)
    assert finding.location is not None and finding.location.file == __file__
    # A function that is in no file of its own is exported for the witness.
    assert finding.witness is not None
    assert subprocess.run([sys.executable, finding.witness.script], check=False).returncode == 0


def test_the_users_module_is_left_as_it_is() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)).train()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    model[1].eval()
    tensorproof.check(model, torch.rand(4, 3), precision="float16")
    tensorproof.check(model, torch.rand(4, 3), phase="training")
    tensorproof.check(model, torch.rand(4, 3))
    assert [part.training for part in model.modules()] == [True, True, False]
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name]), name
    assert all(parameter.grad is None for parameter in model.parameters())


# -- inputs -----------------------------------------------------------------------------------------------------------


def test_declarations_in_comments(program: Callable[..., Path]) -> None:
    path = program(
        "# tensorproof: x = float16[N,3,32,32] in [0,1]\n"
        "text = '# tensorproof: y = float32[1]'\n"
        "# tensorproof: ignore[NUM101]\n"
        "z = 1  # tensorproof: Net.labels = int64[N] in {0,1,5}\n"
        "# tensorproof: weights in simplex@-1\n"
    )
    x, labels, weights = declarations_in(path)
    assert (x.name, x.owner, x.shape, x.symbolic()) == ("x", None, ("N", 3, 32, 32), {0: "N"})
    assert x.format is not None and x.format.name == "float16"
    assert x.domain is not None and (x.domain.low, x.domain.high) == (0.0, 1.0)
    assert labels.owner == "Net" and labels.domain is not None and labels.domain.values == (0.0, 1.0, 5.0)
    assert weights.format is None and weights.domain is not None and weights.domain.kind == "simplex"


@pytest.mark.parametrize(
    "text", ["x", "x = float32", "x = floaty[3]", "x = float32[3,]] in [0,1]", "x in [1,0]", "x = float32[a b]"]
)
def test_declarations_that_are_none(text: str) -> None:
    with pytest.raises(TensorproofError, match=r"^here: "):
        parse_declaration(text, "here")


def test_examples_from_a_function_of_the_file(program: Callable[..., Path]) -> None:
    path = program(
        "import torch\n"
        "def tensorproof_inputs():\n    return {'x': torch.rand(3), 'index': torch.tensor([1, 4])}\n"
        "def pick(x, index):\n    table = torch.arange(6.0)\n    return x.sum() / table[index]\n"
    )
    report = tensorproof.check(f"{path}:pick")
    # The index is only known by its example: 1 to 4, where the table has no zero.
    assert not report.findings
    finding = only(tensorproof.check(f"{path}:pick", ranges={"index": (0, 4)}))
    assert (finding.rule.code, finding.verdict) == ("NUM103", Verdict.CONFIRMED)


# -- weights ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".safetensors", ".pt"])
def test_trained_weights(program: Callable[..., Path], tmp_path: Path, suffix: str) -> None:
    path = program(NET.replace("nn.ReLU()", "nn.Softplus()"))
    assert only(tensorproof.check(f"{path}:Net", ranges={"x": (-1000, 1000)})).verdict is Verdict.CONFIRMED
    state = {"encoder.0.weight": torch.zeros(3, 4), "encoder.0.bias": torch.ones(3)}
    file = tmp_path / f"weights{suffix}"
    save_file(state, file) if suffix == ".safetensors" else torch.save(state, file)
    assert not tensorproof.check(f"{path}:Net", ranges={"x": (-1000, 1000)}, state=str(file)).findings


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return print, ("executed",)


def test_a_file_of_weights_executes_nothing(
    program: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "weights.pt"
    torch.save({"encoder.0.weight": Evil()}, file)
    with pytest.raises(TensorproofError, match="cannot be read"):
        tensorproof.check(f"{program(NET)}:Net", state=str(file))
    assert "executed" not in capsys.readouterr().out


def test_initialisation_as_it_was() -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(16, 4)
            self.norm = nn.LayerNorm(4)
            self.table = nn.Embedding(5, 4)
            self.truncated = nn.Parameter(torch.empty(40))
            nn.init.trunc_normal_(self.truncated, std=0.02, a=-0.04, b=0.04)
            self.scaled = nn.Parameter(torch.randn(7) * 3.0)

    with observed_initialisation() as initialisation:
        module = Mixed()
    known = initialisation.of(module)
    assert known["linear.weight"] == pytest.approx((-0.25, 0.25))
    assert known["linear.bias"] == pytest.approx((-0.25, 0.25))
    assert (known["norm.weight"], known["norm.bias"]) == ((1.0, 1.0), (0.0, 0.0))
    assert known["table.weight"] == (-DEVIATIONS, DEVIATIONS)
    assert known["truncated"] == (-0.04, 0.04)
    # Computed from something else: only the spread of its numbers is known.
    assert "scaled" not in known


def test_weights_init_takes_the_distribution(program: Callable[..., Path]) -> None:
    report = tensorproof.check(f"{program(NET)}:Net", weights="init", confirm=False)
    assert report.assumptions["weight_ranges"]["encoder.0.weight"]["range"] == pytest.approx([-0.5, 0.5])


# -- archives ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def archive(tmp_path: Path, program: Callable[..., Path]) -> Path:
    prepared = Prepared.of(f"{program(NET)}:Net")
    assert prepared.program is not None
    path = tmp_path / "net.pt2"
    torch.export.save(prepared.program.traced.program, path)
    return path


def test_an_exported_program(archive: Path, tmp_path: Path) -> None:
    finding = only(tensorproof.check(archive, witnesses=tmp_path / "witnesses"))
    assert (finding.rule.code, finding.verdict) == ("NUM101", Verdict.CONFIRMED)
    assert finding.location is not None and finding.location.line == 14
    assert finding.witness is not None
    assert subprocess.run([sys.executable, finding.witness.script], check=False).returncode == 0


def rewritten(path: Path, change: Callable[[str, bytes], bytes]) -> Path:
    """The archive with some of its members changed."""
    target = path.with_name("changed.pt2")
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as out:
        for info in source.infolist():
            out.writestr(info, change(info.filename, source.read(info)))
    return target


def test_an_archive_cannot_execute_an_expression(archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def change(name: str, data: bytes) -> bytes:
        if not name.endswith("models/model.json"):
            return data
        text = data.decode()
        start = text.index('"expr_str": "') + len('"expr_str": "')
        end = text.index('"', start)
        return (text[:start] + "__import__('builtins').print('executed')" + text[end:]).encode()

    with pytest.raises(TensorproofError, match="no arithmetic on sizes"):
        tensorproof.check(rewritten(archive, change))
    assert "executed" not in capsys.readouterr().out


def test_an_archive_cannot_execute_a_pickle(archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import io

    buffer = io.BytesIO()
    torch.save(Evil(), buffer)

    def change(name: str, data: bytes) -> bytes:
        return buffer.getvalue() if "sample_inputs" in name else data

    with pytest.raises(TensorproofError, match=r"not tensors|not a program"):
        tensorproof.check(rewritten(archive, change))
    assert "executed" not in capsys.readouterr().out


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 broken", pickle.dumps([1])])
def test_files_that_are_no_archive(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.pt2"
    path.write_bytes(content)
    with pytest.raises(TensorproofError, match=r"broken\.pt2"):
        tensorproof.check(path)


# -- the command line, and formats ------------------------------------------------------------------------------------


def test_the_command_line(program: Callable[..., Path], tmp_path: Path) -> None:
    path = program(NET + "\nprint('the program speaks')\n")
    command = [sys.executable, "-m", "tensorproof", "check", f"{path}:Net", "--format", "json", "--witnesses", str(tmp_path / "w")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 1, ended.stderr
    assert "the program speaks" in ended.stderr
    document = json.loads(ended.stdout)
    (finding,) = (document if isinstance(document, dict) else document[0])["findings"]
    assert finding["location"]["line"] == 14
    replay = subprocess.run([sys.executable, finding["replay"]], capture_output=True, text=True, check=False)
    assert replay.returncode == 0, replay.stdout + replay.stderr
    assert "happened again" in replay.stdout


def test_each_node_in_the_format_that_it_runs_in() -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            hidden = self.first(x)
            with torch.autocast("cpu", torch.bfloat16):
                hidden = self.second(hidden)
            return hidden.float().exp()

    prepared = Prepared.of(Mixed(), example=torch.rand(2, 3))
    formats = {
        node.name: value.format.name
        for node in prepared.graph.graph.nodes
        if node.op in ("Gemm", "Exp") and (value := prepared.graph.values[node.outputs[0]]).format is not None
    }
    assert list(formats.values()) == ["float32", "bfloat16", "float32"]
    lines = [node.source.line for node in prepared.graph.graph.nodes if node.source is not None]
    assert len(lines) == len(prepared.graph.graph.nodes)
    half = Prepared.of(Mixed().half(), example=torch.rand(2, 3).half())
    assert half.graph.values[half.graph.graph.inputs[0]].format is not None
    assert {v.format.name for v in half.graph.values if v.format is not None} >= {"float16", "bfloat16", "float32"}


def test_half_precision_overflows_where_float32_does_not(program: Callable[..., Path]) -> None:
    path = program("def square(x):\n    return (x * x).sum()\n")
    options: dict[str, Any] = {"inputs": {"x": "float32[4] in [0,300]"}}
    assert not tensorproof.check(f"{path}:square", **options).findings
    findings = tensorproof.check(f"{path}:square", precision="float16", **options).confirmed
    assert {finding.location.line for finding in findings if finding.location} == {2}
    assert np.all([finding.rule.code.startswith("NUM2") for finding in findings])
