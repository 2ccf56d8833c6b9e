"""A process that runs models: a crash of the runtime (a fault in a kernel, a broken model) never takes the analyser with it.

The parent starts it as `python -m tensorproof.execute.worker` and talks to it in length-prefixed pickles over its standard
streams. Both ends are this package: nothing else is ever read.
"""

from __future__ import annotations

import math
import os
import pickle
import selectors
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

Feeds = Mapping[str, npt.NDArray[Any]]

_HEADER = struct.Struct("<Q")


class Measure(NamedTuple):
    """A result in two figures: its largest finite magnitude, and how many elements are NaN or infinite."""

    largest: float
    not_finite: int

    @classmethod
    def of(cls, result: Any) -> Measure:
        """The measure of an array; what is no floating array has none."""
        if not isinstance(result, np.ndarray) or result.dtype.kind != "f":
            return cls(0.0, 0)
        largest = float(np.abs(result).max(initial=0))
        if math.isfinite(largest):
            return cls(largest, 0)
        finite = result[np.isfinite(result)]
        return cls(float(np.abs(finite).max(initial=0)), result.size - finite.size)


class WorkerDied(Exception):
    """The process ended; the message names the signal or exit code."""


class WorkerError(Exception):
    """The runtime refused the model or the input; the message is its first line."""


class Worker:
    """The parent's end. Use as a context manager."""

    #: What the process runs, and what it finds in its environment beside ours.
    module: ClassVar[str] = "tensorproof.execute.worker"
    environment: ClassVar[Mapping[str, str]] = {}

    def __init__(self, *, time_limit: float | None = None) -> None:
        self._deadline = None if time_limit is None else time.monotonic() + time_limit
        environment = {**os.environ, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"), **self.environment}
        package_root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        environment["PYTHONPATH"] = os.pathsep.join([package_root, environment.get("PYTHONPATH", "")]).rstrip(os.pathsep)
        self._process = subprocess.Popen(
            [sys.executable, "-m", self.module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                try:
                    stream.close()
                except OSError:
                    pass

    def load(self, model: bytes, folder: str | None = None, *, threads: int = 1, flushes: bool = False) -> int:
        """Prepare a session; returns its handle.

        ONNX Runtime decides by the first session of a process whether subnormal numbers are flushed to zero in all of them.
        """
        return self._ask("load", model, folder, threads, flushes)

    def run(self, handle: int, feeds: Feeds) -> list[npt.NDArray[Any]]:
        """All outputs of a session."""
        return self._ask("run", handle, dict(feeds))

    def measure(self, handle: int, feeds: Feeds, whole: int) -> tuple[list[npt.NDArray[Any]], list[Measure]]:
        """The first `whole` outputs of a session, and measures of the others: large values stay in the process."""
        arrays, measures = self._ask("measure", handle, dict(feeds), whole)
        return arrays, [Measure(largest, count) for largest, count in measures]

    def unload(self, handle: int) -> None:
        self._ask("unload", handle)

    def _ask(self, *request: Any) -> Any:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        try:
            _send(stdin, request)
            self._wait(stdout)
            kind, answer = _receive(stdout)
        except (OSError, EOFError):
            raise WorkerDied(_how_it_died(self._process)) from None
        if kind == "error":
            raise WorkerError(answer)
        return answer

    def _wait(self, stdout: Any) -> None:
        if self._deadline is None:
            return
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            if not selector.select(max(0.0, self._deadline - time.monotonic())):
                self._process.kill()
                raise WorkerDied("the time limit was reached")


def _how_it_died(process: subprocess.Popen[bytes]) -> str:
    code = process.wait()
    if code < 0:
        try:
            return f"the runtime was stopped by {signal.Signals(-code).name}"
        except ValueError:
            return f"the runtime was stopped by signal {-code}"
    return f"the runtime ended with code {code}"


def _send(stream: BinaryIO | Any, message: Any) -> None:
    data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    stream.write(_HEADER.pack(len(data)))
    stream.write(data)
    stream.flush()


def _receive(stream: BinaryIO | Any) -> Any:
    header = stream.read(_HEADER.size)
    if len(header) < _HEADER.size:
        raise EOFError
    (length,) = _HEADER.unpack(header)
    data = stream.read(length)
    if len(data) < length:
        raise EOFError
    return pickle.loads(data)


class _Sessions:
    """The child's end: ONNX Runtime sessions with optimisations off, so that every value is the file's own."""

    def __init__(self) -> None:
        self.sessions: dict[int, Any] = {}
        self.count = 0

    def load(self, model: bytes, folder: str | None, threads: int, flushes: bool) -> int:
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        if folder is not None:
            options.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
        if flushes:
            options.add_session_config_entry("session.set_denormal_as_zero", "1")
        self.count += 1
        self.sessions[self.count] = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        return self.count

    def run(self, handle: int, feeds: dict[str, Any]) -> list[Any]:
        import onnxruntime as ort

        session = self.sessions[handle]
        wanted = {i.name: i.type for i in session.get_inputs()}
        values: dict[str, Any] = {}
        for name, array in feeds.items():
            if name not in wanted:
                continue
            if array.dtype.kind == "V" or "float8" in wanted[name] or "bfloat16" in wanted[name]:
                code = {"tensor(bfloat16)": 16}.get(wanted[name])
                if code is None:
                    raise ValueError(f"inputs of type {wanted[name]} cannot be fed")
                values[name] = ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array.view("uint16"), code)
            else:
                values[name] = array
        return session.run(None, values)

    def measure(self, handle: int, feeds: dict[str, Any], whole: int) -> tuple[list[Any], list[tuple[float, ...]]]:
        results = self.run(handle, feeds)
        # Plain tuples: run as a program, this module is not the one that the parent knows the class from.
        return results[:whole], [tuple(Measure.of(result)) for result in results[whole:]]

    def unload(self, handle: int) -> None:
        self.sessions.pop(handle, None)


def serve(make: Callable[[], Any]) -> None:
    """Answer requests until the parent closes the pipe: each names a method of what `make` gives."""
    # Anything that the runtime prints must not mix with the answers: keep the pipe, point stdout elsewhere.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    requests = sys.stdin.buffer
    sessions = make()
    while True:
        try:
            verb, *arguments = _receive(requests)
        except EOFError:
            return
        try:
            answer = "ok", getattr(sessions, verb)(*arguments)
        except Exception as error:  # whatever the runtime raises is an answer
            answer = "error", (str(error).strip().splitlines() or [type(error).__name__])[0][:500]
        _send(answers, answer)


if __name__ == "__main__":
    serve(_Sessions)
