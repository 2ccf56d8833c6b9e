"""`Host`: the process that runs programs, as the process that asks for it sees it."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

_CHUNK = 1 << 16
#: Of what a program prints, this many bytes are kept.
_KEPT = 1 << 14
#: One thread adds up in one order: the same seed gives the same result. Sets of strings keep their order, too.
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}


class OutOfTime(Exception):
    """What was asked for took too long; the process is gone, with all that it started."""


class Died(Exception):
    """The process ended in the middle of something."""


class Host:
    """One process, in a group of its own, that is started when it is needed; use it as a context manager.

    `folder` is its working directory. What programs print goes to `told`, and the end of it is kept. `server` is the module that
    does what is asked.
    """

    def __init__(
        self, folder: Path, told: Callable[[bytes], None] | None = None, server: str = "tensorproof.expose.server"
    ) -> None:
        self._folder = folder
        self._told = told
        self._server = server
        self._process: subprocess.Popen[bytes] | None = None
        self._commands: BinaryIO | None = None
        self._events = -1
        self._output = -1
        self._printed = b""

    def __enter__(self) -> Host:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def printed(self) -> str:
        """The end of what programs printed."""
        return self._printed.decode("utf-8", "replace")

    def close(self) -> None:
        """End the process and everything that it started."""
        if self._process is None:
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        assert self._commands is not None
        with suppress(OSError):
            self._commands.close()
        os.close(self._events)
        os.close(self._output)
        self._process = None

    def ask(self, command: Mapping[str, Any], deadline: float | None = None) -> Iterator[dict[str, Any]]:
        """Send a command, and give its events as they come; the last one is `done`.

        Raises `OutOfTime` at the deadline (of `time.monotonic`), and `Died`.
        """
        self._start()
        assert self._commands is not None
        with suppress(BrokenPipeError):
            self._commands.write(json.dumps(command).encode() + b"\n")
            self._commands.flush()
        for line in self._lines(deadline):
            event: dict[str, Any] = json.loads(line)
            yield event
            if event["event"] == "done":
                return
        self.close()
        raise Died

    def _lines(self, deadline: float | None) -> Iterator[bytes]:
        """Lines of events, to the end of the stream. Neither stream is waited on alone: a program that prints is never held up."""
        held = b""
        with selectors.DefaultSelector() as selector:
            for number in (self._events, self._output):
                selector.register(number, selectors.EVENT_READ)
            while True:
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    self.close()
                    raise OutOfTime
                for key, _ in selector.select(left):
                    chunk = os.read(key.fd, _CHUNK)
                    if key.fd == self._output:
                        self._listen(chunk)
                        if not chunk:
                            selector.unregister(key.fd)
                    elif not chunk:
                        return
                    else:
                        *lines, held = (held + chunk).split(b"\n")
                        yield from lines

    def _listen(self, chunk: bytes) -> None:
        self._printed = (self._printed + chunk)[-_KEPT:]
        if self._told is not None and chunk:
            self._told(chunk)

    def _start(self) -> None:
        if self._process is not None:
            return
        self._events, events = os.pipe()
        self._output, output = os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-u", "-m", self._server, str(events)],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                cwd=self._folder,
                env={**ENVIRONMENT, **os.environ},
                pass_fds=(events,),
                start_new_session=True,
            )
        finally:
            os.close(events)
            os.close(output)
        assert self._process.stdin is not None
        self._commands = self._process.stdin  # type: ignore[assignment]
