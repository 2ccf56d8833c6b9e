"""The process in which programs and replays are run, one after the other: python -m tensorproof.expose.server DESCRIPTOR.

Frameworks take seconds to import: here they are imported once, and each run is a fork. Commands are lines of JSON on standard
input:

    {"run": settings, "folder": path}                              a program under observation
    {"replay": [script, arguments...], "limit": s, "output": path} a script; what it prints goes to a file

Events go to the descriptor; `done` is the last one of each command, with the exit code of a replay, and the CPU
seconds of the forks. When standard input ends, whoever started this process is gone: what runs is ended, too.
"""

from __future__ import annotations

import json
import os
import resource
import runpy
import select
import signal
import sys
import time
from pathlib import Path
from typing import Any

from tensorproof.expose.child import forked, observers, run_rounds
from tensorproof.expose.events import Pipe
from tensorproof.expose.settings import Settings

#: How often a process that runs is looked after.
_INTERVAL = 0.02
_CHUNK = 1 << 16


class Commands:
    """Lines of standard input, read so that its end is seen while something runs."""

    def __init__(self) -> None:
        self._held = b""
        self._is_over = False

    def next(self) -> dict[str, Any] | None:
        """The next command; None after the last one."""
        while b"\n" not in self._held:
            if self._is_over:
                return None
            self._read()
        line, _, self._held = self._held.partition(b"\n")
        return json.loads(line)

    def is_over(self, seconds: float) -> bool:
        """Whether nobody listens any more; waits for that long."""
        if self._is_over:
            return True
        if select.select([0], [], [], seconds)[0]:
            self._read()
        return self._is_over

    def _read(self) -> None:
        chunk = os.read(0, _CHUNK)
        self._held += chunk
        self._is_over = not chunk


def serve(descriptor: int) -> None:
    """Do what is asked until standard input ends."""
    # A program has the place of its script here; this process was started without one.
    sys.path.insert(0, "")
    pipe, commands = Pipe(descriptor), Commands()
    while (command := commands.next()) is not None:
        code, began = 0, _cpu_seconds()
        if "run" in command:
            settings = Settings.from_json(command["run"])
            run_rounds(
                settings, observers(Path(settings.script)), pipe, Path(command["folder"]), lambda child: _wait(child, commands)
            )
        else:
            child = forked(_replay, command["replay"], Path(command["output"]))
            code = os.waitstatus_to_exitcode(_wait(child, commands, command["limit"]))
        pipe.send("done", code=code, cpu=_cpu_seconds() - began)


def _cpu_seconds() -> float:
    """CPU time of the forks that have ended, with the processes that they waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _wait(child: int, commands: Commands, limit: float | None = None) -> int:
    """The status that a process ended with; it is ended at its limit, and when nobody listens any more."""
    deadline = None if limit is None else time.monotonic() + limit
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status
        if commands.is_over(_INTERVAL) or (deadline is not None and time.monotonic() > deadline):
            os.kill(child, signal.SIGKILL)
            return os.waitpid(child, 0)[1]


def _replay(words: list[str], output: Path) -> int:
    """Run a script as `__main__`, in a fork."""
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(file, 1)
    os.dup2(file, 2)
    sys.argv = words
    try:
        runpy.run_path(words[0], run_name="__main__")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


if __name__ == "__main__":
    serve(int(sys.argv[1]))
