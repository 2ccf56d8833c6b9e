"""Control flow of torch as Python runs it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Sequence
from typing import Any


@contextlib.contextmanager
def plain_control_flow() -> Generator[None]:
    """Let `torch.cond` call the branch that is chosen, and nothing else.

    Torch's own compiles both branches: what they do cannot be observed then, and a failure to compile them under observation
    stops later exports. Functions that were imported from torch by name are not replaced.
    """
    import torch

    module: Any = torch
    original = module.cond
    module.cond = _cond
    try:
        yield
    finally:
        module.cond = original


def _cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Sequence[Any] = ()) -> Any:
    return (true_fn if bool(pred) else false_fn)(*operands)
