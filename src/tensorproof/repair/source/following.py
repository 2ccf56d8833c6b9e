"""Values that a name was given on an earlier line of the same function, and whether they are still what they were."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import libcst as cst
from libcst.metadata import Assignment, BaseAssignment, Scope

from tensorproof.repair.source.functions import METHODS
from tensorproof.repair.source.parsing import Parsed
from tensorproof.repair.source.text import Place

#: More assignments than this in a row are not followed.
_LONGEST_CHAIN = 20

#: Built-in functions that change none of their arguments.
_HARMLESS = frozenset({"print", "len", "isinstance", "float", "int", "bool", "str", "repr", "type", "max", "min", "id", "hasattr"})
_TENSOR_LIBRARIES = ("torch.", "tensorflow.", "jax.", "numpy.", "math.")


@dataclass(frozen=True, slots=True)
class Definition:
    """The one assignment of a name that reaches the place where the name is used."""

    name: str
    value: cst.BaseExpression
    statement: cst.CSTNode
    assignment: Assignment


@dataclass(slots=True)
class Follower:
    """The assignments of one file. `doubts` are the reasons why a name was not followed."""

    parsed: Parsed
    doubts: list[str]
    _changes: dict[cst.CSTNode, list[_InPlace]] = field(default_factory=dict[cst.CSTNode, "list[_InPlace]"])

    def value(self, node: cst.BaseExpression) -> tuple[cst.BaseExpression, tuple[Definition, ...]]:
        """The expression that a name stands for, followed as far as it goes, and the assignments on the way."""
        through: list[Definition] = []
        while isinstance(node, cst.Name) and len(through) < _LONGEST_CHAIN:
            definition = self.definition(node)
            if definition is None:
                break
            through.append(definition)
            node = definition.value
        return node, tuple(through)

    def definition(self, name: cst.Name) -> Definition | None:
        """The assignment that a name has its value from, if there is surely one."""
        scope = self.parsed.scopes.get(name)
        if scope is None or name.value in self.parsed.shared:
            return None
        own = [found for found in scope[name.value] if found.scope is scope]
        before = [found for found in own if self._settled(found) <= self.parsed.start(name)]
        if len(before) != 1:
            if len(before) > 1 and any(_assigned_value(self.parsed, found) for found in before):
                self.doubts.append(f"{name.value} is assigned more than once before this line")
            return None
        value = _assigned_value(self.parsed, before[0])
        if value is None or not isinstance(before[0], Assignment):
            return None
        definition = Definition(name.value, value, self._statement(before[0].node), before[0])
        if not self._always_runs_before(definition.statement, name):
            self.doubts.append(f"{name.value} is assigned on one path only")
            return None
        return definition if self.is_unchanged(name.value, definition, name) else None

    def constant(self, name: cst.Name) -> cst.BaseExpression | None:
        """The literal, or call, that a name is assigned once and for all, here or at the head of the file."""
        scope = self.parsed.scopes.get(name)
        if scope is None or name.value in self.parsed.shared:
            return None
        found = list(scope[name.value])
        value = _assigned_value(self.parsed, found[0]) if len(found) == 1 else None
        positive = value.expression if isinstance(value, cst.UnaryOperation) else value
        return value if isinstance(positive, cst.Integer | cst.Float | cst.Call) else None

    def is_assigned(self, name: cst.Name) -> bool:
        """Whether the file gives a name a value of its own, so that it is no built-in one."""
        scope = self.parsed.scopes.get(name)
        return scope is None or any(isinstance(found, Assignment) for found in scope[name.value])

    def is_unchanged(self, name: str, since: Definition, use: cst.CSTNode) -> bool:
        """Whether a name, and the tensor behind it, is at `use` what it was when the statement of `since` ran."""
        scope = self.parsed.scopes.get(use)
        if scope is None or name in self.parsed.shared:
            return False
        start, end = self.parsed.end(since.statement), self._latest(since.statement, use)
        bindings = [self._settled(found) for found in scope[name] if found.scope is scope and found is not since.assignment]
        if any(start < place <= end for place in bindings):
            self.doubts.append(f"{name} is assigned again before it is used")
            return False
        for change in self._in_place(scope, since.statement):
            if start < change.place <= end and (change.names is None or name in change.names):
                self.doubts.append(f"{name} may be changed in between ({change.what})")
                return False
        return True

    def other_users(self, definition: Definition, replaced: Sequence[cst.CSTNode]) -> bool:
        """Whether the value of an assignment is used outside of the given nodes."""
        ranges = [(self.parsed.start(node), self.parsed.end(node)) for node in replaced]
        places = [self.parsed.start(access.node) for access in definition.assignment.references]
        return any(not any(start <= place <= end for start, end in ranges) for place in places)

    def _settled(self, found: BaseAssignment) -> Place:
        """Where a binding has taken place: an assignment after its value was computed."""
        if not isinstance(found, Assignment):
            return Place(0, 0)
        for node in (found.node, *self.parsed.ancestors(found.node)):
            if isinstance(node, cst.Assign | cst.AnnAssign | cst.AugAssign | cst.NamedExpr):
                return self.parsed.end(node)
            if isinstance(node, cst.BaseStatement | cst.BaseSuite | cst.Lambda):
                break
        return self.parsed.start(found.node) if found.node in self.parsed.positions else Place(0, 0)

    def _statement(self, node: cst.CSTNode) -> cst.CSTNode:
        return next(found for found in self.parsed.ancestors(node) if isinstance(found, cst.Assign | cst.AnnAssign))

    def _always_runs_before(self, statement: cst.CSTNode, use: cst.CSTNode) -> bool:
        """Whether the block of a statement is around the use: the statement then ran whenever the use is reached."""
        around = next(node for node in self.parsed.ancestors(statement) if isinstance(node, cst.BaseSuite | cst.Module))
        return around in self.parsed.ancestors(use)

    def _latest(self, since: cst.CSTNode, use: cst.CSTNode) -> Place:
        """The end of what may run before the use: the use itself, or the loop around it that began after `since`."""
        outside = set(self.parsed.ancestors(since))
        loops = [node for node in self.parsed.ancestors(use) if isinstance(node, cst.For | cst.While) and node not in outside]
        return self.parsed.end(loops[-1]) if loops else self.parsed.start(use)

    def _in_place(self, scope: Scope, statement: cst.CSTNode) -> list[_InPlace]:
        root = next(node for node in self.parsed.ancestors(statement) if isinstance(node, cst.FunctionDef | cst.Module))
        if root not in self._changes:
            visitor = _InPlaceChanges(self.parsed, scope)
            root.visit(visitor)
            self._changes[root] = visitor.found
        return self._changes[root]


@dataclass(frozen=True, slots=True)
class _InPlace:
    """A statement or call, by its end, that may change tensors: those of the names, or, where a view may be meant, any."""

    place: Place
    names: frozenset[str] | None
    what: str


class _InPlaceChanges(cst.CSTVisitor):
    """Collects what may change a tensor behind its name.

    That are assignments to elements, augmented assignments, methods and functions whose name ends with an underscore,
    `out=` and `inplace=True`, and calls of functions that no tensor library defines, for the names handed to them.
    """

    def __init__(self, parsed: Parsed, scope: Scope) -> None:
        super().__init__()
        self.parsed = parsed
        self.scope = scope
        self.found: list[_InPlace] = []

    def visit_AugAssign(self, node: cst.AugAssign) -> None:
        self._add(node, _names([node.target]))

    def visit_AssignTarget(self, node: cst.AssignTarget) -> None:
        if isinstance(node.target, cst.Subscript):
            self._add(node, None)
        elif isinstance(node.target, cst.Attribute):
            self._add(node, _names([node.target]))

    def visit_Del(self, node: cst.Del) -> None:
        self._add(node, _names([node.target]))

    def visit_Call(self, node: cst.Call) -> None:
        name = node.func.attr.value if isinstance(node.func, cst.Attribute) else getattr(node.func, "value", "")
        keywords = {argument.keyword.value for argument in node.args if argument.keyword is not None}
        if (isinstance(name, str) and name.endswith("_") and not name.endswith("__")) or keywords & {"out", "inplace"}:
            self._add(node, None)
        elif not self._is_harmless(node.func):
            self._add(node, _names(argument.value for argument in node.args))

    def _is_harmless(self, function: cst.BaseExpression) -> bool:
        if isinstance(function, cst.Name) and function.value in _HARMLESS:
            return True
        if isinstance(function, cst.Attribute) and function.attr.value in METHODS["torch"]:
            return True
        names = self.scope.get_qualified_names_for(function) if isinstance(function, cst.Name | cst.Attribute) else set()
        return any(name.name.startswith(_TENSOR_LIBRARIES) for name in names)

    def _add(self, node: cst.CSTNode, names: frozenset[str] | None) -> None:
        code = self.parsed.module.code_for_node(node).strip().splitlines()[0]
        self.found.append(_InPlace(self.parsed.end(node), names, code))


def _names(expressions: Iterable[cst.BaseExpression]) -> frozenset[str]:
    """The names that expressions are parts of: x for x, x[0] and x.data."""
    names: set[str] = set()
    for node in expressions:
        while isinstance(node, cst.Attribute | cst.Subscript):
            node = node.value
        if isinstance(node, cst.Name):
            names.add(node.value)
    return frozenset(names)


def _assigned_value(parsed: Parsed, found: BaseAssignment) -> cst.BaseExpression | None:
    """The value of `name = value`; None for all other ways to bind a name."""
    if not isinstance(found, Assignment) or not isinstance(found.node, cst.Name):
        return None
    parent = parsed.parents.get(found.node)
    if isinstance(parent, cst.AssignTarget):
        parent = parsed.parents.get(parent)
        return parent.value if isinstance(parent, cst.Assign) and len(parent.targets) == 1 else None
    return parent.value if isinstance(parent, cst.AnnAssign) and parent.target is found.node else None
