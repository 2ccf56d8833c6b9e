"""`observe`: run PyTorch eagerly and name every operator that makes values NaN or infinite.

An operator of the forward pass *fails* when its operands are finite, or infinite on purpose, and its result is not. Infinite on
purpose is what the program wrote as such: a mask filled with -inf, and what follows from it. An infinity that follows from an
operand that is infinite on purpose is no failure, a NaN is.

A node of the backward pass *fails* when the gradients that come in are finite and one that goes out is not. It is named by the
forward operator that it belongs to, and by the line of that.

Not seen: what runs inside functions compiled by `torch.compile`, stand-ins for tensors (distributed, quantised, nested), and
threads other than the one that observes, but for those of autograd itself.
"""

from __future__ import annotations

import cmath
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from inspect import currentframe
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from tensorproof.findings import Phase
from tensorproof.observe.internals import Autograd
from tensorproof.observe.memory import Memory, Reason, Why
from tensorproof.observe.overloads import Overload
from tensorproof.observe.places import Mark, Place, is_recomputation, mark
from tensorproof.observe.values import Operand, describe, finite_check, is_finite, is_observable, tensors_in

if TYPE_CHECKING:
    import torch

#: AccumulateGrad, which runs before everything else, has the largest number there is (torch/csrc/autograd/function.h).
_UNNUMBERED = 1 << 63


@dataclass(frozen=True, slots=True)
class Failure:
    """One operator that failed, and how often it did at this place.

    `operator` is the ATen operator of the forward pass. In the backward pass `node` is the autograd node, `inner` the operator of
    its formula whose result was not finite, and `operands` are those of `inner` and what the forward pass saved.
    `uses_special` says that some operand was not finite: on purpose in the forward pass, a saved value in the backward pass.
    """

    phase: Phase
    operator: str
    inner: str
    place: Place
    operands: tuple[Operand, ...]
    results: tuple[Operand, ...]
    device: str
    node: str | None = None
    uses_special: bool = False
    times: int = 1


@dataclass(frozen=True, slots=True)
class Observation:
    """What one run showed: failures in the order in which they happened, and what the run returned.

    `parameters` are those of the observed module whose gradients are not finite after the run; `is_loss_finite` says whether the
    number that the last backward pass began at was finite, and is None if there was no such pass.
    """

    forward: list[Failure]
    backward: list[Failure]
    outputs: Any
    parameters: tuple[str, ...] = ()
    is_loss_finite: bool | None = None


def observe(run: Callable[[], Any], *, module: torch.nn.Module | None = None) -> Observation:
    """Run a function and name the operators that fail in it, of the forward and the backward pass.

    With `module`, places say which of its modules was called, and the parameters with gradients that are not finite are listed.
    An exception of the function goes through.
    """
    with EagerObserver(module) as observer:
        outputs = run()
    parameters = () if module is None else bad_gradients(module)
    return Observation(observer.forward, observer.backward, outputs, parameters, observer.is_loss_finite)


def bad_gradients(module: torch.nn.Module) -> tuple[str, ...]:
    """The parameters whose gradients are not finite."""
    return tuple(n for n, p in module.named_parameters() if p.grad is not None and is_observable(p.grad) and not is_finite(p.grad))


class _Origin(NamedTuple):
    """The forward operator that an autograd node belongs to, and whether its saved tensors may be looked at."""

    operator: str
    mark: Mark
    saves_plainly: bool


@dataclass(eq=False, slots=True)
class _Suspect:
    """An autograd node that runs, and whether a gradient that it was given is not finite."""

    node: Any
    is_excused: bool


class _Call(NamedTuple):
    """One call of an operator."""

    overload: Overload
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def argument(self, position: int) -> Any:
        return self.args[position] if position < len(self.args) else self.kwargs.get(self.overload.arguments[position])

    def tensors(self, positions: Iterable[int]) -> Iterator[tuple[str, torch.Tensor]]:
        """The floating tensors at these positions, with the names of the arguments."""
        for position in positions:
            for tensor in tensors_in(self.argument(position)):
                if is_observable(tensor):
                    yield self.overload.arguments[position], tensor

    def operands(self, positions: Iterable[int]) -> dict[tuple[str, int], Operand]:
        """The tensors in words, by name and by number: an argument may be a list."""
        return {(name, number): describe(name, tensor) for number, (name, tensor) in enumerate(self.tensors(positions))}

    def written(self) -> list[Any]:
        return [self.argument(position) for position in self.overload.writes]

    def special_numbers(self) -> list[complex]:
        """The Python numbers among the arguments that are not finite."""
        values: list[Any] = [*self.args, *self.kwargs.values()]
        return [value for value in values if isinstance(value, (float, complex)) and not cmath.isfinite(value)]


class EagerObserver:
    """A context in which every operator is observed; while `is_paused`, operators go through unobserved."""

    def __init__(self, module: torch.nn.Module | None = None) -> None:
        import torch

        self.is_paused = False
        #: How many operators have been looked at.
        self.operators = 0
        #: Whether the number that the last backward pass began at was finite; None if there was no such pass.
        self.is_loss_finite: bool | None = None
        self._called_from: Mark | None = None
        self._modules: dict[int, str] = {}
        if module is not None:
            self._modules = {id(part): name for name, part in module.named_modules()}
        self._failures: dict[object, Failure] = {}
        #: By the numbers of autograd nodes, which grow.
        self._origins: dict[int, _Origin] = {}
        #: Memory that is not finite, and why.
        self._memory = Memory()
        #: Autograd nodes that run, something in their formulas is not finite, and it may be their own doing.
        self._suspects: list[_Suspect] = []
        self._all_finite = finite_check()
        self._tensor_type = torch.Tensor
        self._autograd = Autograd()
        self._mode = dispatch_mode()(self.handle)

    def __enter__(self) -> EagerObserver:
        self._mode.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._mode.__exit__(kind, error, trace)

    @property
    def has_failed(self) -> bool:
        """Whether anything failed since observation began."""
        return bool(self._failures)

    @property
    def forward(self) -> list[Failure]:
        return [failure for failure in self._failures.values() if failure.phase == "forward"]

    @property
    def backward(self) -> list[Failure]:
        return [failure for failure in self._failures.values() if failure.phase == "backward"]

    def forget(self) -> None:
        """Begin anew: no failures, and nothing known of earlier operators."""
        self._failures.clear()
        self._origins.clear()
        self._memory.clear()
        self.is_loss_finite = None
        self._suspects.clear()

    def run_as_called(self, place: Mark, function: Callable[..., Any], *args: Any) -> Any:
        """Run a function as if it was called from a place: that is the line of operators which no line of the user's called."""
        before, self._called_from = self._called_from, place
        try:
            return function(*args)
        finally:
            self._called_from = before

    def marked(self, frame: FrameType | None) -> Mark:
        """The place that an operator called from this frame belongs to."""
        return mark(self._modules, frame, self._called_from)

    # -- every operator: this is what observation costs -----------------------------------------------------------------

    def handle(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run one operator and look at it, as the mode of this observer does; other modes may call it in its place."""
        if self.is_paused:
            return function(*args, **kwargs)
        overload = _overload(function)
        number = self._autograd.next_number() - 1
        if number not in self._origins and self._needs_gradient(args):
            self._note_origin(number, overload, currentframe())
        if overload.name == "ones_like" and args[0].requires_grad and args[0].numel() == 1:
            # With this a backward pass begins that is not given a gradient (torch.autograd._make_grads): its operand is the loss.
            self.is_loss_finite = is_finite(args[0])
        if not overload.computes:
            result = function(*args, **kwargs)
            if overload.is_uninitialised:
                self._memory.note(result, Why.UNINITIALISED)
            return result
        self.operators += 1
        if overload.writes:
            return self._update(function, _Call(overload, args, kwargs))
        result = function(*args, **kwargs)
        if not self._all_finite(result):
            self._examine(_Call(overload, args, kwargs), result, ((), set()), currentframe())
        return result

    def _update(self, function: Any, call: _Call) -> Any:
        """Run an operator that writes to its arguments: they are looked at before, too."""
        before = call.operands(call.overload.updates)
        reasons = self._reasons(call, call.overload.updates)
        result = function(*call.args, **call.kwargs)
        written = call.written()
        self._memory.overwritten(written)
        if not self._all_finite(written):
            self._examine(call, written, (tuple(before.values()), reasons), currentframe())
        return result

    def _needs_gradient(self, args: Sequence[Any]) -> bool:
        for item in args:
            if isinstance(item, self._tensor_type):
                if item.requires_grad:
                    return True
            elif isinstance(item, (list, tuple)) and self._needs_gradient(cast("Sequence[Any]", item)):
                return True
        return False

    def _note_origin(self, number: int, overload: Overload, frame: FrameType | None) -> None:
        """Remember which operator and which line the newest autograd node belongs to: it is made just before the operator runs."""
        if self._autograd.backward_pass() == -1 or is_recomputation(frame):
            self._origins[number] = _Origin(overload.name, self.marked(frame), self._autograd.saves_plainly())
            return
        # Part of the graph of a second derivative: it belongs to where the first one belongs to.
        node = self._autograd.current_node()
        origin = None if node is None else self._origin_of(node)
        if origin is not None:
            self._origins[number] = origin

    # -- an operator whose result is not finite -------------------------------------------------------------------------

    def _origin_of(self, node: Any) -> _Origin | None:
        """The operator of a node. A node that autograd adds behind an operator (CopySlices) belongs to that operator."""
        number = int(node._sequence_nr())
        if number in self._origins or number >= _UNNUMBERED:
            return self._origins.get(number)
        numbers = sorted(self._origins)
        index = bisect_right(numbers, number)
        return self._origins[numbers[index - 1]] if index else None

    def _examine(self, call: _Call, made: Any, before: tuple[tuple[Operand, ...], set[Reason]], frame: FrameType | None) -> None:
        """Decide whether the operator failed, and keep what it shows. `before` is what was seen of arguments that it updates."""
        read = [n for n in range(len(call.overload.arguments)) if n not in call.overload.writes]
        operands = (*before[0], *call.operands(read).values())
        reasons = before[1] | self._reasons(call, read)
        observable = [tensor for tensor in tensors_in(made) if is_observable(tensor)]
        results = tuple(describe("result", tensor) for tensor in observable)
        device = observable[0].device.type
        if self._autograd.backward_pass() != -1 and not is_recomputation(frame):
            node = self._autograd.current_node()
            self._memory.note(observable, Why.GRADIENT, node)
            if node is not None:
                self._suspect(node, call.overload.name, operands, reasons, results, device)
            return
        special = call.special_numbers()
        is_consequence = (
            any(reason.why is not Why.PURPOSE for reason in reasons)
            or any(operand.nans for operand in operands)
            or any(cmath.isnan(number) for number in special)
        )
        uses_special = bool(special) or not all(operand.is_finite for operand in operands)
        if not is_consequence and uses_special and not any(result.nans for result in results):
            self._memory.note(observable, Why.PURPOSE)
            return
        is_given = is_consequence and all(reason.why in (Why.GIVEN, Why.PURPOSE) for reason in reasons)
        self._memory.note(observable, Why.GIVEN if is_given else Why.FAILURE)
        if not is_consequence:
            noted = self.marked(frame)
            name = call.overload.name
            failure = Failure("forward", name, name, noted.place(), operands, results, device, uses_special=uses_special)
            self._keep((name, noted), failure)

    def _reasons(self, call: _Call, positions: Iterable[int]) -> set[Reason]:
        """Why operands are not finite, as far as that is known; in the backward pass what is not known counts as a gradient."""
        reasons: set[Reason] = set()
        is_backward = self._autograd.backward_pass() != -1
        for _, tensor in call.tensors(positions):
            reason = self._memory.reason(tensor)
            if reason is None and is_backward and not is_finite(tensor):
                reason = Reason(Why.GRADIENT, None)
            if reason is not None:
                reasons.add(reason)
        return reasons

    def _suspect(
        self,
        node: Any,
        inner: str,
        operands: tuple[Operand, ...],
        reasons: set[Reason],
        results: tuple[Operand, ...],
        device: str,
    ) -> None:
        """Look at the gradients of a node when it is done, because formulas mask what is not finite.

        A node that was given a gradient that is not finite, whichever operator of its formula takes it, did nothing wrong, and
        neither did one whose saved values come from parameters or arguments that were not finite.
        """
        is_excused = any(
            reason.why in (Why.GIVEN, Why.UNINITIALISED) or (reason.why is Why.GRADIENT and reason.maker is not node)
            for reason in reasons
        )
        known = next((suspect for suspect in self._suspects if suspect.node is node), None)
        if known is not None:
            known.is_excused |= is_excused
            return
        origin = self._origin_of(node)
        name = str(node.name()).rpartition("::")[2]
        if origin is not None and origin.saves_plainly:
            operands = (*operands, *_saved_by(node))
        failure = Failure(
            "backward",
            name if origin is None else origin.operator,
            inner,
            Place() if origin is None else origin.mark.place(),
            operands,
            results,
            device,
            node=name,
            uses_special=not all(operand.is_finite for operand in operands),
        )
        suspect = _Suspect(node, is_excused)
        self._suspects.append(suspect)

        def look(outgoing: Any, _: Any) -> None:
            handle.remove()
            self._suspects.remove(suspect)
            # AccumulateGrad hands nothing on: it adds to the gradient of its parameter.
            variable = getattr(node, "variable", None)
            if not suspect.is_excused and not self._is_finite_unobserved(outgoing if variable is None else variable.grad):
                self._keep((name, origin), failure)

        handle = node.register_hook(look)

    def _is_finite_unobserved(self, value: Any) -> bool:
        """Look at tensors while the operators of a hook would be observed."""
        was_paused, self.is_paused = self.is_paused, True
        try:
            return self._all_finite(value)
        finally:
            self.is_paused = was_paused

    def _keep(self, key: object, failure: Failure) -> None:
        earlier = self._failures.get(key)
        self._failures[key] = failure if earlier is None else replace(earlier, times=earlier.times + 1)


def _saved_by(node: Any) -> Iterator[Operand]:
    """What the forward pass saved for a node, such as `self` and `result`."""
    for attribute in dir(node):
        if not attribute.startswith("_saved_"):
            continue
        try:
            value = getattr(node, attribute)
        except RuntimeError:  # freed already
            continue
        for tensor in tensors_in(value):
            if is_observable(tensor):
                yield describe(attribute.removeprefix("_"), tensor)


@cache
def _overload(function: Any) -> Overload:
    return Overload.of(function)


@cache
def dispatch_mode() -> Callable[[Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]], Any]:
    """The class of modes that hand every operator to a function."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Dispatch(TorchDispatchMode):
        """Hands every operator to a function."""

        def __init__(self, handle: Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]) -> None:
            super().__init__()
            self._handle = handle

        def __torch_dispatch__(
            self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            return self._handle(func, args, kwargs or {})

    return Dispatch
