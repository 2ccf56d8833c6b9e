"""The training step of a PyTorch program as one graph: values and gradients, forward and backward.

Everything that this needs of torch's private interface stands in this module: `aot_export_joint_with_descriptors`, and the
notes that it leaves at the nodes it makes. It was tested with the versions of `TESTED`; with any other, or where torch refuses a
program, the caller gets the reason and goes on with the forward graph alone.

The loss is the sum of all floating outputs (of a scalar loss: itself). Gradients are those of the parameters that are trained, or
of the floating inputs of a program that has none. All sizes are those of the example.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tensorproof.errors import TensorproofError
from tensorproof.frontends.calls import OPSET
from tensorproof.frontends.torch_export import exporting
from tensorproof.frontends.torch_translate import AtenGraph, Translator
from tensorproof.frontends.user_frames import first_sentence, line_in
from tensorproof.graph import Graph, Model
from tensorproof.operators.table import spelling_of

if TYPE_CHECKING:
    from torch import Tensor, fx
    from torch.export import ExportedProgram

    from tensorproof.frontends.torch_program import TorchProgram

#: The versions of torch that the private interface was tested with, the first and the first one after them.
TESTED = (2, 13), (2, 14)


class NoJointGraph(TensorproofError):
    """There is no graph of the training step; the message says why."""


@dataclass(frozen=True, slots=True)
class JointModel:
    """A training step. `model` has the gradients as outputs; nodes that compute them have the phase `backward`.

    `gradients` maps what a gradient is of, a parameter or an input, to its value. `partners` maps the nodes of the backward pass
    to those of the forward pass that they differentiate, by name, where torch says it.
    """

    model: Model
    gradients: Mapping[str, int]
    partners: Mapping[str, str]


def joint_model(program: TorchProgram) -> JointModel:
    """The training step of a program. Raises `NoJointGraph` where there is none."""
    require_tested_version()
    try:
        with exporting():
            exported = _exported(program)
            module = _with_loss(exported)
            arguments = _inputs(program, exported)
            joint = _traced(module, arguments)
        return _translated(program, exported, module, joint)
    except NoJointGraph:
        raise
    except Exception as error:  # torch raises anything, and its private notes may not be what they were
        raise NoJointGraph(f"the training step cannot be traced ({type(error).__name__}: {first_sentence(error)})") from None


def require_tested_version() -> None:
    """Refuse versions of torch that nobody tried."""
    import torch

    first, end = TESTED
    version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    if not first <= version < end:
        raise NoJointGraph(f"torch {torch.__version__} is not among the tested versions ({first[0]}.{first[1]})")


# -- tracing ----------------------------------------------------------------------------------------------------------


def _exported(program: TorchProgram) -> ExportedProgram:
    """The program with the sizes of its example and as it is written: torch differentiates operators as they stand."""
    import torch

    args, kwargs = program.traced.call(program.traced.example)
    return torch.export.export(program.traced.module, args, kwargs, strict=False)


def _with_loss(exported: ExportedProgram) -> fx.GraphModule:
    """The program as a module on flat inputs that gives the loss alone."""
    import torch
    from torch.fx.graph import CodeGen

    module: Any = exported.module(check_guards=False)
    graph: fx.Graph = module.graph
    graph.set_codegen(CodeGen())
    output = next(node for node in graph.nodes if node.op == "output")
    with graph.inserting_before(output):
        sums = [graph.call_function(torch.ops.aten.sum.default, (leaf,)) for leaf in _floating(output)]
        if not sums:
            raise NoJointGraph("no output is floating: there is nothing to differentiate")
        loss = sums[0]
        for term in sums[1:]:
            loss = graph.call_function(torch.ops.aten.add.Tensor, (loss, term))
    output.args = ((loss,),)
    module.recompile()
    return module


def _floating(output: fx.Node) -> list[fx.Node]:
    import torch
    from torch.utils import _pytree as pytree  # pyright: ignore[reportPrivateImportUsage]

    leaves = [leaf for leaf in pytree.tree_leaves(output.args[0]) if isinstance(leaf, torch.fx.Node)]
    values = [(leaf, leaf.meta.get("val")) for leaf in leaves]
    return [leaf for leaf, value in values if isinstance(value, torch.Tensor) and value.is_floating_point()]


def _inputs(program: TorchProgram, exported: ExportedProgram) -> list[Any]:
    """What the module is traced with; without a parameter that is trained, floating inputs are differentiated."""
    import torch
    from torch.utils import _pytree as pytree  # pyright: ignore[reportPrivateImportUsage]

    is_trained = any(parameter.requires_grad for parameter in program.traced.module.parameters())

    def leaf_for(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        return leaf.detach().clone().requires_grad_(not is_trained and leaf.is_floating_point())

    return [leaf_for(leaf) for leaf in pytree.tree_leaves(exported.example_inputs)]


def _traced(module: fx.GraphModule, arguments: list[Any]) -> fx.GraphModule:
    """The joint graph. Attention is traced as the products and the softmax that it consists of."""
    from torch._functorch.aot_autograd import aot_export_joint_with_descriptors  # pyright: ignore[reportPrivateImportUsage]
    from torch.fx.traceback import preserve_node_meta
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with contextlib.ExitStack() as stack, preserve_node_meta(), sdpa_kernel(SDPBackend.MATH):
        return aot_export_joint_with_descriptors(stack, module, tuple(arguments), decompositions=_decompositions()).graph_module


def _decompositions() -> dict[Any, Callable[..., Any]]:
    """What torch can take apart of what no block spells."""
    from torch._decomp import decomposition_table  # pyright: ignore[reportPrivateImportUsage]

    table: dict[Any, Callable[..., Any]] = {**decomposition_table}
    return {overload: function for overload, function in table.items() if spelling_of(str(overload).removeprefix("aten.")) is None}


# -- translation ------------------------------------------------------------------------------------------------------


def _translated(program: TorchProgram, exported: ExportedProgram, module: fx.GraphModule, joint: fx.GraphModule) -> JointModel:
    partners = _partners(joint.graph)
    for node, partner in partners.items():
        trace = partner.meta.get("stack_trace")
        if trace and line_in(str(trace)) is not None:
            node.meta["stack_trace"] = trace
        node.meta["nn_module_stack"] = partner.meta.get("nn_module_stack")
    aten, wanted = _described(program, exported, module, joint)
    translator = Translator(aten, program.traced.model.name, {})
    graph = translator.main_graph()
    backward = {node.name for node in joint.graph.nodes if _is_backward(node)}
    _mark(graph, translator.origins, backward)
    model = Model(
        name=program.traced.model.name,
        graph=graph,
        values=translator.values,
        constants=translator.constants,
        weights=frozenset(translator.weights),
        opsets={"": OPSET, "tensorproof": 1},
        producer=program.traced.model.producer,
        path=program.traced.model.path,
    )
    numbers = {value.name: number for number, value in enumerate(translator.values)}
    gradients = {of: numbers[name] for of, name in wanted.items() if name in numbers}
    named = {node.name: partner.name for node, partner in partners.items()}
    by_node = {name: named[origin] for name, origin in translator.origins.items() if origin in named}
    return JointModel(model, gradients, by_node)


def _is_backward(node: fx.Node) -> bool:
    return node.meta.get("partitioner_tag") == "is_backward" or bool(node.meta.get("autograd_backward"))


def _partners(graph: fx.Graph) -> dict[fx.Node, fx.Node]:
    """The operator of the forward pass that each node of the backward pass belongs to: torch numbers both alike.

    Sums of gradients that meet at a value have the number of the last operator, which is wrong: they belong to what they add.
    """
    import torch

    forward: dict[int, fx.Node] = {}
    partners: dict[fx.Node, fx.Node] = {}
    for node in graph.nodes:
        number = node.meta.get("seq_nr")
        if node.op != "call_function" or number is None:
            continue
        if not _is_backward(node):
            # Several nodes of one number: the first is the operator itself, views and copies of its result follow.
            forward.setdefault(number, node)
        elif node.meta.get("is_gradient_acc") or (node.target is torch.ops.aten.add.Tensor and number not in forward):
            terms = [partners[item] for item in node.all_input_nodes if item in partners]
            if terms:
                partners[node] = terms[-1]
        elif number in forward:
            partners[node] = forward[number]
    return partners


def _described(
    program: TorchProgram, exported: ExportedProgram, module: fx.GraphModule, joint: fx.GraphModule
) -> tuple[AtenGraph, dict[str, str]]:
    """The joint graph with what its placeholders stand for, and the names of gradients, by what they are of."""
    import torch

    names = [name if isinstance(name, str) else "" for name in exported.graph_signature.user_inputs]
    trained = {name for name, parameter in program.traced.module.named_parameters() if parameter.requires_grad}
    state: dict[str, Tensor] = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    weights: dict[str, tuple[str, Tensor, bool]] = {}
    constants: dict[str, Tensor] = {}
    inputs: dict[str, str] = {}
    for node in joint.graph.nodes:
        if node.op != "placeholder":
            continue
        about: Any = node.meta["desc"]
        target = getattr(about, "target", None)
        if target is not None:
            weights[node.name] = target, state[target], target in trained
        elif type(about).__name__ == "TangentAOTInput":
            # The derivative of the loss by itself.
            constants[node.name] = torch.ones((), dtype=node.meta["val"].dtype)
        else:
            inputs[node.name] = names[about.idx]
    output = next(node for node in joint.graph.nodes if node.op == "output")
    values: Any = output.args[0]
    wanted: dict[str, fx.Node] = {}
    for value, about in zip(values, output.meta["desc"]):
        of = getattr(about, "grad_of", None)
        if of is not None and value is not None:
            wanted[getattr(of, "target", None) or names[of.idx]] = value
    outputs = {node.name for node in wanted.values()}
    return AtenGraph(joint, weights, constants, outputs, inputs), {name: _value_name(node) for name, node in wanted.items()}


def _value_name(node: fx.Node) -> str:
    """The name that our graph has for the result of a node."""
    if getattr(node.target, "__name__", "") != "getitem":
        return node.name
    source: Any = node.args[0]
    return source.name if node.args[1] == 0 else f"{source.name}.{node.args[1]}"


def _mark(graph: Graph, origins: Mapping[str, str], backward: set[str]) -> None:
    """Give the nodes of the backward pass, and those of their bodies, their phase."""
    for node in graph.nodes:
        if origins.get(node.name) in backward:
            node.phase = "backward"
            for body in node.subgraphs():
                for inner in body.walk():
                    inner.phase = "backward"
