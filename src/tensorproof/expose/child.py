"""The process that runs a program: python -m tensorproof.expose.child SETTINGS FOLDER DESCRIPTOR.

Seeds are fixed, the frameworks that the program imports are put under observation, and the program runs as `__main__`. A program
that makes its values once is run again with what these were moved to. Events go to the descriptor.
"""

from __future__ import annotations

import os
import random
import runpy
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from tensorproof.confirm.witness import npz_bytes
from tensorproof.expose.events import Pipe
from tensorproof.expose.imports import frameworks_of
from tensorproof.expose.raised import described
from tensorproof.expose.replays.recipe import read_arrays
from tensorproof.expose.search.board import Board
from tensorproof.expose.settings import Settings
from tensorproof.expose.stopping import Stop
from tensorproof.files import write_bytes
from tensorproof.formats import Array

#: How often a program is run with values that were moved.
_ROUNDS = 8


def main(text: str, folder: Path, descriptor: int) -> None:
    """Run one program, in this process's working directory."""
    settings = Settings.from_json(text)
    run_rounds(settings, observers(Path(settings.script)), Pipe(descriptor), folder, lambda child: os.waitpid(child, 0)[1])


def run_rounds(settings: Settings, found: list[Any], pipe: Pipe, folder: Path, wait: Callable[[int], int]) -> None:
    """Run a program, more than once where that leads on. `wait` gives the status that a process ended with.

    Each run is a fork: what the program leaves behind goes with it, and frameworks are imported once.
    """
    overrides = read_arrays(Path(settings.overrides)) if settings.overrides is not None else {}
    for number in range(_ROUNDS):
        moved = folder / f"moved{number}.npz"
        status = wait(forked(run_program, settings, found, pipe, overrides, moved))
        if status:
            pipe.send("ended", how="failed", text=_died(status))
        if status or not moved.exists():
            return
        overrides = read_arrays(moved)
    pipe.send("ended", how="stopped", text=f"the program was run {_ROUNDS} times with values that were moved")


def forked(action: Callable[..., int | None], *arguments: Any) -> int:
    """The process that does something and ends with the code that this gives; it has no standard input."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        code = action(*arguments) or 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        # Threads and workers of the program do not hold the process back.
        os._exit(code)


def _died(status: int) -> str:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return f"the process of the program was ended by signal {number} ({signal.strsignal(number) or 'unknown'})"
    return f"the process of the program ended with {os.WEXITSTATUS(status)}"


def run_program(settings: Settings, frameworks: list[Any], pipe: Pipe, overrides: Mapping[str, Array], moved: Path) -> None:
    """One run in this process; values that a further run is to have are written to `moved`."""
    script = Path(settings.script)
    pipe.taken_over()
    board = Board(frozenset(settings.settled))
    random.seed(settings.seed)
    # Programs draw from the generator that NumPy has for all.
    np.random.seed(settings.seed % 2**32)  # noqa: NPY002
    with ExitStack() as stack:
        runs = [made(settings, board, pipe, moved.parent, overrides) for made in frameworks]
        for run in runs:
            run.seed()
            stack.enter_context(run)
        how, text = _outcome(settings, script, runs)
        for run in runs:
            _tell_values(settings, run, pipe)
        values = {name: array for run in runs if run.wants_another_run for name, array in run.moved.items()}
        if how == "finished" and values and settings.moves_inputs:
            write_bytes(moved, npz_bytes(values))
        else:
            pipe.send("ended", how=how, text=text, operators=_total(getattr(run, "operators", None) for run in runs))


def _tell_values(settings: Settings, run: Any, pipe: Pipe) -> None:
    """The values that inputs are made of, where a framework keeps account of them."""
    for name, label, legal in run.legal() if hasattr(run, "legal") else ():
        is_declared = any(key in settings.ranges for key in (name, label, "*"))
        pipe.send("value", name=name, label=label, low=legal.low, high=legal.high, is_declared=is_declared)


def _total(counts: Iterable[int | None]) -> int | None:
    """The sum of counts; None if one of them is not known."""
    known = list(counts)
    return None if None in known else sum(filter(None, known))


def _outcome(settings: Settings, script: Path, runs: list[Any]) -> tuple[str, str]:
    """How the program ended, and what is to be said about it."""
    try:
        sys.argv = [settings.script, *settings.arguments]
        sys.path[0] = str(script.resolve().parent)
        try:
            runpy.run_path(str(script), run_name="__main__")
        except (Exception, SystemExit) as error:
            if not isinstance(error, SystemExit) or error.code not in (None, 0):
                for run in runs:
                    if hasattr(run, "raised"):
                        run.raised(error)
                return "failed", described(error, script)
        for run in runs:
            run.finish()
    except Stop as stop:
        return "stopped", stop.reason
    except KeyboardInterrupt:
        return "stopped", "interrupted"
    return "finished", ""


def observers(script: Path) -> list[Any]:
    """What observes the frameworks that a program imports. What takes long to import is imported here, once for all runs."""
    names = frameworks_of(script)
    found: list[Any] = []
    if "torch" in names:
        from tensorproof.expose.pytorch.program import TorchRun
        from tensorproof.expose.search.vulnerable import weaknesses

        # The first optimiser of a program asks for it.
        import_module("torch._dynamo")
        weaknesses("aten")
        found.append(TorchRun)
    if "tensorflow" in names:
        from tensorproof.expose.eager.program import TensorflowEagerRun
        from tensorproof.expose.search.vulnerable import weaknesses
        from tensorproof.expose.sessions.program import TensorflowSessions

        # Keras comes with it. Nothing of either is computed before the fork: their threads would be missing after it.
        import_module("tensorflow").keras.__version__  # noqa: B018
        weaknesses("tensorflow")
        found += [TensorflowSessions, TensorflowEagerRun]
    return found


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
