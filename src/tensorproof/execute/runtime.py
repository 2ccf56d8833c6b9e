"""ONNX Runtime for many models: one process for all of them, started again when it dies."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from tensorproof.execute.worker import Feeds, Measure, Worker, WorkerDied

if TYPE_CHECKING:
    import onnx


class Runtime:
    """Sessions that share a process. Use as a context manager.

    `time_limit` counts from the start of the runtime; beyond it every run ends in WorkerDied. With `flushes`, subnormal operands
    and results are zero in it, as they are on targets that flush them.
    """

    def __init__(self, *, data_folder: str | None = None, time_limit: float | None = None, flushes: bool = False) -> None:
        self._data_folder = data_folder
        self.flushes = flushes
        self._deadline = None if time_limit is None else time.monotonic() + time_limit
        self._worker: Worker | None = None
        self._starts = 0

    def __enter__(self) -> Runtime:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process; a session that is used again starts another one."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def session(self, proto: onnx.ModelProto) -> Session:
        """A model to run; it is loaded on first use."""
        return Session(self, proto.SerializeToString())

    def worker(self) -> tuple[Worker, int]:
        """The process, and how often one was started."""
        if self._worker is None:
            left = None if self._deadline is None else max(0.01, self._deadline - time.monotonic())
            self._worker = Worker(time_limit=left)
            self._starts += 1
        return self._worker, self._starts

    @property
    def data_folder(self) -> str | None:
        return self._data_folder

    @property
    def is_over(self) -> bool:
        """Whether the time limit was reached."""
        return self._deadline is not None and time.monotonic() >= self._deadline


class Session:
    """One model in a runtime."""

    def __init__(self, runtime: Runtime, model: bytes) -> None:
        self._runtime = runtime
        self._model = model
        self._handle: int | None = None
        self._start = 0

    def run(self, feeds: Feeds) -> list[npt.NDArray[Any]]:
        """All outputs. Raises WorkerDied if the process ended (the next run starts another one), WorkerError for a refusal."""
        try:
            worker, handle = self._loaded()
            return worker.run(handle, feeds)
        except WorkerDied:
            self._runtime.close()
            raise

    def measure(self, feeds: Feeds, whole: int) -> tuple[list[npt.NDArray[Any]], list[Measure]]:
        """The first `whole` outputs, and measures of the others; raises as `run` does."""
        try:
            worker, handle = self._loaded()
            return worker.measure(handle, feeds, whole)
        except WorkerDied:
            self._runtime.close()
            raise

    def _loaded(self) -> tuple[Worker, int]:
        """The process, and the session's handle in it."""
        worker, start = self._runtime.worker()
        if self._handle is None or start != self._start:
            self._handle, self._start = worker.load(self._model, self._runtime.data_folder, flushes=self._runtime.flushes), start
        return worker, self._handle

    def close(self) -> None:
        """Free what the session holds in the process."""
        worker, start = self._runtime.worker()
        if self._handle is not None and start == self._start:
            worker.unload(self._handle)
        self._handle = None
