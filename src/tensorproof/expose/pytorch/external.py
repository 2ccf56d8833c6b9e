"""External values of a PyTorch program: what it is given from outside, by names that are the same in every run.

Batches come from a DataLoader, data are tensors that the program made of numbers, draws are random numbers, and weights are tensors
that it differentiates by. A name says the kind and its place in the program: `batch0.1` is the second tensor of what the first
loader gives, `weight3` the fourth weight to be used, `data:train.py:12:0` and `draw:train.py:12:0` the first tensor that line 12
uses, or draws, in a step of training. A tensor that the program computes is an external value if the user declares a range for the
variable that holds it: `value:x`.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal

from tensorproof.expose.search.feeding import Feeding
from tensorproof.expose.search.moves import Legal, is_label
from tensorproof.formats import Array
from tensorproof.observe.internals import memory_identity
from tensorproof.observe.places import mark

if TYPE_CHECKING:
    import torch

Kind = Literal["batch", "data", "draw", "weight"]

#: Draws whose numbers are moved. What chooses (masks of dropout, permutations, samples of classes) stays as it was drawn.
MOVED_DRAWS = frozenset(
    {"rand", "randn", "rand_like", "randn_like", "normal", "normal_", "uniform", "uniform_", "normal_functional", "exponential_"}
)
#: How far from their mean normal numbers are looked for: one of 16,000 is farther.
_DEVIATIONS = 4.0
#: Frames that are searched for the variable that holds a tensor.
_DEPTH = 24


@dataclass(slots=True)
class External:
    """One external value, as the tensor that holds it at the moment.

    `label` is what the program calls it, if a variable holds it where it is first used. `is_moved` says that it is a number, not
    the name of a class.
    """

    name: str
    kind: Kind
    tensor: torch.Tensor
    legal: Legal
    label: str = ""
    is_moved: bool = True

    @property
    def is_given_again(self) -> bool:
        """Whether the program gets it again in the next step."""
        return self.kind in ("batch", "data")

    def array(self) -> Array:
        """A copy of its numbers."""
        import torch

        return self.tensor.detach().cpu().to(torch.float64, copy=True).numpy()

    def set(self, array: Any) -> None:
        """Put other numbers in its place; what autograd has saved of it does not notice."""
        import torch

        self.tensor.data.copy_(torch.from_numpy(array).to(self.tensor.dtype).reshape(self.tensor.shape))


class Externals:
    """All external values of one run.

    `ranges` are legal ranges that the user declares, by name or by what the program calls the value. `overrides` are arrays that
    values get when they are first used or drawn.
    """

    def __init__(self, ranges: Mapping[str, tuple[float, float]], overrides: Mapping[str, Array], feeding: Feeding) -> None:
        self._ranges = ranges
        self._overrides = overrides
        self._feeding = feeding
        #: Weights, which live as long as the program, and the memory that they are in.
        self.weights: dict[int, External] = {}
        self._memory: dict[int, int] = {}
        #: Whether weights were used in the step that is going on.
        self.has_used_weights = False
        #: What the step that is going on was given.
        self._step: dict[int, External] = {}
        #: Data of earlier steps that something still holds: they keep their names.
        self._data: dict[int, tuple[weakref.ref[torch.Tensor], External]] = {}
        self._counts: dict[str, int] = {}
        #: Variables with declared ranges that no data were found in, and those among them that were not met in this step.
        self._declared = set(ranges) - {"*"}
        self._sought = set(self._declared)
        #: What the program calls its data, by their names.
        self.labels: dict[str, str] = {}
        #: What steps of training computed and something still holds: states of recurrent networks, running means.
        self._results: dict[int, weakref.ref[torch.Tensor]] = {}

    def find(self, tensor: torch.Tensor) -> External | None:
        """The external value that a tensor holds, if it is known as one in this step."""
        found = self._step.get(id(tensor)) or self.weights.get(id(tensor))
        return found if found is not None and found.tensor is tensor else None

    def is_weight(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor is a weight that was used, or another view of its memory, such as `weight.data`."""
        return tensor.layout is _strided() and memory_identity(tensor) in self._memory.values()

    def is_replaced(self, tensor: torch.Tensor) -> bool:
        """Whether the program has put other memory in the place of a weight's, as in `weight.data = weight.data - step`."""
        before = self._memory.get(id(tensor))
        if before is None or tensor.layout is not _strided() or memory_identity(tensor) == before:
            return False
        # Others were replaced with it, in the same step.
        self._memory = {number: memory_identity(value.tensor) for number, value in self.weights.items()}
        return True

    def present(self) -> Iterator[External]:
        """The external values of the step that is going on."""
        yield from self.weights.values()
        yield from self._step.values()

    def used(self, tensor: torch.Tensor, frame: FrameType | None) -> External | None:
        """The external value of a tensor that was not computed, at its first use in a step.

        Numbers (tensors without axes that are no weights) are no external values.
        """
        is_weight = tensor.requires_grad and tensor.is_leaf
        found = self.find(tensor)
        if found is not None and found.kind == "draw" and is_weight:
            # Drawn as a number, and made a weight afterwards.
            del self._step[id(tensor)]
            found = None
        self.has_used_weights |= is_weight
        if found is not None:
            if found.kind == "draw" and not found.label and (label := self._label(tensor, frame)):
                # A variable holds it only now.
                found.label, found.legal = label, self._legal(found.name, label, found.legal)
            return found
        if tensor.is_meta or not tensor.numel() or tensor.is_sparse or tensor.is_quantized:
            return None
        if is_weight:
            return self._weight(tensor, frame)
        if not tensor.dim() or tensor.device.type != "cpu" or self._is_result(tensor) or _is_state(tensor, frame):
            return None
        return self._datum(tensor, frame)

    def is_sought(self, tensor: torch.Tensor, source: torch.Tensor, frame: FrameType | None) -> bool:
        """Whether a tensor that was computed is what the user declares a range for: it counts as given then.

        `source` is the tensor itself, or the one that it is another handle of: that may be an external value already.
        """
        if not self._sought or tensor.requires_grad or not tensor.is_floating_point() or not tensor.dim():
            return False
        label = next((name for name in _names(tensor, frame) if name in self._sought), None)
        if label is None:
            return False
        self._sought.discard(label)
        known = self.find(source)
        if known is not None:
            known.label, known.legal = label, Legal(*self._ranges[label])
            if known.kind != "draw":
                # What is drawn is another value in every step.
                self._declared.discard(label)
            return False
        name = f"value:{label}"
        fresh = tensor.detach().numpy()
        kept = self._feeding.given("data", name, fresh)
        self.labels[name] = label
        found = self._step[id(tensor)] = External(name, "data", tensor, Legal(*self._ranges[label]), label)
        if kept is not None:
            found.set(kept)
        else:
            self._override(found)
        return True

    def _weight(self, tensor: torch.Tensor, frame: FrameType | None) -> External:
        name, label = f"weight{len(self.weights)}", self._label(tensor, frame)
        found = External(name, "weight", tensor, self._legal(name, label, Legal()), label)
        self.weights[id(tensor)] = found
        self._memory[id(tensor)] = memory_identity(tensor)
        self._override(found)
        return found

    def _datum(self, tensor: torch.Tensor, frame: FrameType | None) -> External:
        held = self._data.get(id(tensor))
        if held is not None and held[0]() is tensor:
            self._step[id(tensor)] = found = held[1]
            found.tensor = tensor
            return found
        name, label = self._at_line("data", frame), self._label(tensor, frame)
        fresh = tensor.detach().numpy()
        kept = self._feeding.given("data", name, fresh)
        legal = self._legal(name, label, self._feeding.legal(name))
        self.labels[name] = label
        found = External(name, "data", tensor, legal, label, tensor.is_floating_point() and not is_label(fresh))
        self._step[id(tensor)] = found
        if kept is not None:
            found.set(kept)
        else:
            self._override(found)
        return found

    def drawn(self, tensor: torch.Tensor, frame: FrameType | None, span: Legal) -> External:
        """Random numbers that the program has just drawn, and where such numbers lie."""
        name = self._at_line("draw", frame)
        found = External(name, "draw", tensor, self._legal(name, "", span))
        self._step[id(tensor)] = found
        self._override(found)
        return found

    def made(self, tensor: torch.Tensor) -> None:
        """A tensor that is no data although nothing computed it: what was drawn to choose."""
        if not tensor.requires_grad:
            self._results[id(tensor)] = weakref.ref(tensor)

    def fed(self, name: str, tensor: torch.Tensor) -> External:
        """A tensor of a batch that a loader gives."""
        is_moved = tensor.is_floating_point() and not is_label(tensor.detach().numpy())
        found = External(name, "batch", tensor, self._legal(name, "", self._feeding.legal(name)), is_moved=is_moved)
        self._step[id(tensor)] = found
        return found

    def step_done(self, computed: Iterable[torch.Tensor]) -> None:
        """A step of training is done: its draws and batches go, and what it computed is no data, however long that lives."""
        self._data = {number: held for number, held in self._data.items() if held[0]() is not None}
        self._results = {number: held for number, held in self._results.items() if held() is not None}
        self._results |= {id(tensor): weakref.ref(tensor) for tensor in computed}
        for value in self._step.values():
            if value.kind == "data":
                self._data[id(value.tensor)] = weakref.ref(value.tensor), value
                # Else everything that a program reads in would be kept.
                del value.tensor
        self._step.clear()
        self._counts.clear()
        self._sought = set(self._declared)
        self.has_used_weights = False

    def lasting(self) -> Iterator[External]:
        """Weights, and data of earlier steps that something still holds."""
        yield from self.weights.values()
        for held, value in self._data.values():
            tensor = held()
            if tensor is not None:
                value.tensor = tensor
                yield value
                del value.tensor

    def _is_result(self, tensor: torch.Tensor) -> bool:
        """Whether a step of training made a tensor: a value of an earlier step, or the gradient of a weight."""
        held = self._results.get(id(tensor))
        is_computed = held is not None and held() is tensor
        return is_computed or any(value.tensor.grad is tensor for value in self.weights.values())

    def _label(self, tensor: torch.Tensor, frame: FrameType | None) -> str:
        """What the program calls a tensor: the variable that a range is declared for, or else the innermost one."""
        names = list(_names(tensor, frame))
        label = next((name for name in names if name in self._ranges), names[0] if names else "")
        self._declared.discard(label)
        self._sought.discard(label)
        return label

    def _at_line(self, kind: str, frame: FrameType | None) -> str:
        place = mark({}, frame).place()
        site = f"{kind}:{Path(place.file or '').name}:{place.line}"
        count = self._counts[site] = self._counts.get(site, -1) + 1
        return f"{site}:{count}"

    def _override(self, found: External) -> None:
        array = self._overrides.get(found.name)
        if array is not None and array.size == found.tensor.numel():
            found.set(array)

    def _legal(self, name: str, label: str, observed: Legal) -> Legal:
        declared = self._ranges.get(name) or self._ranges.get(label) or self._ranges.get("*")
        return observed if declared is None else Legal(*declared)


@cache
def _strided() -> Any:
    import torch

    return torch.strided


def drawn_from(operator: str, args: Sequence[Any], result: torch.Tensor) -> Legal:
    """Where the numbers of a draw lie: its range, or four deviations around its mean; where it does not say, as drawn."""
    numbers = [float(x) for x in args[1:3] if isinstance(x, int | float) and not isinstance(x, bool)]
    if operator in ("rand", "rand_like"):
        return Legal(0.0, 1.0)
    if operator in ("randn", "randn_like"):
        return Legal(-_DEVIATIONS, _DEVIATIONS)
    if operator == "uniform_":
        low, high = (*numbers, *(0.0, 1.0)[len(numbers) :])
        return Legal(low, high)
    if operator == "normal_":
        mean, deviation = (*numbers, *(0.0, 1.0)[len(numbers) :])
        return Legal(mean - _DEVIATIONS * deviation, mean + _DEVIATIONS * deviation)
    return Legal.of(result.detach().double().numpy())


def _names(tensor: torch.Tensor, frame: FrameType | None) -> Iterator[str]:
    """The variables of the user's that hold a tensor, the innermost first."""
    for _ in range(_DEPTH):
        if frame is None:
            return
        values: dict[str, Any] = frame.f_locals
        if "site-packages" not in frame.f_code.co_filename:
            for name, value in values.items():
                if value is tensor and not name.startswith("_") and name not in ("tensor", "args"):
                    yield name
        frame = frame.f_back


def _is_state(tensor: torch.Tensor, frame: FrameType | None) -> bool:
    """Whether a tensor is a buffer of a module that is being called, such as the statistics of a batch normalisation."""
    import torch

    for _ in range(_DEPTH):
        if frame is None:
            return False
        holder = frame.f_locals.get("self")
        if isinstance(holder, torch.nn.Module) and any(buffer is tensor for buffer in holder.buffers(recurse=False)):
            return True
        frame = frame.f_back
    return False
