"""`BackendId`: which process a test runs in."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from tensorproof.errors import ConfigurationError

#: Backends by name, with the module of `backends` that runs them.
BACKENDS = {
    "keras:tensorflow": "keras_networks",
    "keras:torch": "keras_networks",
    "keras:jax": "keras_networks",
    "keras:openvino": "keras_networks",
    "keras:numpy": "keras_networks",
    "onnxruntime": "onnx_runtime",
    "openvino": "open_vino",
    "onnx-reference": "onnx_reference",
    "torch": "torch_programs",
    "float64": "float64_reference",
}


@dataclass(frozen=True, order=True)
class BackendId:
    """A backend, the switches it is started with, and the Python of its environment: `onnxruntime?optimisation=off`.

    Toggles of Keras on TensorFlow: `onednn=off`, `xla=on` (in the mode `compiled`). Of ONNX Runtime:
    `optimisation=off|basic|all` (default all). Of PyTorch and Keras on it: `compile=on`, or the name of a compiler. Of all:
    `threads=N` (default 1), `amx=on` (let oneDNN use matrix instructions), and `with=MODULE`: a module, or a file that ends in
    `.py`, that the process imports before it opens the backend (several with commas).
    """

    name: str
    toggles: tuple[tuple[str, str], ...] = ()
    #: Another environment's interpreter; empty for the running one.
    python: str = ""

    def __str__(self) -> str:
        text = self.name
        if self.toggles:
            text += "?" + "&".join(f"{key}={value}" for key, value in self.toggles)
        return f"{text} ({self.python})" if self.python else text

    @classmethod
    def parse(cls, text: str, python: str = "") -> BackendId:
        """`name?key=value&key=value`."""
        name, _, rest = text.partition("?")
        if name not in BACKENDS:
            raise ConfigurationError(f"no backend {name!r}; there are {', '.join(BACKENDS)}")
        pairs = [part.partition("=") for part in rest.split("&") if part]
        return cls(name, tuple(sorted((key, value) for key, _, value in pairs)), python)

    @property
    def interpreter(self) -> str:
        return self.python or sys.executable

    def toggle(self, name: str, default: str = "") -> str:
        return dict(self.toggles).get(name, default)
