"""ONNX files into the graph: any opset from 7 on, functions inlined, external data memory-mapped.

Reading never executes anything from the file. Sizes that the file claims are checked against the bytes that are there
before memory is taken, and external data may only lie beside the model file.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorproof.collector import patient_collector
from tensorproof.errors import ModelError
from tensorproof.formats import BY_ONNX_CODE, FLOAT32
from tensorproof.frontends.onnx_tensor import Tensors, first_line
from tensorproof.frontends.onnx_wire import NotWalkable, without_weights
from tensorproof.graph import ABSENT, Dimension, Graph, Model, Node, SourceLine, Value

if TYPE_CHECKING:
    import onnx

OLDEST_OPSET = 7

#: From this size on, the weights of a file are not read with it but used where they are.
MAPPED_FILE = 1 << 24

#: Names of one and the same standard domain.
_STANDARD_DOMAINS = ("", "ai.onnx")

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in (?P<function>\S+))?')


def load(path: str | Path) -> Model:
    """Read an ONNX file."""
    proto = read_proto(path)
    return from_proto(proto, path=str(path))


def read_proto(path: str | Path) -> onnx.ModelProto:
    """The protobuf of an ONNX file, external data not loaded; raises ModelError for anything that is not one."""
    import onnx
    from google.protobuf.message import DecodeError

    path = Path(path)
    try:
        data = _large_file(path) if path.stat().st_size >= MAPPED_FILE else path.read_bytes()
    except FileNotFoundError:
        raise ModelError(f"{path}: no such file") from None
    except OSError as error:
        raise ModelError(f"{path}: cannot be read ({error.strerror or error})") from None
    if not data:
        raise ModelError(f"{path}: the file is empty")
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(data)
    except DecodeError:
        raise ModelError(f"{path}: not an ONNX file (the protobuf does not parse)") from None
    if not proto.HasField("graph") or not (proto.graph.node or proto.graph.input or proto.graph.output):
        raise ModelError(f"{path}: not an ONNX file (it holds no graph)")
    return proto


def _large_file(path: Path) -> bytes:
    """The bytes of a model whose large weights stay in the file (`tensorproof.frontends.onnx_wire`)."""
    from google.protobuf.message import DecodeError

    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as data:
        try:
            return without_weights(data, path.resolve().name)
        except (NotWalkable, DecodeError):
            return bytes(data)


@patient_collector()
def from_proto(proto: onnx.ModelProto, *, path: str | None = None) -> Model:
    """The graph of a ModelProto. `path` is where external data is looked for."""
    name = path or proto.graph.name or "model"
    proto = inlined(proto, name)
    opsets = {standard_domain(entry.domain): entry.version for entry in proto.opset_import}
    if "" not in opsets:
        opsets[""] = 1 if not opsets else max(OLDEST_OPSET, 1)
    if opsets[""] < OLDEST_OPSET:
        raise ModelError(f"{name}: opset {opsets['']} is too old; {OLDEST_OPSET} is the oldest that is read")
    return _Reader(proto, name, opsets, path).read()


def inlined(proto: onnx.ModelProto, name: str) -> onnx.ModelProto:
    """The model with the bodies of its functions in place of their calls; `name` is what errors call it."""
    import onnx.inliner

    if not proto.functions:
        return proto
    try:
        return onnx.inliner.inline_local_functions(proto)
    except Exception as error:  # the inliner raises plain RuntimeError and others for recursive or broken functions
        raise ModelError(f"{name}: its functions cannot be inlined ({first_line(error)})") from None


def standard_domain(domain: str) -> str:
    """The domain of an operator; the standard one is called `` whatever the file calls it."""
    return "" if domain in _STANDARD_DOMAINS else domain


class _Reader:
    """The state of reading one model: value numbers, scopes and constants."""

    def __init__(self, proto: onnx.ModelProto, name: str, opsets: dict[str, int], path: str | None) -> None:
        self.proto = proto
        self.name = name
        self.opsets = opsets
        self.path = path
        self.tensors = Tensors(name, path)
        self.values: list[Value] = []
        self.constants: dict[int, npt.NDArray[Any]] = {}
        self.weights: set[int] = set()
        self.node_count = 0
        self.node_names: dict[str, int] = {}

    def read(self) -> Model:
        graph = self.graph(self.proto.graph, {})
        producer = f"{self.proto.producer_name} {self.proto.producer_version}".strip()
        return Model(
            name=self.name,
            graph=graph,
            values=self.values,
            constants=self.constants,
            weights=frozenset(self.weights),
            opsets=self.opsets,
            producer=producer,
            path=self.path,
        )

    def new_value(self, name: str, scope: dict[str, int]) -> int:
        self.values.append(Value(name))
        number = len(self.values) - 1
        scope[name] = number
        return number

    def unique(self, name: str) -> str:
        """The node's name; the second node of the same name (files may repeat them) is called `name#2`."""
        count = self.node_names[name] = self.node_names.get(name, 0) + 1
        return name if count == 1 else f"{name}#{count}"

    def graph(self, proto: onnx.GraphProto, outer: dict[str, int], depth: int = 0) -> Graph:
        """A graph or sub-graph; `outer` holds the names of the scopes around it."""
        if depth > 50:
            raise ModelError(f"{self.name}: sub-graphs are nested deeper than 50")
        scope = dict(outer) if outer else {}
        for tensor in proto.initializer:
            number = self.new_value(tensor.name, scope)
            self.add_constant(number, self.tensors.array(tensor), weight=True)
        for sparse in proto.sparse_initializer:
            number = self.new_value(sparse.values.name, scope)
            self.add_constant(number, self.tensors.dense(sparse), weight=True)
        own = set(scope) - set(outer)
        inputs: list[int] = []
        for info in proto.input:
            if info.name in own:
                continue
            number = self.new_value(info.name, scope)
            self.declare(number, info)
            inputs.append(number)
        declared = {info.name: info for info in (*proto.value_info, *proto.output)}
        nodes = self.nodes(proto.node, scope, declared, depth)
        outputs: list[int] = []
        for info in proto.output:
            if info.name not in scope:
                raise ModelError(f"{self.name}: graph output {info.name!r} is produced by no node")
            outputs.append(scope[info.name])
        return Graph(proto.name, nodes, tuple(inputs), tuple(outputs))

    def add_constant(self, number: int, array: npt.NDArray[Any], *, weight: bool) -> None:
        from tensorproof.formats import of_dtype

        self.constants[number] = array
        value = self.values[number]
        value.format, value.shape = of_dtype(array.dtype), array.shape
        if weight:
            self.weights.add(number)

    def declare(self, number: int, info: onnx.ValueInfoProto) -> None:
        """What the file says about the type of a value."""
        value = self.values[number]
        kind = info.type
        if kind.HasField("optional_type"):
            value.container = "optional"
            kind = kind.optional_type.elem_type
        if kind.HasField("sequence_type"):
            value.container = "sequence" if value.container == "tensor" else "optional"
            kind = kind.sequence_type.elem_type
        tensor = kind.sparse_tensor_type if kind.HasField("sparse_tensor_type") else kind.tensor_type
        value.format = BY_ONNX_CODE.get(tensor.elem_type)
        if tensor.HasField("shape"):
            value.shape = tuple(_dimension(d) for d in tensor.shape.dim)

    def nodes(
        self,
        protos: Sequence[onnx.NodeProto],
        scope: dict[str, int],
        declared: dict[str, onnx.ValueInfoProto],
        depth: int,
    ) -> list[Node]:
        result: list[Node] = []
        for proto in self.sorted(protos, scope):
            inputs = tuple(ABSENT if name == "" else scope[name] for name in proto.input)
            attributes = {a.name: self.attribute(a, scope, depth) for a in proto.attribute}
            domain = standard_domain(proto.domain)
            if proto.op_type == "Constant" and domain == "" and len(proto.output) == 1:
                array = self.constant(attributes)
                if array is not None:
                    self.add_constant(self.new_value(proto.output[0], scope), array, weight=False)
                    continue
            outputs: list[int] = []
            for name in proto.output:
                if name == "":
                    outputs.append(ABSENT)
                    continue
                number = self.new_value(name, scope)
                if name in declared:
                    self.declare(number, declared[name])
                outputs.append(number)
            source, module = _origin(proto)
            label = self.unique(proto.name or f"{proto.op_type}({next((n for n in proto.output if n), '')})")
            version = self.opsets.get(domain, 1)
            node = Node(self.node_count, proto.op_type, domain, version, label, inputs, tuple(outputs), attributes, source, module)
            self.node_count += 1
            result.append(node)
        return result

    def sorted(self, protos: Sequence[onnx.NodeProto], scope: dict[str, int]) -> Iterable[onnx.NodeProto]:
        """Nodes in topological order: the file's own order if it is one, as the standard asks."""
        available = set(scope)
        for proto in protos:
            if not all(name in available for name in _reads(proto)):
                break
            available.update(proto.output)
        else:
            return protos
        return self.topological(protos, scope)

    def topological(self, protos: Sequence[onnx.NodeProto], scope: dict[str, int]) -> list[onnx.NodeProto]:
        producer = {name: index for index, proto in enumerate(protos) for name in proto.output if name}
        needs: list[set[int]] = []
        users: dict[int, list[int]] = {}
        for index, proto in enumerate(protos):
            needed: set[int] = set()
            for name in _reads(proto):
                if name in producer:
                    needed.add(producer[name])
                    users.setdefault(producer[name], []).append(index)
                elif name not in scope:
                    label = proto.name or proto.op_type
                    raise ModelError(f"{self.name}: node {label!r} reads {name!r}, which nothing produces")
            needs.append(needed)
        ready = [index for index, needed in enumerate(needs) if not needed]
        order: list[onnx.NodeProto] = []
        while ready:
            index = ready.pop()
            order.append(protos[index])
            for user in users.get(index, ()):
                if index in needs[user]:
                    needs[user].discard(index)
                    if not needs[user]:
                        ready.append(user)
        if len(order) < len(protos):
            stuck = next(protos[i] for i, needed in enumerate(needs) if needed)
            raise ModelError(f"{self.name}: the graph has a cycle through node {stuck.name or stuck.op_type!r}")
        return order

    def attribute(self, proto: onnx.AttributeProto, scope: dict[str, int], depth: int) -> Any:
        kind = proto.type
        kinds = type(proto)
        if kind == kinds.INT:
            return int(proto.i)
        if kind == kinds.FLOAT:
            return float(proto.f)
        if kind == kinds.STRING:
            return proto.s.decode("utf-8", "replace")
        if kind == kinds.INTS:
            return list(proto.ints)
        if kind == kinds.FLOATS:
            return list(proto.floats)
        if kind == kinds.STRINGS:
            return [s.decode("utf-8", "replace") for s in proto.strings]
        if kind == kinds.TENSOR:
            return self.tensors.array(proto.t)
        if kind == kinds.SPARSE_TENSOR:
            return self.tensors.dense(proto.sparse_tensor)
        if kind == kinds.GRAPH:
            return self.graph(proto.g, scope, depth + 1)
        return None

    def constant(self, attributes: dict[str, Any]) -> npt.NDArray[Any] | None:
        """The value of a Constant node, in any of its forms."""
        if len(attributes) != 1:
            raise ModelError(f"{self.name}: a Constant node needs exactly one attribute")
        ((name, value),) = attributes.items()
        if value is None:
            return None
        if name in ("value", "sparse_value"):
            if not isinstance(value, np.ndarray):
                raise ModelError(f"{self.name}: the {name} of a Constant node is no tensor")
            return value
        if name in ("value_float", "value_floats"):
            return np.asarray(value, FLOAT32.dtype)
        if name in ("value_int", "value_ints"):
            return np.asarray(value, np.int64)
        if name in ("value_string", "value_strings"):
            return np.asarray(value, object)
        raise ModelError(f"{self.name}: a Constant node has an unknown attribute {name!r}")


def _dimension(proto: onnx.TensorShapeProto.Dimension) -> Dimension:
    if proto.HasField("dim_value"):
        return proto.dim_value if proto.dim_value >= 0 else None
    return proto.dim_param or None


def _reads(proto: onnx.NodeProto) -> list[str]:
    """The names that a node reads, those of outer scopes that its sub-graphs read included."""
    names = [name for name in proto.input if name]
    for attribute in proto.attribute:
        if attribute.HasField("g"):
            names.extend(_free_names(attribute.g))
        for graph in attribute.graphs:
            names.extend(_free_names(graph))
    return names


def _free_names(graph: onnx.GraphProto) -> set[str]:
    bound = {tensor.name for tensor in graph.initializer} | {info.name for info in graph.input}
    bound |= {sparse.values.name for sparse in graph.sparse_initializer}
    free: set[str] = set()
    for node in graph.node:
        bound.update(node.output)
    for node in graph.node:
        free.update(name for name in _reads(node) if name not in bound)
    free.update(info.name for info in graph.output if info.name not in bound)
    return free


def _origin(proto: onnx.NodeProto) -> tuple[SourceLine | None, str]:
    """The source line and module path that PyTorch's exporter leaves in the metadata of a node."""
    if not proto.metadata_props:
        return None, ""
    metadata = {entry.key: entry.value for entry in proto.metadata_props}
    source: SourceLine | None = None
    for match in _FRAME.finditer(metadata.get("pkg.torch.onnx.stack_trace", "")):
        # The innermost frame comes last.
        source = SourceLine(match["file"], int(match["line"]), match["function"] or "")
    scopes = re.findall(r"'([^']*)'", metadata.get("pkg.torch.onnx.name_scopes", ""))
    # The last scope is the operator's own name.
    module = scopes[-2] if len(scopes) >= 2 else ""
    return source, module
