"""Documents tell the truth: generated pages match the code, and every code block runs."""

from __future__ import annotations

import re
import shlex
import shutil
import tomllib
from pathlib import Path

import pytest
from docs.generate import drifted
from examples.models import build

from tensorproof.configuration import read_configuration
from tests.commands import tensorproof

pytestmark = pytest.mark.area("documents")

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^ *```(\w+)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[tuple[str, str]]:
    return [(p.name, body) for p in DOCUMENTS for kind, body in BLOCK.findall(p.read_text("utf-8")) if kind == language]


def test_generated_pages_match_the_code() -> None:
    assert [str(p.relative_to(ROOT)) for p in drifted()] == [], "run `make docs`"


@pytest.fixture()
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    build(Path("build/demo"))
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_python_blocks_run(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = blocks("python")
    assert found
    for name, body in found:
        exec(compile(body, name, "exec"), {"__name__": "document"})
    assert "NUM101 /log_p/Log confirmed" in capsys.readouterr().out


def test_console_blocks_run(workplace: Path) -> None:
    Path("model.onnx").write_bytes(Path("build/demo/naive_cross_entropy.onnx").read_bytes())
    commands = [line[2:] for _, body in blocks("console") for line in body.splitlines() if line.startswith("$ ")]
    ran = 0
    for command in commands:
        words = shlex.split(command.partition("#")[0])
        if words[0] != "tensorproof":
            continue
        result = tensorproof(*words[1:])
        assert result.code in (0, 1), (command, result.err)
        ran += 1
    assert ran >= 5
    assert Path("build/report.sarif").stat().st_size > 100


def test_the_excerpt_of_the_readme_is_what_the_command_prints(workplace: Path) -> None:
    (excerpt,) = [body for name, body in blocks("text") if name == "README.md"]
    printed = tensorproof("check", "build/demo/vae_loss.onnx", "--range", "z=-4:4", "--range", "x=0:1").out.splitlines()
    for line in filter(None, excerpt.splitlines()):
        assert line in printed


def test_the_finding_of_the_page_on_shapes_is_what_the_command_prints(workplace: Path) -> None:
    (excerpt,) = [body for name, body in blocks("text") if name == "shapes.md"]
    assert tensorproof("shapes", "examples/digits.py").out == excerpt


def test_the_repair_of_the_readme_is_what_the_command_prints(workplace: Path) -> None:
    (repair,) = [body for name, body in blocks("diff") if name == "README.md"]
    assert (
        tensorproof("fix", "build/demo/vae_loss.onnx", "--range", "z=-4:4", "--range", "x=0:1", "--runs", "50", "--diff").out
        == repair
    )


def test_toml_blocks_are_configurations(tmp_path: Path) -> None:
    for _, body in blocks("toml"):
        tomllib.loads(body)
        (tmp_path / "pyproject.toml").write_text(body)
        assert read_configuration(tmp_path / "pyproject.toml") is not None


def test_relative_links_lead_somewhere() -> None:
    for path in [*DOCUMENTS, ROOT / "CONTRIBUTING.md", *(ROOT / "docs" / "reference").glob("*.md")]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", path.read_text("utf-8")):
            assert (path.parent / target).exists(), f"{path.name}: {target}"
