"""All faults in one process, so that networks can have several; each shows on its own layers only."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from tests.planted_faults.planting import Fault, is_worker

#: Modules that are no fault of one layer.
_OTHERS = {"__init__", "planting", "every_fault", "networks", "noise", "ignored_mask", "single_thread", "steep_gradient"}
NAMES = tuple(sorted(path.stem for path in Path(__file__).parent.glob("*.py") if path.stem not in _OTHERS))


def fault(name: str) -> Fault:
    return import_module(f"tests.planted_faults.{name}").FAULT


if is_worker():
    for entry in NAMES:
        import_module(f"tests.planted_faults.{entry}")
