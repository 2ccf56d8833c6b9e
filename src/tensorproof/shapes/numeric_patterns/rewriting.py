"""Corrections as text: a call under another name, with the operands as the program wrote them."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tensorproof.shapes.problems import Edit, Place

if TYPE_CHECKING:
    from tensorproof.shapes.run import Run

_LINE_END = re.compile(rb"\r\n|\r|\n")
#: What binds stronger than any operator: it needs no parentheses before a dot.
_ATOMS = ast.Name | ast.Attribute | ast.Call | ast.Subscript
#: What an addition may be written behind without parentheses.
_TERMS = ast.Name | ast.Attribute | ast.Call | ast.Subscript | ast.BinOp | ast.UnaryOp | ast.Constant
_LOOSE = ast.LShift | ast.RShift | ast.BitAnd | ast.BitOr | ast.BitXor


@dataclass(frozen=True, slots=True)
class Written:
    """An expression as the program has it; `text` holds it in parentheses."""

    place: Place
    text: str
    node: ast.expr

    @staticmethod
    def at(run: Run, place: Place) -> Written | None:
        """The expression at a place; None if the source is not at hand, or if there is a statement."""
        source = run.sources.get(place.file)
        if source is None:
            return None
        lines = _LINE_END.split(source)[place.line - 1 : place.end_line]
        if len(lines) != place.end_line - place.line + 1:
            return None
        lines[-1] = lines[-1][: place.end_column]
        lines[0] = lines[0][place.column :]
        try:
            text = "(" + b"\n".join(lines).decode() + ")"
            return Written(place, text, ast.parse(text, mode="eval").body)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None

    def of(self, node: ast.expr) -> str:
        """The text of a part."""
        return ast.get_source_segment(self.text, node) or ast.unparse(node)

    def atom(self, node: ast.expr) -> str:
        """The text of a part, in parentheses where a dot behind it needs them."""
        return self.of(node) if isinstance(node, _ATOMS) else f"({self.of(node)})"

    def term(self, node: ast.expr) -> str:
        """The text of a part, in parentheses where a sum needs them."""
        loose = not isinstance(node, _TERMS) or (isinstance(node, ast.BinOp) and isinstance(node.op, _LOOSE))
        return f"({self.of(node)})" if loose else self.of(node)

    def call(self, node: ast.expr, is_method: bool) -> WrittenCall | None:
        """A call in it: of a method, or of a function of a module (`np.log`)."""
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            return None
        if any(isinstance(argument, ast.Starred) for argument in node.args):
            return None
        if is_method:
            return WrittenCall(self, node, node.func.value, True)
        return WrittenCall(self, node, node.args[0], False) if node.args else None

    def edit(self, title: str, text: str) -> tuple[Edit, ...]:
        """The edit that puts a text in place of the whole."""
        return (Edit(title, self.place, text),)


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """A call, its first operand, and how it is written."""

    within: Written
    node: ast.Call
    operand: ast.expr
    is_method: bool

    @property
    def has_options(self) -> bool:
        """Whether anything is passed besides the operand."""
        return bool(self._options)

    @property
    def _options(self) -> list[str]:
        positional = self.node.args if self.is_method else self.node.args[1:]
        named = [
            f"{part.arg}={self.within.of(part.value)}" if part.arg else f"**{self.within.of(part.value)}"
            for part in self.node.keywords
        ]
        return [*map(self.within.of, positional), *named]

    def renamed(self, name: str, operand: ast.expr) -> str:
        """The same call of another function, on another operand."""
        if self.is_method:
            return f"{self.within.atom(operand)}.{name}({', '.join(self._options)})"
        return self.called(name, self.within.of(operand))

    def called(self, name: str, operand: str) -> str:
        """The same call of another function of the module, on an operand given as text."""
        function = self.node.func
        assert isinstance(function, ast.Attribute)
        return f"{self.within.of(function.value)}.{name}({', '.join([operand, *self._options])})"


def one_added(node: ast.expr) -> ast.expr | None:
    """What is added to the number 1."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add):
        return None
    return node.right if is_one(node.left) else node.left if is_one(node.right) else None


def is_one(node: ast.expr) -> bool:
    """Whether the number 1 is written there."""
    return isinstance(node, ast.Constant) and type(node.value) in (int, float) and node.value == 1
