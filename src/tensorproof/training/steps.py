"""`Steps`: training steps of a module on points of the box, in the module's own formats or in float64.

A step runs a copy of the module forward and the sum of its floating outputs backward. Gradients are those of the parameters that
are trained (of the floating inputs, if there are none) and of the results of the innermost modules, by their paths. Modules that
drop elements at random are switched off: two runs have to be of the same function.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorproof.confirm.sampling import Point
from tensorproof.execute.torch_program import ProgramFailed
from tensorproof.frontends.torch_export import TorchModel
from tensorproof.frontends.user_program import speaking_aside

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Gradients = dict[str, "Tensor"]


class Steps:
    """Runs of one module, counted. With `double`, everything floating is float64, which autocast leaves alone."""

    def __init__(self, traced: TorchModel, *, double: bool) -> None:
        self.traced = traced
        self.runs = 0
        self._is_double = double
        self.module = self._copied(traced)
        if double:
            self.module.double()
        for part in self.module.modules():
            if type(part).__name__.endswith(("Dropout", "Dropout1d", "Dropout2d", "Dropout3d")):
                part.eval()
        self.parameters = {name: p for name, p in self.module.named_parameters() if p.requires_grad}

    @staticmethod
    def _copied(traced: TorchModel) -> torch.nn.Module:
        try:
            return copy.deepcopy(traced.module)
        except Exception as error:  # a module may hold anything, tensors with a history included
            raise ProgramFailed(traced.model.name, error) from None

    def gradients(self, point: Point, *, scale: float = 1.0, seed: int = 0) -> Gradients | None:
        """The gradients of one step, the loss multiplied with `scale`; None if an output is not finite."""
        import torch

        self.runs += 1
        given = {name: self._tensor(name, point) for name in point if name in self.traced.example}
        leaves = dict(self.parameters)
        if not leaves:
            leaves = {name: tensor.requires_grad_() for name, tensor in given.items() if tensor.is_floating_point()}
        found: Gradients = {}
        args, kwargs = self.traced.call(given)
        try:
            with speaking_aside(), self._watching(found), torch.enable_grad():
                torch.manual_seed(seed)
                outputs = _floating(self.module(*args, **kwargs))
                live = [output for output in outputs if output.requires_grad]
                if not live or not all(bool(torch.isfinite(output).all()) for output in outputs):
                    return None
                torch.autograd.backward([output.sum() for output in live], [_number(scale, output) for output in live])
        except Exception as error:
            raise ProgramFailed(self.traced.model.name, error) from None
        for name, leaf in leaves.items():
            if leaf.grad is not None:
                found[name] = leaf.grad.detach()
                leaf.grad = None
        return found

    def _tensor(self, name: str, point: Point) -> Tensor:
        import torch

        wanted = self.traced.example[name].dtype
        array = point[name]
        tensor = torch.from_numpy(np.array(array.astype(np.float32) if array.dtype.name == "bfloat16" else array)).to(wanted)
        return tensor.double() if self._is_double and tensor.is_floating_point() else tensor

    def _watching(self, found: Gradients) -> _Watching:
        return _Watching(self.module, found)


class _Watching:
    """While it is entered, gradients of the results of innermost modules are kept by the modules' paths."""

    def __init__(self, module: torch.nn.Module, found: Gradients) -> None:
        self._module = module
        self._found = found
        self._handles: list[Any] = []

    def __enter__(self) -> None:
        for path, part in self._module.named_modules():
            if path and not any(True for _ in part.children()):
                self._handles.append(part.register_forward_hook(self._hook(path)))

    def __exit__(self, *_: object) -> None:
        for handle in self._handles:
            handle.remove()

    def _hook(self, path: str) -> Callable[..., None]:
        import torch

        def keep(gradient: Tensor) -> None:
            self._found.setdefault(path, gradient.detach())

        def watch(part: torch.nn.Module, inputs: Any, output: Any) -> None:
            if isinstance(output, torch.Tensor) and output.requires_grad and output.is_floating_point():
                output.register_hook(keep)

        return watch


def _floating(outputs: Any) -> list[Tensor]:
    import torch
    from torch.utils import _pytree as pytree  # pyright: ignore[reportPrivateImportUsage]

    leaves: list[Any] = pytree.tree_leaves(outputs)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()]


def _number(value: float, like: Tensor) -> Tensor:
    import torch

    return torch.tensor(value, dtype=like.dtype)


def is_finite(gradients: Mapping[str, Tensor]) -> bool:
    """Whether all gradients are."""
    import torch

    return all(bool(torch.isfinite(gradient).all()) for gradient in gradients.values())
