"""How a function is called in this file: by the imports that are there, or else by one that is added in the file's own style."""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst
from libcst.metadata import QualifiedNameSource

from tensorproof.repair.source.exceptions import NotSure
from tensorproof.repair.source.parsing import Parsed
from tensorproof.repair.source.reading import Operation, Reader, canonical
from tensorproof.repair.source.text import Change, Place

#: What a package is imported as where nothing of the file says it.
_PACKAGES = {"torch": "import torch", "tensorflow": "import tensorflow as tf", "jax": "import jax", "numpy": "import numpy as np"}
_NAMES = {"tensorflow": "tf", "numpy": "np"}


@dataclass(frozen=True, slots=True)
class Imported:
    """A name that an import binds, what it stands for, and the statement."""

    name: str
    qualified: str
    statement: cst.Import | cst.ImportFrom


class _Imports(cst.CSTVisitor):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[Imported] = []

    def visit_Import(self, node: cst.Import) -> None:
        for alias in node.names:
            if alias.evaluated_alias is not None:
                self.found.append(Imported(alias.evaluated_alias, canonical(alias.evaluated_name), node))
            else:
                package = alias.evaluated_name.partition(".")[0]
                self.found.append(Imported(package, package, node))

    def visit_ImportFrom(self, node: cst.ImportFrom) -> None:
        if isinstance(node.names, cst.ImportStar) or node.module is None or node.relative:
            return
        module = canonical(_dotted(node.module))
        for alias in node.names:
            self.found.append(Imported(alias.evaluated_alias or alias.evaluated_name, f"{module}.{alias.evaluated_name}", node))


def imports_of(module: cst.Module) -> tuple[Imported, ...]:
    """The names that the imports of a file bind, wherever they are."""
    visitor = _Imports()
    module.visit(visitor)
    return tuple(visitor.found)


@dataclass(slots=True)
class Speller:
    """Writes full names as the file would at one place; `changes` are the imports that this adds."""

    reader: Reader
    imports: tuple[Imported, ...]
    place: cst.CSTNode
    #: Whether a file without any import gets its first one.
    may_begin: bool = False
    changes: list[Change] = field(default_factory=list[Change])

    def spell(self, qualified: str, like: Operation | None = None) -> str:
        """A full name as it is written here, if possible with the prefix of the function that `like` calls."""
        module, _, name = qualified.rpartition(".")
        if like is not None and isinstance(like.function, cst.Attribute) and self.reader.qualified(like.function.value) == module:
            return f"{self.reader.code(like.function.value)}.{name}"
        by_name = like is not None and isinstance(like.function, cst.Name)
        return self._visible(qualified) or self._joined(module, name) or self._added(qualified, by_name)

    def _visible(self, qualified: str) -> str | None:
        """The name by the most particular import that can be seen from the place."""
        for found in sorted(self.imports, key=lambda found: -len(found.qualified)):
            if (qualified == found.qualified or qualified.startswith(f"{found.qualified}.")) and self._can_see(found):
                return found.name + qualified[len(found.qualified) :]
        return None

    def _can_see(self, found: Imported) -> bool:
        parsed = self.reader.parsed
        scope = parsed.scopes.get(self.place)
        if scope is None:
            return False
        names = scope.get_qualified_names_for(found.name)
        sure = {(name.source, canonical(name.name)) for name in names} == {(QualifiedNameSource.IMPORT, found.qualified)}
        statement_scope = parsed.scopes.get(found.statement)
        return sure and (statement_scope is not scope or parsed.start(found.statement) < parsed.start(self.place))

    def _joined(self, module: str, name: str) -> str | None:
        """The bare name, added to the `from module import ...` that is already at the head of the file."""
        parsed = self.reader.parsed
        for found in self.imports:
            statement = found.statement
            if not isinstance(statement, cst.ImportFrom) or isinstance(statement.names, cst.ImportStar) or statement.module is None:
                continue
            if canonical(_dotted(statement.module)) == module and _is_at_head(parsed, statement) and name not in parsed.words:
                last = parsed.start(statement.names[-1])
                self.changes.append(Change(last, last, f"{name}, "))
                return name
        return None

    def _added(self, qualified: str, by_name: bool) -> str:
        """The name by an import, of itself or of its package, added below the imports at the head of the file."""
        parsed = self.reader.parsed
        package, _, rest = qualified.partition(".")
        module, _, last = qualified.rpartition(".")
        bound, spelled = (last, last) if by_name else (_NAMES.get(package, package), f"{_NAMES.get(package, package)}.{rest}")
        statement = f"from {module} import {last}" if by_name else _PACKAGES[package]
        heads = [found.statement for found in self.imports if _is_at_head(parsed, found.statement)]
        if not (heads or self.may_begin) or self._is_bound(bound):
            raise NotSure(f"{qualified} is needed, and there is no place to import it")
        newline = parsed.module.default_newline
        if not heads:
            first = Place(_first_line(parsed), 0)
            self.changes.append(Change(first, first, f"{statement}{newline}{newline}"))
            return spelled
        line = max(parsed.end(head).line for head in heads)
        if line >= parsed.start(self.place).line:
            raise NotSure(f"{qualified} is needed, and imported only after this line")
        self.changes.append(Change(Place(line + 1, 0), Place(line + 1, 0), f"{statement}{newline}"))
        return spelled

    def _is_bound(self, name: str) -> bool:
        """Whether the file may give a name another meaning where the new one would be used."""
        scope = self.reader.parsed.scopes.get(self.place)
        return scope is None or bool(scope[name]) or any(found.name == name for found in self.imports)


def _first_line(parsed: Parsed) -> int:
    """The line after the docstring of a file and the blank lines below it; the first one, if it has none."""
    text = parsed.module.body[0] if parsed.module.get_docstring() is not None else None
    line = 1 if text is None else parsed.end(text).line + 1
    while line <= len(parsed.lines) and parsed.lines[line - 1].isspace():
        line += 1
    return line


def _is_at_head(parsed: Parsed, statement: cst.CSTNode) -> bool:
    """Whether a statement is a line of its own, outside of functions and conditions."""
    line = parsed.parents.get(statement)
    return isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 and isinstance(parsed.parents.get(line), cst.Module)


def _dotted(node: cst.BaseExpression) -> str:
    return f"{_dotted(node.value)}.{node.attr.value}" if isinstance(node, cst.Attribute) else str(getattr(node, "value", ""))
