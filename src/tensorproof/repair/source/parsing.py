"""A file as a tree with places and scopes, of which only the part around one line is looked at."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import cast

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, ParentNodeProvider, PositionProvider, Scope, ScopeProvider

from tensorproof.repair.source.exceptions import NotSure
from tensorproof.repair.source.text import Place, lines_of

#: As for excerpts in reports: larger files are no source code.
LARGEST_SOURCE = 4 << 20

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True, slots=True)
class Parsed:
    """The tree of a file without the functions and classes that do not hold the line; places are those of the file."""

    source: str
    lines: list[str]
    #: For every line of the tree the number that it has in the file; and the number after the last.
    numbers: tuple[int, ...]
    module: cst.Module
    positions: Mapping[cst.CSTNode, CodeRange]
    scopes: Mapping[cst.CSTNode, Scope | None]
    parents: Mapping[cst.CSTNode, cst.CSTNode]
    #: Every word of the file: a name that is not among them is free.
    words: frozenset[str]
    #: Names that some function declares `global` or `nonlocal`: any call may assign them.
    shared: frozenset[str]

    def start(self, node: cst.CSTNode) -> Place:
        """Where a node begins, parentheses around it left out."""
        place = self.positions[node].start
        return Place(self.numbers[place.line - 1], place.column)

    def end(self, node: cst.CSTNode) -> Place:
        """Where a node ends, parentheses around it left out."""
        place = self.positions[node].end
        return Place(self.numbers[place.line - 1], place.column)

    def whole(self, node: cst.BaseExpression) -> tuple[Place, Place]:
        """Where an expression begins and ends, parentheses around it included."""
        first, last = (node.lpar[0], node.rpar[-1]) if node.lpar else (node, node)
        return self.start(first), self.end(last)

    def text(self, start: Place, end: Place) -> str:
        """The source from one place up to another."""
        lines = self.lines[start.line - 1 : end.line]
        lines[-1] = lines[-1][: end.column]
        lines[0] = lines[0][start.column :]
        return "".join(lines)

    def before(self, place: Place) -> str:
        """What stands before a place on its line."""
        return self.lines[place.line - 1][: place.column]

    def ancestors(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """The nodes around a node, from the inside."""
        while (parent := self.parents.get(node)) is not None:
            yield parent
            node = parent


def parse(source: str, line: int) -> Parsed:
    """The tree of a file around a line; raises `NotSure` for what is not Python or has no such line."""
    if len(source) > LARGEST_SOURCE:
        raise NotSure("the file is too large for source code")
    lines = lines_of(source)
    if not 1 <= line <= len(lines):
        raise NotSure(f"the file has no line {line}")
    try:
        outline = _outline(source)
    except SyntaxError as error:
        raise NotSure(f"not Python 3 source: {error.msg} (line {error.lineno})") from None
    except ValueError as error:
        raise NotSure(f"not Python source: {error}") from None
    except (RecursionError, MemoryError):
        raise NotSure("the source is nested too deeply to be read") from None
    numbers, texts = zip(*_around(lines, outline, line))
    words = frozenset(re.findall(r"\w+", source))
    walked = ast.walk(outline) if words & {"global", "nonlocal"} else ()
    shared = {name for node in walked if isinstance(node, ast.Global | ast.Nonlocal) for name in node.names}
    try:
        wrapper = MetadataWrapper(cst.parse_module("".join(texts)), unsafe_skip_copy=True)
        found = wrapper.resolve_many((PositionProvider, ScopeProvider, ParentNodeProvider))
    except (cst.ParserSyntaxError, cst.CSTValidationError) as error:
        raise NotSure(f"the source cannot be read: {str(error).splitlines()[0]}") from None
    except RecursionError:
        raise NotSure("the source is nested too deeply to be read") from None
    return Parsed(
        source,
        lines,
        (*numbers, len(lines) + 1),
        wrapper.module,
        cast("Mapping[cst.CSTNode, CodeRange]", found[PositionProvider]),
        cast("Mapping[cst.CSTNode, Scope | None]", found[ScopeProvider]),
        cast("Mapping[cst.CSTNode, cst.CSTNode]", found[ParentNodeProvider]),
        words,
        frozenset(shared),
    )


def is_python(source: str) -> bool:
    """Whether a text can be read as Python."""
    try:
        _outline(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _outline(source: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(source)


def _around(lines: list[str], outline: ast.Module, line: int) -> list[tuple[int, str]]:
    """The lines without the functions and classes that do not hold the given one, each with its number in the file.

    A long file is read in the time of a short one. Of a function or class whose name is used a stub stays, so that the name
    is known.
    """
    apart = [*_definitions_apart(outline, line, lines)]
    gone = {number for _, first, last in apart for number in range(first, last + 1)}
    kept = [(number, text) for number, text in enumerate(lines, 1) if number not in gone]
    used = set(re.findall(r"\w+", " ".join(text for _, text in kept)))
    for definition, first, _ in apart:
        if definition.name in used or definition.col_offset:
            kept.append((first, f"{lines[first - 1][: definition.col_offset]}class {definition.name}: pass\n"))
    return sorted(kept)


def _definitions_apart(body: ast.Module | ast.ClassDef, line: int, lines: list[str]) -> Iterator[tuple[_Definition, int, int]]:
    """The functions and classes, from their first line to the last blank one after them, that do not hold a line."""
    for statement in body.body:
        if not isinstance(statement, _Definition) or statement.end_lineno is None:
            continue
        first = min([statement.lineno, *(decorator.lineno for decorator in statement.decorator_list)])
        if not first <= line <= statement.end_lineno:
            yield statement, first, statement.end_lineno + _blank_after(statement.end_lineno, lines)
        elif isinstance(statement, ast.ClassDef):
            yield from _definitions_apart(statement, line, lines)


def _blank_after(last: int, lines: list[str]) -> int:
    """How many blank lines follow a line."""
    return sum(1 for _ in takewhile(lambda index: lines[index].isspace(), range(last, len(lines))))
