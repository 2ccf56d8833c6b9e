"""Seeds beyond the node cases of the onnx package: old opsets, contrib operators, corners. Modules are found by name."""

from __future__ import annotations

import importlib
import pkgutil

from tests.soundness.seeds.seed import Seed


def all_seeds() -> list[Seed]:
    """The SEEDS of every module in this package."""
    found: list[Seed] = []
    for info in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{info.name}")
        found.extend(getattr(module, "SEEDS", []))
    return found
