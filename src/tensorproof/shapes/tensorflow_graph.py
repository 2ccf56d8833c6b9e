"""What a program for TensorFlow 1 builds up besides its tensors: variables by name, scopes, shapes declared later, options.

Tensors are values: `set_shape` changes one in place, so the graph keeps what it was declared to be, and whoever uses the tensor
asks for it (`current`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tensorproof.shapes.values import UNKNOWN, ListValue, Mutable, NativeObject, Tensor, Value

if TYPE_CHECKING:
    from collections.abc import Hashable

    from tensorproof.shapes.problems import Problem
    from tensorproof.shapes.trail import Trail


class Graph(Mutable):
    """The default graph of a program. Fields are written through the trail; scopes are entered and left in pairs."""

    __slots__ = ("executions", "has_declarations", "options", "scopes", "trail")

    def __init__(self, trail: Trail) -> None:
        super().__init__(variables=(), resets=0)
        self.trail = trail
        #: Whether any tensor was declared anew.
        self.has_declarations = False
        #: Scopes that are entered: objects with a `path` (None where it is not known) and `reuse`.
        self.scopes: list[NativeObject] = []
        #: Results and problems of runs, by what was fetched and fed.
        self.executions: dict[Hashable, tuple[dict[int, Value], tuple[Problem, ...], tuple[Any, ...]]] = {}
        #: Options of the command line that the program declared, with their defaults.
        self.options: dict[str, Value] = {}

    # -- shapes -----------------------------------------------------------------------------------------------------

    def declare(self, tensor: Tensor, declared: Tensor) -> None:
        """From now on a tensor is another one, of a better known shape."""
        self.has_declarations = True
        self.trail.write(self, f"tensor {id(tensor)}", (tensor, declared))

    def versions(self, tensor: Tensor) -> list[Tensor]:
        """The tensor and what it was declared to be, the newest last."""
        found = [tensor]
        while True:
            entry = self.slots.get(f"tensor {id(found[-1])}")
            if not isinstance(entry, tuple) or entry[0] is not found[-1] or len(found) > len(self.slots):
                return found
            found.append(entry[1])

    def current(self, value: Value) -> Value:
        """A value with every tensor in it as it was declared last."""
        if isinstance(value, Tensor):
            return self.versions(value)[-1]
        if isinstance(value, tuple) and type(value) is tuple:
            parts = tuple(self.current(part) for part in value)
            return parts if any(new is not old for new, old in zip(parts, value, strict=True)) else value
        if isinstance(value, ListValue) and value.items is not None:
            parts = tuple(self.current(part) for part in value.items)
            return ListValue(parts) if any(new is not old for new, old in zip(parts, value.items, strict=True)) else value
        return value

    # -- variables --------------------------------------------------------------------------------------------------

    @property
    def root(self) -> str:
        """What the names of all variables of the graph of the moment begin with: a program may have several graphs."""
        entered = [scope.slots["path"] for scope in self.scopes if scope.slots.get("is_graph")]
        return entered[-1] if entered else f"{self.slots['resets']}:"

    @property
    def path(self) -> str | None:
        """The root and the names of the scopes, each with a slash behind it; None where one is not known."""
        return self.scopes[-1].slots["path"] if self.scopes else self.root

    def reset(self) -> None:
        """An empty graph takes the place of the default one."""
        self.trail.write(self, "resets", self.slots["resets"] + 1)

    def add_variable(self, name: str | None, variable: Tensor, *, trainable: bool) -> None:
        """A new variable under its full name."""
        known = self.slots["variables"]
        entries = (*known, (name, variable, trainable)) if isinstance(known, tuple) and name is not None else UNKNOWN
        self.trail.write(self, "variables", entries)
        if name is not None:
            self.trail.write(self, f"variable {name}", variable)

    def variable(self, name: str) -> Value:
        """The variable of that full name; None if there is none."""
        return self.slots.get(f"variable {name}")

    def forget_variables(self) -> None:
        """Variables were made that the analysis does not name: lists of all variables are not known from now on."""
        self.trail.write(self, "variables", UNKNOWN)

    def variables(self, scope: str = "", *, trainable: bool | None = None) -> Sequence[Tensor] | None:
        """The variables of this graph whose names begin with a scope, as they were made; None if they are not known."""
        entries = self.slots["variables"]
        if not isinstance(entries, tuple):
            return None
        wanted: list[Tensor] = []
        for entry in entries:
            if not isinstance(entry, tuple) or not isinstance(entry[1], Tensor):
                return None
            if entry[0].startswith(self.root + scope) and (trainable is None or entry[2] is trainable):
                wanted.append(entry[1])
        return wanted
