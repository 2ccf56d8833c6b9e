"""The action of GitHub: its steps run in a real bash, with the files and variables that a runner gives them, on real models."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from examples.models import build

from tests.stored_schemas import GITHUB_ACTION, problems

pytestmark = pytest.mark.area("integrations")

ROOT = Path(__file__).resolve().parents[1]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
EXPRESSION = re.compile(r"\$\{\{\s*inputs\.([\w-]+)\s*\}\}")


class Done(NamedTuple):
    code: int
    log: str
    summary: str
    outputs: dict[str, str]


def step(name: str) -> dict[str, Any]:
    (found,) = [s for s in STEPS if s["name"] == name]
    return found


def run(name: str, folder: Path, given: dict[str, str], **variables: str) -> Done:
    """One step as the runner runs it: `bash -e -o pipefail`, inputs in its variables, an empty file for each of its answers."""
    values = {key: str(entry.get("default", "")) for key, entry in ACTION["inputs"].items()} | given
    environment = {key: EXPRESSION.sub(lambda m: values[m[1]], text) for key, text in step(name)["env"].items()}
    files = {key: str(folder / f".{key.lower()}") for key in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    for file in files.values():
        Path(file).write_text("")
    environment |= files | {
        "GITHUB_WORKSPACE": str(folder),
        "GITHUB_ACTION_PATH": str(ROOT),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "TENSORPROOF_CACHE": "",
    }
    script = folder / ".step.sh"
    script.write_text(step(name)["run"])
    words = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", str(script)]
    done = subprocess.run(words, cwd=folder, env=environment | variables, capture_output=True, text=True, timeout=300)
    outputs = dict(line.split("=", 1) for line in Path(files["GITHUB_OUTPUT"]).read_text().splitlines())
    return Done(done.returncode, done.stdout + done.stderr, Path(files["GITHUB_STEP_SUMMARY"]).read_text(), outputs)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    build(tmp_path / "built")
    (tmp_path / "nets" / "deep").mkdir(parents=True)
    shutil.copy(tmp_path / "built" / "naive_cross_entropy.onnx", tmp_path / "nets" / "naive.onnx")
    shutil.copy(tmp_path / "built" / "stable_softmax.onnx", tmp_path / "nets" / "deep" / "with space.onnx")
    return tmp_path


def check(project: Path, **given: str) -> Done:
    return run("Check models", project, given)


def test_a_defect_is_in_log_summary_and_sarif(project: Path) -> None:
    done = check(project, models="nets/**/*.onnx", args="--seed 0")
    assert done.code == 1, done.log
    assert done.outputs == {"exit-code": "1", "sarif": "tensorproof.sarif"}
    assert re.search(r"^::error file=nets/naive\.onnx,title=NUM101", done.log, re.MULTILINE)
    assert done.summary.startswith("## tensorproof\n") and "| NUM101 | confirmed |" in done.summary
    assert "<code>nets/deep/with space.onnx</code>" in done.summary
    document = json.loads((project / "tensorproof.sarif").read_text())
    results = document["runs"][0]["results"]
    assert "NUM101" in {result["ruleId"] for result in results}
    uris = {a["location"]["uri"] for a in document["runs"][0]["artifacts"]}
    assert uris == {"nets/naive.onnx", "nets/deep/with%20space.onnx"}


def test_a_sound_model_is_clean(project: Path) -> None:
    done = check(
        project, models="\n  nets/deep/with space.onnx  \n", args="--range 'logits=-1000:1000'", format="terminal", summary="false"
    )
    assert (done.code, done.summary) == (0, ""), done.log
    assert done.outputs == {"exit-code": "0", "sarif": "tensorproof.sarif"}
    assert "logits [-1000, 1000] (declared)" in done.log


@pytest.mark.parametrize(
    "given",
    [{"models": "missing.onnx"}, {"models": "nets/naive.onnx", "args": "--nope"}, {"models": "none/*.onnx"}, {"models": " \n"}],
)
def test_mistakes_keep_their_exit_code(project: Path, given: dict[str, str]) -> None:
    done = check(project, **given)
    assert done.code == 2, done.log
    assert done.outputs == {"exit-code": "2"}


HOSTILE = [
    "$(touch pwned)",
    "`touch pwned`",
    "'; touch pwned; '",
    '"; touch pwned; "',
    "&& touch pwned",
    "| touch pwned",
    "--debug",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_no_input_is_run(project: Path, text: str) -> None:
    """Whatever is written into an input, it is a name or a word, and the only trace is an error."""
    for given in ({"models": text}, {"models": "nets/naive.onnx", "args": text}, {"models": "nets/naive.onnx", "format": text}):
        done = check(project, **given)
        assert not (project / "pwned").exists()
        assert done.code in (1, 2)


def test_the_schema_of_actions_holds() -> None:
    assert problems(ACTION, GITHUB_ACTION) == []
    assert problems(ACTION | {"runs": {"using": "composite", "steps": [{"run": "true"}]}}, GITHUB_ACTION), "a step needs its shell"


def test_inputs_are_never_part_of_a_script() -> None:
    for found in STEPS:
        assert "${{" not in found.get("run", ""), found["name"]
        assert "run" not in found or found["shell"] == "bash"


def test_every_expression_means_something() -> None:
    text = (ROOT / "action.yml").read_text()
    assert set(re.findall(r"inputs\.([\w-]+)", text)) == set(ACTION["inputs"])
    outputs = set(re.findall(r"steps\.check\.outputs\.([\w-]+)", text))
    assert outputs == set(ACTION["outputs"]) == {"exit-code", "sarif"}
    for entry in ACTION["inputs"].values():
        assert entry["description"] and ("default" in entry) != entry["required"]


def test_the_upload_is_the_official_one_and_always_runs() -> None:
    upload = step("Upload to code scanning")
    assert upload["uses"].startswith("github/codeql-action/upload-sarif@v")
    assert upload["if"].startswith("always() && inputs.upload == 'true'")


def test_the_page_names_what_there_is() -> None:
    page = (ROOT / "docs" / "integrations.md").read_text("utf-8")
    found: dict[str, Any] = {}
    for block in re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        found |= yaml.safe_load(block)
    assert set(found["steps"][1]["with"]) <= set(ACTION["inputs"])
    assert all(f"`{name}`" in page for name in ACTION["inputs"])
    hooks = {hook["id"] for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}
    assert {hook["id"] for hook in found["repos"][0]["hooks"]} == hooks


@pytest.mark.long
def test_the_install_step_installs_this_checkout(tmp_path: Path) -> None:
    """Into an environment of its own, with all dependencies and an extra."""
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "environment")], check=True)
    path = f"{tmp_path / 'environment' / 'bin'}:/usr/bin:/bin"
    pins = str(ROOT / "constraints.txt")
    done = run("Install tensorproof", tmp_path, {"extras": "lsp"}, PATH=path, PIP_CONSTRAINT=pins, HOME=os.environ.get("HOME", "/"))
    assert done.code == 0, done.log
    listed = subprocess.run(
        ["tensorproof", "version"], env={"PATH": path}, capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert listed.stdout.startswith("tensorproof ")
    subprocess.run(["python", "-c", "import pygls"], env={"PATH": path}, check=True, cwd=tmp_path)
