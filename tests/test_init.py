"""`tensorproof init`: what it writes is read back, nothing is lost, and the files for build servers do what they say."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import onnx
import pytest
import yaml
from examples.models import build
from onnx import TensorProto, helper

from tensorproof.configuration import Configuration, read_configuration
from tensorproof.project_files.ci_files import KINDS
from tests.commands import Result, saved, tensorproof
from tests.stored_schemas import GITHUB_WORKFLOW, GITLAB_CI, PRE_COMMIT_CONFIG, problems
from tests.test_reports import HOSTILE

pytestmark = pytest.mark.area("integrations")


@pytest.fixture(autouse=True)
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def init(*options: object) -> Result:
    return tensorproof("init", *options)


def identity(*names: str) -> onnx.ModelProto:
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 3]) for name in names]
    node = helper.make_node("Identity", [names[0]], ["y"])
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 3])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def uncommented() -> Configuration:
    """The configuration with every setting in force."""
    text = re.sub(r"^#(?=[a-z])", "", Path("pyproject.toml").read_text(), flags=re.MULTILINE)
    Path("all.toml").write_text(text)
    found = read_configuration(Path("all.toml"))
    assert found is not None
    return found


def test_every_setting_is_written_and_read_back() -> None:
    assert init().code == 0
    text = Path("pyproject.toml").read_text()
    assert read_configuration(Path("pyproject.toml")) == Configuration()
    found = uncommented()
    for setting in fields(Configuration):
        assert re.search(rf"^#{setting.name.replace('_', '-')} = ", text, re.MULTILINE), setting.name
        assert getattr(found, setting.name) not in (None, (), {}), setting.name


def test_the_settings_are_ones_that_a_check_takes() -> None:
    """Everything but the examples of names (dimensions, inputs, baseline) is in force, and a model is checked with it."""
    build(Path())
    for path in Path().glob("*.onnx"):
        if path.name != "stable_softmax.onnx":
            path.unlink()
    assert init().code == 0
    text = re.sub(r"^#(?=[a-z])(?!dims|inputs|baseline)", "", Path("pyproject.toml").read_text(), flags=re.MULTILINE)
    Path("pyproject.toml").write_text(text)
    result = tensorproof("check", "stable_softmax.onnx", "--format", "json")
    assert result.code == 0, result.err
    assert json.loads(result.out)["precision"] == "float16"


def test_models_are_found_with_their_inputs() -> None:
    Path("nets").mkdir()
    saved(identity("image"), Path("nets"), "a.onnx")
    saved(identity("image", "more"), Path("nets"), "b.onnx")
    Path("broken.onnx").write_bytes(b"no model")
    for hidden in (".git/c.onnx", "environment/lib/d.onnx"):
        Path(hidden).parent.mkdir(parents=True)
        saved(identity("image"), Path(hidden).parent, Path(hidden).name)
    Path("environment/pyvenv.cfg").touch()
    result = init()
    assert result.code == 0
    text = Path("pyproject.toml").read_text()
    assert "# nets/a.onnx has the inputs image [1, 3]" in text
    assert "# broken.onnx cannot be read: " in text
    assert "c.onnx" not in text and "d.onnx" not in text
    # What all models have, with what a check takes by default.
    assert '#ranges = { "image" = [-100, 100] }' in text
    assert [line.split(",")[0] for line in result.out.splitlines()[1:]] == [
        "found: broken.onnx",
        "found: nets/a.onnx",
        "found: nets/b.onnx",
    ]
    assert uncommented().ranges["image"].high == 100


def test_a_saved_model_is_found() -> None:
    import tensorflow as tf

    class Double(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, name="features")])
        def __call__(self, features):
            return {"y": 2 * features}

    module = Double()
    tf.saved_model.save(module, "nets/double", signatures=module.__call__)
    assert init().code == 0
    text = Path("pyproject.toml").read_text()
    assert "# nets/double has the inputs " in text and "features" in text


#: Protobuf holds neither an empty name of an input nor a lone surrogate.
NAMES = [name for name in HOSTILE if name and "\ud800" not in name]


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_any_name_of_an_input_is_written(name: str) -> None:
    saved(identity(name), Path(), "a.onnx")
    assert init().code == 0
    assert set(uncommented().ranges) == {name}
    lines = Path("pyproject.toml").read_text().splitlines()
    assert all(re.match(r"\[tool\.tensorproof\]$|$|# |#[a-z-]+ = ", line) for line in lines), lines


PROJECT = """\
[project]
name = "a"  # a comment
version = "1"

[tool.ruff]
line-length = 100"""


def test_a_project_keeps_what_it_has() -> None:
    Path("pyproject.toml").write_text(PROJECT)
    assert init().code == 0
    text = Path("pyproject.toml").read_text()
    assert text.startswith(PROJECT + "\n\n[tool.tensorproof]\n")


def test_nothing_is_overwritten_without_force() -> None:
    section = "[tool.tensorproof]\neffort = 2\n\n[tool.tensorproof.ranges]\nx = [0, 1]\n"
    Path("pyproject.toml").write_text(f"{section}\n{PROJECT}\n")
    result = init("--ci", "github")
    assert (result.code, result.err) == (2, "tensorproof: pyproject.toml: has [tool.tensorproof] already; --force replaces it\n")
    assert Path("pyproject.toml").read_text() == f"{section}\n{PROJECT}\n" and not Path(".github").exists()
    assert init("--force").code == 0
    text = Path("pyproject.toml").read_text()
    assert text.startswith(PROJECT) and "effort = 2" not in text
    assert read_configuration(Path("pyproject.toml")) == Configuration()


@pytest.mark.parametrize(
    "text",
    [
        "tool.tensorproof.effort = 2\n",
        "[tool]\ntensorproof = { effort = 2 }\n",
        'a = """\n[tool.tensorproof]\n"""\n[tool.tensorproof]\neffort = 1\n',
    ],
)
def test_what_cannot_be_replaced_safely_is_left_alone(text: str) -> None:
    Path("pyproject.toml").write_text(text)
    result = init("--force")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert Path("pyproject.toml").read_text() == text


@pytest.mark.parametrize("content", [b"[tool", b"\xff", b"tool = 1\n"])
def test_a_broken_project_is_one_line(content: bytes) -> None:
    Path("pyproject.toml").write_bytes(content)
    result = init()
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert Path("pyproject.toml").read_bytes() == content


def test_mistakes_are_one_line() -> None:
    for options in (("missing",), ("--ci", "jenkins")):
        result = init(*options)
        assert (result.code, result.err.count("\n")) == (2, 1)
    assert not Path("pyproject.toml").exists()


# -- continuous integration -------------------------------------------------------------------------------------------


SCHEMAS = {"github": GITHUB_WORKFLOW, "gitlab": GITLAB_CI, "pre-commit": PRE_COMMIT_CONFIG}


@pytest.mark.parametrize("kind", KINDS)
def test_files_are_written_once(kind: str) -> None:
    assert init("--ci", kind).code == 0
    (path,) = [p for p in Path().rglob("*.y*ml") if p.is_file()]
    content = yaml.safe_load(path.read_text())
    # YAML 1.1 reads the key `on` as a truth value.
    assert problems({"on" if key is True else key: value for key, value in content.items()}, SCHEMAS[kind]) == []
    path.write_text("mine")
    Path("pyproject.toml").unlink()
    result = init("--ci", kind)
    assert result.code == 2 and path.read_text() == "mine" and not Path("pyproject.toml").exists()
    assert init("--ci", kind, "--force").code == 0 and path.read_text() != "mine"


def run_bash(script: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """As GitHub and GitLab run a step: bash that stops at the first error, the tool on its path."""
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    return subprocess.run(
        ["bash", "-e", "-c", script], env={"PATH": path, "TENSORPROOF_CACHE": ""} | environment, capture_output=True, text=True
    )


def found_models() -> None:
    build(Path("nets"))
    for path in Path("nets").glob("*.onnx"):
        if path.name not in ("naive_cross_entropy.onnx", "stable_softmax.onnx"):
            path.unlink()
    (Path("nets") / "stable_softmax.onnx").rename("nets/with space.onnx")


def test_the_workflow_of_github_runs() -> None:
    found_models()
    assert init("--ci", "github").code == 0
    workflow: dict[Any, Any] = yaml.safe_load(Path(".github/workflows/tensorproof.yml").read_text())
    (step,) = [s for s in workflow["jobs"]["tensorproof"]["steps"] if s.get("name") == "Models"]
    done = run_bash(step["run"], step["env"] | {"GITHUB_STEP_SUMMARY": "summary.md"})
    assert done.returncode == 1, done.stderr
    assert "::error file=nets/naive_cross_entropy.onnx" in done.stdout
    assert "nets/with space.onnx" in Path("summary.md").read_text()
    assert json.loads(Path("tensorproof.sarif").read_text())["version"] == "2.1.0"


def test_the_job_of_gitlab_runs() -> None:
    found_models()
    result = init("--ci", "gitlab")
    assert "to do: add to .gitlab-ci.yml" in result.out
    job = yaml.safe_load(Path(".gitlab/tensorproof.yml").read_text())["tensorproof"]
    script = "\n".join(line for line in job["script"] if "pip install" not in line)
    Path("a.py").write_text("import torch\n")
    done = run_bash(script, job["variables"])
    assert done.returncode == 1, done.stderr
    listed = json.loads(Path(job["artifacts"]["reports"]["codequality"]).read_text())
    assert "nets/naive_cross_entropy.onnx" in {entry["location"]["path"] for entry in listed}
