"""Runs programs under observation for a few steps, and tells what the static analysis said of their suspects.

    python -m tests.ranked_runs torch|tensorflow

reads one job as JSON per line of its standard input (`script`, `arguments`, `settings`, `lie`) and answers each with a line: `suspects` in the
order in which they are driven, `proven`, the events that the program sent, and the time that scans took on the CPU. Each program runs in a
fork, so that its framework is imported once. With `lie`, every suspect counts as proven safe, whatever the analysis says.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import runpy
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from tensorproof.expose.events import Pipe
from tensorproof.expose.search import static_rank
from tensorproof.expose.search.board import Board
from tensorproof.expose.search.static_rank import Standing
from tensorproof.expose.settings import Settings
from tensorproof.expose.stopping import Stop

#: Seconds that one program may take.
LONGEST = 60


def engine(framework: str) -> tuple[Any, Any]:
    """What observes programs of a framework, and the module that scans them."""
    if framework == "torch":
        import torch._dynamo

        from tensorproof.expose.pytorch import static
        from tensorproof.expose.pytorch.program import TorchRun

        assert torch._dynamo is not None
        return TorchRun, static
    import tensorflow as tf

    from tensorproof.expose.sessions import static
    from tensorproof.expose.sessions.program import TensorflowSessions

    assert tf.__version__
    return TensorflowSessions, static


def run(job: dict[str, Any], observer: Any, module: Any) -> dict[str, Any]:
    folder = Path(tempfile.mkdtemp())
    pipe = Pipe(os.open(folder / "events", os.O_WRONLY | os.O_CREAT | os.O_TRUNC))
    settings = Settings(job["script"], tuple(job["arguments"]), **job["settings"])
    board, spent = Board(frozenset(settings.settled)), 0.0
    scanned = module.scanned

    def timed(*arguments: Any) -> Any:
        nonlocal spent
        began = time.process_time()
        found = scanned(*arguments)
        spent += time.process_time() - began
        return {name: Standing(True) for name in found} if job["lie"] else found

    module.scanned = timed
    random.seed(settings.seed)
    np.random.seed(settings.seed)  # noqa: NPY002
    observed = observer(settings, board, pipe, folder, {})
    observed.seed()
    sys.argv = [settings.script, *settings.arguments]
    sys.path[0] = str(Path(settings.script).parent)
    error = ""
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
        try:
            with observed:
                runpy.run_path(settings.script, run_name="__main__")
                observed.finish()
        except Stop as stop:
            error = "" if stop.reason else "stopped"
        except Exception as raised:
            error = f"{type(raised).__name__}: {raised}"
    events = [json.loads(line) for line in (folder / "events").read_text().splitlines()]
    open_ = sorted((s for s in board.suspects.values() if not s.is_settled), key=lambda suspect: suspect.rank)
    told = {"proven": set[str]()}
    for event in events:
        if event["event"] == "proven":
            (told["proven"].add if event["is_proven"] else told["proven"].discard)(event["name"])
    return {
        "suspects": sorted(board.suspects),
        "order": [suspect.name for suspect in open_],
        "proven": sorted(told["proven"]),
        "events": [event for event in events if event["event"] in ("note", "failure", "proven")],
        "error": error,
        "seconds": spent,
    }


def main(framework: str) -> None:
    observer, module = engine(framework)
    assert static_rank.MOST_NODES
    for line in sys.stdin:
        read, write = os.pipe()
        child = os.fork()
        if not child:
            os.close(read)
            signal.alarm(LONGEST)
            try:
                with os.fdopen(write, "w") as answer:
                    json.dump(run(json.loads(line), observer, module), answer)
                os._exit(0)
            finally:
                os._exit(1)
        os.close(write)
        with os.fdopen(read) as answer:
            text = answer.read()
        os.waitpid(child, 0)
        print(text or json.dumps({"error": "the process died"}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
