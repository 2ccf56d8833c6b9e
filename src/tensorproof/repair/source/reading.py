"""Expressions read as operations of tensor libraries, through the imports of the file and the names of the function."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import libcst as cst
from libcst.metadata import QualifiedNameSource

from tensorproof.repair.source.exceptions import NotSure
from tensorproof.repair.source.following import Definition, Follower
from tensorproof.repair.source.functions import FUNCTIONS, METHODS, Function, Library, argument_name
from tensorproof.repair.source.parsing import Parsed

_INFINITIES = frozenset({"math.inf", "numpy.inf", "numpy.Inf", "torch.inf", "jax.numpy.inf"})
_OPERATORS: dict[type[cst.BaseBinaryOp], str] = {
    cst.Add: "add",
    cst.Subtract: "subtract",
    cst.Multiply: "multiply",
    cst.Divide: "divide",
    cst.Power: "power",
}


@dataclass(frozen=True, slots=True)
class Operation:
    """A call, or an operator of Python, as an operation on tensors.

    `through` are the assignments that lead from the expression asked about to `node`, the last of them the innermost.
    """

    name: str
    node: cst.BaseExpression
    arguments: Mapping[str, cst.BaseExpression]
    through: tuple[Definition, ...] = ()
    #: None for an operator of Python.
    library: Library | None = None
    #: The function as it is written; None for a method or an operator.
    function: cst.BaseExpression | None = None
    #: The arguments but the operand, as they are written.
    rest: tuple[cst.Arg, ...] = ()

    @property
    def operand(self) -> cst.BaseExpression:
        return self.arguments["x"]

    @property
    def is_method(self) -> bool:
        return self.library is not None and self.function is None


@dataclass(slots=True)
class Reader:
    """The expressions of one file. `doubts` are the reasons why an expression was not taken for an operation."""

    parsed: Parsed
    follower: Follower
    #: Libraries that the file imports, in the order in which the methods of an unknown tensor are taken for theirs.
    libraries: tuple[Library, ...]
    doubts: list[str] = field(default_factory=list[str])

    def code(self, node: cst.BaseExpression) -> str:
        """An expression as it is written, with the parentheses around it."""
        return self.parsed.text(*self.parsed.whole(node))

    def same(self, first: cst.BaseExpression, second: cst.BaseExpression) -> bool:
        """Whether two expressions are written alike, up to spaces and parentheses."""
        trees = (ast.dump(ast.parse(f"({self.code(node)}\n)", mode="eval")) for node in (first, second))
        return next(trees) == next(trees)

    def qualified(self, node: cst.BaseExpression) -> str | None:
        """The full name that imports give to a name or an attribute; None for anything else, or if imports differ."""
        root = node
        while isinstance(root, cst.Attribute):
            root = root.value
        scope = self.parsed.scopes.get(root)
        if not isinstance(root, cst.Name) or scope is None:
            return None
        found = scope.get_qualified_names_for(node)
        if any(name.source is not QualifiedNameSource.IMPORT for name in found):
            return None
        names = {canonical(name.name) for name in found}
        return names.pop() if len(names) == 1 else None

    def operation(self, node: cst.BaseExpression, *names: str, extra: frozenset[str] = frozenset()) -> Operation | None:
        """What an expression computes, if it is one of the named operations with arguments that its pattern knows."""
        value, through = self.follower.value(node)
        found = self._binary(value, through) or self._call(value, through)
        if found is None or found.name not in names:
            return None
        unknown = set(found.arguments) - {"x", "y"} - extra
        if unknown:
            self.doubts.append(f"{found.name} is called with {' and '.join(sorted(unknown))}, which the repair would lose")
            return None
        return found

    def number(self, node: cst.BaseExpression) -> float | None:
        """The value of a literal, of an infinity, or of a name that is assigned a literal once and for all."""
        if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
            value = self.number(node.expression)
            return None if value is None else -value
        if isinstance(node, cst.Integer | cst.Float):
            try:
                return float(node.evaluated_value)
            except OverflowError:
                return None
        if isinstance(node, cst.Call):
            return self._float_of_text(node)
        if isinstance(node, cst.Name | cst.Attribute):
            if self.qualified(node) in _INFINITIES:
                return math.inf
            constant = self.follower.constant(node) if isinstance(node, cst.Name) else None
            return None if constant is None else self.number(constant)
        return None

    def negated(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        """The operand, if an expression is the negative of one."""
        if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
            return node.expression
        found = self.operation(node, "negative")
        return None if found is None or found.through else found.operand

    def complement(self, node: cst.BaseExpression) -> Operation | None:
        """1 - x as an operation whose operand is x."""
        found = self.operation(node, "subtract")
        if found is None or self.number(found.operand) != 1:
            return None
        return Operation("complement", found.node, {"x": found.arguments["y"]}, found.through)

    def added_to_one(self, node: cst.BaseExpression) -> Operation | None:
        """1 + x or x + 1 as an operation whose operand is x."""
        found = self.operation(node, "add")
        if found is None:
            return None
        for one, other in (("x", "y"), ("y", "x")):
            if self.number(found.arguments[one]) == 1:
                return Operation("plus one", found.node, {"x": found.arguments[other]}, found.through)
        return None

    def _float_of_text(self, node: cst.Call) -> float | None:
        """float("inf") and the like."""
        is_float = isinstance(node.func, cst.Name) and node.func.value == "float" and not self.follower.is_assigned(node.func)
        if not is_float or len(node.args) != 1 or not isinstance(text := node.args[0].value, cst.SimpleString):
            return None
        try:
            return float(str(text.evaluated_value))
        except ValueError:
            return None

    def _binary(self, node: cst.BaseExpression, through: tuple[Definition, ...]) -> Operation | None:
        if not isinstance(node, cst.BinaryOperation) or type(node.operator) not in _OPERATORS:
            return None
        return Operation(_OPERATORS[type(node.operator)], node, {"x": node.left, "y": node.right}, through)

    def _call(self, node: cst.BaseExpression, through: tuple[Definition, ...]) -> Operation | None:
        if not isinstance(node, cst.Call) or any(argument.star for argument in node.args):
            return None
        qualified = self.qualified(node.func)
        if qualified is not None:
            return self._function_call(node, qualified, through)
        if isinstance(node.func, cst.Attribute):
            return self._method_call(node, node.func, through)
        self._doubt_name(node.func)
        return None

    def _function_call(self, node: cst.Call, qualified: str, through: tuple[Definition, ...]) -> Operation | None:
        function = FUNCTIONS.get(qualified)
        if function is None:
            if qualified.rpartition(".")[2] in _NAMES:
                self.doubts.append(f"{self.code(node.func)} is {qualified}, which is no function of tensors")
            return None
        bound = _bind(function.parameters, node.args)
        if bound is None or "x" not in bound:
            return None
        arguments = {name: argument.value for name, argument in bound.items()}
        rest = tuple(argument for argument in node.args if argument is not bound["x"])
        return Operation(function.operation, node, arguments, through, function.library, node.func, rest)

    def _method_call(self, node: cst.Call, attribute: cst.Attribute, through: tuple[Definition, ...]) -> Operation | None:
        if self.qualified(attribute.value) is not None:
            return None
        function = self._method(attribute)
        if function is None or (bound := _bind(function.parameters[1:], node.args)) is None:
            return None
        arguments = {"x": attribute.value, **{name: argument.value for name, argument in bound.items()}}
        return Operation(function.operation, node, arguments, through, function.library, None, tuple(node.args))

    def _method(self, attribute: cst.Attribute) -> Function | None:
        """The method, of the library that its tensor comes from, or else of the first that the file imports."""
        name = attribute.attr.value
        value, _ = self.follower.value(attribute.value)
        inner = self._call(value, ()) if isinstance(value, cst.Call) else None
        if inner is not None and inner.library is not None:
            return METHODS[inner.library].get(name)
        return next((METHODS[library][name] for library in self.libraries if name in METHODS[library]), None)

    def _doubt_name(self, function: cst.BaseExpression) -> None:
        if isinstance(function, cst.Name) and function.value in _NAMES:
            self.doubts.append(f"{function.value} is not surely a function of a tensor library: no single import names it")


def canonical(qualified: str) -> str:
    """A full name without the module of a version of TensorFlow."""
    return qualified.replace("tensorflow.compat.v1", "tensorflow").replace("tensorflow.compat.v2", "tensorflow")


def _bind(parameters: tuple[str, ...], arguments: Sequence[cst.Arg]) -> dict[str, cst.Arg] | None:
    """The arguments by the names of patterns; None for more of them than the function takes."""
    bound: dict[str, cst.Arg] = {}
    for index, argument in enumerate(arguments):
        if argument.keyword is not None:
            name = argument_name(argument.keyword.value)
        elif index < len(parameters):
            name = parameters[index]
        else:
            return None
        bound[name] = argument
    return bound


_NAMES = frozenset(function.operation for function in FUNCTIONS.values())


def keeps_axis(operation: Operation) -> bool:
    """Whether a reduction keeps its axis; raises `NotSure` if that is decided elsewhere."""
    keep = operation.arguments.get("keepdims")
    if keep is None:
        return False
    if isinstance(keep, cst.Name) and keep.value in ("True", "False"):
        return keep.value == "True"
    raise NotSure("whether the sum keeps its dimension is decided elsewhere")
