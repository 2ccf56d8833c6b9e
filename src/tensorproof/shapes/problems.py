"""What the analysis of a source file says: problems, hints, and how much of the file was understood.

Lines count from 1; columns count UTF-8 bytes from 0, as `ast` counts them. Who shows them to people converts.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import ast

    from tensorproof.rules.rule import Rule

#: How calls are told apart: all together, by their place, by their place and the object called on, or by all arguments.
Context = Literal["insensitive", "1-call", "1-call-heap", "full"]
#: What is kept where paths meet: one value for all of them, or up to eight side by side.
Values = Literal["joined", "full"]


@dataclass(frozen=True, slots=True)
class Place:
    """A stretch of one file."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int

    @staticmethod
    def of(file: str, node: ast.expr | ast.stmt | ast.arg | ast.keyword | ast.ExceptHandler) -> Place:
        end_line = node.end_lineno or node.lineno
        end_column = node.col_offset if node.end_col_offset is None else node.end_col_offset
        return Place(file, node.lineno, node.col_offset, end_line, end_column)


@dataclass(frozen=True, slots=True)
class Related:
    """Another place that belongs to a problem or to the history of a shape, and what happens there."""

    place: Place
    message: str


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of the source that mends a problem: what an editor offers as a quick fix."""

    title: str
    place: Place
    text: str


@dataclass(frozen=True, slots=True)
class Problem:
    """One defect of the source. A certain one fails in every run that reaches the place."""

    rule: Rule
    place: Place
    message: str
    certain: bool
    related: tuple[Related, ...] = ()
    edits: tuple[Edit, ...] = ()
    #: The function called, as the user would name it: `torch.matmul`.
    operation: str = ""


@dataclass(frozen=True, slots=True)
class Hint:
    """What is known of the tensor that a name is bound to at `place` (the name itself)."""

    place: Place
    name: str
    shape: str
    history: tuple[Related, ...] = ()


@dataclass(slots=True)
class Statistics:
    """How much of the file was understood."""

    steps: int = 0
    #: Tensors that the file creates, and those of them whose shape is not fully known.
    tensors: int = 0
    imprecise_tensors: int = 0
    #: Arguments of modelled calls that decide a shape, and those of them that are not known.
    arguments: int = 0
    imprecise_arguments: int = 0
    #: Calls of libraries that no rule knows, by name.
    unmodelled: Counter[str] = field(default_factory=Counter[str])
    #: Rules that failed themselves, by name and error: mistakes of this tool. The result of the call is unknown then.
    rule_errors: Counter[str] = field(default_factory=Counter[str])
    #: Why the analysis stopped early, if it did.
    exhausted: str | None = None


@dataclass(frozen=True, slots=True)
class SourceAnalysis:
    """The result for one file."""

    path: str
    problems: tuple[Problem, ...]
    hints: tuple[Hint, ...]
    statistics: Statistics


@dataclass(frozen=True, slots=True)
class ShapeOptions:
    """How precisely to analyse, and how long: budgets count steps, so that the same file gives the same result."""

    context: Context = "full"
    values: Values = "full"
    steps: int = 150_000
    #: Steps for the program itself, and for each model or function that it defines and never calls.
    program_steps: int = 100_000
    function_steps: int = 10_000
    #: Steps for each module of the project that is imported; most of them only define what others use.
    module_steps: int = 4_000
    #: The folder whose modules a program may import; None means that of the file itself.
    project: Path | None = None
