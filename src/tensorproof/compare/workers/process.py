"""`Worker`: the parent's end of a worker process, kept alive between tests and started again when it dies or hangs."""

from __future__ import annotations

import os
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
from tensorproof.compare.workers.pipes import Pipes, TooLate
from tensorproof.ranges.weight_cache import default_folder

#: Seconds that one request may take, after the framework was imported.
TIME_LIMIT = 60.0
#: Seconds that the first request may take: it imports the framework.
START_LIMIT = 180.0


#: Variables by which libraries learn how many threads to start; NPROC is XLA's.
_THREADS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "TF_NUM_INTRAOP_THREADS",
    "TF_NUM_INTEROP_THREADS",
    "NPROC",
)


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
        self._pipes: Pipes | None = None

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
        for stream in (process.stdin, process.stdout, process.stderr):
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
        if self._process is not None and self._process.poll() is not None:  # ended since, by no fault of this request
            self.close()
        fresh = self._process is None
        process, pipes = self._started()
        limit = self._time_limit + (START_LIMIT if fresh else 0.0)
        try:
            answer, results = pipes.exchange(protocol.pack(request, arrays), limit)
        except TooLate:
            self.timeouts += 1
            self.close()
            raise _Ended(Failure("process", "timeout", f"no answer within {limit:.0f} s", pipes.layer)) from None
        except (OSError, EOFError, protocol.Garbled) as error:
            self.deaths += 1
            how = str(error) if isinstance(error, protocol.Garbled) else _how_it_died(process)
            line = pipes.last_line()
            self.close()
            if fresh and line.startswith("ModuleNotFoundError"):
                raise Unavailable(f"{self.backend}: {line}") from None
            raise _Ended(Failure("process", "death", f"{how}: {line}" if line else how, pipes.layer)) from None
        if "unavailable" in answer:
            raise Unavailable(answer["unavailable"])
        return answer, results

    def _started(self) -> tuple[subprocess.Popen[bytes], Pipes]:
        if self._process is None or self._pipes is None:
            try:
                self._process = _start(self.backend)
            except OSError as error:
                raise Unavailable(f"{self.backend}: {error}") from None
            self._pipes = Pipes(self._process)
        return self._process, self._pipes


class _Ended(Exception):
    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def _start(backend: BackendId) -> subprocess.Popen[bytes]:
    plain = BackendId(backend.name, backend.toggles)
    return subprocess.Popen(
        [backend.interpreter, "-m", "tensorproof.compare.workers.serve", str(plain)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=_environment(backend),
        # An interrupt from the keyboard is the parent's to handle.
        start_new_session=True,
    )


def _environment(backend: BackendId) -> dict[str, str]:
    """Variables of the worker: threads, where this package is, and switches that frameworks read when they are imported."""
    environment = dict(os.environ)
    threads = backend.toggle("threads", "1")
    for name in _THREADS:
        environment[name] = threads
    environment["TF_CPP_MIN_LOG_LEVEL"] = "3"
    environment["CUDA_VISIBLE_DEVICES"] = ""
    environment["PYTHONIOENCODING"] = "utf-8"
    if backend.name.startswith("keras:"):
        environment["KERAS_BACKEND"] = backend.name.removeprefix("keras:")
    if backend.toggle("onednn"):
        environment["TF_ENABLE_ONEDNN_OPTS"] = "0" if backend.toggle("onednn") == "off" else "1"
    # Virtual machines offer matrix instructions (AMX) that then end the process with SIGILL.
    if backend.toggle("amx") != "on":
        environment.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")
    folder = default_folder()
    if folder is not None:
        environment.setdefault("JAX_COMPILATION_CACHE_DIR", str(folder / "jax"))
        environment.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.02")
        environment.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
    root = str(Path(__file__).resolve().parents[3])
    environment["PYTHONPATH"] = os.pathsep.join([root, environment.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    return environment


def _how_it_died(process: subprocess.Popen[bytes]) -> str:
    code = process.wait()
    if code >= 0:
        return f"the process ended with code {code}"
    try:
        return f"the process was stopped by {signal.Signals(-code).name}"
    except ValueError:
        return f"the process was stopped by signal {-code}"
