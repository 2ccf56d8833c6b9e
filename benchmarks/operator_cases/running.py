"""Models of the pairs on points of their boxes, in eager PyTorch and in ONNX Runtime, without anything of the analysis.

What a run of the model itself shows is the truth that findings are held against. Points are corners, plain numbers and random ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from benchmarks.operator_cases.pairs import Pair, Program
from tensorproof.assumptions import Domain, domain_from_json
from tensorproof.confirm.sampling import Point, alike, points
from tensorproof.formats import BY_NAME, Format

if TYPE_CHECKING:
    import onnx
    import torch

#: One in so many points has inputs that are equal to one another, where two have one shape.
ALIKE = 4


Inputs = Mapping[str, tuple[Domain, tuple[int, ...], Format]]


def failures(pair: Pair, fixed: bool, count: int, seed: int = 0) -> list[Point]:
    """The points, out of about `count` of the box, at which a model of a pair fails."""
    run = running(pair, fixed)
    drawn = chain(points(seed, run.inputs, count - count // ALIKE), alike(seed, run.inputs, count // ALIKE))
    return [point for point in drawn if not run.is_finite(point)]


def running(pair: Pair, fixed: bool) -> Running:
    """A model of a pair, ready to run."""
    model = pair.built(fixed)
    return _Eager(pair, model) if isinstance(model, Program) else _Session(pair, model)


class Running(Protocol):
    """A model, and the boxes of its inputs."""

    inputs: Inputs

    def is_finite(self, point: Point) -> bool:
        """Whether all outputs are finite at a point; if the model is trained, also whether all gradients are."""
        ...


class _Eager:
    """A program, converted as its pair says, with the gradients of its outputs if it is trained."""

    def __init__(self, pair: Pair, program: Program) -> None:
        import torch

        self._run = program.run
        self._is_trained = pair.phase == "training"
        narrow = None if pair.precision is None else getattr(torch, pair.precision)
        if isinstance(self._run, torch.nn.Module):
            self._run.train(self._is_trained).to(narrow)
        self._dtypes = {n: narrow if narrow and t.is_floating_point() else t.dtype for n, t in program.example.items()}
        self.inputs: Inputs = {
            name: (domain_from_json(pair.ranges[name], name), tuple(tensor.shape), _format(self._dtypes[name]))
            for name, tensor in program.example.items()
        }

    def is_finite(self, point: Point) -> bool:
        import torch

        # NumPy has no bfloat16 that torch takes; float64 holds all numbers of the formats here.
        given = {name: torch.from_numpy(array.astype(np.float64)).to(self._dtypes[name]) for name, array in point.items()}
        leaves = [p for p in self._run.parameters() if p.requires_grad] if isinstance(self._run, torch.nn.Module) else []
        if self._is_trained and not leaves:
            leaves = [tensor.requires_grad_() for tensor in given.values() if tensor.is_floating_point()]
        with torch.set_grad_enabled(self._is_trained):
            output = self._run(**given)
        if not bool(output.isfinite().all()) or not self._is_trained:
            return bool(output.isfinite().all())
        gradients = torch.autograd.grad(output.sum(), leaves, allow_unused=True)
        return all(bool(gradient.isfinite().all()) for gradient in gradients if gradient is not None)


class _Session:
    """An ONNX file in ONNX Runtime, as it is written."""

    def __init__(self, pair: Pair, proto: onnx.ModelProto) -> None:
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._session = ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
        self.inputs: Inputs = {
            i.name: (domain_from_json(pair.ranges[i.name], i.name), tuple(i.shape), BY_NAME[_KINDS[i.type]])
            for i in self._session.get_inputs()
        }

    def is_finite(self, point: Point) -> bool:
        outputs: list[npt.NDArray[Any]] = self._session.run(None, point)
        return all(bool(np.isfinite(output).all()) for output in outputs)


_KINDS = {"tensor(float)": "float32", "tensor(float16)": "float16", "tensor(bool)": "bool"}


def _format(dtype: torch.dtype) -> Format:
    return BY_NAME[str(dtype).removeprefix("torch.")]
