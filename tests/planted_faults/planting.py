"""`Fault`: where a planted fault shows; and how a worker plants it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Trigger:
    """A layer on which a fault shows. Among its parameters are some that have no part in it."""

    kind: str
    #: Without the batch axis.
    shape: tuple[int, ...]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    phase: str = "inference"


@dataclass(frozen=True)
class Fault:
    """`needed` are the parameters, of those with a default, that must differ from it: by how the fault is planted.

    `spared` are layers of the same kind without it: proof that it depends on these parameters.
    """

    needed: frozenset[str]
    triggers: tuple[Trigger, ...]
    spared: tuple[Trigger, ...] = ()


def is_worker() -> bool:
    return Path(sys.argv[0]).name == "serve.py"


def replace_in(owner: Any, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Put another function in the place of an attribute; `make` is given the one that was there."""
    original = getattr(owner, name)
    setattr(owner, name, wraps(original)(make(original)))
