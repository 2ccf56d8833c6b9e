"""`TorchFunction`: a function of PyTorch that is called again and again, every operator in it observed and recorded."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from inspect import currentframe
from types import FrameType
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tensorproof.expose.events import Failure
from tensorproof.expose.functions.argument import Argument
from tensorproof.expose.functions.arrangement import Arrangement
from tensorproof.expose.functions.search import NOTHING_FLOATING, ON_PURPOSE, UNEXPLAINED, Ran, Values, refusal
from tensorproof.expose.functions.target import Target
from tensorproof.expose.pytorch.recording import Recording, Slice, is_random
from tensorproof.expose.pytorch.suspects import Execution, executions, softmin, suspect_name, suspect_of
from tensorproof.expose.search.board import Suspect
from tensorproof.expose.search.leading import Measured
from tensorproof.findings import Reaches
from tensorproof.formats import Array
from tensorproof.observe import eager
from tensorproof.observe.eager import EagerObserver, dispatch_mode
from tensorproof.observe.internals import Autograd
from tensorproof.observe.matching import matched_rule, to_finding
from tensorproof.observe.overloads import Overload
from tensorproof.observe.places import Mark
from tensorproof.observe.values import is_finite, is_observable, tensors_in

if TYPE_CHECKING:
    import torch

_MAKES_OF_NUMBERS = frozenset({"lift_fresh", "lift_fresh_copy", "lift"})


class TorchFunction:
    """A function, its tensors by name, and all else that it is given."""

    def __init__(self, target: Target, arrangement: Arrangement, seed: int) -> None:
        self._target = target
        self._arguments = {argument.name: argument for argument in arrangement.arguments}
        self._literals = dict(arrangement.literals)
        self._seed = seed
        self._autograd = Autograd()
        self._overloads: dict[Any, Overload] = {}
        self._observer = _Observer(target)
        self._recording = Recording()
        self._leaves: dict[str, torch.Tensor] = {}
        #: The operators of the last call that may fail, by the names of suspects; the first of each.
        self._executions: dict[str, Execution] = {}
        self._slices: dict[str, Slice] = {}
        self._suspects: list[Suspect] = []
        self._known: dict[str, Suspect] = {}

    # -- calling it -----------------------------------------------------------------------------------------------------

    def run(self, values: Values) -> Ran:
        """Call it, and differentiate what it gives."""
        self._begin(values)
        try:
            with dispatch_mode()(self._dispatch):
                outputs = self._target.call({**self._literals, **self._leaves})
                differentiable = [
                    t for t in tensors_in(_opened(outputs)) if t.requires_grad and (t.is_floating_point() or t.is_complex())
                ]
                if differentiable:
                    self._differentiate(differentiable)
        except (Exception, SystemExit) as error:
            return Ran(refused=refusal(error))
        return self._judged(outputs)

    def _begin(self, values: Values) -> None:
        import torch

        self._recording.clear()
        self._observer.forget()
        self._executions.clear()
        self._slices.clear()
        self._suspects = []
        self._leaves = {name: _tensor(self._arguments[name], array) for name, array in values.items()}
        torch.manual_seed(self._seed)
        random.seed(self._seed)
        np.random.seed(self._seed % 2**32)  # noqa: NPY002

    @staticmethod
    def _differentiate(outputs: Sequence[torch.Tensor]) -> None:
        import torch

        torch.autograd.backward(outputs, [torch.ones_like(output) for output in outputs])

    def _dispatch(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Every operator: it is observed, and on the way forward recorded, and looked at if it may fail."""
        if self._autograd.backward_pass() != -1:
            return self._observer.handle(function, args, kwargs)
        overload = self._overloads.get(function)
        if overload is None:
            overload = self._overloads[function] = Overload.of(function)
        read = self._recording.versions(args, kwargs)
        if overload.updates:
            self._recording.keep(
                t
                for position in overload.writes
                for t in tensors_in(args[position] if position < len(args) else kwargs.get(overload.arguments[position]))
            )
        result = self._observer.handle(function, args, kwargs)
        if overload.name == "native_dropout":
            self._recording.note_dropout(overload, args, result)
        elif is_random(function) or overload.name in _MAKES_OF_NUMBERS:
            for tensor in tensors_in(result):
                self._recording.given(tensor)
        else:
            self._recording.note(function, overload, args, kwargs, read, result)
        for execution in executions(function, overload, args, kwargs, result):
            self._suspect(execution, overload.name, currentframe())
        return result

    def _suspect(self, execution: Execution, operator: str, frame: FrameType | None) -> None:
        """An operator that may fail. How near it is, is asked where it is first seen: `measure` says it later."""
        place = self._observer.marked(frame).place()
        name = suspect_name(operator, place, execution.weakness)
        if name in self._executions:
            return
        if name not in self._known:
            self._known[name] = suspect_of(execution, operator, place, self._recording)
            self._known[name].distance = execution.distance()
        self._suspects.append(self._known[name])
        self._executions[name] = execution
        self._slices[name] = self._recording.slice(*execution.tensors())

    # -- what a call showed ---------------------------------------------------------------------------------------------

    def _judged(self, outputs: Any) -> Ran:
        """Whether what it returned, or a gradient of it, is not finite."""
        opened = _opened(outputs)
        results = [tensor for tensor in tensors_in(opened) if is_observable(tensor)]
        suspects = self._suspects
        if not results and not _numbers_in(opened):
            return Ran(refused=NOTHING_FLOATING)
        if not all(map(is_finite, results)) or not all(map(math.isfinite, _numbers_in(opened))):
            forward = self._observer.forward
            if not forward:
                return Ran(suspects=suspects, remark=ON_PURPOSE)
            return Ran(failure=self._failure(forward[0], "output"), suspects=suspects)
        spoilt = [name for name, leaf in self._leaves.items() if leaf.grad is not None and not is_finite(leaf.grad)]
        if not spoilt:
            return Ran(suspects=suspects)
        backward = self._observer.backward
        if not backward:
            return Ran(suspects=suspects, remark=UNEXPLAINED)
        return Ran(failure=self._failure(backward[0], "gradient", spoilt), suspects=suspects)

    def _failure(self, failure: eager.Failure, reaches: Reaches, spoilt: Sequence[str] = ()) -> Failure:
        rule, finding, place = matched_rule(failure), to_finding(failure, None), failure.place
        by = f"; the gradient by {' and '.join(spoilt)} is not finite" if spoilt else ""
        return Failure(
            suspect="",
            framework="torch",
            operator=failure.operator,
            rule=rule.code,
            phase=failure.phase,
            file=place.file,
            line=place.line,
            column=place.column,
            function=place.function,
            operand=finding.operand,
            low=math.nan if finding.low is None else finding.low,
            high=math.nan if finding.high is None else finding.high,
            format=finding.format,
            iteration=0,
            arrays="",
            values={},
            seed=self._seed,
            message=f"{finding.message}{by}",
            reaches=reaches,
        )

    # -- measuring ------------------------------------------------------------------------------------------------------

    def measure(self, suspect: str, values: Values) -> Measured | None:
        """How near a suspect of the last call is with these values in place of those."""
        import torch

        execution, slice = self._executions.get(suspect), self._slices.get(suspect)
        if execution is None or slice is None:
            return None
        moved = {n: _tensor(self._arguments[n], array) for n, array in values.items() if self._arguments[n].is_moved}
        leaves = {name: tensor.requires_grad_() for name, tensor in moved.items()}
        # What the function writes in place may not be a leaf.
        replaced = {id(self._leaves[name]): leaf.clone() for name, leaf in leaves.items()}
        try:
            with torch.enable_grad():
                results = slice.rerun(replaced)
                terms = execution.on(results)
                has_failed = not bool(torch.isfinite(results[-1]).all())
                smallest = softmin(terms)
                if smallest is None or not smallest.requires_grad:
                    nearest = -math.inf if has_failed else math.inf
                    return Measured(nearest if smallest is None else float(smallest), {}, None, has_failed)
                found = torch.autograd.grad(smallest, list(leaves.values()), allow_unused=True)
        except (RuntimeError, TypeError, ValueError, LookupError, AttributeError):
            # An operator that cannot be run again by itself.
            return None
        return Measured(float(smallest.detach()), _gradients(leaves, found), None, has_failed)


class _Observer(EagerObserver):
    """Places are lines of the function itself, or of what it calls in the same files, whosever they are."""

    def __init__(self, target: Target) -> None:
        super().__init__()
        self._target = target

    def marked(self, frame: FrameType | None) -> Mark:
        """The innermost line of the function's own files; that of a function of C++ is none."""
        while frame is not None:
            if self._target.is_own(frame.f_code.co_filename):
                return Mark(frame.f_code, frame.f_lasti, None)
            frame = frame.f_back
        return Mark(None, 0, None)


def _tensor(argument: Argument, array: Array) -> torch.Tensor:
    import torch

    tensor = torch.from_numpy(np.array(array)).to(getattr(torch, argument.format.name))
    return tensor.requires_grad_() if argument.has_gradient else tensor


def _gradients(leaves: Mapping[str, torch.Tensor], found: Sequence[torch.Tensor | None]) -> dict[str, Array]:
    return {
        name: np.zeros(tuple(leaf.shape)) if gradient is None else gradient.detach().double().numpy()
        for (name, leaf), gradient in zip(leaves.items(), found)
    }


def _opened(outputs: Any) -> Any:
    """What a function returned, its parts where it is an object that has some."""
    fields = getattr(outputs, "__dataclass_fields__", None)
    return [getattr(outputs, name) for name in fields] if fields else outputs


def _numbers_in(outputs: Any) -> list[float]:
    if isinstance(outputs, list | tuple):
        return [number for item in cast("Sequence[Any]", outputs) for number in _numbers_in(item)]
    return [outputs] if isinstance(outputs, float) else []
