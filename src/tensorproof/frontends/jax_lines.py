"""The user's own line of an equation of a jaxpr, and what JAX's transformations did to it.

JAX keeps with every equation the Python frames that it was made in, and the transformations around it (`jvp`, `transpose`, `vmap`).
Both are private to JAX: everything that this project reads of them stands here.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any, Literal

from tensorproof.frontends.user_frames import is_installed
from tensorproof.graph import SourceLine

#: What differentiation did to an equation: nothing, it belongs to a value and its linearisation, or to a gradient.
Differentiation = Literal["", "jvp", "transpose"]

_OWN = str(Path(__file__).parents[1]) + os.sep


def line_of(equation: Any) -> SourceLine | None:
    """The innermost frame of the user's own code that an equation was made in, columns from 1; None if there is none.

    Frames of installed packages and of this one are not the user's: there the line of the caller holds.
    """
    trace = equation.source_info.traceback
    if trace is None:
        return None
    codes, positions = trace.raw_frames()
    for code, position in zip(codes, positions):
        if code.co_filename.startswith(_OWN):
            # Further out are those who called this project.
            return None
        if _is_users(code.co_filename):
            line, column, *_ = trace.code_addr2location(code, position)
            return SourceLine(code.co_filename, line, code.co_name, column + 1 if line else None)
    return None


@cache
def _is_users(file: str) -> bool:
    return not file.startswith(_OWN) and not is_installed(file)


def differentiation_of(equation: Any) -> Differentiation:
    """What differentiation did to an equation, by the transformations that JAX wrote down."""
    names = {str(part.name) for part in equation.source_info.name_stack.stack if type(part).__name__ == "Transform"}
    return "transpose" if "transpose" in names else "jvp" if "jvp" in names else ""


def scope_of(equation: Any) -> str:
    """The names that `jax.named_scope` gave around an equation, from the outermost to the innermost."""
    return "/".join(str(part.name) for part in equation.source_info.name_stack.stack if type(part).__name__ == "Scope")


def is_differentiated(jaxpr: Any) -> bool:
    """Whether a jaxpr holds gradients: equations that a transposition made, in itself or in the functions that it calls."""
    for equation in jaxpr.eqns:
        if differentiation_of(equation) == "transpose":
            return True
        for parameter in equation.params.values():
            for item in parameter if isinstance(parameter, tuple | list) else (parameter,):
                inner = getattr(item, "jaxpr", item)
                if hasattr(inner, "eqns") and is_differentiated(inner):
                    return True
    return False
