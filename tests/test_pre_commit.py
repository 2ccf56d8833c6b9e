"""The hooks of pre-commit, run by pre-commit itself in a scratch repository."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from examples.models import build

pytestmark = pytest.mark.area("integrations")

ROOT = Path(__file__).resolve().parents[1]
HOOKS: list[dict[str, Any]] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
WRONG = "import torch\n\nlogits = torch.nn.Linear(100, 10)(torch.randn(32, 120))\n"
RIGHT = WRONG.replace("120", "100")


class Repository:
    """A repository of git with hooks of pre-commit."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = os.environ | {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PRE_COMMIT_HOME": str(folder.parent / "pre-commit-home"),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "TENSORPROOF_CACHE": "",
        }
        self.run("git", "init", "--quiet", "--initial-branch", "main")
        self.run("git", "config", "user.name", "Somebody")
        self.run("git", "config", "user.email", "somebody@example.org")

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(words, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=900)

    def add(self, name: str, content: str | bytes) -> None:
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        assert self.run("git", "add", "--all").returncode == 0

    def commit(self) -> subprocess.CompletedProcess[str]:
        return self.run("git", "commit", "--quiet", "--message", "change")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    (tmp_path / "work").mkdir()
    return Repository(tmp_path / "work")


@pytest.fixture
def hooked(repository: Repository) -> Repository:
    """With the hooks of this project, which find the installed tool instead of an environment that is made for them."""
    hooks = [hook | {"language": "system"} for hook in HOOKS]
    repository.add(".pre-commit-config.yaml", yaml.safe_dump({"repos": [{"repo": "local", "hooks": hooks}]}))
    assert repository.run("pre-commit", "install").returncode == 0
    done = repository.commit()
    assert done.returncode == 0, done.stderr
    return repository


def notebook(source: str) -> str:
    cell = {"cell_type": "code", "source": source, "metadata": {}, "outputs": [], "execution_count": None}
    return json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def test_there_are_two_hooks() -> None:
    assert [hook["id"] for hook in HOOKS] == ["tensorproof-shapes", "tensorproof-check"]
    assert {hook["language"] for hook in HOOKS} == {"python"}
    words = [sys.executable, "-m", "pre_commit", "validate-manifest", str(ROOT / ".pre-commit-hooks.yaml")]
    done = subprocess.run(words, capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_a_wrong_shape_is_not_committed(hooked: Repository) -> None:
    hooked.add("train.py", WRONG)
    done = hooked.commit()
    assert done.returncode == 1
    assert "train.py:3:" in done.stderr + done.stdout and "SHP105" in done.stderr + done.stdout
    hooked.add("train.py", RIGHT)
    assert hooked.commit().returncode == 0


def test_notebooks_are_read(hooked: Repository) -> None:
    hooked.add("walk.ipynb", notebook(WRONG))
    done = hooked.commit()
    assert done.returncode == 1 and "walk.ipynb:cell 1, line 3" in done.stderr + done.stdout


def test_what_is_not_changed_is_not_looked_at(hooked: Repository) -> None:
    hooked.add("old.py", WRONG)
    assert hooked.run("git", "commit", "--quiet", "--no-verify", "--message", "old").returncode == 0
    hooked.add("new.py", RIGHT)
    hooked.add("notes.txt", "text")
    done = hooked.commit()
    assert done.returncode == 0, done.stderr


def test_a_defective_model_is_not_committed(hooked: Repository) -> None:
    build(hooked.folder.parent / "built")
    model = (hooked.folder.parent / "built" / "naive_cross_entropy.onnx").read_bytes()
    hooked.add("net.onnx", model)
    done = hooked.commit()
    told = done.stderr + done.stdout
    assert done.returncode == 1 and "NUM101 confirmed" in told and "tensorproof shapes" in told
    # The settings of the project hold.
    hooked.add("pyproject.toml", '[tool.tensorproof]\nignore = ["NUM"]\n')
    assert hooked.run("git", "reset", "--quiet", "tensorproof-witnesses").returncode in (0, 128)
    done = hooked.commit()
    assert done.returncode == 0, done.stderr + done.stdout


@pytest.mark.long
def test_pre_commit_builds_the_environment_by_itself(repository: Repository) -> None:
    """From a clone of this project, with all dependencies."""
    repository.add("train.py", WRONG)
    done = repository.run("pre-commit", "try-repo", str(ROOT), "tensorproof-shapes", "--all-files")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "SHP105" in done.stdout
