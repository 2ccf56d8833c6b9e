"""PyTorch programs: model files alone. Networks of layers run on PyTorch through Keras."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tensorproof.compare.backends.backend import Mode, ModelFacts, NetworkRun, Unavailable
from tensorproof.compare.drawing import Array, Arrays
from tensorproof.compare.spec import TestSpec
from tensorproof.compare.workers.backend_id import BackendId


def open_backend(backend: BackendId) -> TorchBackend:
    """Import PyTorch."""
    try:
        import torch
    except ImportError as error:
        raise Unavailable(f"{backend}: {error}") from None
    torch.set_num_threads(int(backend.toggle("threads", "1")))
    return TorchBackend(backend)


class TorchBackend:
    """Programs by `module.py:name`; with the toggle `compile=on` they run as compiled by `torch.compile`."""

    def __init__(self, backend: BackendId) -> None:
        self.backend = backend

    def versions(self) -> dict[str, str]:
        import torch

        return {"torch": str(torch.__version__)}

    def run_network(self, test: TestSpec, arrays: Arrays, keep: Sequence[str] | None, mode: Mode) -> NetworkRun:
        raise Unavailable(f"{self.backend} reads programs; networks of Keras layers run on keras:torch")

    def open_model(self, path: str, options: Mapping[str, Any]) -> ModelFacts:
        from tensorproof.compare.backends import torch_files

        return torch_files.open_model(self.backend, path, options)

    def run_model(self, path: str, feeds: Arrays, keep: Sequence[str]) -> dict[str, Array]:
        from tensorproof.compare.backends import torch_files

        return torch_files.run_model(self.backend, path, feeds, keep)
