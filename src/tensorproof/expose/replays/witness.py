"""Witnesses of failures of programs: written, and replayed.

What a framework has of its own is its script: `pytorch.witness.script(recipe, folder)`, and the same of others. Failures name the
package of theirs.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tensorproof.confirm.witness import npz_bytes
from tensorproof.expose.events import Failure
from tensorproof.expose.host import ENVIRONMENT, Died, Host
from tensorproof.expose.replays.recipe import Recipe, compact
from tensorproof.expose.workplace import Workplace
from tensorproof.files import write_bytes, write_text
from tensorproof.findings import Witness

#: Replays that making a witness smaller may take.
MOST_REPLAYS = 8
#: Seconds that one replay may take.
REPLAY_LIMIT = 120.0
#: Exit codes of a replay.
FAILED = 1


@dataclass(frozen=True, slots=True)
class Kept:
    """What is left of a failure: the recipe that was kept, its files, and whether a fresh process failed in the same way."""

    recipe: Recipe
    witness: Witness | None
    is_shown: bool
    account: str


def _scripts(failure: Failure) -> str:
    """The module that writes the script of a failure."""
    return f"tensorproof.expose.{failure.replay}.witness"


def has_replay(failure: Failure) -> bool:
    """Whether there are scripts for a failure."""
    return bool(failure.replay) and find_spec(_scripts(failure)) is not None


def write(recipe: Recipe, folder: Path) -> Witness:
    """Write the arrays and the script."""
    arrays, script = folder / f"{recipe.name}.npz", folder / f"test_{recipe.name}.py"
    module: Any = import_module(_scripts(recipe.failure))
    write_bytes(arrays, npz_bytes({name: compact(array) for name, array in recipe.values.items()}))
    write_text(script, module.script(recipe, folder))
    return Witness(str(arrays), str(script))


def replayed(witness: Witness, workplace: Workplace, limit: float = REPLAY_LIMIT) -> tuple[int | None, str]:
    """The exit code of a replay in a fresh process, and the last line that it printed; None if it took too long."""
    workplace.refresh()
    # Not a pipe: workers of the program hold it open, and one whose parent is gone before it has looked for it never ends.
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            [sys.executable, str(Path(witness.script).resolve()), *_elsewhere(workplace)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=workplace.folder,
            env={**ENVIRONMENT, **os.environ},
            start_new_session=True,
        )
        try:
            process.wait(limit)
        except subprocess.TimeoutExpired:
            return None, f"it took more than {limit:.0f} s"
        finally:
            # Workers of the program go with it.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output.seek(0)
        lines = output.read().decode("utf-8", "replace").strip().splitlines()
    return process.returncode, lines[-1] if lines else "nothing was printed"


def _elsewhere(workplace: Workplace) -> list[str]:
    """A replay of a program in a sandbox is run in the sandbox, too."""
    return [] if workplace.copy is None else ["--program", str(workplace.script), "--folder", str(workplace.folder)]


class Attempts:
    """Replays of recipes in the process that has the framework loaded; there may be no more than `left` of them."""

    def __init__(self, host: Host, workplace: Workplace, scratch: Path, deadline: float | None) -> None:
        self._host = host
        self._workplace = workplace
        self._scratch = scratch
        self._deadline = deadline
        self.left = MOST_REPLAYS

    def fails(self, recipe: Recipe) -> dict[str, Any] | None:
        """What a replay that fails saw; None if it does not fail, or cannot be run any more."""
        remaining = REPLAY_LIMIT if self._deadline is None else self._deadline - time.monotonic()
        if self.left <= 0 or remaining <= 0:
            return None
        self.left -= 1
        self._workplace.refresh()
        details = self._scratch / "details.json"
        details.unlink(missing_ok=True)
        witness = write(recipe, self._scratch)
        words = [witness.script, *_elsewhere(self._workplace), "--details", str(details)]
        command = {"replay": words, "limit": min(remaining, REPLAY_LIMIT), "output": str(self._scratch / "printed.txt")}
        try:
            code = next(event["code"] for event in self._host.ask(command) if event["event"] == "done")
        except Died:
            return None
        if code != FAILED or not details.exists():
            return None
        return json.loads(details.read_text())
