"""JAX functions as ONNX models: each primitive of the traced program becomes the nodes that say the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 18
#: Primitives that are one operator with the same operands.
SAME = {
    "exp": "Exp", "log": "Log", "max": "Max", "min": "Min", "sub": "Sub", "add": "Add", "mul": "Mul", "div": "Div",
    "sqrt": "Sqrt", "logistic": "Sigmoid", "tanh": "Tanh", "erf": "Erf", "neg": "Neg", "abs": "Abs", "sign": "Sign",
    "pow": "Pow", "lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual", "eq": "Equal",
    "and": "And", "or": "Or", "not": "Not", "stop_gradient": "Identity", "copy": "Identity", "add_any": "Add",
}  # fmt: skip
#: Primitives that call another program: where it stands among their parameters.
CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
}
TYPES = {"float32": TensorProto.FLOAT, "bool": TensorProto.BOOL, "int32": TensorProto.INT32, "int64": TensorProto.INT64}


def translate(function: Callable[..., Any], inputs: Mapping[str, tuple[tuple[int, ...], str]]) -> onnx.ModelProto:
    """The model of a function of arrays with these shapes and element types."""
    structs = [jax.ShapeDtypeStruct(shape, np.dtype(dtype)) for shape, dtype in inputs.values()]
    closed = jax.make_jaxpr(function)(*structs)
    writer = _Writer()
    results = writer.program(closed.jaxpr, closed.consts, list(inputs))
    writer.node("Identity", [results[0]], output="result")
    graph = helper.make_graph(
        writer.nodes,
        "jax",
        [helper.make_tensor_value_info(n, TYPES[dtype], shape) for n, (shape, dtype) in inputs.items()],
        [helper.make_tensor_value_info("result", TYPES[str(closed.out_avals[0].dtype)], closed.out_avals[0].shape)],
        writer.constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model


class _Writer:
    """Nodes and constants so far. A program's values are bound to names while it is written; what is constant is computed."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.known: dict[str, Any] = {}
        self.named: dict[Any, str] = {}
        self.used: set[str] = set()

    @property
    def constants(self) -> list[onnx.TensorProto]:
        """The constants that a node reads."""
        return [numpy_helper.from_array(array, name) for name, array in self.known.items() if name in self.used]

    def node(self, op: str, inputs: list[str], *, output: str | None = None, **attributes: Any) -> str:
        name = output or f"{op.lower()}_{len(self.nodes)}"
        self.used.update(inputs)
        self.nodes.append(helper.make_node(op, inputs, [name], name=name, **attributes))
        return name

    def constant(self, array: Any) -> str:
        array = np.asarray(array)
        key = array.dtype, array.shape, array.tobytes()
        name = self.named.setdefault(key, f"constant_{len(self.known)}")
        self.known[name] = array
        return name

    def program(self, jaxpr: Any, consts: list[Any], inputs: list[str]) -> list[str]:
        names: dict[Any, str] = dict(zip(jaxpr.invars, inputs, strict=True))
        names |= {variable: self.constant(value) for variable, value in zip(jaxpr.constvars, consts, strict=True)}

        def read(atom: Any) -> str:
            return self.constant(np.asarray(atom.val, atom.aval.dtype)) if hasattr(atom, "val") else names[atom]

        for equation in jaxpr.eqns:
            operands = [read(atom) for atom in equation.invars]
            primitive = equation.primitive.name
            if primitive in CALLS:
                inner = equation.params[CALLS[primitive]]
                inner, values = (inner.jaxpr, inner.consts) if hasattr(inner, "consts") else (inner, [])
                results = self.program(inner, values, operands)
            elif operands and all(name in self.known for name in operands):
                value = equation.primitive.bind(*(self.known[name] for name in operands), **equation.params)
                results = [self.constant(np.asarray(value))]
            elif primitive in SAME:
                results = [self.node(SAME[primitive], operands)]
            else:
                results = [getattr(self, f"_{primitive}")(equation, *operands)]
            names |= dict(zip(equation.outvars, results, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    # -- primitives that take more than a name -------------------------------------------------------------------------

    def _integer_pow(self, equation: Any, x: str) -> str:
        power = equation.params["y"]
        return self.node("Mul", [x, x]) if power == 2 else self.node("Pow", [x, self.constant(np.float32(power))])

    def _square(self, equation: Any, x: str) -> str:
        return self.node("Mul", [x, x])

    def _rsqrt(self, equation: Any, x: str) -> str:
        return self.node("Reciprocal", [self.node("Sqrt", [x])])

    def _log1p(self, equation: Any, x: str) -> str:
        return self.node("Log", [self.node("Add", [x, self.constant(np.float32(1))])])

    def _erfc(self, equation: Any, x: str) -> str:
        return self.node("Sub", [self.constant(np.float32(1)), self.node("Erf", [x])])

    def _ne(self, equation: Any, a: str, b: str) -> str:
        return self.node("Not", [self.node("Equal", [a, b])])

    def _is_finite(self, equation: Any, x: str) -> str:
        return self.node("Not", [self.node("Or", [self.node("IsInf", [x]), self.node("IsNaN", [x])])])

    def _select_n(self, equation: Any, which: str, when_false: str, when_true: str) -> str:
        if which in self.known:
            return when_true if self.known[which].all() else when_false
        return self.node("Where", [which, when_true, when_false])

    def _convert_element_type(self, equation: Any, x: str) -> str:
        target = str(np.dtype(equation.params["new_dtype"]))
        if str(equation.invars[0].aval.dtype) == target:
            return self.node("Identity", [x])
        return self.node("Cast", [x], to=TYPES[target])

    def _iota(self, equation: Any) -> str:
        shape, axis = equation.params["shape"], equation.params["dimension"]
        steps = np.arange(shape[axis], dtype=equation.params["dtype"])
        return self.constant(np.broadcast_to(np.expand_dims(steps, [i for i in range(len(shape)) if i != axis]), shape))

    def _reshape(self, equation: Any, x: str) -> str:
        return self.node("Reshape", [x, self.constant(np.array(equation.params["new_sizes"], np.int64))])

    def _squeeze(self, equation: Any, x: str) -> str:
        return self.node("Squeeze", [x, self.constant(np.array(equation.params["dimensions"], np.int64))])

    def _expand_dims(self, equation: Any, x: str) -> str:
        return self.node("Unsqueeze", [x, self.constant(np.array(equation.params["dimensions"], np.int64))])

    def _transpose(self, equation: Any, x: str) -> str:
        return self.node("Transpose", [x], perm=list(equation.params["permutation"]))

    def _broadcast_in_dim(self, equation: Any, x: str) -> str:
        shape, places = equation.params["shape"], equation.params["broadcast_dimensions"]
        old = equation.invars[0].aval.shape
        if not old:
            return self.node("Expand", [x, self.constant(np.array(shape, np.int64))])
        aligned = [1] * len(shape)
        for place, size in zip(places, old):
            aligned[place] = size
        if tuple(aligned) != old:
            x = self.node("Reshape", [x, self.constant(np.array(aligned, np.int64))])
        return x if tuple(aligned) == tuple(shape) else self.node("Expand", [x, self.constant(np.array(shape, np.int64))])

    def _reduced(self, op: str, equation: Any, x: str) -> str:
        return self.node(op, [x, self.constant(np.array(equation.params["axes"], np.int64))], keepdims=0)

    def _reduce_max(self, equation: Any, x: str) -> str:
        return self._reduced("ReduceMax", equation, x)

    def _reduce_sum(self, equation: Any, x: str) -> str:
        return self._reduced("ReduceSum", equation, x)

    def _dot_general(self, equation: Any, a: str, b: str) -> str:
        """Batched products with one shared axis."""
        (contract_a, contract_b), (batch_a, batch_b) = equation.params["dimension_numbers"]
        sides = []
        for name, atom, contract, batch, last in (
            (a, equation.invars[0], contract_a, batch_a, True),
            (b, equation.invars[1], contract_b, batch_b, False),
        ):
            rank = len(atom.aval.shape)
            free = [axis for axis in range(rank) if axis not in contract and axis not in batch]
            assert len(contract) == 1 and len(free) == 1
            order = [*batch, *free, *contract] if last else [*batch, *contract, *free]
            sides.append(name if order == list(range(rank)) else self.node("Transpose", [name], perm=order))
        return self.node("MatMul", sides)
