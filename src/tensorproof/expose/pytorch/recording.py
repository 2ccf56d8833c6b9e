"""`Recording`: the operators that a PyTorch program runs, so that a value can be computed again, with gradients.

A program may compute without gradients (`no_grad`, `detach`), write in place and draw random numbers. What is recorded is run again
as it was, with derivatives, on copies: writing in place becomes writing to a copy, random numbers stay what they were drawn as, and
`detach` hands on. A value that was changed behind the back of the record (through another view of its memory) comes out
differently: what `Slice.rerun` gives is compared with what the program computed before gradients are used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from tensorproof.observe.internals import memory_identity
from tensorproof.observe.overloads import Overload
from tensorproof.observe.values import tensors_in

if TYPE_CHECKING:
    import torch

#: A version of a tensor that no recorded call wrote.
GIVEN = -1
#: Operators that hand on their first operand; two of them stop gradients.
_HANDS_ON = frozenset({"detach", "detach_", "alias", "lift_fresh", "lift"})
#: Operands that batch normalisations write to without saying so.
_STATISTICS = frozenset({"running_mean", "running_var"})


class Version(NamedTuple):
    """A tensor, by its identity, as the recorded call of this number wrote it."""

    tensor: int
    call: int


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One call of an operator: the versions of the tensors that it read, by identity, and the tensors that it made or wrote."""

    function: Any
    overload: Overload
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    read: Mapping[int, int]
    made: Sequence[torch.Tensor]


@dataclass(slots=True)
class Recording:
    """The calls since the record was last cleared. Tensors in it are kept alive, so that their identities hold."""

    calls: list[RecordedCall] = field(default_factory=list[RecordedCall])
    _written: dict[int, int] = field(default_factory=dict[int, int])
    #: How often it was cleared.
    clearings: int = 0
    #: Memory that was filled from outside, and how many calls had been recorded by then.
    filled: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    #: Copies of what was given and is changed in place.
    _originals: dict[int, torch.Tensor] = field(default_factory=dict[int, "torch.Tensor"])

    def clear(self) -> None:
        """Forget everything: what is there now counts as given."""
        self.clearings += 1
        self.calls.clear()
        self.filled.clear()
        self._written.clear()
        self._originals.clear()

    def keep(self, tensors: Iterable[torch.Tensor]) -> None:
        """Tensors that a call is about to change: what was given is copied, because it may be needed again."""
        for tensor in tensors:
            if id(tensor) not in self._written and id(tensor) not in self._originals:
                self._originals[id(tensor)] = tensor.detach().clone()

    def version(self, tensor: torch.Tensor) -> Version:
        """A tensor as it is now."""
        return Version(id(tensor), self._written.get(id(tensor), GIVEN))

    def versions(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[int, int]:
        """What a call that is about to run reads."""
        return {id(tensor): self._written.get(id(tensor), GIVEN) for tensor in tensors_in((args, kwargs))}

    def note(
        self, function: Any, overload: Overload, args: Sequence[Any], kwargs: Mapping[str, Any], read: dict[int, int], result: Any
    ) -> None:
        """Keep a call that ran."""
        made = list(tensors_in(result))
        made += [t for position in overload.writes for t in tensors_in(_argument(overload, position, args, kwargs))]
        for tensor in made:
            self._written[id(tensor)] = len(self.calls)
        self.calls.append(RecordedCall(function, overload, args, kwargs, read, made))

    def note_dropout(self, overload: Overload, args: Sequence[Any], result: Any) -> None:
        """Keep a dropout as the product that it is: its mask stays what was drawn."""
        dropped, mask = result
        self.given(mask)
        if len(args) > 2 and args[2] is False:
            mask = None
        given = (args[0], mask, float(args[1]))
        self.note(_masked, overload, given, {}, self.versions(given, {}), dropped)

    def given(self, tensor: torch.Tensor) -> None:
        """What is in a tensor now was not computed: it was drawn, or put there from outside."""
        self._written.pop(id(tensor), None)
        self._originals.pop(id(tensor), None)

    def note_filled(self, tensor: torch.Tensor) -> None:
        """Random numbers were put in place of what a tensor held: all views of its memory hold others now."""
        self.given(tensor)
        if tensor.layout is _strided():
            self.filled.append((len(self.calls), memory_identity(tensor)))

    def slice(self, *targets: torch.Tensor) -> Slice:
        """What some tensors are made of."""
        wanted = [self.version(target) for target in targets]
        needed: set[int] = set()
        outside = {id(target): target for target, version in zip(targets, wanted) if version.call == GIVEN}
        pending = [version for version in wanted if version.call != GIVEN]
        while pending:
            number = pending.pop().call
            if number in needed:
                continue
            needed.add(number)
            call = self.calls[number]
            for tensor in tensors_in((call.args, call.kwargs)):
                version = call.read[id(tensor)]
                if version == GIVEN:
                    outside[id(tensor)] = tensor
                else:
                    pending.append(Version(id(tensor), version))
        calls = [(number, self.calls[number]) for number in sorted(needed)]
        return Slice(calls, list(outside.values()), wanted, self._originals)

    def source(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor that one was handed on from, by `detach` and the like."""
        while (call := self.maker(tensor)) is not None and call.overload.name in _HANDS_ON and call.args[0] is not tensor:
            tensor = call.args[0]
        return tensor

    def maker(self, tensor: torch.Tensor) -> RecordedCall | None:
        """The call that made a tensor, or wrote to it last."""
        number = self._written.get(id(tensor), GIVEN)
        return None if number == GIVEN else self.calls[number]


class Taken(NamedTuple):
    """The rows that a call takes of a tensor, and what it gives."""

    rows: npt.NDArray[np.intp]
    result: torch.Tensor


@dataclass(frozen=True, slots=True)
class Slice:
    """The calls that some values are made of, in order, and the tensors that were given to them."""

    calls: list[tuple[int, RecordedCall]]
    given: list[torch.Tensor]
    targets: list[Version]
    #: What was given and has been changed since, as it was.
    originals: Mapping[int, torch.Tensor]

    def taken(self, tensor: torch.Tensor) -> Taken | None:
        """The rows of something given that go in here; None if that cannot be said, or if something else of it goes in, too."""
        users = [call for _, call in self.calls if any(operand is tensor for operand in tensors_in((call.args, call.kwargs)))]
        if len(users) != 1 or any(target.tensor == id(tensor) for target in self.targets):
            return None
        (call,) = users
        rows = _rows(call) if call.args and call.args[0] is tensor else None
        return None if rows is None else Taken(rows, call.made[0])

    def rerun(self, replaced: Mapping[int, torch.Tensor], format: torch.dtype | None = None) -> list[torch.Tensor]:
        """The values, computed from others in place of some that were given or taken (by identity); in a wider format, if named.

        It is called in a thread without modes, so that derivatives are recorded wherever the program is.
        """
        values: dict[Version, Any] = {}
        for tensor in self.given:
            start = replaced.get(id(tensor))
            held = self.originals.get(id(tensor), tensor)
            if start is None:
                start = held.detach().to(format) if format is not None and held.is_floating_point() else held.detach()
            values[Version(id(tensor), GIVEN)] = start
        for number, call in self.calls:
            if len(call.made) == 1 and id(call.made[0]) in replaced:
                values[Version(id(call.made[0]), number)] = replaced[id(call.made[0])]
            else:
                self._rerun_call(number, call, values)
        return [values[target] for target in self.targets]

    @staticmethod
    def _rerun_call(number: int, call: RecordedCall, values: dict[Version, Any]) -> None:
        import torch

        def now(item: Any) -> Any:
            if isinstance(item, torch.Tensor):
                return values[Version(id(item), call.read[id(item)])]
            if isinstance(item, list | tuple):
                return type(item)(now(part) for part in cast("Sequence[Any]", item))
            return item

        overload = call.overload
        args = [now(item) for item in call.args]
        kwargs = {name: now(item) for name, item in call.kwargs.items()}
        if overload.name in _HANDS_ON:
            made: Iterable[Any] = [args[0]]
        else:
            for position in _changed(overload):
                _replace(overload, position, args, kwargs, _copied)
            result = call.function(*args, **kwargs)
            made = list(tensors_in(result))
            made += [t for position in overload.writes for t in tensors_in(_argument(overload, position, args, kwargs))]
        for before, after in zip(call.made, made):
            values[Version(id(before), number)] = after


def _rows(call: RecordedCall) -> npt.NDArray[np.intp] | None:
    """The rows of its first operand that a call gives, in their order; None if it does anything else."""
    import torch

    data, *others = call.args
    count, name = len(data), call.overload.name
    if call.kwargs or data.dim() < 2:
        return None
    if name == "slice" and others and others[0] == 0:
        start, end, step = (*others[1:], *(None, None, 1)[len(others) - 1 :])
        return np.arange(count)[slice(start, end, step)]
    if name == "index" and len(others[0]) == 1:
        (index,) = others[0]
    elif name == "index_select" and others[0] == 0:
        index = others[1]
    else:
        return None
    if not isinstance(index, torch.Tensor) or index.dim() != 1:
        return None
    return np.arange(count)[index.detach().numpy()]


def _masked(x: Any, mask: Any, rate: float) -> Any:
    """A dropout with its mask given."""
    return x if mask is None else x * mask / (1.0 - rate) if rate < 1.0 else x * 0.0


@cache
def _strided() -> Any:
    import torch

    return torch.strided


@cache
def is_random(function: Any) -> bool:
    """Whether an operator draws from a random generator."""
    import torch

    return torch.Tag.nondeterministic_seeded in function.tags


def _changed(overload: Overload) -> Iterator[int]:
    """The positions of arguments that a call changes."""
    yield from overload.writes
    if "batch_norm" in overload.name:
        yield from (position for position, name in enumerate(overload.arguments) if name in _STATISTICS)


def _argument(overload: Overload, position: int, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    return args[position] if position < len(args) else kwargs.get(overload.arguments[position])


def _replace(overload: Overload, position: int, args: list[Any], kwargs: dict[str, Any], change: Any) -> None:
    if position < len(args):
        args[position] = change(args[position])
    elif overload.arguments[position] in kwargs:
        kwargs[overload.arguments[position]] = change(kwargs[overload.arguments[position]])


def _copied(item: Any) -> Any:
    if isinstance(item, list | tuple):
        return type(item)(_copied(part) for part in cast("Sequence[Any]", item))
    return item.clone() if hasattr(item, "clone") else item
