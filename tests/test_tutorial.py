"""The tutorial, followed word for word: an empty folder, a shell, and a fixed model at the end."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.document_blocks import ROOT, blocks_of

pytestmark = pytest.mark.area("tutorial")

#: What a newcomer does and the test does not, with the reason.
NOT_RUN = {"pip install tensorproof": "the package under test is installed already, from this folder"}
_STATED = re.compile(r"# exit code (\d)$")


class Newcomer:
    """Types what the tutorial says, and compares what is printed with what it shows."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.printed = ""
        #: Every command that was typed, with its exit code, in order.
        self.typed: list[tuple[str, int]] = []
        # The folder of the interpreter has `python` and `tensorproof`; nothing of this clone is on any path.
        self.surroundings = {
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "HOME": str(folder.parent),
            "LANG": "C.UTF-8",
            "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
        }

    def run(self, words: list[str], text: str | None = None) -> int:
        done = subprocess.run(
            words, cwd=self.folder, env=self.surroundings, input=text, capture_output=True, text=True, timeout=300
        )
        self.printed = done.stdout
        assert "Traceback" not in done.stderr or "AssertionError" in done.stderr, done.stderr
        return done.returncode

    def type(self, command: str) -> None:
        if command in NOT_RUN:
            return
        stated = _STATED.search(command)
        code = self.run(["bash", "-c", command])
        self.typed.append((_STATED.sub("", command).strip(), code))
        assert code == (int(stated[1]) if stated else 0), (command, self.printed)

    def follow(self, document: Path) -> None:
        for block in blocks_of(document):
            match block.language, block.title:
                case "console", _:
                    printed = ""
                    for command in block.commands:
                        self.type(command)
                        printed += self.printed
                    self.printed = printed
                case "python" | "toml", str(name):
                    (self.folder / name).write_text(block.body)
                case "python", None:
                    assert self.run(["python", "-"], block.body) == 0
                case "diff", str():
                    (self.folder / "change.diff").write_text(block.body)
                    assert self.run(["git", "apply", "-p0", "change.diff"]) == 0
                case "text", None:
                    for line in block.body.splitlines():
                        assert line in self.printed.splitlines(), f"{line!r} is not in\n{self.printed}"
                case other:
                    pytest.fail(f"the tutorial has a block that nobody follows: {other}")


def test_a_newcomer_ends_with_a_fixed_model(tmp_path: Path) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    newcomer = Newcomer(folder)
    newcomer.follow(ROOT / "docs" / "tutorial.md")
    codes = [code for command, code in newcomer.typed if command == "python test_classifier.py"]
    assert codes == [1, 0], "the test of the failing input fails before the repair and passes after it"
    checks = [code for command, code in newcomer.typed if command.startswith("tensorproof check")]
    assert checks == [1, 0, 0, 0], "found; then the repaired copy, the repaired source and the gate are clean"
    for model in ("fixed.onnx", "classifier.onnx"):
        assert newcomer.run(["tensorproof", "check", model, "--strict", "--fail-on", "possible"]) == 0
        assert "findings  none" in newcomer.printed


def test_what_is_not_run_is_in_the_tutorial() -> None:
    typed = [c for block in blocks_of(ROOT / "docs" / "tutorial.md") if block.language == "console" for c in block.commands]
    assert all(command in typed for command in NOT_RUN)
