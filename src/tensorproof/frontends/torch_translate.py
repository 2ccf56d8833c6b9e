"""The graph of an exported program: each ATen operator said in our operators by the block that spells it."""

from __future__ import annotations

import operator
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorproof.errors import NotAnalysed
from tensorproof.formats import BOOL, FLOAT64, INT64, Format, of_dtype
from tensorproof.frontends.aten import AtenCall, array_of, format_of
from tensorproof.frontends.calls import Handle
from tensorproof.frontends.graph_builder import GraphBuilder
from tensorproof.frontends.user_frames import user_line, with_column
from tensorproof.graph import ABSENT, Graph, SourceLine

if TYPE_CHECKING:
    import torch
    from torch import Tensor, fx
    from torch.export import ExportedProgram

#: Functions of Python and torch on numbers of the program (sizes), as operators on integers without a dimension.
_ON_NUMBERS: dict[str, str] = {
    "add": "Add",
    "sub": "Sub",
    "mul": "Mul",
    "floordiv": "Div",
    "truediv": "Div",
    "mod": "Mod",
    "neg": "Neg",
    "pow": "Pow",
    "sym_max": "Max",
    "sym_min": "Min",
    "eq": "Equal",
    "lt": "Less",
    "le": "LessOrEqual",
    "gt": "Greater",
    "ge": "GreaterOrEqual",
    "sym_not": "Not",
    "and_": "And",
    "or_": "Or",
}

#: Checks that a program makes on its sizes and values: they compute nothing.
CHECKS = re.compile(
    r"_assert|sym_constrain|_guard|_functional_assert|_check|record_function|_set_grad|_enter_autocast|_exit_autocast"
)

#: Operators of torch that hand regions of a program over as graph modules: their bodies stand in the graph itself.
REGIONS = ("wrap_with_set_grad_enabled", "wrap_with_autocast", "hints_wrapper", "wrap", "tag_activation_checkpoint")


#: Operators of torch whose arguments are graph modules, with the names of their parameters.
_CONTROL_FLOW: dict[str, tuple[str, ...]] = {
    "cond": ("pred", "true_fn", "false_fn", "operands"),
    "while_loop": ("cond_fn", "body_fn", "carried_inputs", "additional_inputs"),
    "scan": ("combine_fn", "init", "xs", "additional_inputs"),
    "associative_scan": ("combine_fn", "xs", "additional_inputs"),
    "map_impl": ("f", "xs", "pos_args"),
}


@dataclass(frozen=True, slots=True)
class AtenGraph:
    """A graph of ATen operators, with what its placeholders stand for: the user's inputs, where nothing else is said.

    `weights` are parameters and buffers by placeholder, as their name, their numbers and whether training changes them.
    `constants` are other tensors that are known, `inputs` names of inputs that are not called as their placeholders are.
    `outputs` are the names of the nodes whose results are the program's.
    """

    module: fx.GraphModule
    weights: Mapping[str, tuple[str, Tensor, bool]]
    constants: Mapping[str, Tensor]
    outputs: Collection[str]
    inputs: Mapping[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def of(cls, program: ExportedProgram) -> AtenGraph:
        """The graph of an exported program."""
        signature = program.graph_signature
        constants: dict[str, Any] = program.constants
        weights: dict[str, tuple[str, Tensor, bool]] = {}
        for node, target in (*signature.inputs_to_parameters.items(), *signature.inputs_to_buffers.items()):
            tensor: Any = program.state_dict[target] if target in program.state_dict else constants[target]
            weights[node] = target, tensor, node in signature.inputs_to_parameters and tensor.requires_grad
        outputs = {
            spec.arg.name
            for spec in signature.output_specs
            if spec.kind.name in ("USER_OUTPUT", "LOSS_OUTPUT") and hasattr(spec.arg, "name")
        }
        lifted = {node: constants[name] for node, name in signature.inputs_to_lifted_tensor_constants.items()}
        return cls(program.graph_module, weights, lifted, outputs)


class Translator(GraphBuilder):
    """The state of translating one program: value numbers, constants, and the node that is being translated."""

    def __init__(
        self, program: AtenGraph, name: str, dimensions: Mapping[str, Mapping[int, str]], *, is_live: bool = False
    ) -> None:
        super().__init__()
        self.program = program
        #: Whether the program was just traced from source, as opposed to read from a file that claims its lines.
        self.is_live = is_live
        self.name = name
        self.dimensions = dimensions
        self.trainable: set[int] = set()
        self.origins: dict[str, str] = {}
        self.sizes: dict[str, int] = {}
        #: The symbols of torch by the names that the user gave to dimensions.
        self._symbols: dict[str, str] = {}

    # -- graphs -----------------------------------------------------------------------------------------------------

    def main_graph(self) -> Graph:
        graph = self.program.module.graph
        env: dict[fx.Node, Any] = {}
        inputs: list[int] = []
        for node in graph.nodes:
            if node.op != "placeholder":
                continue
            if node.name in self.program.weights:
                env[node] = self._weight(*self.program.weights[node.name])
            elif node.name in self.program.constants:
                env[node] = self._handle(self.constant(array_of(self.program.constants[node.name])), node)
            elif isinstance(node.meta.get("val"), bool | int | float | str | None):
                env[node] = node.meta.get("val")
            else:
                env[node] = self._input(node)
                inputs.append(env[node].number)
        self.nodes = []
        outputs = self._translate(graph, self.program.module, env)
        final: Any = next(node for node in graph.nodes if node.op == "output").args[0]
        chosen = [
            value.number
            for node, value in zip(final, outputs)
            if isinstance(value, Handle) and getattr(node, "name", None) in self.program.outputs
        ]
        return Graph(self.name, self.nodes, tuple(inputs), tuple(dict.fromkeys(chosen)))

    def _weight(self, target: str, tensor: Tensor, trainable: bool) -> Handle:
        array = array_of(tensor)
        number = self.new_value(target, of_dtype(array.dtype), array.shape)
        self.constants[number] = array
        if tensor.dtype.is_floating_point:
            self.weights.add(number)
            if trainable:
                self.trainable.add(number)
        return Handle(number, of_dtype(array.dtype), array.shape)

    def _input(self, node: fx.Node) -> Handle:
        name = self.program.inputs.get(node.name, node.name)
        handle = self._handle(ABSENT, node)
        given = self.dimensions.get(name, {})
        shape = list(handle.shape) if handle.shape is not None else None
        if shape is not None:
            for axis, size in enumerate(node.meta["val"].shape):
                if isinstance(size, int):
                    continue
                symbol = str(size.node.expr)
                label = self._symbols.setdefault(symbol, given.get(axis, symbol))
                shape[axis] = given.get(axis, label)
                self.sizes.setdefault(str(shape[axis]), int(size.node.hint))
        number = self.new_value(name, handle.format, None if shape is None else tuple(shape))
        return Handle(number, handle.format, handle.shape)

    def _handle(self, number: int, node: fx.Node) -> Handle:
        return described(number, node.meta.get("val"))

    def _translate(self, graph: fx.Graph, root: torch.nn.Module, env: dict[fx.Node, Any]) -> list[Any]:
        """Append the nodes of a graph; gives what it returns."""
        for node in graph.nodes:
            if node.op == "call_function":
                env[node] = self._call(node, env)
            elif node.op == "get_attr":
                env[node] = self._attribute(node, root)
            elif node.op == "output":
                return [self._argument(item, env) for item in _flat(node.args[0])]
        return []

    def _attribute(self, node: fx.Node, root: torch.nn.Module) -> Any:
        import torch

        found: Any = root
        for part in str(node.target).split("."):
            found = getattr(found, part)
        if isinstance(found, torch.Tensor):
            return (
                self._handle(self.constant(array_of(found)), node)
                if "val" in node.meta
                else described(self.constant(array_of(found)), found)
            )
        return found

    def _argument(self, argument: Any, env: Mapping[fx.Node, Any]) -> Any:
        from torch import fx

        if isinstance(argument, fx.Node):
            return env[argument]
        if isinstance(argument, list | tuple):
            return [self._argument(item, env) for item in argument]
        if isinstance(argument, dict):
            return {key: self._argument(item, env) for key, item in argument.items()}
        return argument

    # -- nodes ------------------------------------------------------------------------------------------------------

    def _call(self, node: fx.Node, env: dict[fx.Node, Any]) -> Any:
        target: Any = node.target
        args = self._argument(list(node.args), env)
        kwargs = {key: self._argument(value, env) for key, value in node.kwargs.items()}
        if target is operator.getitem:
            return args[0][args[1]]
        self.source, self.module = self._line_of(node), _module_path(node)
        self.current = f"{self.prefix}{node.name}"
        name = getattr(target, "__name__", str(target))
        if name in REGIONS:
            return self._region(args)
        if CHECKS.search(str(target)):
            return None
        if getattr(target, "_schema", None) is None:
            if name in _CONTROL_FLOW:
                named = dict(zip(_CONTROL_FLOW[name], args))
                return self._spelled(node, f"higher_order.{name}", {**named, **kwargs})
            return self._on_numbers(node, name, args)
        full = str(target)
        arguments = by_name(target, args, kwargs)
        spelled = full.removeprefix("aten.") if full.startswith("aten.") else full
        if spelled == "sym_size.int":
            return self._size(node, arguments)
        return self._spelled(node, spelled, arguments)

    def _line_of(self, node: fx.Node) -> SourceLine | None:
        """The user's line; with the column, if the program was traced from source that lies there now."""
        line = user_line(node)
        if line is None or not self.is_live:
            return line
        packet = getattr(node.target, "overloadpacket", None)
        return with_column(line, str(getattr(packet, "__name__", node.target)))

    def _spelled(self, node: fx.Node, name: str, arguments: dict[str, Any]) -> Any:
        """The nodes that a spelling makes; one node of the program's own name where there is none."""
        results = [described(ABSENT, value) for value in _flat(node.meta.get("val"))]
        start = len(self.nodes)
        operands = [handle.number for handle in handles_in(list(arguments.values()))]
        missing = f"no block spells {name}, and torch does not take it apart"
        made = self.translate("aten", name, AtenCall(name, arguments, results, self), operands, missing)
        return self._named(node, made, results, start)

    def _named(self, node: fx.Node, made: Any, results: Sequence[Handle], start: int) -> Any:
        """Give the results of a translation the names, formats and shapes of the program."""
        several = isinstance(made, tuple | list)
        handles = self.named(list(made) if several else [made], results, start)
        for item in self.nodes[start:]:
            self.origins[item.name] = node.name
        return handles if several or isinstance(node.meta.get("val"), list | tuple) else handles[0]

    def _region(self, args: Sequence[Any]) -> list[Any]:
        """The body of a region (gradients off, autocast, a checkpoint), in place."""
        from torch import fx

        position = next(index for index, item in enumerate(args) if isinstance(item, fx.GraphModule))
        return self.inlined(args[position], list(args[position + 1 :]))

    def inlined(self, module: fx.GraphModule, inputs: Sequence[Any]) -> list[Any]:
        """The nodes of a graph module in place, on the given values; gives what it returns."""
        placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
        state = self.source, self.module, self.current, self.prefix
        self.prefix = f"{self.current}." if not self.prefix.startswith(f"{self.current}.") else self.prefix
        try:
            return self._translate(module.graph, module, dict(zip(placeholders, inputs)))
        finally:
            self.source, self.module, self.current, self.prefix = state

    def _size(self, node: fx.Node, arguments: Mapping[str, Any]) -> Any:
        size = node.meta.get("val")
        if isinstance(size, int):
            return size
        tensor, axis = arguments["self"], arguments["dim"]
        start = len(self.nodes)
        (shape,) = self.node("Shape", "", (tensor.number,), 1, {}, (INT64,))
        (number,) = self.node("Gather", "", (shape, self.constant(np.array(axis, np.int64))), 1, {"axis": 0}, (INT64,))
        return self._named(node, number, [Handle(ABSENT, INT64, (), True)], start)

    def _on_numbers(self, node: fx.Node, name: str, args: Sequence[Any]) -> Any:
        """Arithmetic of the program on sizes."""
        known = node.meta.get("val")
        if not isinstance(known, bool | int | float) and not _is_on_numbers(known):
            return self._spelled(node, f"higher_order.{name}", {"args": args})
        if isinstance(known, bool | int | float) or not any(isinstance(item, Handle) for item in args):
            function: Any = node.target
            return known if isinstance(known, bool | int | float) else function(*args)
        op = _ON_NUMBERS.get(name)
        start = len(self.nodes)
        result = Handle(
            ABSENT,
            BOOL if op in ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Not", "And", "Or") else INT64,
            (),
            True,
        )
        if name == "truediv" or (op is None and name == "sym_float") or any(isinstance(item, float) for item in args):
            result = Handle(ABSENT, FLOAT64, (), True)
        operands = [self._number(item, result.format) for item in args]
        if op is None and name in ("sym_float", "sym_int", "trunc", "sym_sum"):
            op = "Sum" if name == "sym_sum" else "Cast"
        attributes: dict[str, Any] = {}
        if op == "Cast":
            attributes["to"] = (result.format or INT64).onnx_code
        made = self.node(op or name, "" if op else "python", operands, 1, attributes, (result.format,))
        return self._named(node, made[0], [result], start)

    def _number(self, item: Any, format: Format | None) -> int:
        wanted = FLOAT64 if format is FLOAT64 else INT64
        if not isinstance(item, Handle):
            return self.constant(np.asarray(item, wanted.dtype))
        if item.format is wanted or item.format is BOOL:
            return item.number
        return self.node("Cast", "", (item.number,), 1, {"to": wanted.onnx_code}, (wanted,))[0]


def described(number: int, value: Any) -> Handle:
    """What the trace says about a value."""
    import torch

    if isinstance(value, torch.Tensor):
        try:
            format: Format | None = format_of(value.dtype)
        except NotAnalysed:
            format = None
        sizes: list[Any] = list(value.shape)
        shape = tuple(size if isinstance(size, int) else None for size in sizes)
        is_row_major = None not in shape and value.is_contiguous() and value.storage_offset() == 0
        return Handle(number, format, shape, is_row_major=is_row_major)
    if isinstance(value, bool | torch.SymBool):
        return Handle(number, BOOL, (), True)
    if isinstance(value, float | torch.SymFloat):
        return Handle(number, FLOAT64, (), True)
    if isinstance(value, int | torch.SymInt):
        return Handle(number, INT64, (), True)
    return Handle(number, None, None)


def _is_on_numbers(value: Any) -> bool:
    """Whether a result is a number of the program, as opposed to tensors."""
    import torch

    return isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool)


def by_name(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call by the names of the schema, defaults included."""
    arguments: dict[str, Any] = {}
    for index, argument in enumerate(target._schema.arguments):
        if index < len(args):
            arguments[argument.name] = args[index]
        elif argument.name in kwargs:
            arguments[argument.name] = kwargs[argument.name]
        else:
            arguments[argument.name] = argument.default_value if argument.has_default_value() else None
    return arguments


def _flat(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def handles_in(items: Sequence[Any]) -> list[Handle]:
    """The handles among arguments, those in lists included."""
    found: list[Handle] = []
    for item in items:
        if isinstance(item, Handle):
            found.append(item)
        elif isinstance(item, list | tuple):
            found.extend(handles_in(item))
    return found


def _module_path(node: fx.Node) -> str:
    """`encoder.layers.0.attn`: the innermost module that the node runs in."""
    stack: Any = node.meta.get("nn_module_stack")
    if not stack:
        return ""
    path = str(list(stack.values())[-1][0])
    return re.sub(r"@\d+$", "", path.removeprefix("L['self'].").removeprefix("L['self']"))
