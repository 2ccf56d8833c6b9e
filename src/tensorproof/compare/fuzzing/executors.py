"""`Executor`: who performs a campaign's tasks. These are independent and plain data: who it is makes no difference to results."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Protocol, cast

from tensorproof.compare.spec import Json
from tensorproof.compare.workers.process import TIME_LIMIT
from tensorproof.errors import ConfigurationError

Engine = Literal["pool", "ray"]
#: Times that a task is given to another process because its process ended.
_ATTEMPTS = 2
#: Bytes of Ray's object store: tasks and results are a few kilobytes.
_OBJECT_STORE = 100_000_000


class Executor(Protocol):
    """Performs tasks, `slots` at a time. Use as a context manager."""

    slots: int

    def submit(self, ticket: int, task: Mapping[str, Json]) -> None:
        """Perform a task; its result comes with the ticket's number."""
        ...

    def wait(self, seconds: float) -> list[tuple[int, dict[str, Json]]]:
        """Results that have arrived, after waiting for at least one for so long."""
        ...

    def close(self) -> None:
        """End everything, finished or not."""
        ...


def open_executor(engine: Engine, jobs: int, *, time_limit: float = TIME_LIMIT) -> Executor:
    """The executor of an engine. `time_limit` is how long one run of a test may take."""
    return RayExecutor(jobs, time_limit) if engine == "ray" else PoolExecutor(jobs, time_limit)


class PoolExecutor:
    """Processes on this machine, each with backend processes of its own."""

    def __init__(self, jobs: int, time_limit: float = TIME_LIMIT) -> None:
        self.slots = jobs
        self._time_limit = time_limit
        self._waiting: deque[tuple[int, bytes, int]] = deque()
        self._idle: list[subprocess.Popen[bytes]] = []
        self._busy: dict[subprocess.Popen[bytes], tuple[int, bytes, int]] = {}

    def submit(self, ticket: int, task: Mapping[str, Json]) -> None:
        self._waiting.append((ticket, json.dumps(task).encode() + b"\n", 1))
        self._hand_out()

    def wait(self, seconds: float) -> list[tuple[int, dict[str, Json]]]:
        with selectors.DefaultSelector() as selector:
            for process in self._busy:
                selector.register(cast("Any", process.stdout), selectors.EVENT_READ, process)
            ready = [cast("subprocess.Popen[bytes]", key.data) for key, _ in selector.select(seconds)] if self._busy else []
        found = [answer for process in ready if (answer := self._receive(process)) is not None]
        self._hand_out()
        return found

    def close(self) -> None:
        for process in self._busy:
            process.terminate()
        for process in (*self._idle, *self._busy):
            _end(process)
        self._idle.clear()
        self._busy.clear()
        self._waiting.clear()

    def _hand_out(self) -> None:
        while self._waiting and (self._idle or len(self._busy) < self.slots):
            process = self._idle.pop() if self._idle else self._start()
            job = self._waiting.popleft()
            self._busy[process] = job
            assert process.stdin is not None
            try:
                process.stdin.write(job[1])
                process.stdin.flush()
            except BrokenPipeError:
                pass  # its end is seen when its answer is read

    def _receive(self, process: subprocess.Popen[bytes]) -> tuple[int, dict[str, Json]] | None:
        assert process.stdout is not None
        line = process.stdout.readline()
        ticket, text, attempt = self._busy.pop(process)
        if line.endswith(b"\n"):
            self._idle.append(process)
            return ticket, cast("dict[str, Json]", json.loads(line))
        _end(process)
        if attempt < _ATTEMPTS:
            self._waiting.appendleft((ticket, text, attempt + 1))
            return None
        return ticket, {"error": f"the process that performed it ended with code {process.returncode}, twice", "deaths": 0}

    def _start(self) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        root = str(Path(__file__).resolve().parents[3])
        environment["PYTHONPATH"] = os.pathsep.join([root, environment.get("PYTHONPATH", "")]).rstrip(os.pathsep)
        command = [sys.executable, "-m", "tensorproof.compare.fuzzing.pool_process", str(self._time_limit)]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Close the input, which a process that waits for a task takes as its end; one that does not react is killed."""
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            try:
                stream.close()
            except OSError:
                pass
    try:
        process.wait(5.0)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class RayExecutor:
    """Actors of a Ray cluster: the one at RAY_ADDRESS, that of a running driver, or a local one started for the campaign."""

    def __init__(self, jobs: int, time_limit: float = TIME_LIMIT) -> None:
        try:
            import ray
        except ImportError:
            raise ConfigurationError("--engine ray needs an extra: pip install 'tensorproof[ray]'") from None
        self._ray = cast("Any", ray)
        self._started = not self._ray.is_initialized()
        if self._started:
            local = {} if os.environ.get("RAY_ADDRESS") else {"num_cpus": jobs, "object_store_memory": _OBJECT_STORE}
            self._ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR", **local)
        self.slots = jobs
        self._waiting: deque[tuple[int, str, int]] = deque()
        self._busy: dict[Any, tuple[Any, tuple[int, str, int]]] = {}
        self._time_limit = time_limit
        self._make = self._ray.remote(num_cpus=1)(RayPerformer)
        self._idle = [self._make.remote(time_limit) for _ in range(jobs)]

    def submit(self, ticket: int, task: Mapping[str, Json]) -> None:
        self._waiting.append((ticket, json.dumps(task), 1))
        self._hand_out()

    def wait(self, seconds: float) -> list[tuple[int, dict[str, Json]]]:
        if not self._busy:
            return []
        ready, _ = self._ray.wait(list(self._busy), num_returns=1, timeout=seconds)
        found: list[tuple[int, dict[str, Json]]] = []
        for reference in ready:
            actor, job = self._busy.pop(reference)
            try:
                found.append((job[0], cast("dict[str, Json]", json.loads(self._ray.get(reference)))))
                self._idle.append(actor)
            except self._ray.exceptions.RayError as error:
                self._idle.append(self._make.remote(self._time_limit))
                if job[2] < _ATTEMPTS:
                    self._waiting.appendleft((job[0], job[1], job[2] + 1))
                else:
                    found.append((job[0], {"error": f"{type(error).__name__}, twice", "deaths": 0}))
        self._hand_out()
        return found

    def close(self) -> None:
        for actor in (*self._idle, *(actor for actor, _ in self._busy.values())):
            self._ray.kill(actor)
        self._idle.clear()
        self._busy.clear()
        if self._started:
            self._ray.shutdown()

    def _hand_out(self) -> None:
        while self._waiting and self._idle:
            actor, job = self._idle.pop(), self._waiting.popleft()
            self._busy[actor.perform.remote(job[1])] = (actor, job)


class RayPerformer:
    """An actor: a fleet of backend processes on one machine of the cluster."""

    def __init__(self, time_limit: float) -> None:
        from tensorproof.compare.workers.fleet import Fleet

        self._fleet = Fleet(time_limit=time_limit)

    def perform(self, task: str) -> str:
        """The result of a task; both are JSON."""
        from tensorproof.compare.fuzzing.tasks import perform

        return json.dumps(perform(self._fleet, json.loads(task)))
