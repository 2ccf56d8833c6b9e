"""A repair in the making: what a pattern reads, and what it writes in the place of it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

import libcst as cst

from tensorproof.formats import Format
from tensorproof.repair.source.exceptions import NotSure
from tensorproof.repair.source.following import Definition
from tensorproof.repair.source.functions import Library
from tensorproof.repair.source.reading import Operation, Reader
from tensorproof.repair.source.spelling import Speller
from tensorproof.repair.source.text import Change, Place

Limit = Literal["eps", "tiny", "min"]

#: Expressions that need no parentheses as the operand of an operator or before a dot.
_ATOMS = (cst.Name, cst.Attribute, cst.Call, cst.Subscript)
#: Operations whose result has the format of their operand.
_KEEP_FORMAT = (
    *("exp", "log", "log1p", "sqrt", "rsqrt", "sigmoid", "softmax", "abs", "square", "relu", "softplus", "clamp", "maximum"),
    *("sum", "mean", "std", "var", "norm", "add", "subtract", "multiply", "divide", "power", "negative", "masked_fill"),
)
#: How deep the terms of an expression are looked into, through names: each step may double their number.
_DEEPEST = 8
_ARGUMENTS = frozenset({"axis", "keepdims", "p", "ord", "min", "max", "mask", "value", "correction", "unbiased"})


@dataclass(slots=True)
class Draft:
    """The repair of one expression, `node`, for values of one format."""

    node: cst.BaseExpression
    reader: Reader
    speller: Speller
    format: Format
    rule: str
    #: Whether the repair is run and compared before anybody sees it: a doubt that a run settles is then no reason to decline.
    is_tried: bool = False
    replaced: list[tuple[cst.BaseExpression, str]] = field(default_factory=list[tuple[cst.BaseExpression, str]])
    through: list[Definition] = field(default_factory=list[Definition])
    moved: list[Change] = field(default_factory=list[Change])
    #: Expressions that go on reading the names that were followed, as is meant.
    readers: list[cst.CSTNode] = field(default_factory=list[cst.CSTNode])

    def replace(self, node: cst.BaseExpression, code: str) -> None:
        """Write `code`, a call or what has parentheses, in the place of a node; parentheses around the node stay."""
        if _comments(node) > _comments(parsed_expression(code)):
            raise NotSure("a comment inside of the expression would be lost")
        self.replaced.append((node, code))

    def take_minus(self, node: cst.UnaryOperation) -> None:
        """Leave out the minus of a node, whose operand is written anew or stays."""
        parsed = self.reader.parsed
        start, (end, _) = parsed.start(node), parsed.whole(node.expression)
        self.moved.append(Change(start, end, " " if _ends_with_word(parsed.before(start)) else ""))

    def changes(self) -> list[Change]:
        """All changes of the text that the repair makes."""
        own = [Change(*self._range(node), code) for node, code in self.replaced]
        return [*own, *self.moved, *self.speller.changes]

    def code(self, node: cst.BaseExpression) -> str:
        """A node as it is written."""
        return self.reader.code(node)

    def minus(self, code: str) -> str:
        """The negative of an operand, which is given as code."""
        node = parsed_expression(code)
        if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus) and not node.lpar:
            return cst.Module([]).code_for_node(node.expression)
        return f"-{atom(code)}"

    def operand(self, *path: Operation, name: str) -> str:
        """The operand of the last operation of a path as it can be written at the node.

        Where the path leads through assignments, the operand was computed on an earlier line: a name is used again if it still
        has that value, and any other expression is given a name there, so that nothing is computed twice.
        """
        through = tuple(definition for operation in path for definition in operation.through)
        self.through.extend(through)
        node = path[-1].operand
        return self._brought(node, through, name)

    def arguments(self, *path: Operation) -> str:
        """The arguments but the operand of the last operation of a path, each after a comma."""
        through = tuple(definition for operation in path for definition in operation.through)
        for argument in path[-1].rest if through else ():
            if not self._is_still(argument.value, through):
                raise NotSure(f"{self.code(argument.value)} may have another value by then")
        keywords = (f"{argument.keyword.value}=" if argument.keyword is not None else "" for argument in path[-1].rest)
        return "".join(f", {keyword}{self.code(argument.value)}" for keyword, argument in zip(keywords, path[-1].rest))

    def call(self, qualified: str, like: Operation, arguments: str) -> str:
        """A call of a function, spelled as `like` is."""
        return f"{self.speller.spell(qualified, like)}({arguments})"

    def again(self, operation: Operation, operand: str) -> str:
        """An operation as it is written, with other code for its operand."""
        if operation.library is None:
            assert isinstance(operation.node, cst.BinaryOperation)
            return f"({atom(operand)} {_symbol(operation.node)} {self.code(operation.arguments['y'])})"
        arguments = self.arguments(operation)
        if operation.function is not None:
            return f"{self.code(operation.function)}({operand}{arguments})"
        assert isinstance(operation.node, cst.Call) and isinstance(operation.node.func, cst.Attribute)
        return f"{atom(operand)}.{operation.node.func.attr.value}({arguments.removeprefix(', ')})"

    def clamped(self, node: cst.BaseExpression, like: Operation, *, low: str | None = None, high: str | None = None) -> str:
        """A tensor of torch moved into an interval, in the style, function or method, of `like`."""
        ends = ", ".join(f"{name}={end}" for name, end in (("min", low), ("max", high)) if end is not None)
        if like.is_method or like.library is None:
            return f"{atom(self.code(node))}.clamp({ends})"
        return self.call("torch.clamp", like, f"{self.code(node)}, {ends}")

    def limit(self, limit: Limit, of: cst.BaseExpression, library: Library) -> str:
        """A limit of the format of an expression: `torch.finfo(x.dtype).eps`, or a number where a library has no such function."""
        source = self._format_source(of)
        if library == "tensorflow":
            return f"{source}.dtype.min" if limit == "min" and source else repr(self._limit_value(limit))
        module = {"torch": "torch", "jax": "jax.numpy", "numpy": "numpy"}[library]
        dtype = f"{source}.dtype" if source and library != "numpy" else self.speller.spell(f"{module}.{self.format.name}")
        return f"{self.speller.spell(f'{module}.finfo')}({dtype}).{limit}"

    def at_least(self, node: cst.BaseExpression, low: str, like: Operation, library: Library) -> str:
        """The larger of an expression and a limit, in the style, function or method, of `like`."""
        if library == "torch" and (like.is_method or like.library is None):
            return f"{atom(self.code(node))}.clamp(min={low})"
        if library == "torch":
            return self.call("torch.clamp", like, f"{self.code(node)}, min={low}")
        module = {"tensorflow": "tensorflow", "jax": "jax.numpy", "numpy": "numpy"}[library]
        return self.call(f"{module}.maximum", like, f"{self.code(node)}, {low}")

    def is_tensor(self, node: cst.BaseExpression, depth: int = 0) -> bool:
        """Whether an expression is surely a tensor, and no number of Python: some function of tensors is a part of it."""
        found = self.reader.operation(node, *_KEEP_FORMAT, extra=_ARGUMENTS) if depth < _DEEPEST else None
        if found is None or found.library is not None:
            return found is not None
        return any(self.is_tensor(argument, depth + 1) for argument in found.arguments.values())

    def library(self, operation: Operation) -> Library:
        """The library of an operation; for an operator of Python that of its operands, of the calls around it, or of the file."""
        if operation.library is not None:
            return operation.library
        for argument in operation.arguments.values():
            inner = self.reader.operation(argument, *_KEEP_FORMAT, extra=_ARGUMENTS)
            if inner is not None:
                return self.library(inner)
        for around in self.reader.parsed.ancestors(self.node):
            outer = self.reader.operation(around, *_KEEP_FORMAT, extra=_ARGUMENTS) if isinstance(around, cst.Call) else None
            if outer is not None and outer.library is not None:
                return outer.library
        if len(self.reader.libraries) != 1 and "torch" not in self.reader.libraries:
            raise NotSure("which library the tensors are of is not known")
        return self.reader.libraries[0]

    def _range(self, node: cst.BaseExpression) -> tuple[Place, Place]:
        """Where a node stands: with its parentheses, if it has them only so that an operator or a dot may be next to it."""
        parsed = self.reader.parsed
        start, end = parsed.whole(node)
        needed = isinstance(parsed.parents.get(node), cst.Attribute | cst.UnaryOperation | cst.BinaryOperation)
        return (start, end) if needed and not _ends_with_word(parsed.before(start)) else (parsed.start(node), parsed.end(node))

    def _brought(self, node: cst.BaseExpression, through: tuple[Definition, ...], name: str) -> str:
        if not through or self.reader.number(node) is not None:
            return self.code(node)
        if isinstance(node, cst.Name):
            if not self._is_still(node, through):
                raise NotSure(f"{node.value} may have another value by then")
            return node.value
        return self._hoist(node, through[-1], name)

    def _is_still(self, node: cst.BaseExpression, through: tuple[Definition, ...]) -> bool:
        """Whether a name or constant has at the node the value that it had in the innermost of the assignments."""
        if isinstance(node, cst.Name) and node.value not in ("True", "False", "None"):
            return self.reader.follower.is_unchanged(node.value, through[-1], self.node)
        if isinstance(node, cst.Tuple | cst.List):
            return all(self.reader.number(element.value) is not None for element in node.elements)
        return isinstance(node, cst.Name) or self.reader.number(node) is not None

    def _hoist(self, node: cst.BaseExpression, definition: Definition, name: str) -> str:
        """Give an expression a name on a line of its own, before the assignment that it is a part of."""
        parsed = self.reader.parsed
        line = parsed.parents.get(definition.statement)
        if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
            raise NotSure(f"the operand {self.code(node)} would be computed twice")
        free = _free_name(name, parsed.words)
        code = self.code(node)
        if "\n" in code and not node.lpar:
            code = f"({code})"
        place = parsed.start(definition.statement)
        margin = parsed.before(place)
        self.moved.append(Change(place, place, f"{free} = {code}{parsed.module.default_newline}{margin}"))
        self.moved.append(Change(parsed.start(node), parsed.end(node), free))
        return free

    def _limit_value(self, limit: Limit) -> float:
        values = {"eps": 2 * self.format.unit_roundoff, "tiny": self.format.smallest_normal, "min": self.format.low}
        return values[limit]

    def _format_source(self, node: cst.BaseExpression) -> str | None:
        """A tensor of the format of an expression that can be written again at no cost: a name or an attribute."""
        if isinstance(node, cst.Name) or (isinstance(node, cst.Attribute) and _is_plain(node)):
            return self.code(node) if self.reader.qualified(node) is None and self.reader.number(node) is None else None
        if isinstance(node, cst.Subscript):
            return self._format_source(node.value)
        if isinstance(node, cst.UnaryOperation):
            return self._format_source(node.expression)
        found = self.reader.operation(node, *_KEEP_FORMAT, extra=_ARGUMENTS)
        if found is None or found.through:
            return None
        sources = (self._format_source(found.arguments[name]) for name in ("x", "y") if name in found.arguments)
        return next((source for source in sources if source is not None), None)


def _symbol(node: cst.BinaryOperation) -> str:
    return cst.Module([]).code_for_node(node.operator).strip()


def _ends_with_word(text: str) -> bool:
    return re.search(r"\w\Z", text) is not None


def atom(code: str) -> str:
    """An expression so that a dot or an operator may follow or precede it."""
    node = parsed_expression(code)
    return code if isinstance(node, _ATOMS) or node.lpar else f"({code})"


def bare(code: str) -> str:
    """An expression without parentheses around it, where it stands alone: as an argument."""
    node = parsed_expression(code)
    if "\n" in code or not node.lpar or isinstance(node, cst.Tuple | cst.GeneratorExp):
        return code
    return cst.Module([]).code_for_node(node.with_changes(lpar=node.lpar[1:], rpar=node.rpar[:-1]))


def parsed_expression(code: str) -> cst.BaseExpression:
    """The tree of an expression that may go on over several lines, as inside of parentheses."""
    if "\n" not in code:
        return cst.parse_expression(code)
    inside = cst.parse_expression(f"({code})")
    return inside.with_changes(lpar=inside.lpar[1:], rpar=inside.rpar[:-1])


def _free_name(name: str, words: frozenset[str]) -> str:
    return next(free for free in (name, *(f"{name}_{index}" for index in range(2, len(words) + 3))) if free not in words)


def _is_plain(node: cst.Attribute) -> bool:
    """Whether a dotted name is made of names alone."""
    value = node.value
    while isinstance(value, cst.Attribute):
        value = value.value
    return isinstance(value, cst.Name)


class _Comments(cst.CSTVisitor):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def visit_Comment(self, node: cst.Comment) -> None:
        self.count += 1


def _comments(node: cst.CSTNode) -> int:
    visitor = _Comments()
    node.visit(visitor)
    return visitor.count
