"""Random graphs of operators that keep affine relations, and their evaluation in NumPy, every step rounded to the dtype."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

Tensor = npt.NDArray[Any]
Step = Callable[[Mapping[str, Tensor]], list[Tensor]]

Change = Callable[[Tensor], Tensor]

#: Other formats that a tensor is cast to and back from: half of the time one that holds it, half of the time not.
_OTHER = {np.float16: np.float32, np.float32: np.float64, np.float64: np.float32}
_MOST_ELEMENTS = 48


def _same(x: Tensor) -> Tensor:
    return x


@dataclass
class RandomGraph:
    """A model, its inputs with their bounds, and how each value is computed."""

    rng: np.random.Generator
    dtype: Any
    inputs: dict[str, tuple[Tensor, Tensor]] = field(default_factory=dict[str, tuple[Tensor, Tensor]])
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    steps: list[tuple[list[str], Step]] = field(default_factory=list[tuple[list[str], Step]])
    nodes: list[onnx.NodeProto] = field(default_factory=list[onnx.NodeProto])
    constants: dict[str, Tensor] = field(default_factory=dict[str, Tensor])

    @classmethod
    def of(cls, seed: int, dtype: Any, length: int) -> RandomGraph:
        """A graph of `length` operators after two or three inputs."""
        graph = cls(np.random.default_rng(seed), dtype)
        for index in range(int(graph.rng.integers(2, 4))):
            graph._input(f"x{index}", [(3, 4), (4,), (3, 1), (2, 3, 2), (1,)][int(graph.rng.integers(5))])
        while len(graph.steps) < length:
            name = _OPERATORS[int(graph.rng.integers(len(_OPERATORS)))]
            getattr(graph, f"_{name}")()
        return graph

    def proto(self) -> onnx.ModelProto:
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype))
        inputs = [helper.make_tensor_value_info(name, kind, self.shapes[name]) for name in self.inputs]
        last = self.steps[-1][0][0]
        outputs = [helper.make_tensor_value_info(last, kind, self.shapes[last])]
        weights = [numpy_helper.from_array(array, name) for name, array in self.constants.items()]
        graph = helper.make_graph(self.nodes, "random", inputs, outputs, weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)

    @property
    def written(self) -> list[str]:
        """The values that steps compute."""
        return [name for names, _ in self.steps for name in names]

    def point(self, rng: np.random.Generator) -> dict[str, Tensor]:
        """Inputs inside their bounds: random ones, corners, and numbers near zero or near each other."""
        point: dict[str, Tensor] = {}
        style = int(rng.integers(4))
        for name, (low, high) in self.inputs.items():
            share = rng.random(low.shape)
            if style == 1:
                share = np.rint(share)
            elif style == 2:
                share = np.full(low.shape, rng.random())
            elif style == 3:
                share = np.where(rng.random(low.shape) < 0.5, share, np.rint(share))
            wide = low.astype(np.longdouble) * (1 - share) + high.astype(np.longdouble) * share
            value = np.clip(wide.astype(self.dtype), low, high)
            tiny = np.clip(np.zeros_like(value), low, high)
            point[name] = np.where(rng.random(low.shape) < 0.1, tiny, value).astype(self.dtype)
        return point

    def values(self, inputs: Mapping[str, Tensor], read: Change = _same, write: Change = _same) -> dict[str, Tensor]:
        """Every value of the graph, computed step by step; each step reads and writes floating tensors as told."""
        values = {**inputs, **self.constants}
        with np.errstate(all="ignore"):
            for names, step in self.steps:
                seen = {name: read(array) if array.dtype.kind == "f" else array for name, array in values.items()}
                values.update(zip(names, map(write, step(seen))))
        return values

    # -- inputs and operands -------------------------------------------------------------------------------------------

    def _input(self, name: str, shape: tuple[int, ...]) -> None:
        top = float(np.finfo(self.dtype).max)
        scale = [1.0, 1.0, 1e3, 1e-3, 1e8, top / 3, float(np.finfo(self.dtype).smallest_subnormal) * 50][int(self.rng.integers(7))]
        scale = min(scale, top / 3)
        middle = np.broadcast_to(self.rng.uniform(-1, 1, shape if self.rng.random() < 0.5 else (1,)), shape)
        radius = self.rng.uniform(0, 1) * self.rng.choice([0.01, 1.0, 2.0])
        with np.errstate(all="ignore"):
            low, high = ((scale * (middle + sign * radius)).astype(self.dtype) for sign in (-1, 1))
        self.inputs[name], self.shapes[name] = (low, high), shape

    def _pick(self) -> str:
        names = list(self.shapes)
        if self.rng.random() < 0.5:
            names = names[-4:]
        return names[int(self.rng.integers(len(names)))]

    def _constant(self, array: Any, dtype: Any = None) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(array, dtype or self.dtype)
        return name

    def _number(self, shape: tuple[int, ...]) -> Tensor:
        choices = np.array([1.0, -1.0, 2.0, 0.5, 0.1, -3.0, 1e-3, 7.0, 1.0 / 3.0])
        return self.rng.choice(choices, shape).astype(self.dtype)

    def _add_step(self, op: str, inputs: list[str], compute: Step, outputs: int = 1, **attributes: Any) -> None:
        names = [f"{op.lower()}{len(self.steps)}_{i}" for i in range(outputs)]
        probe = {name: np.zeros(shape, self.dtype) for name, shape in self.shapes.items()} | self.constants
        results = compute(probe)
        if any(result.size > _MOST_ELEMENTS or not result.size for result in results):
            return
        self.nodes.append(helper.make_node(op, inputs, names, name=names[0], **attributes))
        self.shapes.update({name: result.shape for name, result in zip(names, results)})
        self.steps.append((names, compute))

    def _pair(self) -> tuple[str, str] | None:
        a, b = self._pick(), self._pick()
        try:
            np.broadcast_shapes(self.shapes[a], self.shapes[b])
        except ValueError:
            return None
        return a, b

    def _binary(self, op: str, function: Callable[[Tensor, Tensor], Tensor]) -> None:
        pair = self._pair()
        if pair is not None:
            a, b = pair
            self._add_step(op, [a, b], lambda v: [function(v[a], v[b])])

    # -- operators -----------------------------------------------------------------------------------------------------

    def _add(self) -> None:
        self._binary("Add", np.add)

    def _sub(self) -> None:
        self._binary("Sub", np.subtract)

    def _undo(self) -> None:
        """What an operator made of a tensor, less that tensor or the other way round."""
        node = self.nodes[int(self.rng.integers(len(self.nodes)))] if self.nodes else None
        sources = [] if node is None else [name for name in node.input if name in self.shapes]
        if node is None or not sources or node.output[0] not in self.shapes:
            return
        pair = [node.output[0], sources[int(self.rng.integers(len(sources)))]]
        a, b = pair if self.rng.random() < 0.5 else pair[::-1]
        try:
            np.broadcast_shapes(self.shapes[a], self.shapes[b])
        except ValueError:
            return
        self._add_step("Sub", [a, b], lambda v: [v[a] - v[b]])

    def _max(self) -> None:
        self._binary("Max", np.maximum)

    def _min(self) -> None:
        self._binary("Min", np.minimum)

    def _sum(self) -> None:
        pair = self._pair()
        if pair is not None:
            a, b = pair
            self._add_step("Sum", [a, b, a], lambda v: [(v[a] + v[b]) + v[a]])

    def _scale(self) -> None:
        x = self._pick()
        c = self._constant(self._number(self.shapes[x][-1:] if self.rng.random() < 0.5 else ()))
        op = ["Mul", "Div", "Add", "Sub"][int(self.rng.integers(4))]
        function = {"Mul": np.multiply, "Div": np.divide, "Add": np.add, "Sub": np.subtract}[op]
        if op in ("Mul", "Add") and self.rng.random() < 0.5:
            self._add_step(op, [c, x], lambda v: [function(v[c], v[x])])
        else:
            self._add_step(op, [x, c], lambda v: [function(v[x], v[c])])

    def _unary(self) -> None:
        x = self._pick()
        op = ["Neg", "Relu", "Abs", "Identity"][int(self.rng.integers(4))]
        functions: dict[str, Callable[[Tensor], Tensor]] = {
            "Neg": np.negative,
            "Relu": lambda a: np.maximum(a, a.dtype.type(0)),
            "Abs": np.abs,
            "Identity": lambda a: a,
        }
        self._add_step(op, [x], lambda v: [functions[op](v[x])])

    def _leaky(self) -> None:
        x = self._pick()
        if self.rng.random() < 0.5:
            slope = self._constant(self._number(self.shapes[x][-1:]))
            self._add_step("PRelu", [x, slope], lambda v: [np.where(v[x] < 0, v[slope] * v[x], v[x])])
        else:
            alpha = float(np.float32(self._number(())))
            self._add_step("LeakyRelu", [x], lambda v: [np.where(v[x] < 0, self.dtype(alpha) * v[x], v[x])], alpha=alpha)

    def _mean(self) -> None:
        pair = self._pair()
        if pair is not None:
            a, b = pair
            self._add_step("Mean", [a, b, b], lambda v: [((v[a] + v[b]) + v[b]) / self.dtype(3)])

    def _clip(self) -> None:
        x = self._pick()
        ends = np.sort(self._number((2,)))
        low, high = self._constant(ends[0]), self._constant(ends[1])
        self._add_step("Clip", [x, low, high], lambda v: [np.minimum(np.maximum(v[x], v[low]), v[high])])

    def _concat(self) -> None:
        a, b = self._pick(), self._pick()
        for axis in range(len(self.shapes[a])):
            rest = [tuple(n for i, n in enumerate(self.shapes[x]) if i != axis) for x in (a, b)]
            if rest[0] == rest[1] and len(self.shapes[a]) == len(self.shapes[b]):
                self._add_step("Concat", [a, b], lambda v, axis=axis: [np.concatenate([v[a], v[b]], axis)], axis=axis)
                return

    def _slice(self) -> None:
        x = self._pick()
        if not self.shapes[x]:
            return
        axis = int(self.rng.integers(len(self.shapes[x])))
        size = self.shapes[x][axis]
        start, stop = sorted(int(i) for i in self.rng.choice(size + 1, 2, replace=False)) if size else (0, 0)
        step = [1, 1, 2][int(self.rng.integers(3))]
        if self.rng.random() < 0.2:
            start, stop, step = size - 1, -size - 1, -1
        index = (slice(None),) * axis + (slice(start, None if stop < 0 else stop, step),)
        limits = [self._constant([i], np.int64) for i in (start, stop, axis, step)]
        self._add_step("Slice", [x, *limits], lambda v: [v[x][index]])

    def _split(self) -> None:
        x = self._pick()
        for axis, size in enumerate(self.shapes[x]):
            if size > 1:
                sizes = self._constant([1, size - 1], np.int64)
                self._add_step("Split", [x, sizes], lambda v, axis=axis: np.split(v[x], [1], axis), outputs=2, axis=axis)
                return

    def _gather(self) -> None:
        x = self._pick()
        if not self.shapes[x]:
            return
        axis = int(self.rng.integers(len(self.shapes[x])))
        size = self.shapes[x][axis]
        style = int(self.rng.integers(3))
        chosen = [self.rng.permutation(size), self.rng.integers(0, size, 3), self.rng.integers(0, size)][style]
        index = self._constant(chosen, np.int64)
        self._add_step("Gather", [x, index], lambda v: [np.take(v[x], v[index], axis)], axis=axis)

    def _transpose(self) -> None:
        x = self._pick()
        order = [int(i) for i in self.rng.permutation(len(self.shapes[x]))]
        if order:
            self._add_step("Transpose", [x], lambda v: [v[x].transpose(order)], perm=order)

    def _reshape(self) -> None:
        x = self._pick()
        size = int(np.prod(self.shapes[x], dtype=np.int64))
        fitting = [s for s in ((3, 4), (4, 3), (12,), (2, 6), (2, 3, 2), (1, size), (size,), (size, 1)) if np.prod(s) == size]
        shape = fitting[int(self.rng.integers(len(fitting)))]
        wanted = self._constant(shape, np.int64)
        self._add_step("Reshape", [x, wanted], lambda v: [v[x].reshape(shape)])

    def _expand(self) -> None:
        x = self._pick()
        shape = np.broadcast_shapes(self.shapes[x], (2, *([1] * len(self.shapes[x]))))
        wanted = self._constant(shape, np.int64)
        self._add_step("Expand", [x, wanted], lambda v: [np.broadcast_to(v[x], shape)])

    def _where(self) -> None:
        pair = self._pair()
        if pair is not None:
            a, b = pair
            shape = self.shapes[a][-1:]
            condition = self._constant(self.rng.random(shape) < 0.5, np.bool_)
            self._add_step("Where", [condition, a, b], lambda v: [np.where(v[condition], v[a], v[b])])

    def _matmul(self) -> None:
        x = self._pick()
        if self.shapes[x]:
            columns = [(), (1,), (3,)][int(self.rng.integers(3))]
            w = self._constant(self._number((self.shapes[x][-1], *columns)))
            self._add_step("MatMul", [x, w], lambda v: [np.asarray(np.matmul(v[x], v[w]))])

    def _gemm(self) -> None:
        x = self._pick()
        if len(self.shapes[x]) == 2:
            columns = int(self.rng.integers(1, 4))
            w, c = self._constant(self._number((self.shapes[x][-1], columns))), self._constant(self._number((columns,)))
            self._add_step("Gemm", [x, w, c], lambda v: [np.matmul(v[x], v[w]) + v[c]])

    def _reduce(self) -> None:
        x = self._pick()
        if not self.shapes[x]:
            return
        axis = int(self.rng.integers(len(self.shapes[x])))
        axes = self._constant([axis], np.int64)
        keep = int(self.rng.integers(2))
        op = ["ReduceSum", "ReduceMean"][int(self.rng.integers(2))]
        function = np.sum if op == "ReduceSum" else np.mean
        self._add_step(op, [x, axes], lambda v: [np.asarray(function(v[x], axis=axis, keepdims=bool(keep)))], keepdims=keep)

    def _cast(self) -> None:
        x = self._pick()
        other = _OTHER[self.dtype]
        code, own = (helper.np_dtype_to_tensor_dtype(np.dtype(d)) for d in (other, self.dtype))
        middle = f"cast{len(self.steps)}_wide"
        self.nodes.append(helper.make_node("Cast", [x], [middle], to=code))
        self._add_step("Cast", [middle], lambda v: [v[x].astype(other).astype(self.dtype)], to=own)


_OPERATORS = [
    *(
        "add",
        "sub",
        "sub",
        "max",
        "min",
        "sum",
        "scale",
        "scale",
        "unary",
        "unary",
        "leaky",
        "mean",
        "clip",
        "concat",
        "slice",
        "split",
    ),
    *("gather", "transpose", "reshape", "expand", "where", "matmul", "gemm", "reduce", "cast"),
]
