"""`EagerProgram`: the user's own module on points of the box, for its outputs and their derivatives."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from tensorproof.confirm.sampling import Point
from tensorproof.execute.plain_control_flow import plain_control_flow
from tensorproof.execute.torch_program import SEED, ProgramFailed, ProgramRunner
from tensorproof.frontends.aten import array_of
from tensorproof.frontends.torch_program import TorchProgram
from tensorproof.frontends.user_program import speaking_aside
from tensorproof.repair.gradients import derivatives_of, weighted_sum

if TYPE_CHECKING:
    import torch
    from torch import Tensor


class EagerProgram:
    """Runs a program as PyTorch runs it; with `exact`, a copy of it whose weights and inputs are float64."""

    def __init__(self, program: TorchProgram, *, exact: bool = False) -> None:
        self._program = program
        self._module = copy.deepcopy(program.traced.module).double() if exact else program.traced.module
        self._is_exact = exact
        self._runner = ProgramRunner(program.traced)
        self._inputs = {program.traced.model.name_of(number) for number in program.traced.model.graph.inputs}

    def outputs(self, point: Point) -> list[npt.NDArray[Any]]:
        """The floating outputs."""
        import torch

        with torch.no_grad():
            return [array_of(result) for result in self._called(self._tensors(point))]

    def derivatives(self, point: Point) -> dict[str, Tensor]:
        """Derivatives of a weighted sum of the outputs by the weights that are trained; by the inputs, if there are none."""
        tensors = self._tensors(point)
        leaves: dict[str, Tensor] = {name: p for name, p in self._module.named_parameters() if p.requires_grad}
        if leaves:
            leaves |= {name: tensors[name].requires_grad_() for name in leaves.keys() & tensors.keys()}
        else:
            leaves = {n: t.requires_grad_() for n, t in tensors.items() if n in self._inputs and t.is_floating_point()}
        return derivatives_of(weighted_sum(self._called(tensors)), leaves)

    def _tensors(self, point: Point) -> dict[str, Tensor]:
        tensors = {name: self._runner.tensor(name, array) for name, array in point.items()}
        return {name: self._widened(tensor) for name, tensor in tensors.items()}

    def _widened(self, value: Any) -> Any:
        import torch

        is_wide = self._is_exact and isinstance(value, torch.Tensor) and value.is_floating_point()
        return value.double() if is_wide else value

    def _called(self, tensors: Mapping[str, Tensor]) -> list[Tensor]:
        import torch
        from torch.utils import _pytree as pytree  # pyright: ignore[reportPrivateImportUsage]

        weights = {name: tensor for name, tensor in tensors.items() if name not in self._inputs}
        given = self._program.traced.call({name: tensor for name, tensor in tensors.items() if name in self._inputs})
        args, kwargs = pytree.tree_map(self._widened, given)
        torch.manual_seed(SEED)
        try:
            with plain_control_flow(), speaking_aside(), _kept_buffers(self._module):
                outputs = torch.func.functional_call(self._module, weights, args, kwargs)
        except Exception as error:
            raise ProgramFailed(self._program.name, error) from None
        leaves = pytree.tree_leaves(outputs)
        return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()]


@contextlib.contextmanager
def _kept_buffers(module: torch.nn.Module) -> Generator[None]:
    """Give every buffer back the numbers that it had: a batch normalisation in training changes its own."""
    import torch

    state = {name: buffer.detach().clone() for name, buffer in module.named_buffers()}
    try:
        yield
    finally:
        with torch.no_grad():
            for name, buffer in module.named_buffers():
                buffer.copy_(state[name])
