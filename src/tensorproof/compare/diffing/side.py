"""`Side`: one of two models that are compared, open in a process of its own."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tensorproof.compare.backends.backend import ModelFacts, Unavailable
from tensorproof.compare.drawing import Array, Arrays
from tensorproof.compare.workers.backend_id import BackendId
from tensorproof.compare.workers.process import Worker, WorkerFailed
from tensorproof.errors import ConfigurationError, ModelError

Kind = Literal["onnx", "keras", "program"]

#: The backends that read a kind of model; the first one that is installed is the default.
_READERS: Mapping[Kind, tuple[str, ...]] = {
    "onnx": ("onnxruntime", "openvino", "onnx-reference"),
    "keras": ("keras:torch", "keras:tensorflow", "keras:jax", "keras:openvino", "keras:numpy"),
    "program": ("torch",),
}
_PACKAGES = {"onnx-reference": "onnx", "keras:numpy": "jax"}
#: Seconds that one request to a model may take.
TIME_LIMIT = 600.0

_OWN_ERRORS = re.compile(r"^(ModelError|ConfigurationError|AssumptionError|ProgramFailed): ")


class RunFailed(Exception):
    """A model could not be run on this input; the message is the framework's own."""


@dataclass
class Side:
    """A model and the worker that holds it."""

    model: str
    kind: Kind
    backend: BackendId
    worker: Worker
    facts: ModelFacts
    versions: Mapping[str, str]
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def run(self, feeds: Arrays, keep: Sequence[str], *, key: str | None = None) -> dict[str, Array]:
        """Values by name. `key` is that of another copy of the model, opened with `reopened`."""
        try:
            return self.worker.run_model(key or self.model, feeds, keep)
        except WorkerFailed as error:
            self._opened_again()
            raise RunFailed(plain(str(error))) from None
        except Unavailable as error:
            raise RunFailed(str(error)) from None

    def _opened_again(self) -> None:
        """A worker that died has forgotten its models."""
        if not self.worker.is_alive:
            self.worker.open_model(self.model, self.options)

    def reopened(self, precision: str) -> str | None:
        """Open the model in another precision as well, and give its key; None where that is not possible."""
        key = f"{self.model}?precision={precision}"
        try:
            self.worker.open_model(self.model, {**self.options, "precision": precision, "key": key})
        except (WorkerFailed, Unavailable):
            return None
        return key

    def described(self) -> str:
        """The model, and what runs it."""
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        return f"{self.model} on {self.backend}" + (f" ({versions})" if versions else "")


def kind_of(model: str) -> Kind:
    """What a model is, by its name."""
    from tensorproof.frontends.user_program import split_name

    if split_name(model) is not None:
        return "program"
    suffix = Path(model).suffix.lower()
    if suffix == ".onnx":
        return "onnx"
    if suffix == ".keras":
        return "keras"
    raise ModelError(f"{model}: compared are ONNX files (.onnx), Keras files (.keras) and PyTorch programs (module.py:name)")


def open_side(model: str, backend: str | None, python: str, options: Mapping[str, Any]) -> Side:
    """Start the worker of a model and open it there; whatever is wrong is told in one line."""
    kind = kind_of(model)
    file = Path(model.rpartition(":")[0] if kind == "program" else model)
    if not file.is_file():
        raise ModelError(f"{file}: no such file")
    chosen = BackendId.parse(backend or _default(kind, model, python), python)
    if chosen.name not in _READERS[kind]:
        raise ConfigurationError(f"{model}: {chosen.name} does not read it; {', '.join(_READERS[kind])} would")
    worker = Worker(chosen, time_limit=TIME_LIMIT)
    given = options if kind == "program" else {}
    try:
        facts = worker.open_model(model, given)
        versions = worker.versions()
    except Unavailable as error:
        worker.close()
        raise ConfigurationError(f"{model}: {' '.join(str(error).split())}") from None
    except (WorkerFailed, OSError) as error:
        worker.close()
        message = plain(str(error))
        raise ModelError(message if message.startswith(str(file)) else f"{model}: {message}") from None
    return Side(model, kind, chosen, worker, facts, versions, given)


def _default(kind: Kind, model: str, python: str) -> str:
    """The first backend that is installed; in another environment, the first one there is."""
    for name in _READERS[kind]:
        if python or importlib.util.find_spec(_PACKAGES.get(name, name.rpartition(":")[2])) is not None:
            return name
    raise ConfigurationError(f"{model}: nothing that runs it is installed; install one of {', '.join(_READERS[kind])}")


def plain(message: str) -> str:
    """The first meaningful line of an error, without colours and without the name of an exception of our own."""
    text = _OWN_ERRORS.sub("", re.sub(r"\x1b\[[0-9;]*m", "", message))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # Keras puts its own sentence before the framework's.
    if len(lines) > 1 and "Exception encountered when calling" in lines[0]:
        lines = [f"{lines[0]} {lines[1]}"]
    return (lines[0] if lines else "no message")[:400]
