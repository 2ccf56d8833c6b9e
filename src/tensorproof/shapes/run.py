"""`Run`: the state of one analysis. Everything that the interpreter's parts share: trail, budgets, problems, hints."""

from __future__ import annotations

import ast
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from tensorproof.shapes.joining import join, join_coarsely, merged_shapes
from tensorproof.shapes.memo import Memo
from tensorproof.shapes.problems import Edit, Hint, Place, Problem, Related, ShapeOptions, Statistics
from tensorproof.shapes.sizes import Size
from tensorproof.shapes.tensorflow_graph import Graph
from tensorproof.shapes.trail import Changes, Mark, Trail
from tensorproof.shapes.values import (
    UNKNOWN,
    ClassValue,
    DictValue,
    Frame,
    FunctionValue,
    Iterator,
    ListValue,
    LocalModule,
    Mutable,
    Tensor,
    Value,
)

if TYPE_CHECKING:
    from tensorproof.rules.rule import Rule

#: Graphs in TensorFlow 1, the same in TensorFlow 2 (`tensorflow.compat.v1`), or the eager TensorFlow 2.
Profile = Literal["tf1", "compatible", "tf2"]

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

    mark: Mark
    round_mark: Mark
    breaks: list[Changes] = field(default_factory=list[Changes])
    continues: list[Changes] = field(default_factory=list[Changes])


class Run:
    """One analysis of a program."""

    def __init__(self, options: ShapeOptions, profile: Profile) -> None:
        self.options = options
        self.profile: Profile = profile
        self.trail = Trail()
        self.graph = Graph(self.trail)
        self.memo = Memo(self.trail)
        self.statistics = Statistics()
        self.join: Callable[[Value, Value], Value] = join if options.values == "full" else join_coarsely
        self.modules: dict[str, LocalModule | None] = {}
        self.classes: list[ClassValue] = []
        self.functions: list[FunctionValue] = []
        self.reached: set[int] = set()
        self.generators: dict[ast.AST, bool] = {}
        self.stack: list[FunctionValue] = []
        self.loops: list[Loop] = []
        #: Arguments that all calls of one context were joined to, where contexts are merged.
        self.merged_arguments: dict[object, tuple[Value, ...]] = {}
        self.call_places: list[Place] = []
        #: The text of the program's modules, by file.
        self.sources: dict[str, bytes] = {}
        self._changed: dict[int, Tensor] = {}
        #: By the place of a squeeze without axes, and the sizes behind the first: how many rows it saw first.
        self.squeezed_rows: dict[tuple[Place, tuple[Size, ...]], Size] = {}
        #: Where Keras expects the channels of images, unless a layer says otherwise.
        self.image_data_format = "channels_last"
        self._problems: dict[tuple[str, Place], Problem] = {}
        self._hints: dict[Place, tuple[str, Tensor]] = {}
        self._failures: dict[tuple[str, str, int], tuple[Place, Tensor]] = {}
        self._quiet = 0
        #: Trials under way whose problems are not reported as usual: calls are not remembered in them.
        self.trials = 0
        self._limit = options.steps

    def join_slots(self, owner: Mutable, key: str, now: Any, then: Any) -> Any:
        """Join what one field of an object holds on two paths; fields of containers are not values themselves."""
        if isinstance(owner, ListValue | Iterator) and key in ("items", "position"):
            return self._join_items(owner, key, now, then)
        if isinstance(owner, DictValue) and key == "entries":
            return self._join_entries(now, then)
        if key.startswith("__") and isinstance(owner, Frame):
            return now
        return self.join(now, then)

    def _join_items(self, owner: ListValue | Iterator, key: str, now: Any, then: Any) -> Any:
        if key == "position":
            return min(now, then)
        if now is not None and then is not None and len(now) == len(then):
            return tuple(self.join(a, b) for a, b in zip(now, then, strict=True))
        if now is None and then is None:
            return None
        element: Value = owner.slots["element"]
        for value in (*(now or ()), *(then or ())):
            element = self.join(element, value)
        self.trail.write(owner, "element", element)
        self.trail.write(owner, "length", UNKNOWN)
        return None

    def _join_entries(self, now: dict[Value, Value] | None, then: dict[Value, Value] | None) -> dict[Value, Value] | None:
        """Keys of either side are kept: a key that one path did not set is not read by a program that runs."""
        if now is None or then is None:
            return None
        both = {key: self.join(now[key], then[key]) for key in now if key in then}
        return {**then, **now, **both}

    # -- arrays that change in place ----------------------------------------------------------------------------------

    def note_change(self, tensor: Tensor) -> None:
        """The program wrote into an array: its recipe no longer says what it holds. No memo must leave out the writing."""
        self._changed[id(tensor)] = tensor
        self.trail.note_unlogged_change()

    def was_changed(self, tensor: Tensor) -> bool:
        return id(tensor) in self._changed

    # -- budgets --------------------------------------------------------------------------------------------------

    def step(self) -> None:
        self.statistics.steps += 1
        if self.statistics.steps > self._limit:
            raise Exhausted

    @contextmanager
    def within(self, steps: int) -> Generator[None]:
        """Allow a part of the analysis so many steps; when they are spent, that part ends and the rest goes on."""
        outer, self._limit = self._limit, min(self._limit, self.statistics.steps + steps)
        depth, loops = len(self.stack), self.loops
        try:
            yield
        except Exhausted:
            if self.statistics.steps > outer:
                raise
            self.statistics.exhausted = f"parts were followed for {steps} steps only"
            del self.stack[depth:], self.call_places[depth:]
            self.loops = loops
        finally:
            self._limit = outer

    # -- what is said ---------------------------------------------------------------------------------------------

    @contextmanager
    def quietly(self) -> Generator[None]:
        """Nothing is reported inside."""
        self._quiet += 1
        self.trials += 1
        try:
            yield
        finally:
            self._quiet -= 1
            self.trials -= 1

    @contextmanager
    def watching(self) -> Generator[list[Problem]]:
        """Collect the problems of a trial instead of reporting them."""
        kept, self._problems = self._problems, {}
        quiet, self._quiet = self._quiet, 0
        collected: list[Problem] = []
        self.trials += 1
        try:
            yield collected
        finally:
            self.trials -= 1
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
        """Keep a problem. A certain failure takes the place of what was only suspected there."""
        if self._quiet:
            return
        if problem.certain:
            for key, known in list(self._problems.items()):
                if known.place == problem.place and not known.certain:
                    del self._problems[key]
        self._problems.setdefault((problem.rule.code, problem.place), problem)

    def failed_before(self, code: str, message: str, tensors: Sequence[Tensor], place: Place) -> bool:
        """Whether one of the tensors failed in the very same way at another place: a run does not get to the second one."""
        keys = [(code, message, id(tensor)) for tensor in tensors]
        known = any(self._failures.get(key, (place,))[0] != place for key in keys)
        if not known and not self._quiet:
            # Tensors are kept, so that no other one gets their identity.
            self._failures.update((key, (place, tensor)) for key, tensor in zip(keys, tensors, strict=True))
        return known

    def withdraw(self, code: str, place: Place) -> None:
        """Take back a warning, for something more certain at the same place."""
        self._problems.pop((code, place), None)

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
