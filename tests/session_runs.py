"""Runs programs of TensorFlow sessions, each in a fork of this process: TensorFlow is imported once.

    python -m tests.session_runs

reads one job as JSON per line of its standard input (`settings`, `folder`, `observed`) and answers each with the status that the
process ended with. Events go to the file `events` in the job's folder, what the program prints to `printed`. A program that is not
observed runs as it would by itself, with the same seeds.
"""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np

from tensorproof.expose.events import Pipe
from tensorproof.expose.search.board import Board
from tensorproof.expose.sessions.program import TensorflowSessions
from tensorproof.expose.settings import Settings
from tensorproof.expose.stopping import Stop

#: Seconds that one program may take.
LONGEST = 120


def run(settings: Settings, folder: Path, observed: bool) -> None:
    pipe = Pipe(os.open(folder / "events", os.O_WRONLY | os.O_CREAT | os.O_TRUNC))
    overrides = dict[str, Any]()
    if settings.overrides is not None:
        with np.load(settings.overrides) as archive:
            overrides = {n: archive[f"array_{i}"] for i, n in enumerate(json.loads(bytes(archive["names"])))}
    sessions = TensorflowSessions(settings, Board(frozenset(settings.settled)), pipe, folder, overrides)
    sessions.seed()
    sys.argv = [settings.script, *settings.arguments]
    with (folder / "printed").open("w") as printed, contextlib.redirect_stdout(printed):
        try:
            with sessions if observed else contextlib.nullcontext():
                runpy.run_path(settings.script, run_name="__main__")
            pipe.send("ended", how="finished", text="")
        except Stop as stop:
            pipe.send("ended", how="stopped", text=stop.reason)
        except Exception as error:
            pipe.send("ended", how="failed", text=f"{type(error).__name__}: {error}")


def main() -> None:
    import tensorflow as tf

    assert tf.__version__
    for line in sys.stdin:
        job = json.loads(line)
        child = os.fork()
        if not child:
            signal.alarm(LONGEST)
            try:
                run(Settings.from_json(json.dumps(job["settings"])), Path(job["folder"]), job["observed"])
                os._exit(0)
            finally:
                os._exit(1)
        print(json.dumps(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
