"""`TorchRun`: a PyTorch program under observation, its external values moved towards failures.

Every operator passes through one dispatch mode: it is observed (`tensorproof.observe.eager`), recorded, and measured if it is the
suspect that is driven. A step of training ends when a weight is written to or a loader is asked for the next batch; values are
moved between steps, never within one.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from inspect import currentframe
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorproof.confirm.witness import npz_bytes
from tensorproof.expose import events
from tensorproof.expose.events import Pipe
from tensorproof.expose.pytorch.driving import Driving
from tensorproof.expose.pytorch.external import MOVED_DRAWS, Externals, drawn_from
from tensorproof.expose.pytorch.loaders import Loaders
from tensorproof.expose.pytorch.recording import GIVEN, Recording, is_random
from tensorproof.expose.pytorch.suspects import executions
from tensorproof.expose.search.board import Board
from tensorproof.expose.search.feeding import Feeding
from tensorproof.expose.search.moves import Legal
from tensorproof.expose.settings import Settings
from tensorproof.expose.stopping import Stop
from tensorproof.files import write_bytes
from tensorproof.findings import Reaches
from tensorproof.formats import Array
from tensorproof.observe.eager import EagerObserver, Failure, dispatch_mode
from tensorproof.observe.internals import Autograd
from tensorproof.observe.matching import matched_rule, to_finding
from tensorproof.observe.overloads import Overload
from tensorproof.observe.values import is_finite, is_observable, tensors_in

if TYPE_CHECKING:
    import torch

#: A record of more calls than this is cleared: the program computes without training.
_MOST_CALLS = 20_000
#: With these, tensors are made of numbers of the program.
_MAKES_OF_NUMBERS = frozenset({"lift_fresh", "lift_fresh_copy", "lift"})


class TorchRun:
    """One run of a program of PyTorch."""

    framework = "torch"

    def __init__(self, settings: Settings, board: Board, pipe: Pipe, folder: Path, overrides: Mapping[str, Array]) -> None:
        self._settings = settings
        self._board = board
        self._pipe = pipe
        self._folder = folder
        #: What values have been moved to, by name: the program gets it the next time that it draws or reads them.
        self.moved: dict[str, Array] = dict(overrides)
        self.feeding = Feeding(settings, np.random.default_rng(settings.seed))
        self.externals = Externals(settings.ranges, self.moved, self.feeding)
        self._recording = Recording()
        self._driving = Driving(settings, board, pipe, self._recording, self.externals, self.feeding)
        self._observer = EagerObserver()
        self._autograd = Autograd()
        self._mode = dispatch_mode()(self._dispatch)
        self._loaders = Loaders(self)
        self._process = os.getpid()
        #: Set while the program's own machinery runs: what it does is observed, and neither recorded nor moved.
        self.is_paused = False
        self.steps = 0
        #: The number that the last backward pass of the step began at.
        self._loss: torch.Tensor | None = None
        #: What the first failure of the step was, and the external values at that moment.
        self._failed: tuple[Failure, dict[str, Array]] | None = None
        #: Weights before a failure that was known spoiled them.
        self._before: dict[int, torch.Tensor] = {}
        self._last: Any = None
        self._driving.touched.update(overrides)
        self._overloads: dict[Any, Overload] = {}
        self._hooks: list[Any] = []

    def seed(self) -> None:
        """Fix what random generators give."""
        import torch

        torch.manual_seed(self._settings.seed)

    def __enter__(self) -> TorchRun:
        from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

        self._hooks = [
            register_optimizer_step_pre_hook(lambda *_: self._optimiser(True)),
            register_optimizer_step_post_hook(lambda *_: self._optimiser(False)),
        ]
        self._loaders.install()
        self._mode.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._mode.__exit__(kind, error, trace)
        self._loaders.remove()
        for hook in self._hooks:
            hook.remove()
        self._driving.close()

    def finish(self) -> None:
        """The program is done: what its last step showed is looked at."""
        self._done()

    def raised(self, error: BaseException) -> None:
        """The program stops: if an operator failed in this step, and a variable of the program shows it, that is why."""
        trace = error.__traceback__
        with self.aside():
            while self._failed is not None and trace is not None:
                if any(map(_is_bad, trace.tb_frame.f_locals.values())) and not self._is_known(self._failed[0]):
                    self._found(*self._failed, "output")
                trace = trace.tb_next

    @property
    def operators(self) -> int:
        """How many operators ran."""
        return self._observer.operators

    def legal(self) -> Iterator[tuple[str, str, Legal]]:
        """Values that inputs are made of, what the program calls them, and the ranges that they are moved in."""
        for name, observed in self.feeding.observed.items():
            label = self.externals.labels.get(name, "")
            declared = next((self._settings.ranges[key] for key in (name, label, "*") if key in self._settings.ranges), None)
            yield name, label, observed if declared is None else Legal(*declared)

    @property
    def wants_another_run(self) -> bool:
        """Whether values that the program draws or makes once were moved, and nothing trains on them: it has to be run again."""
        return bool(self.moved) and not self.steps and any(not suspect.is_settled for suspect in self._board.suspects.values())

    # -- every operator -------------------------------------------------------------------------------------------------

    def _dispatch(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if os.getpid() != self._process:
            return function(*args, **kwargs)
        if self.is_paused or self._autograd.backward_pass() != -1:
            result = self._observer.handle(function, args, kwargs)
            return result
        overload = self._overload(function)
        written = self._written(overload, args, kwargs)
        if any(map(self.externals.is_weight, written)):
            self._before_update()
            result = self._observer.handle(function, args, kwargs)
            self._mend(written)
            self._recording.clear()
            return result
        frame = currentframe()
        for tensor in tensors_in((args, kwargs)):
            if tensor.requires_grad and tensor.is_leaf:
                # However it was filled, a weight is computed from nothing.
                self._recording.given(tensor)
                if self.externals.is_replaced(tensor):
                    self._before_update()
        if overload.name == "ones_like" and args[0].requires_grad and args[0].numel() == 1:
            # With this a backward pass begins that is not given a gradient (torch.autograd._make_grads).
            self._loss = args[0]
        read = self._recording.versions(args, kwargs)
        for tensor in tensors_in((args, kwargs)):
            if read[id(tensor)] != GIVEN and self.externals.is_sought(tensor, self._recording.source(tensor), frame):
                self._recording.given(tensor)
                read[id(tensor)] = GIVEN
        if overload.name not in _MAKES_OF_NUMBERS:
            filled = set[int]() if overload.updates else {id(tensor) for tensor in written}
            for tensor in tensors_in((args, kwargs)):
                if read[id(tensor)] == GIVEN and id(tensor) not in filled:
                    self.externals.used(tensor, frame)
        if overload.updates:
            self._recording.keep(written)
        result = self._observer.handle(function, args, kwargs)
        if overload.name == "native_dropout":
            self._recording.note_dropout(overload, args, result)
        elif is_random(function):
            self._drawn(overload, args, result, frame)
        elif overload.name in _MAKES_OF_NUMBERS:
            self._recording.given(result)
        else:
            self._recording.note(function, overload, args, kwargs, read, result)
            self._last = result
        self._look(function, overload, args, kwargs, result)
        return result

    def _overload(self, function: Any) -> Overload:
        found = self._overloads.get(function)
        if found is None:
            found = self._overloads[function] = Overload.of(function)
        return found

    @staticmethod
    def _written(overload: Overload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[torch.Tensor]:
        return [
            tensor
            for position in overload.writes
            for tensor in tensors_in(args[position] if position < len(args) else kwargs.get(overload.arguments[position]))
        ]

    def _drawn(self, overload: Overload, args: Sequence[Any], result: Any, frame: Any) -> None:
        for tensor in tensors_in(result):
            if overload.writes:
                self._recording.note_filled(tensor)
            else:
                self._recording.given(tensor)
            # Weights that are filled with random numbers are weights.
            is_value = tensor.is_floating_point() and tensor.dim() and not tensor.requires_grad
            if overload.name in MOVED_DRAWS and is_value:
                self.externals.drawn(tensor, frame, drawn_from(overload.name, args, tensor))
            else:
                self.externals.made(tensor)

    def _look(self, function: Any, overload: Overload, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> None:
        """What an operator that ran tells: a failure, a suspect, or the suspect that is driven."""
        if self._failed is None and self._observer.has_failed:
            failures = self._observer.forward
            if failures:
                self._failed = failures[0], self._snapshot()
        if self._failed is None:
            for execution in executions(function, overload, args, kwargs, result):
                self._driving.look(execution, overload.name)
        if len(self._recording.calls) > _MOST_CALLS:
            self._done()

    # -- steps of training ----------------------------------------------------------------------------------------------

    def _before_update(self) -> None:
        """Weights are about to change: a step of training is done."""
        if os.getpid() != self._process:
            return
        if not self.externals.has_used_weights:
            # Another weight of the same step, or one that follows others slowly.
            return
        self._done()
        self.steps += 1
        self._pipe.send("iteration", count=self.steps)
        if self._settings.iterations and self.steps >= self._settings.iterations:
            raise Stop("the iterations are used up")

    def _optimiser(self, begins: bool) -> None:
        """An optimiser of torch changes the weights: what it computes for that is observed, and no suspect."""
        if begins:
            self._before_update()
        self.is_paused = begins

    def boundary(self) -> None:
        """The program asks for the next batch."""
        if self._recording.calls:
            self._done()

    def _done(self) -> None:
        """What the step showed is looked at, and values go where they were moved to."""
        self._decide()
        self._driving.rank()
        with self.aside():
            self._driving.teach(self._loss)
        self._loss = None
        self.externals.step_done(tensor for call in self._recording.calls for tensor in call.made if self.steps)
        self.feeding.step_done()
        self._recording.clear()
        self._observer.forget()
        with self.aside():
            self.moved.update(self._driving.step_done())

    # -- failures -------------------------------------------------------------------------------------------------------

    def _snapshot(self) -> dict[str, Array]:
        """The external values of the step, weights as they were when it began."""
        return {value.name: value.array() for value in self.externals.present()}

    def _decide(self) -> None:
        """Whether the step failed where it does harm: in the loss, in gradients, or in what the program computed last."""
        backward = self._observer.backward
        if self._failed is None and not backward:
            return
        if self._is_known(backward[0] if self._failed is None else self._failed[0]):
            self._go_on()
            return
        if self._failed is not None and self._does_harm():
            self._found(*self._failed, "output" if self._observer.is_loss_finite is None else "loss")
        if backward and self._failed is not None and _named(self._failed[0]) == _named(backward[0]):
            # The loss drops what is not finite, and the derivative of the same operator does not.
            self._found(*self._failed, "gradient")
        if backward:
            self._found(backward[0], self._snapshot(), "gradient")
        if self._failed is not None:
            failure = self._failed[0]
            where = failure.place
            self._pipe.send(
                "note", text=f"{where.file}:{where.line}: {failure.operator} failed, and nothing that the program uses shows it"
            )
            for suspect in self._board.suspects.values():
                if (suspect.file, suspect.line) == (where.file, where.line):
                    suspect.is_settled = True
        self._failed = None

    def _is_known(self, failure: Failure) -> bool:
        """Whether an operator failed that is settled: the program goes on, for the others."""
        return any(name.startswith(_named(failure)) for name in self._board.settled)

    def _go_on(self) -> None:
        """Keep a known failure from spoiling the weights: gradients that are not finite are zero, and weights can be put back."""
        self._failed = None
        with self.aside():
            for value in self.externals.weights.values():
                gradient = value.tensor.grad
                if gradient is not None and not is_finite(gradient):
                    self._before[id(value.tensor)] = value.tensor.detach().clone()
                    gradient.nan_to_num_(0.0, 0.0, 0.0)

    def _mend(self, written: Sequence[torch.Tensor]) -> None:
        """Put weights back that the program itself has spoiled with gradients of a known failure."""
        for tensor in written:
            before = self._before.get(id(tensor))
            if before is not None and not is_finite(tensor):
                tensor.data.copy_(before)

    def _does_harm(self) -> bool:
        if self._observer.is_loss_finite is not None:
            return not self._observer.is_loss_finite
        if isinstance(self._last, float):
            return not math.isfinite(self._last)
        return any(is_observable(tensor) and not is_finite(tensor) for tensor in tensors_in(self._last))

    def _found(self, failure: Failure, arrays: dict[str, Array], reaches: Reaches) -> None:
        """Write the arrays, tell of the failure, and end the program."""
        file = self._folder / "values.npz"
        write_bytes(file, npz_bytes(arrays))
        place = failure.place
        rule = matched_rule(failure)
        finding = to_finding(failure, None)
        labels = {value.name: value.label or value.kind for value in self.externals.present()}
        self._pipe.failure(
            events.Failure(
                suspect=next((name for name in self._board.suspects if name.startswith(f"{_named(failure)}{rule.code}")), ""),
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
                iteration=self.steps,
                arrays=file.name,
                values=labels,
                seed=self._settings.seed,
                message=finding.message,
                moved=sorted(self._driving.touched & arrays.keys()),
                reaches=reaches,
                replay="pytorch",
            )
        )
        raise Stop("an operator failed")

    # -- what loaders ask -----------------------------------------------------------------------------------------------

    def aside(self) -> AbstractContextManager[None]:
        """A context in which the program's own machinery runs."""
        return _Paused(self)


def _named(failure: Failure) -> str:
    """What the names of suspects begin with that are the operator that failed."""
    place = failure.place
    return f"{Path(place.file or '').name}:{place.line}:{place.column}:{failure.operator.strip('_')}:"


def _is_bad(value: Any) -> bool:
    """Whether a variable holds a number that is not finite."""
    if isinstance(value, float):
        return not math.isfinite(value)
    return any(is_observable(tensor) and not is_finite(tensor) for tensor in tensors_in(value))


class _Paused(AbstractContextManager[None]):
    """While it is entered, what runs is observed, and neither recorded nor moved."""

    def __init__(self, run: TorchRun) -> None:
        self._run = run
        self._before = False

    def __enter__(self) -> None:
        self._before, self._run.is_paused = self._run.is_paused, True

    def __exit__(self, *_: object) -> None:
        self._run.is_paused = self._before
