"""What the three runtimes of ONNX models have in common. Each of them opens a `Session`."""

from __future__ import annotations

import hashlib
import importlib
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

from tensorproof.compare.backends.backend import Failure, Mode, ModelFacts, NetworkRun, Unavailable, announce
from tensorproof.compare.backends.messages import plain_message
from tensorproof.compare.backends.onnx_networks import onnx_model, wanted_results
from tensorproof.compare.drawing import Array, Arrays, draw_inputs
from tensorproof.compare.spec import TestSpec
from tensorproof.compare.workers.backend_id import BackendId

if TYPE_CHECKING:
    import onnx

#: Sessions that are kept for the next request about the same model.
_KEPT = 8


@dataclass(frozen=True)
class Session:
    """A model that a runtime has taken in: how to run it, and the shapes that it promised for its outputs (None: no promise)."""

    run: Callable[[Arrays], list[Array]]
    shapes: Sequence[tuple[int | None, ...] | None]


#: Opens a model; with a folder, the runtime first writes the model there in its own way and reads it back.
Opener = Callable[["onnx.ModelProto", "Path | None"], Session]


class OnnxBackend:
    """Networks of ONNX operators in one runtime."""

    def __init__(self, backend: BackendId, package: str, opener: Opener, dtypes: Sequence[str]) -> None:
        self.backend = backend
        self._package = package
        self._opener = opener
        self._dtypes = tuple(dtypes)
        self._sessions: OrderedDict[str, Session] = OrderedDict()

    def versions(self) -> dict[str, str]:
        names = dict.fromkeys(["onnx", self._package])
        return {name: str(importlib.import_module(name).__version__) for name in names}

    def run_network(self, test: TestSpec, arrays: Arrays, keep: Sequence[str] | None, mode: Mode) -> NetworkRun:
        if test.network.dialect != "onnx":
            raise Unavailable(f"{self.backend} runs networks of ONNX operators, not of {test.network.dialect} layers")
        if test.phase != "inference":
            raise Unavailable(f"{self.backend} runs inference only")
        if mode == "compiled":
            raise Unavailable(f"{self.backend} has no second way to run a network; its toggles may have")
        if test.dtype not in self._dtypes:
            raise Unavailable(f"{self.backend} does not compute in {test.dtype}")
        announce(test.layers[0].name if len(test.layers) == 1 else "")
        try:
            model = onnx_model(test, arrays, keep)
            session = self._session(model, mode)
        except Exception as error:
            return NetworkRun(failure=_failure("build", error, test))
        wanted = wanted_results(test.network, keep)
        static = {name: shape for name, shape in zip(wanted, session.shapes, strict=True) if shape is not None}
        feeds: dict[str, Array] = {**draw_inputs(test), **{name: array for name, array in arrays.items() if "/" not in name}}
        try:
            results = session.run({entry.name: feeds[entry.name] for entry in test.network.inputs})
        except Exception as error:
            return NetworkRun(static_shapes=static, failure=_failure("call", error, test))
        return NetworkRun(dict(zip(wanted, results, strict=True)), static)

    def _session(self, model: onnx.ModelProto, mode: Mode) -> Session:
        if mode == "saved":
            with TemporaryDirectory() as folder:
                return self._opener(model, Path(folder))
        key = hashlib.sha256(model.SerializeToString(deterministic=True)).hexdigest()
        session = self._sessions.get(key) or self._opener(model, None)
        self._sessions[key] = session
        self._sessions.move_to_end(key)
        if len(self._sessions) > _KEPT:
            self._sessions.popitem(last=False)
        return session

    def open_model(self, path: str, options: Mapping[str, Any]) -> ModelFacts:
        from tensorproof.compare.backends import onnx_files

        return onnx_files.open_model(self.backend, path, options)

    def run_model(self, path: str, feeds: Arrays, keep: Sequence[str]) -> dict[str, Array]:
        from tensorproof.compare.backends import onnx_files

        return onnx_files.run_model(self.backend, path, feeds, keep)


def _failure(stage: Literal["build", "call"], error: Exception, test: TestSpec) -> Failure:
    message = plain_message(error)
    return Failure(stage, type(error).__name__, message, _layer_at_fault(message, test))


def _layer_at_fault(message: str, test: TestSpec) -> str | None:
    """The layer whose name stands in a message as names of nodes do: in quotes, in brackets, or after a colon."""
    if len(test.layers) == 1:
        return test.layers[0].name
    found: list[tuple[int, str]] = []
    for layer in test.layers:
        match = re.search(rf"(['\"(<]|: ){re.escape(layer.name)}['\")>]", message)
        if match is not None:
            found.append((match.start(), layer.name))
    return min(found)[1] if found else None
