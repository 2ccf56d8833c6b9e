"""`ProgramRunner`: a program of PyTorch, run on arrays: the exported one with its values visible, and the user's own.

The exported program shows every value by its name; the user's own module shows what really happens, with the lines at which
operators fail in the forward and in the backward pass.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorproof.errors import TensorproofError
from tensorproof.execute.plain_control_flow import plain_control_flow
from tensorproof.frontends.aten import array_of
from tensorproof.frontends.torch_export import TorchModel
from tensorproof.frontends.user_frames import described_failure, failing_line
from tensorproof.frontends.user_program import speaking_aside

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from tensorproof.observe.eager import Failure

#: Random operators of a program start from this seed in every run.
SEED = 0


class ProgramFailed(TensorproofError):
    """The program stops with an exception on this input; `line` is the user's line that it came from."""

    def __init__(self, name: str, error: Exception) -> None:
        super().__init__(described_failure(name, "stops", error))
        found = failing_line(error)
        self.line = None if found is None else (found.file, found.line)
        self.is_division_by_zero = "ZeroDivisionError" in f"{type(error).__name__}: {error}"


@dataclass(frozen=True, slots=True)
class Gradients:
    """What a run of the user's module showed: the lines at which operators failed, and where that is seen."""

    forward_lines: frozenset[tuple[str, int]]
    backward_lines: frozenset[tuple[str, int]]
    has_forward_failure: bool
    is_output_bad: bool
    #: The parameters (or inputs, of a module without any) whose gradients are not finite.
    bad_gradients: tuple[str, ...]


class ProgramRunner:
    """Runs one program. Names are those of our graph: inputs, weights as in `state_dict`, and nodes of the program."""

    def __init__(self, traced: TorchModel) -> None:
        self._traced = traced
        self._model = traced.model
        self._numbers = {value.name: number for number, value in enumerate(self._model.values)}
        self._nodes = {node.name: node for node in traced.program.graph.nodes}

    @property
    def has_lines(self) -> bool:
        """Whether the module runs the user's own lines."""
        return self._traced.has_lines

    def shows(self, name: str) -> bool:
        """Whether a value of our graph is one of the program."""
        number = self._numbers.get(name)
        if number is not None and (number in self._model.constants or number in self._model.graph.inputs):
            return True
        return name.partition(".")[0] in self._nodes and "/" not in name

    def around(self, name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Operands and results of the operator of the program that a node of our graph is part of."""
        node = self._nodes.get(self._traced.origins.get(name, name))
        if node is None:
            return (), ()
        operands = tuple(dict.fromkeys(self._name_of(item) for item in node.all_input_nodes))
        value = node.meta.get("val")
        count = len(value) if isinstance(value, list | tuple) else 1
        return operands, (node.name, *(f"{node.name}.{index}" for index in range(1, count)))

    def _name_of(self, node: torch.fx.Node) -> str:
        """The name that our graph has for the result of a node of the program."""
        signature = self._traced.program.graph_signature
        for names in (signature.inputs_to_parameters, signature.inputs_to_buffers):
            if node.name in names:
                return names[node.name]
        if getattr(node.target, "__name__", "") == "getitem":
            index: Any = node.args[1]
            source: Any = node.args[0]
            return source.name if index == 0 else f"{source.name}.{index}"
        return node.name

    def values(self, point: Mapping[str, npt.NDArray[Any]], names: Collection[str]) -> dict[str, npt.NDArray[Any]]:
        """Values of the program on a point, by name; what the program does not show is left out."""
        import torch
        from torch import fx

        wanted = {name.partition(".")[0] for name in names}
        found: dict[str, npt.NDArray[Any]] = {}
        for name in names:
            number = self._numbers.get(name)
            if name in point:
                found[name] = point[name]
            elif number is not None and number in self._model.constants:
                found[name] = self._model.constants[number]
        if wanted <= set(found):
            return found

        class Recorder(fx.Interpreter):
            def run_node(self, n: fx.Node) -> Any:
                result = super().run_node(n)
                if n.name in wanted:
                    several = result if isinstance(result, list | tuple) else [result]
                    for index, item in enumerate(several):
                        if isinstance(item, torch.Tensor):
                            found[n.name if index == 0 else f"{n.name}.{index}"] = array_of(item)
                        elif isinstance(item, bool | int | float):
                            found[n.name] = np.asarray(item)
                return result

        feeds = {name: self.tensor(name, array) for name, array in point.items()}
        torch.manual_seed(SEED)
        try:
            with torch.no_grad(), speaking_aside():
                # Operators of the program may change tensors in place: each run gets its own.
                recorder = Recorder(self._traced.program.graph_module)
                recorder.run(*(item.clone() if isinstance(item, torch.Tensor) else item for item in self.flat(feeds)))
        except Exception as error:
            raise ProgramFailed(self._model.name, error) from None
        return found

    def flat(self, feeds: Mapping[str, Tensor]) -> list[Any]:
        """What the graph of the program is run on: parameters, buffers, constants and inputs, in its order."""
        program = self._traced.program
        signature = program.graph_signature
        state, constants = program.state_dict, program.constants
        found: list[Any] = []
        for node in program.graph.nodes:
            if node.op != "placeholder":
                break
            name = node.name
            target = signature.inputs_to_parameters.get(name) or signature.inputs_to_buffers.get(name)
            if target is not None:
                tensor: Any = state[target] if target in state else constants[target]
                found.append(feeds.get(target, tensor))
            elif name in signature.inputs_to_lifted_tensor_constants:
                found.append(constants[signature.inputs_to_lifted_tensor_constants[name]])
            elif name in feeds:
                found.append(feeds[name])
            else:
                found.append(self._traced.example.get(name, node.meta.get("val")))
        return found

    def tensor(self, name: str, array: npt.NDArray[Any]) -> Tensor:
        """An array as the tensor that a value of the program is."""
        import torch

        number = self._numbers[name]
        format = self._model.values[number].format
        dtype = None if format is None else getattr(torch, format.name)
        if array.dtype.kind == "V" or array.dtype.name == "bfloat16":
            return torch.from_numpy(np.array(array.astype(np.float32))).to(dtype)
        return torch.from_numpy(np.array(array)).to(dtype)

    def replayed(self, point: Mapping[str, npt.NDArray[Any]], *, gradients: bool) -> Gradients:
        """Run the user's own module on a point, observed; with `gradients`, its outputs are differentiated, too."""
        import torch

        from tensorproof.observe.eager import observe
        from tensorproof.observe.values import is_finite

        module = self._traced.module
        tensors = {name: self.tensor(name, array) for name, array in point.items()}
        given = {name: tensor for name, tensor in tensors.items() if self._numbers[name] in self._model.graph.inputs}
        weights = {name: tensor for name, tensor in tensors.items() if name not in given}
        if gradients:
            differentiated = self._differentiated(module, given, weights)
        else:
            differentiated = {}
        args, kwargs = self._traced.call(given)

        def run() -> list[Tensor]:
            torch.manual_seed(SEED)
            with torch.set_grad_enabled(gradients):
                if weights:
                    outputs = torch.func.functional_call(module, weights, args, kwargs)
                else:
                    outputs = module(*args, **kwargs)
            floating = [item for item in _tensors_in(outputs) if item.dtype.is_floating_point]
            live = [item for item in floating if item.requires_grad]
            if gradients and live and all(map(is_finite, floating)):
                # The sum of all outputs; of a loss, itself.
                torch.autograd.backward([item.sum() for item in live])
            return floating

        state = {name: buffer.detach().clone() for name, buffer in module.named_buffers()}
        try:
            with plain_control_flow(), speaking_aside():
                shown = observe(run, module=module)
        except Exception as error:
            raise ProgramFailed(self._model.name, error) from None
        finally:
            with torch.no_grad():
                for name, buffer in module.named_buffers():
                    buffer.copy_(state[name])
        bad = tuple(name for name, leaf in differentiated.items() if leaf.grad is not None and not is_finite(leaf.grad))
        for leaf in differentiated.values():
            leaf.grad = None
        return Gradients(
            _lines(shown.forward),
            _lines(shown.backward),
            bool(shown.forward),
            not all(map(is_finite, shown.outputs)),
            bad,
        )

    def _differentiated(
        self, module: torch.nn.Module, given: Mapping[str, Tensor], weights: Mapping[str, Tensor]
    ) -> dict[str, Tensor]:
        """What gradients are wanted of: the weights that are trained; the floating inputs, if there are none."""
        found: dict[str, Tensor] = {name: p for name, p in module.named_parameters() if p.requires_grad}
        if found:
            for name in set(found) & set(weights):
                found[name] = weights[name].requires_grad_()
            return found
        return {name: tensor.requires_grad_() for name, tensor in given.items() if tensor.dtype.is_floating_point}


def _lines(failures: Sequence[Failure]) -> frozenset[tuple[str, int]]:
    return frozenset((f.place.file, f.place.line) for f in failures if f.place.file is not None and f.place.line is not None)


def _tensors_in(outputs: Any) -> list[Tensor]:
    import torch
    from torch.utils import _pytree as pytree  # pyright: ignore[reportPrivateImportUsage]

    return [leaf for leaf in pytree.tree_leaves(outputs) if isinstance(leaf, torch.Tensor)]
