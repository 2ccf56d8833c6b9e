"""A recorded program on PyTorch: a module with the weights as parameters, evaluated step by step, with true gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy.typing as npt

from benchmarks.zoo.builder import Recording, Step


def module(recording: Recording, weights: Mapping[str, npt.NDArray[Any]]) -> Any:
    """An `nn.Module` from named inputs to named outputs. Its `values` gives the result of every step as well.

    Each step is a module, `steps.NAME`: so reports name the step that an operator of PyTorch belongs to.
    """
    import torch

    meanings = _meanings(torch)

    class Applied(torch.nn.Module):
        def __init__(self, step: Step) -> None:
            super().__init__()
            self.step = step

        def forward(self, *operands: Any) -> Any:
            return meanings[self.step.operator](self.step, *operands)

    class Program(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name, array in weights.items():
                self.register_parameter(name, torch.nn.Parameter(torch.tensor(array)))
            for name, array in recording.constants.items():
                self.register_buffer(name, torch.tensor(array))
            self.steps = torch.nn.ModuleDict({step.name: Applied(step) for step in recording.steps})

        def values(self, **inputs: Any) -> dict[str, Any]:
            known = {**inputs, **dict(self.named_parameters()), **dict(self.named_buffers())}
            for step in recording.steps:
                known[step.name] = self.steps[step.name](*(known[operand] for operand in step.operands))
            return known

        def forward(self, **inputs: Any) -> dict[str, Any]:
            known = self.values(**inputs)
            return {output: known[value] for output, value in recording.outputs.items()}

    return Program()


def _meanings(torch: Any) -> dict[str, Callable[..., Any]]:
    """What each operator does, given its step and its operands."""
    functional = torch.nn.functional

    def clip(step: Step, x: Any, *bounds: Any) -> Any:
        sides = dict(zip(step.attributes["bounds"], bounds))
        return torch.clamp(x, sides.get("low"), sides.get("high"))

    def conv(step: Step, x: Any, kernel: Any) -> Any:
        top, left, bottom, right = step.attributes["pads"]
        return functional.conv2d(functional.pad(x, (left, right, top, bottom)), kernel, stride=step.attributes["stride"])

    def scatter_add(step: Step, zeros: Any, indices: Any, x: Any) -> Any:
        return zeros.scatter_add(0, indices, x)

    def part(step: Step, x: Any) -> Any:
        given = step.attributes
        picked = slice(given["first"], given["last"], given["step"]).indices(x.shape[given["axis"]])
        return x.index_select(given["axis"], torch.arange(*picked, device=x.device))

    def gather(step: Step, x: Any, indices: Any) -> Any:
        axis = step.attributes["axis"]
        taken = x.index_select(axis, indices.reshape(-1))
        return taken.reshape(*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])

    def plain(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda step, *operands: function(*operands)

    def reduction(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda step, x: function(x, dim=step.attributes["axes"], keepdim=step.attributes["keep"])

    return {
        "Neg": plain(torch.neg),
        "Abs": plain(torch.abs),
        "Exp": plain(torch.exp),
        "Log": plain(torch.log),
        "Sqrt": plain(torch.sqrt),
        "Sign": plain(torch.sign),
        "Floor": plain(torch.floor),
        "Cast": lambda step, x: x.to(torch.int64),
        "Relu": plain(torch.relu),
        "Sigmoid": plain(torch.sigmoid),
        "Tanh": plain(torch.tanh),
        "Softplus": plain(functional.softplus),
        "Add": plain(torch.add),
        "Sub": plain(torch.sub),
        "Mul": plain(torch.mul),
        "Div": plain(torch.div),
        "MatMul": plain(torch.matmul),
        "Softmax": lambda step, x: torch.softmax(x, step.attributes["axis"]),
        "LogSoftmax": lambda step, x: torch.log_softmax(x, step.attributes["axis"]),
        "Clip": clip,
        "Conv": conv,
        "ConvTranspose": lambda step, x, kernel: functional.conv_transpose2d(x, kernel, stride=step.attributes["stride"]),
        "MaxPool": lambda step, x: functional.max_pool2d(x, step.attributes["size"]),
        "ReduceSum": reduction(torch.sum),
        "ReduceMean": reduction(torch.mean),
        "ReduceMax": reduction(torch.amax),
        "ReduceMin": reduction(torch.amin),
        "Reshape": lambda step, x: x.reshape(step.attributes["shape"]),
        "Transpose": lambda step, x: x.permute(step.attributes["order"]),
        "Concat": lambda step, *parts: torch.cat(parts, step.attributes["axis"]),
        "Tile": lambda step, x: x.repeat(step.attributes["repeats"]),
        "Slice": part,
        "Gather": gather,
        "GatherElements": lambda step, x, indices: x.gather(step.attributes["axis"], indices),
        "ScatterElements": scatter_add,
        "OneHot": lambda step, indices: functional.one_hot(indices, step.attributes["classes"]).to(torch.get_default_dtype()),
    }
