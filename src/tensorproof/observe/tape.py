"""`Tape`: what a training step did, coarsely, and its replay under observation.

A step is a sequence of calls of the watched modules, of calls of PyTorch's functions outside of them (the loss), and of backward
passes. Nothing is copied but buffers and the state of the random generators: arguments are kept by reference, and parameters are
read when the step is replayed, which has to happen before the optimiser changes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from tensorproof.observe.eager import EagerObserver, Observation
from tensorproof.observe.internals import changes
from tensorproof.observe.places import Mark
from tensorproof.observe.values import is_finite, is_observable, tensors_in

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class Setting:
    """What decides how operators run, beside their arguments."""

    differentiates: bool
    autocast: dict[str, torch.dtype]

    @classmethod
    def current(cls, kinds: Iterable[str]) -> Setting:
        import torch

        chosen = {kind: torch.get_autocast_dtype(kind) for kind in kinds if torch.is_autocast_enabled(kind)}
        return cls(torch.is_grad_enabled(), chosen)

    def enter(self, stack: ExitStack) -> None:
        import torch

        stack.enter_context(torch.set_grad_enabled(self.differentiates))
        for kind, dtype in self.autocast.items():
            stack.enter_context(torch.autocast(kind, dtype=dtype))


@dataclass(slots=True)
class ModuleCall:
    """One call of a module from outside of the watched modules, as it began, and the gradients that its outputs were given."""

    module: torch.nn.Module
    #: The path of the module below the watched one; empty for the watched one itself.
    path: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    buffers: dict[str, torch.Tensor]
    random: dict[str, torch.Tensor]
    setting: Setting
    mark: Mark
    result: Any = None
    #: Gradients of the outputs by their position among the tensors of the result.
    gradients: dict[int, torch.Tensor] = field(default_factory=dict[int, "torch.Tensor"])

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the module; the buffers that it changes are copies."""
        import torch

        set_random_state(self.random)
        buffers = {name: buffer.clone() for name, buffer in self.buffers.items()}
        return torch.func.functional_call(self.module, buffers, args, kwargs)

    @property
    def has_finite_arguments(self) -> bool:
        return all(is_finite(t) for t in tensors_in((self.args, self.kwargs)) if is_observable(t))


@dataclass(slots=True)
class FunctionCall:
    """One call of a function of PyTorch outside of the watched modules."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    setting: Setting
    mark: Mark
    result: Any

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self.function(*args, **kwargs)


@dataclass(frozen=True, slots=True)
class BackwardPass:
    """The call of `backward` on a tensor, with the gradient that it was given."""

    tensor: torch.Tensor
    gradient: torch.Tensor | None


@dataclass(slots=True)
class Tape:
    """The events of one step, in order."""

    events: list[ModuleCall | FunctionCall | BackwardPass] = field(default_factory=list["ModuleCall | FunctionCall | BackwardPass"])

    @property
    def module_calls(self) -> list[ModuleCall]:
        return [event for event in self.events if isinstance(event, ModuleCall)]

    def replay(self, root: torch.nn.Module) -> Observation:
        """Run the step again, under observation.

        Neither parameters, buffers, gradients nor random generators are changed by it. What a module keeps elsewhere is not
        brought back: a module that counts its calls counts this one, and hooks of the user run again. The outputs of the result
        are those of the module calls.
        """
        import torch

        replaced = _Replaced(root)
        outputs: list[Any] = []
        states = {device: state for call in self.module_calls for device, state in call.random.items()}
        with torch.random.fork_rng(_cuda_devices(states)), EagerObserver(root) as observer:
            for event in self.events:
                if isinstance(event, BackwardPass):
                    gradient = None if event.gradient is None else event.gradient.detach()
                    replaced.differentiate([replaced.tensor(event.tensor)], [gradient])
                    continue
                result = observer.run_as_called(event.mark, _run, event, replaced)
                replaced.note(event.result, result)
                if isinstance(event, ModuleCall):
                    outputs.append(result)
            if not any(isinstance(event, BackwardPass) for event in self.events):
                self._lead_back(outputs, replaced)
        return Observation(
            observer.forward, observer.backward, outputs, tuple(sorted(replaced.bad_parameters)), observer.is_loss_finite
        )

    def _lead_back(self, outputs: Sequence[Any], replaced: _Replaced) -> None:
        """Begin a backward pass at the outputs, with the finite gradients that they were given, if its beginning is not known."""
        for call, output in zip(self.module_calls, outputs):
            tensors = list(tensors_in(output))
            given = {n: g for n, g in call.gradients.items() if n < len(tensors) and is_finite(g)}
            if given:
                replaced.differentiate([tensors[n] for n in given], list(given.values()))


class _Replaced:
    """The tensors of a replay by those that they stand for."""

    def __init__(self, root: torch.nn.Module) -> None:
        self._parameters = {name: p for name, p in root.named_parameters() if p.requires_grad}
        #: Both tensors are kept, so that identities stay theirs.
        self._tensors: dict[int, tuple[torch.Tensor, torch.Tensor]] = {id(p): (p, p) for p in root.parameters()}
        self.bad_parameters: set[str] = set()

    def tensor(self, original: torch.Tensor) -> torch.Tensor:
        """What stands for a tensor; one that comes from elsewhere is copied, because functions may write to it."""
        found = self._tensors.get(id(original))
        if found is None:
            copy = original.detach().clone().requires_grad_(original.requires_grad)
            found = self._tensors[id(original)] = (original, copy)
        return found[1]

    def note(self, original: Any, replayed: Any) -> None:
        for before, now in zip(tensors_in(original), tensors_in(replayed)):
            self._tensors[id(before)] = (before, now)

    def differentiate(self, tensors: Sequence[torch.Tensor], gradients: Sequence[torch.Tensor | None]) -> None:
        """A backward pass that leaves the gradients of the parameters alone."""
        import torch

        pairs = [(t, g) for t, g in zip(tensors, gradients) if t.requires_grad]
        if not pairs or not self._parameters:
            return
        found = torch.autograd.grad(
            [tensor for tensor, _ in pairs],
            list(self._parameters.values()),
            [gradient for _, gradient in pairs],
            retain_graph=True,
            allow_unused=True,
        )
        for name, gradient in zip(self._parameters, cast("tuple[torch.Tensor | None, ...]", found)):
            if gradient is not None and not is_finite(gradient):
                self.bad_parameters.add(name)


def _run(event: ModuleCall | FunctionCall, replaced: _Replaced) -> Any:
    with ExitStack() as stack:
        event.setting.enter(stack)
        return event.run(_mapped(event.args, replaced.tensor), _mapped(event.kwargs, replaced.tensor))


def _mapped(value: Any, function: Callable[[torch.Tensor], Any]) -> Any:
    """The same nested tuples, lists and dictionaries, with a function applied to the tensors."""
    import torch

    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, tuple):
        items = [_mapped(item, function) for item in cast("tuple[Any, ...]", value)]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, list):
        return [_mapped(item, function) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {key: _mapped(item, function) for key, item in cast("dict[Any, Any]", value).items()}
    return value


def random_state(devices: Iterable[torch.device]) -> dict[str, torch.Tensor]:
    """The states of the generators that the devices draw from."""
    import torch

    states = {"cpu": torch.get_rng_state()}
    states.update({str(device): torch.cuda.get_rng_state(device) for device in devices if device.type == "cuda"})
    return states


def set_random_state(states: Mapping[str, torch.Tensor]) -> None:
    """Set the generators back to what `random_state` gave."""
    import torch

    torch.set_rng_state(states["cpu"])
    for device in _cuda_devices(states):
        torch.cuda.set_rng_state(states[device], device)


def changes_in(tensors: Iterable[torch.Tensor]) -> int:
    """How often tensors were changed in place, in all."""
    return sum(map(changes, tensors))


def _cuda_devices(states: Mapping[str, torch.Tensor]) -> list[str]:
    return [device for device in states if device != "cpu"]
