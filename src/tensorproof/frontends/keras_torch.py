"""A Keras model on PyTorch: an `nn.Module` that holds the weights under Keras' names, and the program of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensorproof.frontends.framework_model import Arrays, FrameworkModel, FrameworkRunner, RunFailed
from tensorproof.frontends.user_frames import first_sentence
from tensorproof.frontends.user_program import speaking_aside

if TYPE_CHECKING:
    import torch

    from tensorproof.execute.torch_program import ProgramRunner
    from tensorproof.findings import Finding
    from tensorproof.frontends.torch_export import TorchModel
    from tensorproof.frontends.torch_program import TorchProgram

#: The outputs (in training the loss) of a model with these weights on these inputs.
Computed = Callable[[Mapping[str, Any], Sequence[Any]], Any]


def network(variables: Mapping[str, Any], trainable: Collection[str], computed: Computed) -> torch.nn.Module:
    """A module with the weights of a Keras model as its own.

    Keras' layers hold their tensors where `torch.export` does not look; here they are parameters and buffers.
    """
    import torch

    # Names of torch have no dots.
    names = {name: name.replace(".", "_") for name in variables}

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name, variable in variables.items():
                tensor: Any = variable.value
                if name in trainable and tensor.is_floating_point():
                    self.register_parameter(names[name], torch.nn.Parameter(tensor.detach()))
                else:
                    self.register_buffer(names[name], tensor.detach())

        def forward(self, *tensors: Any) -> Any:
            return computed({name: getattr(self, own) for name, own in names.items()}, tensors)

    return Network()


class TorchModelOfKeras(FrameworkModel):
    """The program of a Keras model on PyTorch. `program` is confirmed and trained as programs of PyTorch are."""

    framework = "PyTorch"
    target = "torch-cpu"

    def __init__(self, program: TorchProgram) -> None:
        self.program = program
        self.model = program.traced.model
        self.domains = program.domains
        self.trainable = program.traced.trainable
        self.path = program.path
        self.notes = ()

    @contextmanager
    def runner(self, *, time_limit: float | None = None) -> Generator[FrameworkRunner]:
        """Runs in this process, as programs of PyTorch do."""
        from tensorproof.execute.torch_program import ProgramRunner

        outputs = [self.model.name_of(number) for number in self.model.graph.outputs]
        yield KerasTorchRunner(ProgramRunner(self.program.traced), self.program.traced, outputs)

    def script(self, finding: Finding, names: Sequence[str], arrays: Path) -> str:
        raise NotImplementedError("models of Keras write their own")


class KerasTorchRunner:
    """The exported program; PyTorch rewrites nothing, so that what users get is the same."""

    def __init__(self, runner: ProgramRunner, traced: TorchModel, outputs: Sequence[str]) -> None:
        self._runner = runner
        self._traced = traced
        self._outputs = tuple(outputs)

    def shows(self, name: str) -> bool:
        """Whether a value of our graph is one of the program."""
        return self._runner.shows(name)

    def values(self, point: Arrays, names: Sequence[str]) -> Arrays:
        """Values on a point."""
        from tensorproof.execute.torch_program import ProgramFailed

        try:
            return self._runner.values(point, names)
        except ProgramFailed as failure:
            raise RunFailed(str(failure)) from None

    def replayed(self, point: Arrays, name: str | None) -> Arrays:
        """The outputs, and one value beside them."""
        return self.values(point, self._outputs if name is None else (*self._outputs, name))

    def derivative_fails(self, point: Arrays, node: str) -> bool:
        """Whether gradients are not finite although the outputs are, and torch's derivative of a node is a reason.

        Raises `RunFailed`.
        """
        from tensorproof.execute.torch_program import ProgramFailed

        try:
            if self._traced.origins.get(node, node) not in self._failing_derivatives(point):
                return False
            shown = self._runner.replayed(point, gradients=True)
        except ProgramFailed as failure:
            raise RunFailed(str(failure)) from None
        except Exception as error:  # torch raises what its operators raise
            raise RunFailed(f"{type(error).__name__}: {first_sentence(error)}") from None
        return bool(shown.bad_gradients) and not shown.is_output_bad

    def _failing_derivatives(self, point: Arrays) -> set[str]:
        """The nodes of the program whose derivatives make something that is not finite of finite gradients."""
        import torch
        from torch import fx

        program = self._traced.program
        failing: set[str] = set()
        seen: dict[Any, str] = {}

        def watched(name: str) -> Any:
            def look(outgoing: Sequence[Any], incoming: Sequence[Any]) -> None:
                if all(map(_is_finite, incoming)) and not all(map(_is_finite, outgoing)):
                    failing.add(name)

            return look

        class Followed(fx.Interpreter):
            def run_node(self, n: fx.Node) -> Any:
                result = super().run_node(n)
                for item in result if isinstance(result, list | tuple) else [result]:
                    made: Any = getattr(item, "grad_fn", None)
                    if made is not None and made not in seen:
                        # Kept: what is looked up by its identity has to live.
                        seen[made] = n.name
                        made.register_hook(watched(n.name))
                return result

        feeds = {name: self._runner.tensor(name, array) for name, array in point.items()}
        given = [self._leaf(item) for item in self._runner.flat(feeds)]
        with torch.enable_grad(), speaking_aside():
            results: Any = Followed(program.graph_module).run(*given)
            wanted = {index for index, spec in enumerate(program.graph_signature.output_specs) if spec.kind.name == "USER_OUTPUT"}
            outputs = [item for index, item in enumerate(results) if index in wanted and getattr(item, "requires_grad", False)]
            if outputs and all(map(_is_finite, outputs)):
                torch.autograd.backward([item.sum() for item in outputs])
        return failing

    @staticmethod
    def _leaf(item: Any) -> Any:
        """A copy that gradients go to, if they go to the original; operators may change tensors in place."""
        import torch

        if not isinstance(item, torch.Tensor):
            return item
        # An operator of its own: what is differentiated must not be written to.
        return item.detach().clone().requires_grad_(item.requires_grad).clone()


def _is_finite(tensor: Any) -> bool:
    import torch

    return tensor is None or not tensor.is_floating_point() or bool(torch.isfinite(tensor).all())
