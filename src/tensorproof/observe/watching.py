"""`watch`: a training loop under observation, at a cost that can stay switched on.

At level `module` hooks take one sum of every module's output, and so does a mode of every function's outside of the module. Nobody
looks at the sums until the step is over: before the optimiser changes the parameters, when the next step begins, or at the end. If
something is not finite, the step is replayed operator by operator, which names the culprit. At level `operator` every operator is
observed as it runs, those of the optimiser, too.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from inspect import currentframe
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from tensorproof.errors import ConfigurationError, TensorproofError
from tensorproof.findings import Coverage, Finding, Report
from tensorproof.observe.eager import EagerObserver, Observation, bad_gradients
from tensorproof.observe.internals import Autograd, buffers_held_by
from tensorproof.observe.matching import findings_of
from tensorproof.observe.outside import Listening
from tensorproof.observe.places import frames_to_user, mark
from tensorproof.observe.tape import BackwardPass, FunctionCall, ModuleCall, Setting, Tape, changes_in, random_state
from tensorproof.observe.values import is_finite, is_observable, tensors_in, totalling
from tensorproof.report.plain_text import count

if TYPE_CHECKING:
    import torch

Level = Literal["module", "operator"]

#: Events that are kept for a backward pass to come; with more, the step is looked at as if it were over.
_KEPT_EVENTS = 256
#: Steps in a row that are replayed without anything new coming out of it; after that, nothing is replayed any more.
_VAIN_REPLAYS = 5
#: Modules of `torch.nn` whose outputs are finite if their inputs are: looking at the inputs does.
_CANNOT_FAIL = ("Flatten", "Identity", "MaxPool1d", "MaxPool2d", "MaxPool3d", "ReLU", "ReLU6", "Sigmoid", "Tanh", "Unflatten")


class NonFiniteWarning(RuntimeWarning):
    """A watched training step made values that are not finite; the text says where."""


class NonFiniteError(TensorproofError):
    """The same, where the watcher was asked to raise; `findings` are those of the step."""

    def __init__(self, message: str, findings: Sequence[Finding]) -> None:
        super().__init__(message)
        self.findings = tuple(findings)


def watch(
    module: torch.nn.Module,
    *,
    level: Level = "module",
    bundle: str | Path | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    seed: int | None = None,
    raises: bool = False,
) -> Watcher:
    """Watch the training steps of a context, and name the operator and the line where values stop being finite.

        with tensorproof.watch(model) as watcher:
            train(model)
        print(watcher.report())

    `level` is "module" (cheap: a failing step is replayed) or "operator" (every operator as it runs). The first failing step is
    saved in the folder `bundle`, if one is given, to be replayed elsewhere. A step is over when an optimiser that holds parameters
    of the module steps, or only `optimizer`, if that is given. `seed` seeds PyTorch's random generators at the beginning. A
    finding is told once, as a warning; with `raises` it is an exception, before the optimiser spoils the parameters.
    """
    return Watcher(module, level=level, bundle=bundle, optimizer=optimizer, seed=seed, raises=raises)


class Watcher:
    """The context that `watch` returns: `findings` so far, and `report()` on them."""

    def __init__(
        self,
        module: torch.nn.Module,
        *,
        level: Level,
        bundle: str | Path | None,
        optimizer: torch.optim.Optimizer | None,
        seed: int | None,
        raises: bool,
    ) -> None:
        import torch

        given = cast("object", module)
        if not isinstance(given, torch.nn.Module):
            raise ConfigurationError(f"watch: a torch.nn.Module is watched, not {type(given).__name__}")
        if level not in get_args(Level):
            raise ConfigurationError(f"watch: unknown level {level!r}; known are {', '.join(get_args(Level))}")
        self.module = module
        self.findings: list[Finding] = []
        self.steps = 0
        self._level = level
        self._bundle = None if bundle is None else Path(bundle)
        self._optimizer = optimizer
        self._seed = seed
        self._raises = raises
        #: With the step in which each was made first.
        self._remarks: dict[str, int] = {}
        self._undo: list[Callable[[], object]] = []
        self._autograd = Autograd()
        self._total = totalling()
        self._observer = EagerObserver(module if level == "operator" else None)
        self._parameters = list(module.parameters())
        self._parameter_identities = {id(parameter) for parameter in self._parameters}
        buffers = list(module.buffers())
        self._devices = list({tensor.device for tensor in (*self._parameters, *buffers)}) or [torch.device("cpu")]
        self._device_kinds = sorted({device.type for device in self._devices})
        self._buffers: dict[str, list[tuple[str, dict[str, Any], str]]] = {}
        self._listening = Listening(self)
        self._depth = 0
        self._is_looking = False
        self._tape = Tape()
        #: How often parameters had been changed in place when the step began.
        self._changes = 0
        #: Sums of results, not looked at yet, with the paths of the modules; functions outside of them have none.
        self._flags: list[tuple[str | None, torch.Tensor]] = []
        self._last_flagged: object = None
        #: Modules whose outputs are infinite on purpose.
        self._silenced: set[str | None] = set()
        self._awaited_gradients = 0
        self._was_differentiated = False
        self._vain_replays = 0

    # -- the context ----------------------------------------------------------------------------------------------------

    def __enter__(self) -> Watcher:
        import torch
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        if self._undo:
            raise ConfigurationError("watch: this watcher is in use already; call watch again for another one")
        if self._seed is not None:
            torch.manual_seed(self._seed)
        harmless = tuple(getattr(torch.nn, name) for name in _CANNOT_FAIL)
        for path, part in self.module.named_modules():
            if path and type(part) in harmless:
                continue
            before = part.register_forward_pre_hook(partial(self._before_call, path), with_kwargs=True)
            after = part.register_forward_hook(partial(self._after_call, path), always_call=True)
            self._undo += [before.remove, after.remove]
        if self._optimizer is None:
            self._undo.append(register_optimizer_step_pre_hook(self._before_step).remove)
        else:
            self._undo.append(self._optimizer.register_step_pre_hook(self._before_step).remove)
        if self._level == "operator":
            self._observer.__enter__()
            self._undo.append(lambda: self._observer.__exit__(None, None, None))
        else:
            self._undo.append(self._listening.stop)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if kind is None:
                self.look()
        finally:
            while self._undo:
                self._undo.pop()()
            self._forget_step()

    def report(self) -> Report:
        """The findings so far in the form of every other report; what it counts as nodes are modules."""
        import torch

        modules = sum(1 for _ in self.module.modules())
        return Report(
            model=type(self.module).__name__,
            target=f"torch-{self._device_kinds[0]}",
            precision=None,
            assumptions={
                "weights": "as trained",
                "notes": [f"{count(self.steps, 'training step')} watched at level {self._level} with PyTorch {torch.__version__}"],
            },
            coverage=Coverage(
                modules, modules, modules, remarks=tuple(f"from step {step} on: {text}" for text, step in self._remarks.items())
            ),
            findings=tuple(self.findings),
            proven_safe=(),
            proven_safe_if={},
        )

    # -- what happens during a step -------------------------------------------------------------------------------------

    def _before_call(self, path: str, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._depth += 1
        # In a backward pass it is a checkpoint that calls.
        if self._depth > 1 or self._is_looking or self._autograd.backward_pass() != -1:
            return
        self._listening.stop()
        if self._is_step_over():
            self.look()
        if not self._tape.events:
            self._changes = changes_in(self._parameters)
        call = ModuleCall(
            module,
            path,
            args,
            kwargs,
            {
                name: holder[key].detach().clone()
                for name, holder, key in self._buffers_of(path, module)
                if holder.get(key) is not None
            },
            random_state(self._devices),
            Setting.current(self._device_kinds),
            mark({}, currentframe()),
        )
        self._tape.events.append(call)

    def _buffers_of(self, path: str, module: torch.nn.Module) -> list[tuple[str, dict[str, Any], str]]:
        """Where the buffers of a module are held, by their names: a walk over all modules is too slow for every step."""
        known = self._buffers.get(path)
        if known is None:
            known = self._buffers[path] = [
                (f"{prefix}.{key}" if prefix else key, buffers_held_by(part), key)
                for prefix, part in module.named_modules()
                for key in buffers_held_by(part)
            ]
        return known

    def _after_call(self, path: str, module: torch.nn.Module, args: tuple[Any, ...], result: Any) -> None:
        self._depth -= 1
        if self._is_looking or self._autograd.backward_pass() != -1:
            return
        if self._level == "module" or self._depth == 0:
            self._flag(path, result)
        if self._depth == 0 and self._tape.events and isinstance(call := self._tape.events[-1], ModuleCall):
            call.result = result
            self._await_gradients(call)
            if self._level == "module":
                self._listening.start()

    def _flag(self, path: str | None, result: Any) -> None:
        if result is not self._last_flagged:
            self._last_flagged = result
            for tensor in tensors_in(result):
                total = self._total(tensor)
                if total is not None:
                    self._flags.append((path, total))

    def _await_gradients(self, call: ModuleCall) -> None:
        """Keep the gradients that the outputs of a call are given."""

        def keep(number: int, gradient: torch.Tensor) -> None:
            self._was_differentiated = True
            call.gradients[number] = gradient.detach()

        for number, tensor in enumerate(tensors_in(call.result)):
            if tensor.requires_grad and not tensor.is_leaf:
                self._awaited_gradients += 1
                tensor.register_hook(partial(keep, number))

    def after_function(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """Take down a call of a function outside of the module, if it makes or changes tensors."""
        if self._depth or self._is_looking or not self._undo:
            return
        changes_in_place = getattr(function, "__name__", "") == "__setitem__"
        if not changes_in_place and next(tensors_in(result), None) is None:
            return
        setting = Setting.current(self._device_kinds)
        self._tape.events.append(FunctionCall(function, args, kwargs, setting, mark({}, currentframe()), result))
        self._flag(None, result)

    def before_backward(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Take down where a backward pass begins."""
        given = dict(zip(("self", "gradient"), args)) | kwargs
        self._tape.events.append(BackwardPass(given["self"], given.get("gradient")))

    def _before_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        held = (id(parameter) for group in optimizer.param_groups for parameter in group["params"])
        if optimizer is self._optimizer or any(parameter in self._parameter_identities for parameter in held):
            self.look()

    def _is_step_over(self) -> bool:
        """Whether no backward pass is to be waited for: there was one, there can be none, or it does not come."""
        return self._was_differentiated or self._awaited_gradients == 0 or len(self._tape.events) >= _KEPT_EVENTS

    # -- when a step is over --------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Say what was not finite since the last look. A loop without an optimiser of PyTorch calls this before its update."""
        if self._is_looking or not (self._tape.events or self._observer.forward or self._observer.backward):
            return
        tape = self._tape
        with self._looking():
            try:
                self.steps += bool(tape.events)
                found = self._found()
            finally:
                self._forget_step()
        if found:
            self._tell(found, tape)

    @contextmanager
    def _looking(self) -> Generator[None]:
        """What runs inside is not watched: it is the watcher's own."""
        self._listening.stop()
        self._is_looking = self._observer.is_paused = True
        try:
            yield
        finally:
            self._is_looking = self._observer.is_paused = False

    def _found(self) -> list[Finding]:
        """The findings of this step."""
        totals = [total for p in self._parameters if p.grad is not None and (total := self._total(p.grad)) is not None]
        bad = _not_finite([*(value for _, value in self._flags), *totals])
        flagged = {self._flags[index][0] for index in bad if index < len(self._flags)} - self._silenced
        gradients = bad_gradients(self.module) if any(index >= len(self._flags) for index in bad) else ()
        seen: Observation | None = None
        if self._level == "operator":
            seen = Observation(self._observer.forward, self._observer.backward, None, gradients, self._observer.is_loss_finite)
        elif (flagged or gradients) and self._vain_replays < _VAIN_REPLAYS:
            seen = self._replayed()
        if seen is None:
            return []
        bad_outputs = [t for t in tensors_in(seen.outputs) if is_observable(t) and not is_finite(t)]
        found = findings_of(
            seen.forward,
            seen.backward,
            is_output_finite=not bad_outputs and not (self._level == "operator" and flagged),
            is_loss_finite=seen.is_loss_finite,
            has_bad_gradients=bool(gradients),
            was_differentiated=self._was_differentiated,
        )
        if not found and (flagged or gradients):
            self._explain(flagged)
        return found

    def _replayed(self) -> Observation | None:
        try:
            return self._tape.replay(self.module)
        except Exception as error:  # the user's code: whatever it raises, the training goes on
            self._vain_replays += 1
            self._remark(f"values are not finite, and the replay failed: {type(error).__name__}: {error}")
            return None

    def _explain(self, flagged: set[str | None]) -> None:
        """Values are not finite, but no operator is to blame: say why, as far as that can be seen."""
        self._vain_replays += 1
        beginning = "values are not finite, and no operator made them so"
        if any(is_observable(p) and not is_finite(p) for p in self._parameters):
            self._remark(f"{beginning}: parameters are not finite")
        elif not all(call.has_finite_arguments for call in self._tape.module_calls):
            self._remark(f"{beginning}: the arguments of the module hold NaN or infinities")
        elif self._changes != changes_in(self._parameters):
            self._remark(f"{beginning} in the replay: parameters had changed before; call watcher.look() after backward")
        else:
            self._silenced |= flagged

    def _forget_step(self) -> None:
        self._tape = Tape()
        self._flags.clear()
        self._last_flagged = None
        self._awaited_gradients = 0
        self._was_differentiated = False
        self._observer.forget()

    # -- telling --------------------------------------------------------------------------------------------------------

    def _tell(self, found: Sequence[Finding], tape: Tape) -> None:
        known = {(finding.identity, finding.location) for finding in self.findings}
        new = [finding for finding in found if (finding.identity, finding.location) not in known]
        self._vain_replays = 0 if new else self._vain_replays + 1
        if not new:
            return
        self.findings += new
        roots = [finding for finding in new if not finding.is_note]
        if not roots:
            return
        lines = [_sentence(finding) for finding in roots]
        if self._bundle is not None and tape.module_calls:
            lines.append(self._saved(self._bundle, new, tape.module_calls[-1]))
            self._bundle = None
        text = "\n".join(lines)
        if self._raises:
            raise NonFiniteError(text, new)
        warnings.warn(text, NonFiniteWarning, stacklevel=frames_to_user(currentframe()))

    def _saved(self, folder: Path, findings: Sequence[Finding], call: ModuleCall) -> str:
        """Keep the step on disk, and say so."""
        from tensorproof.observe.bundle import save

        try:
            with self._looking():
                is_repeated = save(folder, self.module, call, findings, step=self.steps, seed=self._seed)
        except Exception as error:  # the user's code runs once more, and disks are full: the training goes on
            self._remark(f"no bundle was written: {error}")
            return f"no bundle was written: {error}"
        if not is_repeated:
            return (
                f"the call of the module is saved in {folder}; the failure is outside of the module, which a bundle does not hold"
            )
        return f"the step is saved: python {folder / 'replay.py'} module.py:name"

    def _remark(self, text: str) -> None:
        """Say once, and in the report, what findings do not say."""
        if text not in self._remarks:
            self._remarks[text] = self.steps
            warnings.warn(f"step {self.steps}: {text}", NonFiniteWarning, stacklevel=frames_to_user(currentframe()))


def _not_finite(flags: Sequence[torch.Tensor]) -> list[int]:
    """The positions of flags that are not finite. One look at their sum does if all is well."""
    import torch

    if not flags:
        return []
    try:
        together = torch.stack(tuple(flags))
    except RuntimeError:  # on several devices
        together = torch.stack([flag.cpu() for flag in flags])
    if math.isfinite(together.sum().item()):
        return []
    return [index for index, is_finite in enumerate(torch.isfinite(together).tolist()) if not is_finite]


def _sentence(finding: Finding) -> str:
    place = finding.location
    where = "at an unknown line"
    if place is not None and place.file is not None:
        where = f"at {place.file}:{place.line}"
    module = f", module {place.module}" if place is not None and place.module else ""
    return f"{finding.rule.code} {finding.rule.name} {where}{module}: {finding.message}"
