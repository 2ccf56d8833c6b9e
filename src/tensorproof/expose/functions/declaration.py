"""What a user says of a function's arguments: `input=float32[4,3] in -10:10`, `dim=-1`, `reduction=mean`.

A declaration gives the format and the shape of a tensor, the range that its numbers lie in, or both; `nograd` at its end says that
nobody differentiates by it. Everything else is a value as Python writes it; a word that is none is text.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from tensorproof.assumptions import Domain
from tensorproof.errors import AssumptionError
from tensorproof.formats import BY_NAME, Format
from tensorproof.frontends.input_declarations import parse_declaration

_TENSOR = re.compile(r"\w+\s*\[[^\]]*\]|in\s")
_NOT_DIFFERENTIATED = re.compile(r"\s+nograd$")
_WORD = re.compile(r"[A-Za-z_][\w.\-]*")


@dataclass(frozen=True, slots=True)
class Declared:
    """A tensor as it was declared; None for what was not."""

    format: str | None = None
    shape: tuple[int, ...] | None = None
    #: What its numbers are: those of a box, or points of a set that `tensorproof.assumptions.Domain` names.
    kind: str = "box"
    low: float | None = None
    high: float | None = None
    values: tuple[float, ...] = ()
    is_differentiated: bool = True

    @property
    def element(self) -> Format | None:
        return None if self.format is None else BY_NAME[self.format]


@dataclass(frozen=True, slots=True)
class FunctionSettings:
    """One search, as the process that calls the function is told. `folder` is where modules of the user's are looked for."""

    function: str
    folder: str
    tensors: Mapping[str, Declared] = field(default_factory=dict[str, Declared])
    literals: Mapping[str, Any] = field(default_factory=dict[str, Any])
    is_moved: bool = True
    epsilon: float = 0.15
    seed: int = 0
    runs: int = 10
    evaluations: int = 5000

    def to_json(self) -> str:
        """The settings as text."""
        return json.dumps({**asdict(self), "literals": {name: repr(value) for name, value in self.literals.items()}})

    @classmethod
    def from_json(cls, text: str) -> FunctionSettings:
        """The settings that `to_json` wrote."""
        values: dict[str, Any] = json.loads(text)
        values["literals"] = {name: ast.literal_eval(value) for name, value in values["literals"].items()}
        values["tensors"] = {name: _from_json(declared) for name, declared in values["tensors"].items()}
        return cls(**values)


def _from_json(declared: dict[str, Any]) -> Declared:
    sizes = declared["shape"]
    return replace(Declared(**declared), shape=None if sizes is None else tuple(sizes), values=tuple(declared["values"]))


def split_options(options: Iterable[str]) -> dict[str, str]:
    """Arguments of the command line, by name: `NAME=WHAT`, several in one text with `;` between them."""
    found: dict[str, str] = {}
    for option in options:
        for part in filter(None, (part.strip() for part in _parts(option))):
            name, equals, what = part.partition("=")
            if not equals or not name.strip().isidentifier() or not what.strip():
                raise AssumptionError(f"--args {part!r}: write NAME=float32[4,3] in LOW:HIGH, or NAME=VALUE; `;` between several")
            if name.strip() in found:
                raise AssumptionError(f"--args {name.strip()}: it is given twice")
            found[name.strip()] = what.strip()
    return found


def _parts(text: str) -> Iterable[str]:
    """The text between semicolons that are in no quotes."""
    return re.findall(r"(?:'[^']*'|\"[^\"]*\"|[^;'\"]|['\"])+", text)


def parse_arguments(arguments: Mapping[str, Any]) -> tuple[dict[str, Declared], dict[str, Any]]:
    """The tensors, and the values that stay as they are; text is a declaration if it reads like one."""
    tensors: dict[str, Declared] = {}
    literals: dict[str, Any] = {}
    for name, what in arguments.items():
        if isinstance(what, str) and _TENSOR.match(what.strip()):
            tensors[name] = _declared(name, what.strip())
        else:
            literals[name] = _checked_literal(name, what)
    return tensors, literals


def parse_value(text: str) -> Any:
    """A value as the command line has it: a declaration stays text, Python's own values are evaluated, other words are text."""
    if _TENSOR.match(text):
        return text
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        if _WORD.fullmatch(text):
            return text
        raise AssumptionError(
            f"{text!r} is neither a tensor nor a value; write float32[4,3] in LOW:HIGH, -1, True, 'text', (1, 2)"
        ) from None


def _checked_literal(name: str, value: Any) -> Any:
    try:
        ast.literal_eval(repr(value))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise AssumptionError(
            f"argument {name}: {type(value).__name__} is no plain value; declare a tensor as text, 'float32[4,3] in -10:10'"
        ) from None
    return value


def _declared(name: str, text: str) -> Declared:
    where = f"argument {name}"
    bare = _NOT_DIFFERENTIATED.sub("", text)
    found = parse_declaration(f"x {bare}" if bare.startswith(("in ", "in\t")) else f"x = {bare}", where)
    if any(isinstance(size, str) for size in found.shape or ()):
        raise AssumptionError(f"{where}: a function is called with sizes that are numbers, as in float32[4,3]")
    sizes = None if found.shape is None else tuple(int(size) for size in found.shape)
    return Declared(
        None if found.format is None else found.format.name,
        sizes,
        *_ground(found.domain, where),
        is_differentiated=bare == text,
    )


def _ground(domain: Domain | None, where: str) -> tuple[str, float | None, float | None, tuple[float, ...]]:
    if domain is None:
        return "box", None, None, ()
    if domain.kind not in ("box", "values", "simplex", "one-hot", "unit-norm") or domain.axis != -1:
        raise AssumptionError(f"{where}: {domain.describe()} is no range that arguments are searched in; write LOW:HIGH")
    return domain.kind, domain.low, domain.high, domain.values
