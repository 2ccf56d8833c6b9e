"""`Worker`: the parent's end of a worker process, kept alive between tests and started again when it dies or hangs."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from tensorproof.compare.backends.backend import Failure, Mode, ModelFacts, NetworkRun, Unavailable
from tensorproof.compare.drawing import Array, Arrays
from tensorproof.compare.spec import TestSpec
from tensorproof.compare.workers import protocol
from tensorproof.compare.workers.backend_id import BackendId

#: Seconds that one request may take, after the framework was imported.
TIME_LIMIT = 60.0
#: Seconds that the first request may take: it imports the framework.
START_LIMIT = 180.0


class WorkerFailed(Exception):
    """A request about a model file failed; the message is the framework's own, or says how the process ended."""


class Worker:
    """One backend process. Use as a context manager. `deaths` and `timeouts` count what was survived."""

    def __init__(self, backend: BackendId, *, time_limit: float = TIME_LIMIT) -> None:
        self.backend = backend
        self.deaths = 0
        self.timeouts = 0
        self._time_limit = time_limit
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process; the next request starts another one."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                try:
                    stream.close()
                except OSError:
                    pass

    @property
    def is_alive(self) -> bool:
        """Whether the process that answered last is still there, with the models that are open in it."""
        return self._process is not None and self._process.poll() is None

    @property
    def process_id(self) -> int | None:
        """The number of the process, while there is one."""
        return None if self._process is None else self._process.pid

    def versions(self) -> dict[str, str]:
        """Versions of the backend's packages."""
        answer, _ = self._ask({"verb": "versions"}, {})
        return cast("dict[str, str]", answer["versions"])

    def run_network(
        self, test: TestSpec, arrays: Arrays | None = None, keep: Sequence[str] | None = None, mode: Mode = "eager"
    ) -> NetworkRun:
        """Run a test; whatever goes wrong is part of the result. `Unavailable` if the backend cannot run it on principle."""
        request = {"verb": "network", "test": test.to_json(), "keep": None if keep is None else list(keep), "mode": mode}
        try:
            answer, results = self._exchange(request, arrays or {})
        except _Ended as ended:
            return NetworkRun(failure=ended.failure)
        if "error" in answer:
            return NetworkRun(failure=Failure("call", answer["error"]["kind"], answer["error"]["message"]))
        shapes = {name: tuple(shape) for name, shape in answer["static_shapes"].items()}
        failure = None if answer["failure"] is None else Failure.from_json(answer["failure"])
        return NetworkRun(results, shapes, failure, answer["seconds"])

    def open_model(self, path: str | Path, options: Mapping[str, Any] | None = None) -> ModelFacts:
        """Read a model file."""
        answer, _ = self._ask({"verb": "open", "path": str(path), "options": dict(options or {})}, {})
        return ModelFacts.from_json(answer)

    def run_model(self, path: str | Path, feeds: Arrays, keep: Sequence[str]) -> dict[str, Array]:
        """Values of an open model."""
        return self._ask({"verb": "model", "path": str(path), "keep": list(keep)}, feeds)[1]

    def _ask(self, request: dict[str, Any], arrays: Arrays) -> tuple[dict[str, Any], dict[str, Array]]:
        try:
            answer, results = self._exchange(request, arrays)
        except _Ended as ended:
            raise WorkerFailed(ended.failure.message) from None
        if "error" in answer:
            raise WorkerFailed(f"{answer['error']['kind']}: {answer['error']['message']}")
        return answer, results

    def _exchange(self, request: dict[str, Any], arrays: Arrays) -> tuple[dict[str, Any], dict[str, Array]]:
        fresh = self._process is None
        process = self._process = self._process or _start(self.backend)
        assert process.stdin is not None and process.stdout is not None
        try:
            protocol.send(cast("Any", process.stdin), request, arrays)
            with selectors.DefaultSelector() as selector:
                selector.register(process.stdout, selectors.EVENT_READ)
                limit = self._time_limit + (START_LIMIT if fresh else 0.0)
                if not selector.select(limit):
                    self.timeouts += 1
                    self.close()
                    raise _Ended(Failure("process", "timeout", f"no answer within {limit:.0f} s"))
            answer, results = protocol.receive(cast("Any", process.stdout))
        except (OSError, EOFError):
            self.deaths += 1
            how = _how_it_died(process)
            self.close()
            raise _Ended(Failure("process", "death", how)) from None
        if "unavailable" in answer:
            raise Unavailable(answer["unavailable"])
        return answer, results


class _Ended(Exception):
    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def _start(backend: BackendId) -> subprocess.Popen[bytes]:
    environment = dict(os.environ)
    threads = backend.toggle("threads", "1")
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"):
        environment[name] = threads
    environment["TF_CPP_MIN_LOG_LEVEL"] = "3"
    environment["CUDA_VISIBLE_DEVICES"] = ""
    if backend.name.startswith("keras:"):
        environment["KERAS_BACKEND"] = backend.name.removeprefix("keras:")
    if backend.toggle("onednn"):
        environment["TF_ENABLE_ONEDNN_OPTS"] = "0" if backend.toggle("onednn") == "off" else "1"
    root = str(Path(__file__).resolve().parents[3])
    environment["PYTHONPATH"] = os.pathsep.join([root, environment.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    plain = BackendId(backend.name, backend.toggles)
    return subprocess.Popen(
        [backend.interpreter, "-m", "tensorproof.compare.workers.serve", str(plain)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
    )


def _how_it_died(process: subprocess.Popen[bytes]) -> str:
    code = process.wait()
    if code >= 0:
        return f"the process ended with code {code}"
    try:
        return f"the process was stopped by {signal.Signals(-code).name}"
    except ValueError:
        return f"the process was stopped by signal {-code}"
