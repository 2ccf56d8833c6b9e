"""The static analysis of what a step of a PyTorch program computes, so that suspects which cannot fail are not driven.

The recorded calls that lead to suspects are said in our operators by the blocks that spell them, as those of an exported program
are. What was given to them are inputs: data in their legal ranges (in a range that holds it, so that it stays the same while
data come in), tensors without axes that hold a number of the program as that number, and everything else, weights above all, as
any finite number. So is memory that was written to through another view of it, or that nobody has written to.

A program runs a suspect in one *form* as long as operators, numbers of Python, sizes and ranges behind it are the same. Each form
is scanned by itself: a number that changes from step to step is one that soon has had too many forms, and nothing is proven then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorproof.expose.events import Pipe
from tensorproof.expose.pytorch.external import Externals
from tensorproof.expose.pytorch.recording import GIVEN, RecordedCall, Recording, Version
from tensorproof.expose.pytorch.suspects import Execution
from tensorproof.expose.search.board import Board
from tensorproof.expose.search.moves import Legal
from tensorproof.expose.search.static_rank import MOST_NODES, Asked, Ledger, Standing, Subject, outward, standings
from tensorproof.expose.search.vulnerable import Weakness
from tensorproof.frontends.aten import AtenCall, format_of
from tensorproof.frontends.calls import OPSET, Handle
from tensorproof.frontends.graph_builder import GraphBuilder
from tensorproof.frontends.torch_translate import by_name, described, handles_in
from tensorproof.graph import ABSENT, NOT_ANALYSED, Graph, Model
from tensorproof.observe.internals import memory_identity
from tensorproof.observe.values import tensors_in
from tensorproof.operators.table import spelling_of
from tensorproof.targets import find_target

if TYPE_CHECKING:
    import torch

#: How often steps of one program are scanned; forms that come later are not proven.
_MOST_SCANS = 6
#: Data of more elements than this are any finite number: their range is looked at in every step.
_MOST_ELEMENTS = 1 << 22
#: Operators that give a part of a tensor, where the numbers that say which part change from step to step.
_PARTS = frozenset({"slice", "select", "narrow"})


@dataclass(frozen=True, slots=True)
class Leaf:
    """What was given to a step: what it is called, its range, and its number if it is one of the program's."""

    name: str
    tensor: torch.Tensor
    legal: Legal
    #: Where its numbers lie at the moment, if it is no weight.
    now: Legal
    number: float | int | bool | None = None

    @property
    def form(self) -> tuple[Any, ...]:
        number = None if self.number is None else (type(self.number), repr(self.number))
        return self.name, self.tensor.dtype, tuple(self.tensor.shape), self.legal.low, self.legal.high, number


class TorchStatics:
    """What scans say about the suspects of one run."""

    def __init__(self, board: Board, pipe: Pipe, recording: Recording, externals: Externals) -> None:
        self._recording = recording
        self._externals = externals
        self._pipe = pipe
        self.ledger = Ledger(board, pipe)
        self._seen: dict[str, tuple[Weakness, list[int]]] = {}
        self._clearings = recording.clearings
        self._known: dict[str, set[Any]] = {}
        # A thread of its own has none of the program's modes.
        self._thread = ThreadPoolExecutor(1)

    def close(self) -> None:
        """Nothing is scanned any more."""
        self._thread.shutdown()

    def saw(self, name: str, execution: Execution) -> None:
        """A suspect ran: it is the call that was recorded last."""
        self._drop_lost()
        if name in self.ledger.doubted:
            return
        if name in self.ledger.proven and execution.weakness.operand >= 0:
            low, high = execution.decisive.detach().aminmax()
            self.ledger.saw(name, float(low), float(high))
        self._seen.setdefault(name, (execution.weakness, []))[1].append(len(self._recording.calls) - 1)

    def _drop_lost(self) -> None:
        """Of suspects whose record was cleared before it was looked at, such as those of updates, nothing is proven."""
        if self._clearings != self._recording.clearings:
            self._clearings = self._recording.clearings
            for name in self._seen:
                self.ledger.doubt(name)
            self._seen.clear()

    def step_done(self) -> None:
        """A step is done, and what it recorded is still there: scan what ran in a new form."""
        self._drop_lost()
        seen = {name: found for name, found in self._seen.items() if name not in self.ledger.doubted}
        self._seen.clear()
        if not seen:
            return
        try:
            self._thread.submit(self._look, seen).result()
        except Exception as error:  # of operators in ways that nobody foresaw: nothing is proven, and the program goes on
            text = (str(error).strip().splitlines() or [""])[0][:160]
            reason = f"suspects were not looked at by the static analysis ({type(error).__name__}: {text})"
            self._pipe.send("note", text=reason)
            self.ledger.note({}, seen)

    def _look(self, seen: Mapping[str, tuple[Weakness, list[int]]]) -> None:
        step = _Step(self._recording, self._externals)
        forms = step.forms(max(number for _, numbers in seen.values() for number in numbers))
        new: dict[str, tuple[Weakness, list[int]]] = {}
        for name, (weakness, numbers) in seen.items():
            known = self._known.setdefault(name, set())
            numbers = [number for number in numbers if forms[number] not in known]
            known.update(forms[number] for number in numbers)
            if numbers:
                new[name] = weakness, numbers
        if not new:
            return
        found = scanned(step, new) if self.ledger.scans < _MOST_SCANS else {}
        self.ledger.note(found, new)


class _Step:
    """The calls of a step, what was given to them, and which of it is not what the record says."""

    def __init__(self, recording: Recording, externals: Externals) -> None:
        self.calls = recording.calls
        self._externals = externals
        self._leaves: dict[int, Leaf] = {}
        #: By the memory: after how many calls it was written to, and which tensor it was written through.
        self._writes: dict[int, list[tuple[int, int]]] = {}
        for number, call in enumerate(self.calls):
            for tensor in _written(call):
                self._writes.setdefault(memory_identity(tensor), []).append((number, id(tensor)))
        for number, memory in recording.filled:
            self._writes.setdefault(memory, []).append((number, 0))
        #: Calls that only give a part of what was given: that counts as given itself, whichever part it is.
        self.parts: dict[int, Leaf] = {}
        for number, call in enumerate(self.calls):
            if call.overload.name in _PARTS:
                self._note_part(number, call)

    def _note_part(self, number: int, call: RecordedCall) -> None:
        whole: torch.Tensor = call.args[0]
        version = call.read[id(whole)]
        if self.is_stale(whole, version, number):
            return
        leaf = self.leaf(whole) if version == GIVEN else self.parts.get(version)
        if leaf is not None and leaf.number is None:
            # Two parts of one tensor are told apart by their order: nothing may be concluded from their being the same.
            self.parts[number] = replace(leaf, name=f"{leaf.name} part {len(self.parts)}", tensor=call.made[0])

    def is_stale(self, tensor: torch.Tensor, version: int, number: int) -> bool:
        """Whether the memory of a tensor that a call reads was written to since the record has it."""
        writes = self._writes.get(memory_identity(tensor)) if self._writes and _has_memory(tensor) else None
        if writes is None:
            return False
        return any(version < position < number + (not through) and through != id(tensor) for position, through in writes)

    def leaf(self, tensor: torch.Tensor) -> Leaf:
        """What was given as a tensor."""
        found = self._leaves.get(id(tensor))
        if found is None:
            found = self._leaves[id(tensor)] = self._leaf(tensor)
        return found

    def _leaf(self, tensor: torch.Tensor) -> Leaf:
        value = self._externals.find(tensor)
        is_weight = tensor.requires_grad or (value is not None and value.kind == "weight")
        is_looked_at = tensor.is_floating_point() and 0 < tensor.numel() <= _MOST_ELEMENTS and _has_memory(tensor)
        now = Legal() if is_weight or not is_looked_at else Legal(*(float(end) for end in tensor.detach().aminmax()))
        if value is None:
            is_number = not tensor.dim() and not is_weight and _has_memory(tensor)
            return Leaf(f"given{len(self._leaves)}", tensor, Legal(), now, tensor.item() if is_number else None)
        legal = Legal()
        if value.kind in ("batch", "data") and value.is_moved and value.legal.is_bounded and now.is_bounded:
            # What the program itself gives may lie elsewhere than where it is moved.
            legal = outward(Legal(min(now.low, value.legal.low), max(now.high, value.legal.high)))
        return Leaf(f"{value.name} given{len(self._leaves)}", tensor, legal, now)

    def forms(self, last: int) -> list[int]:
        """A number for each call up to one: equal where what it computes is."""
        found: list[int] = []
        for number in range(last + 1):
            call = self.calls[number]
            if number in self.parts:
                found.append(hash(self.parts[number].form))
                continue
            given = tuple(self._form(item, call, number, found) for item in (*call.args, *sorted(call.kwargs.items())))
            found.append(hash((call.function, given, tuple(tensor.shape for tensor in call.made))))
        return found

    def _form(self, item: Any, call: RecordedCall, number: int, found: Sequence[int]) -> Any:
        import torch

        if isinstance(item, torch.Tensor):
            version = call.read[id(item)]
            if self.is_stale(item, version, number):
                return "stale", item.dtype, tuple(item.shape)
            if version == GIVEN:
                return self.leaf(item).form
            return found[version], [id(made) for made in self.calls[version].made].index(id(item))
        if isinstance(item, list | tuple):
            return tuple(self._form(part, call, number, found) for part in item)
        return type(item), repr(item) if isinstance(item, float) else item

    def needed(self, targets: Iterable[int]) -> list[int]:
        """The calls that some are made of, in order."""
        found = set(targets)
        pending = list(found)
        while pending:
            number = pending.pop()
            call = self.calls[number]
            for tensor in tensors_in((call.args, call.kwargs)) if number not in self.parts else ():
                version = call.read[id(tensor)]
                if version != GIVEN and version not in found and not self.is_stale(tensor, version, number):
                    found.add(version)
                    pending.append(version)
        return sorted(found)


def _written(call: RecordedCall) -> Iterator[torch.Tensor]:
    for position in call.overload.writes:
        name = call.overload.arguments[position]
        yield from tensors_in(call.args[position] if position < len(call.args) else call.kwargs.get(name))


def _has_memory(tensor: torch.Tensor) -> bool:
    import torch

    return tensor.layout is torch.strided and not tensor.is_meta and tensor.device.type == "cpu"


def scanned(step: _Step, asked: Mapping[str, tuple[Weakness, list[int]]]) -> dict[str, Standing]:
    """What is known of suspects of a step; of one that ran several times, what holds each time."""
    needed = step.needed(number for _, numbers in asked.values() for number in numbers)
    if len(needed) > MOST_NODES:
        return {}
    translator = _Translator(step)
    for number in needed:
        translator.translate_call(number)
    outputs = [handle for _, numbers in asked.values() for number in numbers for handle in translator.results.get(number, ())]
    subject = translator.subject(outputs)
    each = {f"{name}#{number}": Asked(str(number), w) for name, (w, numbers) in asked.items() for number in numbers}
    found = standings(subject, each)
    joined: dict[str, Standing] = {}
    for name, (_, numbers) in asked.items():
        parts = [part for number in numbers if (part := found.get(f"{name}#{number}")) is not None]
        if len(parts) == len(numbers):
            spans = [part.span for part in parts]
            ends = [span for span in spans if span is not None]
            span = (min(low for low, _ in ends), max(high for _, high in ends)) if len(ends) == len(spans) else None
            joined[name] = Standing(all(part.is_safe for part in parts), max(part.reach for part in parts), span)
    return joined


@dataclass(slots=True)
class _Inputs:
    """The inputs of a graph, by the number of the value."""

    numbers: list[int] = field(default_factory=list[int])
    ranges: dict[int, Legal] = field(default_factory=dict[int, Legal])
    likely: dict[int, Legal] = field(default_factory=dict[int, Legal])
    shapes: dict[int, tuple[int, ...] | None] = field(default_factory=dict[int, "tuple[int, ...] | None"])


class _Translator(GraphBuilder):
    """Recorded calls in our operators."""

    def __init__(self, step: _Step) -> None:
        super().__init__()
        self._step = step
        self._inputs = _Inputs()
        self._values: dict[Version, Handle] = {}
        self._given: dict[int, Handle] = {}
        self._nodes: dict[str, list[int]] = {}
        #: The results of each call.
        self.results: dict[int, list[Handle]] = {}

    def subject(self, outputs: Iterable[Handle]) -> Subject:
        """What was translated, for a scan."""
        numbers = tuple(dict.fromkeys(handle.number for handle in outputs))
        graph = Graph("step", self.nodes, tuple(self._inputs.numbers), numbers)
        model = Model("step", graph, self.values, self.constants, frozenset(), {"": OPSET, "tensorproof": 1}, "PyTorch")
        inputs = self._inputs
        return Subject(model, find_target("torch-cpu"), self._nodes, inputs.ranges, inputs.shapes, inputs.likely)

    def translate_call(self, number: int) -> None:
        """The nodes of a recorded call, whose operands are there."""
        call = self._step.calls[number]
        if number in self._step.parts:
            self._values[Version(id(call.made[0]), number)] = self._new_input(self._step.parts[number])
            return
        start = len(self.nodes)
        self.current = f"call{number}"
        written = list(_written(call))
        made = list(call.made[: len(call.made) - len(written)]) or list(call.made)
        results = [described(ABSENT, tensor) for tensor in made]
        args = [self._argument(item, call, number) for item in call.args]
        kwargs = {name: self._argument(item, call, number) for name, item in call.kwargs.items()}
        found = self._spelled(call, args, kwargs, results)
        several: list[Any] = list(found) if isinstance(found, tuple | list) else [found]
        handles = self.named([item if isinstance(item, int) else None for item in several], results, start)
        if len(handles) < len(made) or any(handle is None for handle in handles[: len(made)]):
            handles = [*self._unknown(call, "it does not say what all its results are", [], results)]
        found_handles = [handle for handle in handles[: len(made)] if handle is not None]
        for tensor, handle in zip(made, found_handles):
            self._values[Version(id(tensor), number)] = handle
        self.results[number] = found_handles
        self._nodes[str(number)] = [node.number for node in self.nodes[start:]]

    def _spelled(self, call: RecordedCall, args: list[Any], kwargs: dict[str, Any], results: list[Handle]) -> Any:
        if getattr(call.function, "_schema", None) is None:
            return self._dropout(args, results)
        operands = [handle.number for handle in handles_in([*args, *kwargs.values()])]
        name = _functional(str(call.function).removeprefix("aten."), call)
        if name is None or call.overload.is_uninitialised:
            reason = "its memory is as it was found" if call.overload.is_uninitialised else "it writes to its arguments"
            return [handle.number for handle in self._unknown(call, reason, operands, results)]
        arguments = by_name(call.function, args, kwargs)
        aten = AtenCall(name, arguments, results, self)
        return self.translate("aten", name, aten, operands, f"no block spells {name}")

    def _unknown(self, call: RecordedCall, reason: str, operands: Sequence[int], results: Sequence[Handle]) -> list[Handle]:
        """Results that may be anything."""
        formats = [handle.format for handle in results]
        numbers = self.node(call.overload.name, "aten", operands, len(results), {NOT_ANALYSED: reason}, formats)
        for number, handle in zip(numbers, results):
            self.values[number].shape = handle.shape
        return [Handle(number, handle.format, handle.shape) for number, handle in zip(numbers, results)]

    def _dropout(self, args: Sequence[Any], results: list[Handle]) -> int:
        """A dropout as it was recorded: of a tensor, the mask that was drawn (None for none), and the rate."""
        x, mask, rate = args
        (result,) = results
        if mask is None or result.format is None:
            return x.number
        (factor,) = self.node("Cast", "", (mask.number,), 1, {"to": result.format.onnx_code}, (result.format,))
        (kept,) = self.node("Mul", "", (x.number, factor), 1, {}, (result.format,))
        scale = self.constant(np.asarray(1.0 - rate if rate < 1.0 else 1.0, result.format.dtype))
        return self.node("Div", "", (kept, scale), 1, {}, (result.format,))[0]

    def _argument(self, item: Any, call: RecordedCall, number: int) -> Any:
        import torch

        if isinstance(item, torch.Tensor):
            version = call.read[id(item)]
            if self._step.is_stale(item, version, number):
                return self._unknown(call, "its memory was written to through another tensor", [], [described(ABSENT, item)])[0]
            return self._input(item) if version == GIVEN else self._values[Version(id(item), version)]
        if isinstance(item, list | tuple):
            return [self._argument(part, call, number) for part in item]
        return item

    def _input(self, tensor: torch.Tensor) -> Handle:
        found = self._given.get(id(tensor))
        if found is None:
            found = self._given[id(tensor)] = self._new_input(self._step.leaf(tensor))
        return found

    def _new_input(self, leaf: Leaf) -> Handle:
        tensor = leaf.tensor
        about = described(ABSENT, tensor)
        format = format_of(tensor.dtype)
        if leaf.number is not None:
            number = self.constant(np.asarray(leaf.number, format.dtype))
        else:
            number = self.new_value(leaf.name, format, about.shape)
            self._inputs.numbers.append(number)
            self._inputs.shapes[number] = tuple(int(size) for size in tensor.shape)
            if leaf.legal.is_bounded:
                self._inputs.ranges[number] = leaf.legal
            if leaf.now.is_bounded:
                self._inputs.likely[number] = leaf.now
        return Handle(number, format, about.shape, is_row_major=about.is_row_major)


def _functional(name: str, call: RecordedCall) -> str | None:
    """The operator that gives what one that works in place writes: `add.Tensor` of `add_.Tensor`; None if there is none."""
    if not call.overload.writes:
        return name
    base, _, overload = name.partition(".")
    plain = f"{base.removesuffix('_')}.{overload}"
    return plain if base.endswith("_") and call.overload.writes == (0,) and spelling_of(plain) is not None else None
