"""The graph of a jaxpr: each primitive of JAX said in our operators by the block that spells it.

Functions that JAX calls (`jit`, `remat`, `custom_jvp` and the like) stand in the graph itself, their nodes named after them; `cond`
and its kin become If, Loop and Scan with bodies. Equations without results (prints, callbacks for their effect) are left out.

A key of a random generator has no format of numbers. It is carried as one uint32 that may be anything, under the shape that JAX
gives the key (without the axis of its words), so that keys are moved, split and chosen as any array is: `random_wrap` makes one
out of words, `random_unwrap` makes words of it again, and neither says which.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorproof.formats import BOOL, UINT32, Format, of_dtype
from tensorproof.frontends.calls import OPSET, Handle
from tensorproof.frontends.graph_builder import GraphBuilder
from tensorproof.frontends.jax_call import JaxCall, format_of
from tensorproof.frontends.jax_lines import Differentiation, differentiation_of, line_of, scope_of
from tensorproof.frontends.jax_phases import mark_phases, needed_nodes
from tensorproof.graph import ABSENT, Graph, Model, SourceLine

#: Primitives that call a function, with the parameter that holds it.
CALLS: dict[str, str] = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "core_closed_call": "call_jaxpr",
    "checkpoint": "jaxpr",
    "remat": "jaxpr",
    "remat2": "jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "fun_jaxpr",
    "composite": "jaxpr",
}

#: Primitives that are computed at once where their operands are numbers of the program: arithmetic on sizes, and masks.
_FOLDED = frozenset(
    {
        *("add", "sub", "mul", "neg", "sign", "max", "min", "integer_pow", "convert_element_type", "iota", "broadcast_in_dim"),
        *("eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not", "select_n", "reshape", "squeeze", "expand_dims", "transpose"),
        *("slice", "concatenate", "rev", "div", "rem", "floor", "ceil", "clamp", "sqrt", "rsqrt", "log", "stop_gradient", "copy"),
    }
)

#: Where an equation stands: its number, after the numbers and the inner jaxprs (by identity) of the equations around it.
EquationPlace = tuple[int, ...]

#: Stands for the number of an equation where the inputs of an inner jaxpr are meant.
INPUTS = -1

#: Floating constants of more elements than this are weights of the program.
LARGEST_CONSTANT = 1 << 12


@dataclass(frozen=True, slots=True)
class JaxArgument:
    """An array that a function is called with, by name; one with numbers is a weight."""

    name: str
    numbers: npt.NDArray[Any] | None = None


@dataclass(frozen=True, slots=True)
class JaxGraph:
    """A jaxpr as our graph.

    `outputs` are the values that it returns, in its order, and `made` those of its equations, by the place of each; those that
    inner jaxprs are called with stand there, too.
    """

    model: Model
    outputs: tuple[int, ...]
    trainable: frozenset[int]
    made: Mapping[EquationPlace, tuple[int, ...]]


class Translator(GraphBuilder):
    """The state of translating one jaxpr: value numbers, constants, and the equation that is being translated."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.trainable: set[int] = set()
        #: What differentiation did to nodes, by number, where it did something.
        self.marks: dict[int, Differentiation] = {}
        self.made: dict[EquationPlace, tuple[int, ...]] = {}
        self.outputs: tuple[int, ...] = ()
        self._place: EquationPlace = ()
        self._caller: SourceLine | None = None
        #: The scopes around the function that is being translated: its own equations know those inside of it alone.
        self._scope = ""
        self._mark: Differentiation = ""
        self._equations: dict[str, int] = {}

    # -- the whole --------------------------------------------------------------------------------------------------

    def main_graph(self, closed: Any, arguments: Sequence[JaxArgument]) -> Graph:
        """The graph of a closed jaxpr whose variables are the arguments, in their order."""
        inputs: list[int] = []
        handles: list[Handle] = []
        for argument, variable in zip(arguments, closed.jaxpr.invars, strict=True):
            described = described_variable(ABSENT, variable)
            number = self.new_value(argument.name, described.format, described.shape)
            if argument.numbers is None:
                inputs.append(number)
            else:
                self.constants[number] = argument.numbers
                if described.format is not None and described.format.is_float:
                    self.weights.add(number)
                    self.trainable.add(number)
            handles.append(Handle(number, described.format, described.shape))
        self.outputs = tuple(handle.number for handle in self._translate(closed.jaxpr, closed.consts, handles))
        outputs = tuple(dict.fromkeys(self.outputs))
        # XLA computes nothing that no result depends on.
        graph = Graph(self.name, needed_nodes(self.nodes, outputs), tuple(inputs), outputs)
        mark_phases(graph, self.marks)
        return graph

    def _translate(self, jaxpr: Any, constants: Sequence[Any], inputs: Sequence[Handle]) -> list[Handle]:
        """Append the nodes of a jaxpr; gives what it returns."""
        values: dict[Any, Handle] = dict(zip(jaxpr.invars, inputs, strict=True))
        for variable, constant in zip(jaxpr.constvars, constants, strict=True):
            values[variable] = self._constant_of(constant, variable)
        around = self._place
        for index, equation in enumerate(jaxpr.eqns):
            operands = [self._read(item, values) for item in equation.invars]
            self._place = (*around, index)
            results = self._equation(equation, operands)
            self.made[(*around, index)] = tuple(handle.number for handle in results)
            values.update(zip(equation.outvars, results, strict=True))
        self._place = around
        return [self._read(item, values) for item in jaxpr.outvars]

    def _read(self, item: Any, values: Mapping[Any, Handle]) -> Handle:
        return self._constant_of(item.val, item) if hasattr(item, "val") else values[item]

    def _constant_of(self, constant: Any, variable: Any) -> Handle:
        """A constant of the program; a large one is a weight."""
        described = described_variable(ABSENT, variable)
        if described.format is None or is_key(variable.aval):
            array = np.zeros(variable.aval.shape, np.uint32 if is_key(variable.aval) else np.bool_)
        else:
            array = np.asarray(constant, described.format.dtype)
        number = self.constant(array)
        format = of_dtype(array.dtype)
        if format.is_float and array.size > LARGEST_CONSTANT:
            self.weights.add(number)
        return Handle(number, format, array.shape)

    # -- equations --------------------------------------------------------------------------------------------------

    def _equation(self, equation: Any, operands: Sequence[Handle]) -> list[Handle]:
        if not equation.outvars:
            return []
        state = self.source, self.module, self.current, self.prefix, self._caller, self._mark
        self.source = line_of(equation) or self._caller
        self.module = "/".join(filter(None, (self._scope, scope_of(equation))))
        self._mark = _stronger(self._mark, differentiation_of(equation))
        name = str(equation.primitive.name)
        self.current = self._label(str(equation.params.get("name") or name) if name in CALLS else name)
        try:
            if name in CALLS:
                return self.inlined(equation.params[CALLS[name]], operands)
            if name == "custom_linear_solve":
                return self._linear_solve(equation, operands)
            return self._spelled(equation, name, operands)
        finally:
            self.source, self.module, self.current, self.prefix, self._caller, self._mark = state

    def _label(self, name: str) -> str:
        label = f"{self.prefix}{name}"
        count = self._equations[label] = self._equations.get(label, -1) + 1
        return f"{label}_{count}" if count else label

    def _spelled(self, equation: Any, name: str, operands: Sequence[Handle]) -> list[Handle]:
        chosen = self._chosen(operands) if name == "select_n" else None
        known = [chosen] if chosen is not None else self._folded(equation, name, operands)
        if known is not None:
            return known
        results = [described_variable(ABSENT, variable) for variable in equation.outvars]
        start = len(self.nodes)
        call = JaxCall(name, operands, equation.params, results, self)
        numbers = [operand.number for operand in operands]
        made = self.translate("jax", name, call, numbers, f"no block spells JAX's {name}")
        several = list(made) if isinstance(made, tuple | list) else [made]
        handles = self.named(several, results, start)
        if self._mark:
            for inner in (inner for node in self.nodes[start:] for inner in _with_bodies(node)):
                self.marks.setdefault(inner.number, self._mark)
        # A result that nobody made is one that nobody reads.
        return [handle if handle is not None else result for handle, result in zip(handles, results, strict=True)]

    def _chosen(self, operands: Sequence[Handle]) -> Handle | None:
        """The case that a known predicate chooses everywhere: libraries write choices by numbers that are fixed."""
        predicate = self.array_of(operands[0].number)
        if predicate is None or not predicate.size or (predicate != predicate.reshape(-1)[0]).any():
            return None
        return operands[1 + int(predicate.reshape(-1)[0])]

    def _folded(self, equation: Any, name: str, operands: Sequence[Handle]) -> list[Handle] | None:
        """What JAX computes of numbers of the program alone, where that is finite, few, and the same each time."""
        arrays = [self.constants.get(operand.number) for operand in operands if operand.number not in self.weights]
        if len(arrays) < len(operands) or name not in _FOLDED or any(is_key(v.aval) for v in (*equation.invars, *equation.outvars)):
            return None
        if any(array is None for array in arrays) or any(v.aval.size > LARGEST_CONSTANT for v in equation.outvars):
            return None
        result: Any = equation.primitive.bind(*arrays, **equation.params)
        found = np.asarray(result)
        if found.dtype.kind not in "fiub" or (found.dtype.kind == "f" and not np.isfinite(found).all()):
            return None
        return [self._constant_of(found, equation.outvars[0])]

    def _linear_solve(self, equation: Any, operands: Sequence[Handle]) -> list[Handle]:
        """The function that solves, on its own constants and the right-hand sides; the others describe the system."""
        return self.inlined(equation.params["jaxprs"].solve, split_linear_solve(equation.params, operands))

    def inlined(self, module: Any, inputs: Sequence[Handle]) -> list[Handle]:
        """The nodes of a jaxpr in place, on the given values; gives what it returns. Lines are the caller's where it has none."""
        state = self.source, self.module, self.current, self.prefix, self._caller, self._place, self._scope
        if not self.prefix.startswith(f"{self.current}."):
            self.prefix = f"{self.current}/"
        self._caller = self.source
        self._scope = self.module
        jaxpr, constants = (module.jaxpr, module.consts) if hasattr(module, "jaxpr") else (module, ())
        self._place = (*self._place, id(jaxpr))
        self.made[(*self._place, INPUTS)] = tuple(handle.number for handle in inputs)
        try:
            return self._translate(jaxpr, constants, inputs)
        finally:
            self.source, self.module, self.current, self.prefix, self._caller, self._place, self._scope = state


def _with_bodies(node: Any) -> list[Any]:
    return [node, *(inner for graph in node.subgraphs() for inner in graph.walk())]


def _stronger(outer: Differentiation, inner: Differentiation) -> Differentiation:
    return "transpose" if "transpose" in (outer, inner) else inner or outer


def split_linear_solve(parameters: Mapping[str, Any], operands: Sequence[Any]) -> list[Any]:
    """What the function that solves is called with: its own constants and the right-hand sides."""
    lengths = parameters["const_lengths"]
    before = lengths.matvec + lengths.vecmat
    return [*operands[before : before + lengths.solve], *operands[before + lengths.solve + lengths.transpose_solve :]]


def is_key(aval: Any) -> bool:
    """Whether a value is a key of a random generator."""
    import jax

    numbers: Any = jax.numpy
    dtype = getattr(aval, "dtype", None)
    return dtype is not None and bool(numbers.issubdtype(dtype, jax.dtypes.prng_key))


def described_variable(number: int, variable: Any) -> Handle:
    """What the jaxpr says about a variable."""
    aval = variable.aval
    shape = getattr(aval, "shape", None)
    if shape is None:
        return Handle(number, None, None)
    if is_key(aval):
        return Handle(number, UINT32, tuple(shape))
    # float0 is JAX's type of the tangents of integers: it holds no numbers.
    format: Format | None = BOOL if str(aval.dtype) == "float0" or "float0" in str(aval) else format_of(aval.dtype)
    return Handle(number, format, tuple(size if isinstance(size, int) else None for size in shape))


def translated(closed: Any, arguments: Sequence[JaxArgument], *, name: str, path: str | None = None) -> JaxGraph:
    """The model of a closed jaxpr."""
    import jax

    translator = Translator(name)
    graph = translator.main_graph(closed, arguments)
    model = Model(
        name=name,
        graph=graph,
        values=translator.values,
        constants=translator.constants,
        weights=frozenset(translator.weights),
        opsets={"": OPSET, "tensorproof": 1},
        producer=f"jax {jax.__version__}",
        path=path,
    )
    model.conversions.update(translator.conversions)
    return JaxGraph(model, translator.outputs, frozenset(translator.trainable), translator.made)
