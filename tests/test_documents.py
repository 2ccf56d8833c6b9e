"""Documents tell the truth: generated pages match the code, every code block runs, and excerpts are what commands print."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from docs import generate, pictures
from docs.generators import python_api
from examples.models import build

from tensorproof.configuration import read_configuration
from tests.commands import Result, tensorproof
from tests.document_blocks import DOCUMENTS, ROOT, Block, blocks_of, name_of

pytestmark = pytest.mark.area("documents")

#: Commands that are shown and not run, each with the reason.
NOT_RUN = {
    "pip install": "what is tested is installed already, from this folder",
    "make demo": "creates an environment of its own",
    "make test": "is this suite",
    "code --install-extension": "needs Visual Studio Code",
    "python -m tests.soundness": "NAME stands for an operator; the suite runs the command for all of them",
}
#: Languages that are not run here, each with the reason.
NOT_CODE = {
    "text": "what a command prints, or a form to fill in",
    "lua": "settings of an editor that is no part of the tests",
    "elisp": "settings of an editor that is no part of the tests",
    "": "settings of an editor that is no part of the tests",
}
RUN = {"python", "console", "toml", "yaml", "json", "diff"}
#: The tutorial is followed word for word in an empty folder: tests/test_tutorial.py.
FOLLOWED = "docs/tutorial.md"
RUNNABLE = [path for path in DOCUMENTS if name_of(path) != FOLLOWED and any(b.language in RUN for b in blocks_of(path))]
VAE = ("build/demo/vae_loss.onnx", "--range", "z=-4:4", "--range", "x=0:1")


def blocks(language: str, document: str) -> list[Block]:
    return [block for block in blocks_of(ROOT / document) if block.language == language]


# -- what is generated ----------------------------------------------------------------------------------------------------


def test_generated_pages_match_the_code() -> None:
    assert [str(path.relative_to(ROOT)) for path in generate.drifted()] == [], "run `make docs`"


def test_what_was_imported_before_does_not_change_the_reference() -> None:
    import tensorproof.expose.running  # noqa: F401

    assert "tensorproof.expose(\n    script: str | Path," in python_api.pages()["python.md"]


def test_pictures_are_what_the_commands_print() -> None:
    assert [str(path.relative_to(ROOT)) for path in pictures.drifted()] == [], "run `make docs`"


def test_a_page_that_drifted_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "reference"
    shutil.copytree(generate.REFERENCE, copy)
    monkeypatch.setattr(generate, "REFERENCE", copy)
    changed, gone, stale = copy / "command-line.md", copy / "report.schema.json", copy / "rules" / "NUM999.md"
    changed.write_text(changed.read_text("utf-8").replace("--strict", "--lenient"))
    gone.unlink()
    stale.write_text("# NUM999")
    assert set(generate.drifted()) == {changed, gone, stale}


# -- code blocks ----------------------------------------------------------------------------------------------------------


@pytest.fixture()
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder like a clone after `make demo`, with a model of the reader's own."""
    monkeypatch.chdir(tmp_path)
    build(Path("build/demo"))
    shutil.copyfile("build/demo/naive_cross_entropy.onnx", "model.onnx")
    shutil.copyfile(ROOT / "LICENSE", "LICENSE")  # of the editor's package
    for folder in ("examples", "editors"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
    return tmp_path


@pytest.mark.parametrize("path", RUNNABLE, ids=name_of)
def test_code_blocks_run(path: Path, workplace: Path) -> None:
    for block in blocks_of(path):
        match block.language:
            case "python":
                exec(compile(block.body, block.document, "exec"), {"__name__": "document"})
            case "console":
                for command in block.commands:
                    run_command(command)
            case "yaml":
                # Other files than workflows are held against their schemas by the tests of integrations.
                for job in yaml.safe_load(block.body).get("jobs", {}).values():
                    for command in (step["run"] for step in job["steps"] if "run" in step):
                        run_command(command)
            case "toml":
                settings = workplace / "settings"
                settings.mkdir(exist_ok=True)
                (settings / "pyproject.toml").write_text(block.body)
                assert tomllib.loads(block.body) and read_configuration(settings / "pyproject.toml") is not None
            case "json":
                assert json.loads(block.body)
            case _:
                pass  # a diff is what a command prints, which is compared below


def run_command(command: str) -> None:
    """One line of a console block, in this process where it is ours. Findings (exit code 1) are what many of them show."""
    words = shlex.split(command, comments=True)
    if any(command.startswith(beginning) for beginning in NOT_RUN):
        return
    if words[0] == "tensorproof":
        result = tensorproof(*words[1:])
        assert result.code in (0, 1), (command, result.err)
        return
    assert words[0] == "python", f"{command!r}: nothing runs it; say so in NOT_RUN, with the reason"
    subprocess.run([sys.executable, *words[1:]], check=True, capture_output=True, timeout=120)


def test_what_is_not_run_has_a_reason_and_is_there() -> None:
    found = [block for path in DOCUMENTS for block in blocks_of(path)]
    for block in found:
        assert block.language in RUN or block.language in NOT_CODE, f"{block.document}: who runs {block.language!r}?"
    assert NOT_CODE.keys() <= {block.language for block in found}
    commands = [command for block in found if block.language == "console" for command in block.commands]
    for beginning in NOT_RUN:
        assert any(command.startswith(beginning) for command in commands), f"{beginning!r} is nowhere: take it out of the list"


# -- excerpts are what commands print -------------------------------------------------------------------------------------


def check_vae() -> Result:
    return tensorproof("check", *VAE)


def test_the_excerpt_of_the_readme_is_what_the_command_prints(workplace: Path) -> None:
    (excerpt,) = blocks("text", "README.md")
    printed = check_vae().out.splitlines()
    for line in filter(None, excerpt.body.splitlines()):
        assert line in printed


def test_the_two_lines_of_the_readme_show_the_failure(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    replay = blocks("python", "README.md")[0]
    assert check_vae().code == 1
    exec(compile(replay.body, "README.md", "exec"), {"__name__": "document"})
    assert "inf" in capsys.readouterr().out
    assert len([line for line in replay.body.splitlines() if line and not line.startswith("import ")]) == 2


def test_the_python_of_the_readme_prints_findings(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(blocks("python", "README.md")[-1].body, "README.md", "exec"), {"__name__": "document"})
    assert "NUM101 /log_p/Log confirmed" in capsys.readouterr().out


def test_the_repair_of_the_readme_is_what_the_command_prints(workplace: Path) -> None:
    (repair,) = blocks("diff", "README.md")
    assert tensorproof("fix", *VAE, "--runs", "50", "--diff").out == repair.body


def test_the_finding_of_the_page_on_shapes_is_what_the_command_prints(workplace: Path) -> None:
    (excerpt,) = blocks("text", "docs/shapes.md")
    assert tensorproof("shapes", "examples/digits.py").out == excerpt.body


def test_the_second_command_of_the_page_on_baselines_is_silent(workplace: Path) -> None:
    first, second = (
        shlex.split(command)[1:]
        for block in blocks("console", "docs/how-to/ci.md")
        for command in block.commands
        if "baseline" in command
    )
    assert tensorproof(*first).code == 0
    assert tensorproof(*second).code == 0
    assert tensorproof(*second[:-2]).code == 1


def test_the_readme_has_a_place_for_the_measured_headline() -> None:
    from benchmarks.paper import writing

    text = (ROOT / "README.md").read_text("utf-8")
    assert text.count(writing._BEGIN) == text.count(writing._END) == 1
    assert text.index(writing._BEGIN) < text.index(writing._END)


def test_relative_links_lead_somewhere() -> None:
    for path in DOCUMENTS:
        for target in re.findall(r"\]\((?!https?:)([^)#\s]+)[^)]*\)", path.read_text("utf-8")):
            assert (path.parent / target).exists(), f"{name_of(path)}: {target}"
