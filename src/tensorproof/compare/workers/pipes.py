"""`Pipes`: the three streams of a worker process. One deadline holds for sending a request and reading the whole answer."""

from __future__ import annotations

import os
import re
import selectors
import subprocess
import time
from collections import deque
from typing import Any

from tensorproof.compare.backends.backend import ANNOUNCEMENT
from tensorproof.compare.drawing import Array
from tensorproof.compare.workers import protocol

_CHUNK = 1 << 20
#: Lines of the standard error stream that are kept.
_LINES = 40
#: Information and warnings of TensorFlow and Python; the level, time and thread before an error.
_CHATTER = re.compile(r"[IW]\d{4} |WARNING|INFO|.*\bWarning:")
_STAMP = re.compile(r"^[EF]\d{4} [\d:.]+ +\d+ ")


class TooLate(Exception):
    """The deadline passed."""


class Pipes:
    """Streams of a process, none of which is ever waited on alone: a process that floods one cannot block the others."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        self._requests, self._answers, self._complaints = process.stdin.fileno(), process.stdout.fileno(), process.stderr.fileno()
        for number in (self._requests, self._answers, self._complaints):
            os.set_blocking(number, False)
        self._lines: deque[str] = deque(maxlen=_LINES)
        self._unfinished = b""
        #: The layer that the process last said it was at.
        self.layer: str | None = None

    def exchange(self, request: bytes, seconds: float) -> tuple[dict[str, Any], dict[str, Array]]:
        """Send a request and read its answer. `TooLate`, or `EOFError` when the process is gone, or `protocol.Garbled`."""
        deadline = time.monotonic() + seconds
        self.layer = None
        rest = memoryview(request)
        answer = bytearray()
        wanted = protocol.HEADER_SIZE
        with selectors.DefaultSelector() as selector:
            selector.register(self._answers, selectors.EVENT_READ)
            selector.register(self._complaints, selectors.EVENT_READ)
            selector.register(self._requests, selectors.EVENT_WRITE)
            while len(answer) < wanted:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise TooLate
                for key, _ in selector.select(left):
                    if key.fd == self._requests:
                        rest = rest[_write(key.fd, rest) :]
                        if not rest:
                            selector.unregister(key.fd)
                    elif key.fd == self._complaints:
                        if not self._listen():
                            selector.unregister(key.fd)
                    else:
                        chunk = os.read(key.fd, _CHUNK)
                        if not chunk:
                            raise EOFError
                        answer += chunk
                        if wanted == protocol.HEADER_SIZE and len(answer) >= wanted:
                            wanted += protocol.body_size(bytes(answer[:wanted]))
        if len(answer) > wanted:
            raise protocol.Garbled("an answer is followed by something else")
        return protocol.unpack(bytes(answer[: protocol.HEADER_SIZE]), memoryview(answer)[protocol.HEADER_SIZE :])

    def last_line(self) -> str:
        """The last thing that the process complained about, after it ended."""
        while self._listen():
            pass
        lines = [*self._lines, self._unfinished.decode(errors="replace")]
        return next((_STAMP.sub("", line).strip() for line in reversed(lines) if line.strip() and not _CHATTER.match(line)), "")

    def _listen(self) -> bool:
        """Read what is there of standard error; False at its end, or when there is nothing."""
        try:
            chunk = os.read(self._complaints, _CHUNK)
        except BlockingIOError:
            return False
        *lines, self._unfinished = (self._unfinished + chunk).split(b"\n")
        self._unfinished = self._unfinished[-_CHUNK:]
        for line in lines:
            if line.startswith(ANNOUNCEMENT):
                self.layer = line.removeprefix(ANNOUNCEMENT).decode() or None
            else:
                self._lines.append(line[:2000].decode(errors="replace"))
        return bool(chunk)


def _write(number: int, data: memoryview) -> int:
    try:
        return os.write(number, data[:_CHUNK])
    except BlockingIOError:
        return 0
