"""`Fleet`: workers by backend, started when they are first asked."""

from __future__ import annotations

from collections.abc import Sequence

from tensorproof.compare.backends.backend import Mode, NetworkRun
from tensorproof.compare.drawing import Arrays
from tensorproof.compare.spec import TestSpec
from tensorproof.compare.workers.backend_id import BackendId
from tensorproof.compare.workers.process import TIME_LIMIT, Worker


class Fleet:
    """Use as a context manager; one caller at a time."""

    def __init__(self, *, time_limit: float = TIME_LIMIT) -> None:
        self._time_limit = time_limit
        self._workers: dict[BackendId, Worker] = {}

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for worker in self._workers.values():
            worker.close()
        self._workers.clear()

    def worker(self, backend: BackendId) -> Worker:
        """The worker of a backend."""
        if backend not in self._workers:
            self._workers[backend] = Worker(backend, time_limit=self._time_limit)
        return self._workers[backend]

    def run(
        self,
        backend: BackendId,
        test: TestSpec,
        *,
        arrays: Arrays | None = None,
        keep: Sequence[str] | None = None,
        mode: Mode = "eager",
    ) -> NetworkRun:
        """`Worker.run_network` on that backend's worker."""
        return self.worker(backend).run_network(test, arrays, keep, mode)

    @property
    def deaths(self) -> int:
        """How many times a backend process died or had to be killed."""
        return sum(worker.deaths + worker.timeouts for worker in self._workers.values())
