"""`GraphBuilder`: where the spellings of a framework put their nodes, and what is known of values while a program is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorproof.errors import NotAnalysed
from tensorproof.formats import FLOAT32, Format, of_dtype
from tensorproof.frontends.calls import OPSET, Build, Handle, OperatorCall
from tensorproof.frontends.conversion import Change
from tensorproof.graph import ABSENT, NOT_ANALYSED, Dimension, Graph, Node, SourceLine, Value
from tensorproof.operators.table import Call, Dialect, evaluate, find_operator, spelling_of
from tensorproof.ranges.grid import Shape, Span
from tensorproof.ranges.range import Range

#: Constants of up to so many elements are looked at while a program is read, and equal ones are one value.
_FEW = 1 << 12
_SHARED = 16

#: An axis whose size is open while a program is read. It has an end, so that sums over it have shapes, too.
_ANY_SIZE = Span(0, (1 << 31) - 1)

#: A result that the program says nothing about.
_NOTHING_SAID = Handle(ABSENT, None, None)


#: Operators whose results say something about shapes alone.
_OF_SHAPES = frozenset({"Shape", "Size"})


def _of_shape(shape: Shape | None, format: Format) -> Range:
    """What stands for any tensor of a shape: nothing but its shape and format is ever read off what is made of it."""
    return Range.uniform(shape, format, -1.0, 1.0) if format.is_float else Range.top(shape, format)


@dataclass(frozen=True, slots=True)
class _Mark:
    """How far a graph had come before a translation that may be taken back."""

    nodes: int
    values: int


class GraphBuilder:
    """The graph that is being made: value numbers, constants, and the node of the program that is being translated.

    `source`, `module` and `current` (the program's name for the result) are those of that node; `prefix` stands before the
    names of nodes of functions and bodies.
    """

    #: Stands between the name of a node and the number of a result that is not its first.
    separator = "."

    def __init__(self) -> None:
        self.values: list[Value] = []
        self.constants: dict[int, npt.NDArray[Any]] = {}
        self.conversions: dict[int, str] = {}
        self.weights: set[int] = set()
        self.nodes: list[Node] = []
        self.source: SourceLine | None = None
        self.module = ""
        self.current = ""
        self.prefix = ""
        self._count = 0
        self._names: dict[str, int] = {}
        #: Small constants by their content: equal ones are one value.
        self._shared: dict[bytes, int] = {}
        self._producers: dict[int, Node] = {}
        self._known: dict[int, Range | None] = {}

    # -- values -----------------------------------------------------------------------------------------------------

    def new_value(self, name: str, format: Format | None = None, shape: tuple[Dimension, ...] | None = None) -> int:
        """The number of a new value."""
        self.values.append(Value(name, format, shape))
        return len(self.values) - 1

    def constant(self, array: npt.NDArray[Any], change: Change | None = None) -> int:
        """A constant of the program; `change` says what its conversion to the format of the array did to it."""
        is_shared = array.size <= _SHARED and change is None and array.dtype != object
        key = repr((array.shape, array.dtype.str, array.dtype.name)).encode() + array.tobytes() if is_shared else b""
        if key and key in self._shared:
            return self._shared[key]
        number = self.new_value(f"constant_{len(self.constants)}", of_dtype(array.dtype), array.shape)
        self.constants[number] = array
        if change is not None:
            self.conversions[number] = change
        if key:
            self._shared[key] = number
        return number

    def node(
        self,
        op: str,
        domain: str,
        inputs: Sequence[int],
        outputs: int,
        attributes: dict[str, Any],
        formats: Sequence[Format | None],
    ) -> tuple[int, ...]:
        """Append a node; gives the numbers of its outputs."""
        label = f"{self.current}/{op}"
        count = self._names[label] = self._names.get(label, 0) + 1
        label = label if count == 1 else f"{label}_{count}"
        made = tuple(
            [
                self.new_value(label if index == 0 else f"{label}.{index}", formats[index] if index < len(formats) else None)
                for index in range(outputs)
            ]
        )
        version = OPSET if not domain else 1
        node = Node(self._count, op, domain, version, label, tuple(inputs), made, attributes, self.source, self.module)
        self.nodes.append(node)
        for number in made:
            self._producers[number] = node
        self._count += 1
        return made

    def producer(self, number: int) -> Node | None:
        """The node that makes a value; None for inputs and constants."""
        return self._producers.get(number)

    # -- what is known ----------------------------------------------------------------------------------------------

    def format_of(self, number: int) -> Format | None:
        """The format of a value, where it is known."""
        found = self.values[number].format
        if found is None:
            known = self._range(number)
            found = None if known is None else known.format
            self.values[number].format = found
        return found

    def array_of(self, number: int) -> npt.NDArray[Any] | None:
        """The numbers of a value that depends on no input and no weight, where they are known and few."""
        array = self.constants.get(number)
        if array is not None:
            return None if number in self.weights else array
        known = self._range(number)
        return None if known is None else known.array if known.array is not None else _whole_numbers(known)

    def elements_of(self, number: int) -> list[int | None] | None:
        """The elements of a list of whole numbers, None for those that depend on sizes of inputs; None if it is no such list."""
        array = self.array_of(number)
        if array is not None:
            return [int(item) for item in array.reshape(-1)]
        known = self._range(number)
        if known is None or not known.format.is_integer or not known.has_known_shape or known.size > _SHARED:
            return None
        low, high, _ = (part.reshape(-1) for part in known.expanded())
        return [int(least) if least == most else None for least, most in zip(low, high)]

    def shape_of(self, number: int) -> tuple[Dimension, ...] | None:
        """The shape of a value: as declared, or worked out from the nodes that make it; sizes that are not fixed are None."""
        declared = self.values[number].shape
        if declared is not None and all(isinstance(size, int) for size in declared):
            return declared
        known = self._range(number)
        if known is None or known.shape is None:
            return declared
        found = tuple(size if isinstance(size, int) else None for size in known.shape)
        self.values[number].shape = found if declared is None else declared
        return found

    def _range(self, number: int) -> Range | None:
        """What a value can be whatever the inputs are: mostly its shape, and the numbers of sizes; None if nothing is known.

        Worked out on demand, operands first, without recursion: graphs are deep.
        """
        pending = [number]
        while pending:
            current = pending[-1]
            if current in self._known:
                pending.pop()
                continue
            node = self._producers.get(current)
            missing = [n for n in node.inputs if n != ABSENT and n not in self._known] if node is not None else []
            if missing:
                pending.extend(missing)
                continue
            pending.pop()
            if node is None:
                self._known[current] = self._of_root(current)
                continue
            results = self._of_node(node)
            for index, output in enumerate(node.outputs):
                self._known[output] = results[index] if index < len(results) else None
        return self._known[number]

    def _of_root(self, number: int) -> Range | None:
        array, value = self.constants.get(number), self.values[number]
        if array is not None:
            if array.size <= _FEW and number not in self.weights and value.format is not None and value.format.kind != "string":
                return Range.constant(array, value.format)
            return _of_shape(array.shape, value.format or FLOAT32)
        return self._anything(number)

    def _anything(self, number: int) -> Range | None:
        value = self.values[number]
        if value.format is None:
            return None
        if value.shape is None:
            # Of some operators (a reshape) other operands say the rank.
            return _of_shape(None, value.format)
        shape: Shape = tuple(size if isinstance(size, int) else _ANY_SIZE for size in value.shape)
        return _of_shape(shape, value.format)

    def _of_node(self, node: Node) -> list[Range | None]:
        entry = find_operator(node.domain, node.op)
        declared = [self._anything(number) for number in node.outputs]
        operands = [None if number == ABSENT else self._known[number] for number in node.inputs]
        unknown = any(number != ABSENT and x is None for number, x in zip(node.inputs, operands))
        if entry is None or entry.is_control or unknown or NOT_ANALYSED in node.attributes:
            return declared
        formats = [self.values[number].format for number in node.outputs]
        call = Call(entry, node.attributes, version=node.version, outputs=len(node.outputs), output_formats=formats)
        try:
            result = evaluate(call, operands)
        except Exception:  # not analysed, or not what the operator's schema says: the analysis reports it
            return declared
        parts: Sequence[Any] = result if isinstance(result, tuple) else (result,)
        # Only numbers and sizes are kept, and none that were made of stand-ins: bounds are the business of the analysis.
        is_made_up = node.op not in _OF_SHAPES and any(x is not None and x.format.is_float and x.array is None for x in operands)
        found: list[Range | None] = []
        for part, number in zip(parts, node.outputs):
            if not isinstance(part, Range):
                found.append(self._anything(number))
                continue
            is_kept = not is_made_up and (part.array is not None or _is_short_list(part) or _whole_numbers(part) is not None)
            found.append(part if is_kept else _of_shape(part.shape, part.format))
        return found

    # -- spellings --------------------------------------------------------------------------------------------------

    def translate(self, dialect: Dialect, name: str, call: OperatorCall, operands: Sequence[int], missing: str) -> Any:
        """The results of a call by the spelling of its operator; one node of the framework's name where there is none.

        `missing` is the reason that the report gives if no block spells the operator.
        """
        spelling = spelling_of(name, dialect)
        mark = _Mark(len(self.nodes), len(self.values))
        reason = missing
        if spelling is not None:
            try:
                return spelling.translate(call)
            except NotAnalysed as refusal:
                reason = str(refusal)
            except Exception as error:
                # A use that the adapter does not foresee: visible, never an identity.
                text = (str(error).strip().splitlines() or [""])[0][:160]
                reason = f"the spelling of {name} failed ({type(error).__name__}: {text})"
        self._take_back(mark)
        formats = [handle.format for handle in call.results]
        namespace, _, short = name.rpartition("::") if "::" in name else (dialect, "", name)
        made = list(self.node(short, namespace, operands, max(len(call.results), 1), {NOT_ANALYSED: reason}, formats))
        return tuple(made) if len(made) > 1 else made[0]

    def named(self, made: Sequence[int | None], results: Sequence[Handle], start: int) -> list[Handle | None]:
        """The results of a translation, whose nodes begin at `start`, with the names, formats and shapes of the program.

        Values that were there before keep their names: the node only hands them on.
        """
        produced = {number: node for node in self.nodes[start:] for number in node.outputs}
        handles: list[Handle | None] = []
        for index, number in enumerate(made):
            described = results[index] if index < len(results) else _NOTHING_SAID
            if number == ABSENT or number is None:
                handles.append(None)
                continue
            value = self.values[number]
            if number in produced:
                value.name = self.current if index == 0 else f"{self.current}{self.separator}{index}"
                value.format = described.format or value.format
                value.shape = described.shape if described.shape is not None else value.shape
                if index == 0:
                    produced[number].name = self.current
            format = described.format or value.format
            handles.append(Handle(number, format, described.shape, described.is_number, described.is_row_major))
        return handles

    def _take_back(self, mark: _Mark) -> None:
        """Forget what an adapter emitted before it refused."""
        for node in self.nodes[mark.nodes :]:
            for number in node.outputs:
                self._producers.pop(number, None)
        del self.nodes[mark.nodes :]
        for number in range(mark.values, len(self.values)):
            self.constants.pop(number, None)
            self.conversions.pop(number, None)
            self._known.pop(number, None)
        self._shared = {key: number for key, number in self._shared.items() if number < mark.values}

    # -- bodies -----------------------------------------------------------------------------------------------------

    def body(self, name: str, inputs: Sequence[Handle], build: Build) -> Graph:
        """A sub-graph whose inputs are new values, as the given ones are."""
        outer, self.nodes = self.nodes, []
        state = self.source, self.module, self.current, self.prefix
        self.prefix = f"{self.current}.{name}."
        try:
            fresh = [
                Handle(self.new_value(f"{self.prefix}input_{index}", h.format, h.shape), h.format, h.shape, h.is_number)
                for index, h in enumerate(inputs)
            ]
            numbers = [self._output_of_body(value) for value in build(fresh)]
            return Graph(self.prefix.rstrip("."), self.nodes, tuple(h.number for h in fresh), tuple(numbers))
        finally:
            self.nodes = outer
            self.source, self.module, self.current, self.prefix = state

    def _output_of_body(self, value: Any) -> int:
        """The number of what a body returns: a value that it makes itself."""
        number = value.number if isinstance(value, Handle) else self.constant(np.asarray(value))
        (copied,) = self.node("Identity", "", (number,), 1, {}, (self.values[number].format,))
        self.values[copied].shape = self.values[number].shape
        return copied

    def inlined(self, module: Any, inputs: Sequence[Any]) -> list[Any]:
        """The nodes of a function of the program in place, on the given values; gives what it returns."""
        raise NotImplementedError


def _whole_numbers(x: Range) -> npt.NDArray[Any] | None:
    """The numbers of a small tensor of integers that are known exactly: axes and sizes that nodes compute."""
    if not x.format.is_integer or not x.has_known_shape or x.size > _FEW:
        return None
    values = x.values()
    return None if values is None else values.astype(x.format.dtype)


def _is_short_list(x: Range) -> bool:
    """Whether a value can be a list of sizes, some of which are known."""
    return x.format.is_integer and x.has_known_shape and x.size <= _SHARED
