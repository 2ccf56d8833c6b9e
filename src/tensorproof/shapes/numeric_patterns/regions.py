"""Blocks and functions that a place lies in, by what manages them: `with torch.no_grad():`, `@torch.inference_mode()`."""

from __future__ import annotations

import ast
from functools import lru_cache
from typing import TYPE_CHECKING

from tensorproof.shapes.problems import Place

if TYPE_CHECKING:
    from tensorproof.shapes.run import Run


def managers_around(run: Run, place: Place) -> list[ast.expr]:
    """The context managers and decorators of all blocks and functions around a place, by the text of its file."""
    source = run.sources.get(place.file)
    regions = () if source is None else _regions(source)
    return [manager for first, last, managers in regions if first <= place.line <= last for manager in managers]


def name_of(manager: ast.expr) -> str:
    """The last name of a context manager or decorator, called or not."""
    function = manager.func if isinstance(manager, ast.Call) else manager
    return function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""


@lru_cache(maxsize=8)
def _regions(source: bytes) -> tuple[tuple[int, int, tuple[ast.expr, ...]], ...]:
    found: list[tuple[int, int, tuple[ast.expr, ...]]] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.With | ast.AsyncWith):
            managers = tuple(item.context_expr for item in node.items)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            managers = tuple(node.decorator_list)
        else:
            continue
        if managers:
            found.append((node.lineno, node.end_lineno or node.lineno, managers))
    return tuple(found)
