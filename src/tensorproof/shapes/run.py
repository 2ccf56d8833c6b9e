"""`Run`: the state of one analysis. Everything that the interpreter's parts share: trail, budgets, problems, hints."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from tensorproof.shapes.joining import join, join_coarsely, merged_shapes
from tensorproof.shapes.problems import Edit, Hint, Place, Problem, Related, ShapeOptions, Statistics
from tensorproof.shapes.trail import Changes, Trail
from tensorproof.shapes.values import ClassValue, Frame, FunctionValue, LocalModule, Tensor, Value

if TYPE_CHECKING:
    from tensorproof.rules.rule import Rule

Profile = Literal["tf1", "tf2"]

#: Calls inside calls that are followed; deeper ones are unknown.
DEEPEST_CALL = 40
#: How often one function may be on the stack.
DEEPEST_RECURSION = 3
#: A loop over this many known items is run item by item.
MOST_UNROLLED = 64


class Exhausted(Exception):
    """A budget is spent: the analysis stops quietly."""


class Raised(Exception):
    """Every run of this path raises an exception."""


@dataclass(slots=True)
class Loop:
    """A loop that is being run: where it began, where the round began, and the states that left it early."""

    mark: int
    round_mark: int
    breaks: list[Changes] = field(default_factory=list[Changes])
    continues: list[Changes] = field(default_factory=list[Changes])


class Run:
    """One analysis of a program."""

    def __init__(self, options: ShapeOptions, profile: Profile) -> None:
        self.options = options
        self.profile: Profile = profile
        self.trail = Trail()
        self.statistics = Statistics()
        self.join: Callable[[Value, Value], Value] = join if options.values == "full" else join_coarsely
        self.modules: dict[str, LocalModule | None] = {}
        self.classes: list[ClassValue] = []
        self.functions: list[FunctionValue] = []
        self.reached: set[int] = set()
        self.stack: list[FunctionValue] = []
        self.loops: list[Loop] = []
        #: Arguments that all calls of one context were joined to, where contexts are merged.
        self.merged_arguments: dict[object, tuple[Value, ...]] = {}
        self.call_places: list[Place] = []
        self._problems: dict[tuple[str, Place], Problem] = {}
        self._hints: dict[Place, tuple[str, Tensor]] = {}
        self._quiet = 0

    # -- budgets --------------------------------------------------------------------------------------------------

    def step(self) -> None:
        self.statistics.steps += 1
        if self.statistics.steps > self.options.steps:
            self.statistics.exhausted = f"stopped after {self.options.steps} steps"
            raise Exhausted

    # -- what is said ---------------------------------------------------------------------------------------------

    @contextmanager
    def quietly(self) -> Iterator[None]:
        """Nothing is reported inside."""
        self._quiet += 1
        try:
            yield
        finally:
            self._quiet -= 1

    @contextmanager
    def watching(self) -> Iterator[list[Problem]]:
        """Collect the problems of a trial instead of reporting them."""
        kept, self._problems = self._problems, {}
        quiet, self._quiet = self._quiet, 0
        collected: list[Problem] = []
        try:
            yield collected
        finally:
            collected.extend(self._problems.values())
            self._problems, self._quiet = kept, quiet

    def report(
        self,
        rule: Rule,
        place: Place,
        message: str,
        *,
        certain: bool,
        tensors: Sequence[Tensor] = (),
        related: Sequence[Related] = (),
        edits: Sequence[Edit] = (),
        operation: str = "",
    ) -> None:
        """Report once per rule and place."""
        if self._quiet:
            return
        origins = [step for tensor in tensors if tensor.history is not None for step in tensor.history.steps(3)]
        everything = tuple(dict.fromkeys((*related, *(step for step in origins if step.place != place))))
        self.add(Problem(rule, place, message, certain, everything, tuple(edits), operation))

    def add(self, problem: Problem) -> None:
        if not self._quiet:
            self._problems.setdefault((problem.rule.code, problem.place), problem)

    @property
    def problems(self) -> tuple[Problem, ...]:
        return tuple(self._problems.values())

    def note_tensor(self, place: Place, name: str, tensor: Tensor) -> None:
        """Remember what a name is bound to; several contexts show what they have in common."""
        known = self._hints.get(place)
        if known is not None:
            shape = merged_shapes(known[1].shape, tensor.shape)
            tensor = tensor.with_shape(shape, dtype=tensor.dtype if tensor.dtype == known[1].dtype else "")
        self._hints[place] = (name, tensor)

    @property
    def hints(self) -> tuple[Hint, ...]:
        return tuple(
            Hint(place, name, str(tensor), () if tensor.history is None else tensor.history.steps())
            for place, (name, tensor) in self._hints.items()
        )

    def place(self, frame: Frame, node: ast.expr | ast.stmt | ast.arg) -> Place:
        return Place.of(frame.module.file, node)

    def call_at(self, place: Place, function: Value, arguments: Sequence[Value]) -> Value:
        """Call any value for a rule: what it does wrong is blamed on the place of the rule's own call."""
        from tensorproof.shapes import calls

        node = ast.Name(
            "", ast.Load(), lineno=place.line, col_offset=place.column, end_lineno=place.end_line, end_col_offset=place.end_column
        )
        frame = Frame(LocalModule("", place.file), None)
        return calls.call(self, frame, node, function, tuple(arguments), {})
