"""`TensorflowRunner`: a TensorFlow graph, run in a process of its own on points of its box.

Values are seen as the graph is written (TensorFlow's rewriting is off), or as its users get them (on, and nothing fetched that they
would not fetch): `(1 - x) + 1e-8` is `1 - x` in the latter.
"""

from __future__ import annotations

import importlib.util
import selectors
import time
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from tensorproof.execute.tensorflow_part import Part, RunnableGraph
from tensorproof.execute.tensorflow_script import replay_script
from tensorproof.execute.worker import Worker, WorkerDied, WorkerError
from tensorproof.frontends.framework_model import Arrays, RunFailed
from tensorproof.frontends.tensorflow_records import Reference

if TYPE_CHECKING:
    from tensorproof.frontends.tensorflow_program import TensorflowModel

__all__ = ["TensorflowRunner", "TensorflowWorker", "replay_script"]

#: Seconds that TensorFlow may take to answer one request, and seconds of processor time for all of them.
LONGEST_ANSWER = 300.0
MOST_SECONDS = 3600


class TensorflowWorker(Worker):
    """The parent's end of `tensorproof.execute.tensorflow_worker`."""

    module: ClassVar[str] = "tensorproof.execute.tensorflow_worker"
    environment: ClassVar[Mapping[str, str]] = {
        "CUDA_VISIBLE_DEVICES": "-1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }

    def begin(self, seconds: int) -> str:
        """Start TensorFlow; its version. The time limit of what follows begins behind it: starting takes seconds."""
        limit = None if self._deadline is None else self._deadline - time.monotonic()
        self._deadline = None
        version = self._ask("begin", seconds)
        self._deadline = None if limit is None else time.monotonic() + limit
        return version

    def load_graph(self, graph_def: bytes) -> int:
        """Read a graph; its number."""
        return self._ask("load", graph_def)

    def run_graph(
        self, number: int, part: Part, feeds: Arrays, fetches: Sequence[str], *, optimised: bool
    ) -> list[npt.NDArray[Any]]:
        """Values of a graph by TensorFlow's spelling of their names."""
        return self._ask("run", number, part.first, dict(feeds), list(fetches), optimised, part.is_random)

    def _wait(self, stdout: Any) -> None:
        deadline = time.monotonic() + LONGEST_ANSWER
        if self._deadline is not None:
            deadline = min(deadline, self._deadline)
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            if not selector.select(max(0.0, deadline - time.monotonic())):
                self._process.kill()
                raise WorkerDied("the time limit was reached")


class TensorflowRunner:
    """Runs the graph of one model; a context manager. The process starts with the first run."""

    def __init__(self, model: TensorflowModel, *, time_limit: float | None = None) -> None:
        self._runnable = RunnableGraph(model.graph, model.found.fed, trust=model.options.trust)
        self._variables = model.kept()
        self._outputs = tuple(model.model.name_of(number) for number in model.model.graph.outputs)
        self._time_limit = time_limit
        self._worker: TensorflowWorker | None = None
        self._parts: dict[frozenset[Reference], tuple[int, Part]] = {}
        self._failure = ""

    def __enter__(self) -> TensorflowRunner:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def beside(self, model: TensorflowModel) -> TensorflowRunner:
        """What runs another model in the process of this one, and with it ends. Raises `RunFailed`."""
        made = TensorflowRunner(model, time_limit=self._time_limit)
        made._worker = self._started()
        return made

    def shows(self, name: str) -> bool:
        """Whether a value of our graph is one that TensorFlow can be asked for."""
        return self._runnable.reference(name) is not None

    def values(self, point: Arrays, names: Sequence[str]) -> dict[str, npt.NDArray[Any]]:
        """Values on a point, as the graph is written. Raises `RunFailed`."""
        return self._run(point, names, optimised=False)

    def replayed(self, point: Arrays, name: str | None) -> dict[str, npt.NDArray[Any]]:
        """What users get on a point, and one value beside it. Raises `RunFailed`."""
        return self._run(point, self._outputs if name is None else (*self._outputs, name), optimised=True)

    def _run(self, point: Arrays, names: Iterable[str], *, optimised: bool) -> dict[str, npt.NDArray[Any]]:
        found: dict[str, npt.NDArray[Any]] = {}
        wanted: dict[str, Reference] = {}
        for name in names:
            known = point.get(name, self._variables.get(name))
            reference = self._runnable.reference(name)
            if known is not None:
                found[name] = known
            elif reference is not None:
                wanted[name] = reference
        if not wanted:
            return found
        number, part = self._loaded(frozenset(wanted.values()))
        feeds: dict[str, npt.NDArray[Any]] = {}
        for tensor, name in part.feeds.items():
            array = point.get(name, self._variables.get(name))
            if array is None:
                raise RunFailed(f"not run: there is no value for {name!r}")
            feeds[tensor] = np.asarray(array, order="C")
        fetches = [self._runnable.tensor(reference) for reference in wanted.values()]
        worker = self._started()
        try:
            results = worker.run_graph(number, part, feeds, fetches, optimised=optimised)
        except WorkerDied as death:
            self._failure = f"TensorFlow's process ended: {death}"
            raise RunFailed(self._failure) from None
        except WorkerError as refusal:
            raise RunFailed(f"TensorFlow refuses: {refusal}") from None
        return found | dict(zip(wanted, results))

    def _loaded(self, wanted: frozenset[Reference]) -> tuple[int, Part]:
        known = self._parts.get(wanted)
        if known is None:
            # The order of a set is not that of the next run: graphs are to be the same each time.
            part = self._runnable.part(sorted(wanted))
            worker = self._started()
            try:
                known = self._parts[wanted] = worker.load_graph(part.graph_def), part
            except WorkerDied as death:
                self._failure = f"TensorFlow's process ended: {death}"
                raise RunFailed(self._failure) from None
            except WorkerError as refusal:
                raise RunFailed(f"TensorFlow refuses the graph: {refusal}") from None
        return known

    def _started(self) -> TensorflowWorker:
        if self._failure:
            raise RunFailed(self._failure)
        if self._worker is None:
            if importlib.util.find_spec("tensorflow") is None:
                self._failure = "not run: TensorFlow is not installed"
                raise RunFailed(self._failure)
            self._worker = TensorflowWorker(time_limit=self._time_limit)
            try:
                self._worker.begin(MOST_SECONDS)
            except (WorkerDied, WorkerError) as failure:
                self._failure = f"TensorFlow did not start: {failure}"
                raise RunFailed(self._failure) from None
        return self._worker
