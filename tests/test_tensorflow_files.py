"""TensorFlow's files read without TensorFlow, against TensorFlow's own reading of them."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import ml_dtypes
import numpy as np
import onnx
import pytest
import tensorflow as tf
from google.protobuf import text_format
from google.protobuf.descriptor import FieldDescriptor
from tensorflow.core.framework import graph_pb2, op_def_pb2, variable_pb2
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2, tensor_bundle_pb2, trackable_object_graph_pb2
from tensorflow.python.client import pywrap_tf_session
from tensorflow.python.framework.function_def_to_graph import function_def_to_graph

from tensorproof.errors import ModelError
from tensorproof.frontends import tensorflow_files
from tensorproof.frontends.tensorflow_checkpoint import Checkpoint
from tensorproof.frontends.tensorflow_files import graph_from_proto, is_tensorflow_file, read_graph
from tensorproof.frontends.tensorflow_nodes import NEWEST_VERSION
from tensorproof.frontends.tensorflow_outputs import output_table
from tensorproof.frontends.tensorflow_protos import message_class, message_names
from tensorproof.frontends.tensorflow_records import DataType, FunctionName, Reference, TensorflowGraph, TensorShape
from tensorproof.frontends.tensorflow_tensors import DTYPES, tensor_array
from tests.large_tensorflow_graph import large_graph

pytestmark = pytest.mark.area("tensorflow files")
v1 = tf.compat.v1


# --- messages -----------------------------------------------------------------------------------------------------------


def every_message() -> dict[str, Any]:
    """TensorFlow's own descriptors by name."""
    found: dict[str, Any] = {}
    roots = (
        saved_model_pb2.SavedModel,
        tensor_bundle_pb2.BundleHeaderProto,
        tensor_bundle_pb2.BundleEntryProto,
        trackable_object_graph_pb2.TrackableObjectGraph,
        variable_pb2.VariableDef,
    )
    waiting = [root.DESCRIPTOR for root in roots]
    while waiting:
        descriptor = waiting.pop()
        if descriptor.full_name not in found:
            found[descriptor.full_name] = descriptor
            waiting += [field.message_type for field in descriptor.fields if field.message_type is not None]
    return found


def facts(field: FieldDescriptor) -> tuple[Any, ...]:
    named = field.message_type or field.enum_type
    oneof = field.containing_oneof
    packed = field.is_repeated and field.is_packed
    return field.name, field.type, field.is_repeated, packed, named and named.full_name, oneof and oneof.name, field.has_presence


def test_fields_are_those_of_tensorflow() -> None:
    theirs = every_message()
    for name in message_names():
        ours = message_class(name).DESCRIPTOR
        for field in ours.fields:
            assert facts(field) == facts(theirs[ours.full_name].fields_by_number[field.number]), f"{name}.{field.name}"
            if field.enum_type is not None:
                their_enum = theirs[ours.full_name].fields_by_number[field.number].enum_type
                assert {v.name: v.number for v in field.enum_type.values} == {v.name: v.number for v in their_enum.values}
            if field.message_type is not None and field.message_type.GetOptions().map_entry:
                their_entry = theirs[field.message_type.full_name]
                assert [facts(f) for f in field.message_type.fields] == [facts(f) for f in their_entry.fields]


def test_whole_messages_are_read() -> None:
    """All fields of the messages that make up a graph; of the others only what is needed."""
    theirs = every_message()
    for name in ("GraphDef", "NodeDef", "AttrValue", "TensorProto", "FunctionDef", "OpDef", "VersionDef", "BundleEntryProto"):
        ours = message_class(name).DESCRIPTOR
        assert set(ours.fields_by_number) == set(theirs[ours.full_name].fields_by_number), name


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SavedModel of TensorFlow 2 with a loop, variables of several kinds, and lines."""
    folder = tmp_path_factory.mktemp("saved") / "model"
    tf.saved_model.save(Scorer(), str(folder), options=tf.saved_model.SaveOptions(save_debug_info=True))
    return folder


class Scorer(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weights = tf.Variable(np.arange(12, dtype=np.float32).reshape(3, 4), name="weights")
        # Two variables of one name, as models made of equal parts have them.
        self.bias = [tf.Variable(tf.fill([4], value), name="bias") for value in (1.0, 2.0)]
        self.words = tf.Variable([b"x", b"yy"])

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, name="x")])
    def __call__(self, x: Any) -> Any:
        y = tf.matmul(x, self.weights) + self.bias[0] * self.bias[1]
        values, places = tf.math.top_k(y, 2)
        parts = tf.split(values, 2, axis=1)
        _, z = tf.while_loop(lambda k, _: k < 3, lambda k, z: (k + 1, logarithm(z)), (tf.constant(0), parts[1]))
        return {"score": z, "places": places}


def logarithm(z: Any) -> Any:
    return tf.math.log(tf.abs(z) + 1.0)  # the line that findings are to name


def test_messages_survive_reading_and_writing(saved: Path) -> None:
    data = (saved / "saved_model.pb").read_bytes()
    copied = message_class("SavedModel").FromString(data).SerializeToString()
    # The object graph has fields that the table leaves out.
    assert saved_model_pb2.SavedModel.FromString(copied) == saved_model_pb2.SavedModel.FromString(data)
    unknown = graph_pb2.GraphDef.FromString(b"\xfa\x3e\x03abc")  # field 1007
    kept = message_class("GraphDef").FromString(unknown.SerializeToString()).SerializeToString()
    assert kept == unknown.SerializeToString()


def registry() -> op_def_pb2.OpList:
    operators = op_def_pb2.OpList()
    operators.ParseFromString(pywrap_tf_session.TF_GetBuffer(pywrap_tf_session.TF_GetAllOpList()))
    return operators


def test_names_of_results_are_those_of_tensorflow() -> None:
    checked = 0
    for operator in registry().op:
        theirs = tuple((argument.name, argument.number_attr or argument.type_list_attr) for argument in operator.output_arg)
        if len(theirs) > 1 or any(length for _, length in theirs):
            assert output_table()[operator.name] == theirs
            checked += 1
        else:
            assert operator.name not in output_table()
    assert checked > 400


# --- tensors and attributes ---------------------------------------------------------------------------------------------


def written_out(array: np.ndarray, kind: tf.DType) -> Any:
    """The elements of a tensor one by one, as TensorFlow's Python writes those of few elements."""
    proto = tf.make_tensor_proto(array.ravel(), kind)
    if not proto.tensor_content:
        return proto
    made = tf.make_tensor_proto(array.ravel()[:1], kind)
    for element in array.ravel()[1:]:
        made.MergeFrom(tf.make_tensor_proto(element, kind))
    made.tensor_shape.CopyFrom(proto.tensor_shape)
    return made


@pytest.mark.parametrize("code", sorted(DTYPES))
def test_tensors(code: int) -> None:
    kind = tf.as_dtype(code)
    if code in (7, 20, 21) or kind.is_quantized:
        return
    assert DTYPES[code] == kind.as_numpy_dtype
    array = np.array([0, 1, 2, 1, 0, 1]).astype(DTYPES[code])
    content = graph_tensor(kind, (2, 3))
    content.tensor_content = array.tobytes()
    for proto in (content, tf.make_tensor_proto(array.reshape(2, 3), kind) if code < 24 else content):
        found = tensor_array(ours(proto), "test")
        assert found.dtype == DTYPES[code] and found.shape == (2, 3)
        np.testing.assert_array_equal(found.ravel().view(np.uint8), array.view(np.uint8))
    if code < 24:
        np.testing.assert_array_equal(tensor_array(ours(written_out(array, kind)), "test").astype(np.complex128), array)


def graph_tensor(kind: tf.DType, shape: tuple[int, ...]) -> Any:
    proto = tf.compat.v1.GraphDef().node.add().attr["value"].tensor
    proto.dtype = kind.as_datatype_enum
    for size in shape:
        proto.tensor_shape.dim.add(size=size)
    return proto


def ours(proto: Any) -> Any:
    return message_class("TensorProto").FromString(proto.SerializeToString())


def test_tensors_of_fewer_elements_repeat_the_last() -> None:
    for values, shape in (([2.5], (3, 2)), ([1.0, 2.0], (5,)), ([], (4,)), ([7.0], (100, 1000)), ([3.0], ())):
        proto = graph_tensor(tf.float32, shape)
        proto.float_val.extend(values)
        with tf.Graph().as_default() as graph:
            node = graph.as_graph_def().node.add(name="c", op="Const")
            node.attr["dtype"].type = 1
            node.attr["value"].tensor.CopyFrom(proto)
            made = graph_pb2.GraphDef(node=[node])
            tf.import_graph_def(made, name="")
            expected = v1.Session().run("c:0")
        np.testing.assert_array_equal(tensor_array(ours(proto), "test"), expected)
    strings = tf.make_tensor_proto([[b"a", b"\xff\x00"]])
    assert tensor_array(ours(strings), "test").tolist() == [[b"a", b"\xff\x00"]]


def test_tensors_that_claim_too_much_take_no_memory() -> None:
    for kind, shape in ((tf.float32, (10**15,)), (tf.string, (10**9,)), (tf.float32, (2**40, 2**40)), (tf.float32, (-1, 3))):
        proto = graph_tensor(kind, shape)
        with pytest.raises(ModelError):
            tensor_array(ours(proto), "test")
    for content in (b"\0" * 7, b"\0" * 400):
        proto = graph_tensor(tf.float32, (2,))
        proto.tensor_content = content
        with pytest.raises(ModelError, match="does not have the size of its shape"):
            tensor_array(ours(proto), "test")


def as_python(value: Any) -> Any:
    """What TensorFlow's Python says that an attribute is, in the types of the records."""
    if isinstance(value, (list, tuple)):
        return [as_python(each) for each in value]
    if isinstance(value, tf.DType):
        return DataType(value.as_datatype_enum % 100)
    if isinstance(value, (tf.TensorShape, type(tf.TensorShape([]).as_proto()))):
        shape = tf.TensorShape(value)
        return TensorShape(None if shape.rank is None else tuple(-1 if size is None else size for size in shape.as_list()))
    if type(value).__name__ == "NameAttrList":
        return FunctionName(value.name)
    if type(value).__name__ == "TensorProto":
        return tf.make_ndarray(value).tolist()
    return value


def network() -> None:
    """A training graph of TensorFlow 1: variables, an optimiser, summaries, a saver, constants, strings and shapes."""
    x = v1.placeholder(tf.float32, [None, 8], name="x")
    labels = v1.placeholder(tf.int64, [None], name="labels")
    weights = v1.get_variable("weights", [8, 4], initializer=v1.truncated_normal_initializer(stddev=0.1), use_resource=False)
    bias = v1.get_variable("bias", [4], initializer=v1.zeros_initializer(), use_resource=True)
    logits = tf.nn.bias_add(tf.matmul(x, weights), bias)
    image = tf.reshape(logits, [-1, 2, 2, 1])
    image = tf.nn.conv2d(image, tf.ones([2, 2, 1, 3], tf.float32) / 3, strides=[1, 1, 1, 1], padding="SAME")
    first, second = tf.split(logits, 2, axis=1)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    loss = loss + tf.reduce_sum(tf.cast(image, tf.float64)) * 0 if False else loss + 1e-4 * tf.reduce_sum(first * second)
    v1.summary.scalar("loss", loss)
    v1.summary.merge_all()
    v1.train.AdamOptimizer(0.01).minimize(loss, name="train")


@pytest.fixture(scope="session")
def training(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of a training graph: graph.pb, graph.pbtxt, model.meta with its checkpoint, and a SavedModel."""
    folder = tmp_path_factory.mktemp("training")
    with tf.Graph().as_default() as graph, v1.Session() as session:
        network()
        session.run(v1.global_variables_initializer())
        v1.train.Saver(sharded=True).save(session, str(folder / "model.ckpt"), global_step=7)
        weights = session.run("weights:0")
        inputs = {"x": graph.get_tensor_by_name("x:0")}
        outputs = {"logits": graph.get_tensor_by_name("BiasAdd:0")}
        v1.saved_model.simple_save(session, str(folder / "saved"), inputs, outputs)
        (folder / "graph.pb").write_bytes(graph.as_graph_def().SerializeToString())
        (folder / "graph.pbtxt").write_text(text_format.MessageToString(graph.as_graph_def()))
    np.save(folder / "weights.npy", weights)
    return folder


def test_nodes_and_attributes(training: Path) -> None:
    """Operands, controls and attributes of each node are what TensorFlow's Python says of it."""
    record = read_graph(training / "graph.pb")
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_pb2.GraphDef.FromString((training / "graph.pb").read_bytes()), name="")
    assert {node.name for node in record.nodes} == {operation.name for operation in graph.get_operations()}
    seen: set[str] = set()
    for node in record.nodes:
        operation = graph.get_operation_by_name(node.name)
        assert node.op == operation.type and node.original == node.name and node.function == ""
        assert list(node.inputs) == [Reference(tensor.op.name, tensor.value_index) for tensor in operation.inputs]
        assert set(node.controls) == {control.name for control in operation.control_inputs}
        assert {operand.node for operand in node.inputs} | set(node.controls) <= seen
        seen.add(node.name)
        for name, value in node.attributes.items():
            found = value.tolist() if isinstance(value, np.ndarray) else value
            assert found == as_python(operation.get_attr(name)), f"{node.name}.{name}"


def test_every_format_gives_the_same_graph(training: Path) -> None:
    from_graph = read_graph(training / "graph.pb")
    from_text = read_graph(training / "graph.pbtxt")
    from_meta = read_graph(training / "model.ckpt-7.meta")
    assert [n.name for n in from_graph.nodes] == [n.name for n in from_text.nodes]
    for ours, theirs in zip(from_graph.nodes, from_text.nodes):
        assert (ours.op, ours.inputs, ours.controls) == (theirs.op, theirs.inputs, theirs.controls)
        assert str(dict(ours.attributes)) == str({key: theirs.attributes[key] for key in ours.attributes})
    # The graph was written after the SavedModel, which adds a saver of its own.
    assert {n.name for n in from_meta.nodes} < {n.name for n in from_graph.nodes}
    live = graph_from_proto(graph_pb2.GraphDef.FromString((training / "graph.pb").read_bytes()))
    assert [n.name for n in live.nodes] == [n.name for n in from_graph.nodes]


def test_meta_graph_with_its_checkpoint(training: Path) -> None:
    graph = read_graph(training / "model.ckpt-7.meta")
    variables = {node.name for node in graph.nodes if node.op in ("VariableV2", "VarHandleOp")}
    assert set(graph.values) == variables and not graph.notes
    np.testing.assert_array_equal(graph.values["weights"], np.load(training / "weights.npy"))
    assert set(graph.collections["trainable_variables"]) == {"weights", "bias"}
    assert graph.collections["train_op"] == ["train"] and "loss" in graph.collections["summaries"]
    assert graph.producer == f"TensorFlow {tf.__version__}"


def test_saved_model_of_the_first_version(training: Path) -> None:
    graph = read_graph(training / "saved")
    np.testing.assert_array_equal(graph.values["weights"], np.load(training / "weights.npy"))
    assert graph.signatures["serving_default"].inputs == {"x": Reference("x")}
    assert graph.signatures["serving_default"].outputs == {"logits": Reference("BiasAdd")}


def test_saved_model_of_the_second_version(saved: Path) -> None:
    for path in (saved, saved / "saved_model.pb"):
        graph = read_graph(path)
        assert graph.signatures["serving_default"].inputs == {"x": Reference("serving_default_x")}
        assert set(graph.signatures["serving_default"].outputs) == {"score", "places"}
        assert {str(value.tolist()) for value in graph.values.values()} == {
            str(variable.numpy().tolist()) for variable in Scorer().variables
        }
        assert not graph.notes
    assert list(read_graph(saved, signature="serving_default").signatures) == ["serving_default"]
    with pytest.raises(ModelError, match=r"no signature 'other'; it offers .*serving_default"):
        read_graph(saved, signature="other")


def test_variables_are_those_that_the_function_reads(saved: Path) -> None:
    """Of two variables of one name each gets its own value: the operands of the signature's call say which is which."""
    graph = read_graph(saved)
    call = next(n for n in graph.nodes if n.name == graph.signatures["serving_default"].outputs["score"].node)
    values = [graph.values[operand.node] for operand in call.inputs[1:]]
    assert [value.ravel()[-1] for value in values] == [11.0, 1.0, 2.0]


def test_operands_inside_functions(saved: Path) -> None:
    """Each operand of each node of each function is the tensor that TensorFlow makes of it."""
    library = saved_model_pb2.SavedModel.FromString((saved / "saved_model.pb").read_bytes()).meta_graphs[0].graph_def.library
    graph = read_graph(saved)
    assert set(graph.functions) == {function.signature.name for function in library.function}
    order = sorted(library.function, key=lambda function: function.signature.name.startswith("__inference_signature"))
    several = 0
    with tf.Graph().as_default() as outer:
        tf.import_graph_def(saved_model_pb2.SavedModel.FromString((saved / "saved_model.pb").read_bytes()).meta_graphs[0].graph_def)
        for definition in order:
            function = graph.functions[definition.signature.name]
            made = function_def_to_graph(definition)
            assert function.inputs == tuple(tensor.op.name for tensor in made.inputs)
            assert function.input_types == tuple(DataType(tensor.dtype.as_datatype_enum) for tensor in made.inputs)
            assert function.outputs == tuple(Reference(tensor.op.name, tensor.value_index) for tensor in made.outputs)
            for node in function.nodes:
                operation = made.get_operation_by_name(node.name)
                expected = [Reference(tensor.op.name, tensor.value_index) for tensor in operation.inputs]
                assert list(node.inputs) == expected
                assert node.function == function.name and node.original == node.name
                several += sum(reference.output > 0 for reference in expected)
    assert several >= 3 and outer is not None


def test_lists_of_results_inside_functions() -> None:
    """Several lists of results after each other, and a whole list as operand."""
    proto = message_class("GraphDef")()
    function = proto.library.function.add()
    function.signature.name = "f"
    function.signature.input_arg.add(name="s", type=7)
    for name in ("values", "last"):
        function.signature.output_arg.add(name=name, type=1)
    split = function.node_def.add(name="split", op="SparseSplit", input=["s", "s", "s", "s"])
    split.attr["num_split"].i = 2
    function.node_def.add(name="all", op="AddN", input=["split:output_values"])
    function.node_def.add(name="own", op="NotOfTensorFlow", input=["s"])
    function.node_def.add(name="both", op="Add", input=["own:first:0", "own:second:0"])
    function.ret["values"], function.ret["last"] = "split:output_values:1", "split:output_shape:1"
    read = graph_from_proto(proto).functions["f"]
    assert read.outputs == (Reference("split", 3), Reference("split", 5))
    by_name = {node.name: node for node in read.nodes}
    assert by_name["all"].inputs == (Reference("split", 2), Reference("split", 3))
    assert len(set(by_name["both"].inputs)) == 2


def test_lines_of_users(saved: Path) -> None:
    graph = read_graph(saved)
    logarithms = [n for f in graph.functions.values() for n in f.nodes if n.op == "Log"]
    line = graph.lines[logarithms[0].function, logarithms[0].original]
    assert line.file == __file__ and line.function == "logarithm"
    assert "the line that findings are to name" in Path(__file__).read_text().splitlines()[line.line - 1]
    assert not any("site-packages" in each.file for each in graph.lines.values())


# --- checkpoints --------------------------------------------------------------------------------------------------------

VALUES = [
    np.arange(6, dtype=np.float32).reshape(2, 3),
    np.arange(100_000, dtype=np.float64),
    np.array([1, 2], np.float16),
    np.array([1.5, 2.5], ml_dtypes.bfloat16),
    np.array(7, np.int64),
    np.array([[True, False]]),
    np.array([1 + 2j], np.complex64),
    np.array([], np.int8),
    np.array([200], np.uint8),
    np.array([b"", b"a" * 300, "ü".encode()], object),
]


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    prefix = tmp_path_factory.mktemp("checkpoint") / "ckpt"
    names = [f"v{index}" for index in range(len(VALUES))] + [f"layer_{index}/kernel" for index in range(400)]
    tensors = [tf.constant(v) if v.dtype != object else tf.constant(v.tolist()) for v in VALUES]
    tensors += [tf.fill([index % 7], float(index)) for index in range(400)]
    parts: list[str] = []
    for part in range(3):
        parts.append(f"{prefix}_temp_{part}")
        tf.raw_ops.SaveV2(
            prefix=parts[-1], tensor_names=names[part::3], shape_and_slices=[""] * len(names[part::3]), tensors=tensors[part::3]
        )
    tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=parts, destination_prefix=str(prefix))
    return prefix


def test_checkpoint(checkpoint: Path) -> None:
    reader = tf.train.load_checkpoint(str(checkpoint))
    ours = Checkpoint(checkpoint, checkpoint.parent)
    assert set(ours.keys()) == set(reader.get_variable_to_shape_map()) and len(ours.keys()) == 410
    assert len(list(checkpoint.parent.glob("*.data-*"))) == 3
    for key in sorted(ours.keys()):
        expected, found = reader.get_tensor(key), ours.value(key)
        assert found.shape == expected.shape and found.tolist() == expected.tolist()
        assert found.dtype == np.asarray(expected).dtype
    assert isinstance(ours.value("v1").base, np.memmap) and not ours.value("v1").flags.owndata


def test_slices_of_variables_are_noted(tmp_path: Path) -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        with v1.variable_scope("s", partitioner=v1.fixed_size_partitioner(2)):
            v1.get_variable("w", [6, 2], use_resource=False)
        v1.get_variable("whole", [2], use_resource=False)
        session.run(v1.global_variables_initializer())
        v1.train.Saver().save(session, str(tmp_path / "m"))
    graph = read_graph(tmp_path / "m.meta")
    assert set(graph.values) == {"whole"}
    assert graph.notes == ["values of variables are kept in slices, which are not read: s/w/part_0, s/w/part_1"]


def test_damaged_checkpoints(checkpoint: Path, tmp_path: Path) -> None:
    index = Path(f"{checkpoint}.index").read_bytes()
    source = random.Random(0)
    for turn in range(150):
        data = bytearray(index)
        if turn % 3 == 0:
            del data[source.randrange(len(data)) :]
        else:
            data[source.randrange(len(data)) if turn % 2 else -1 - source.randrange(48)] ^= 1 << source.randrange(8)
        Path(tmp_path / "m.index").write_bytes(data)
        reading(lambda: [c.value(key) for c in [Checkpoint(tmp_path / "m", tmp_path)] for key in sorted(c.keys())])
    for part in checkpoint.parent.glob("*.data-*"):
        (tmp_path / part.name.replace("ckpt", "m")).write_bytes(part.read_bytes()[:40])
    Path(tmp_path / "m.index").write_bytes(index)
    damaged = Checkpoint(tmp_path / "m", tmp_path)
    with pytest.raises(ModelError, match="beyond the end of its file"):
        damaged.value("v1")


def test_nothing_outside_of_the_folder_is_opened(checkpoint: Path, saved: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    (model / "variables").mkdir(parents=True)
    (model / "saved_model.pb").write_bytes((saved / "saved_model.pb").read_bytes())
    (model / "variables" / "variables.index").symlink_to(saved / "variables" / "variables.index")
    with pytest.raises(ModelError, match="points outside the model's folder"):
        read_graph(model)
    (model / "variables" / "variables.index").unlink()
    (model / "variables" / "variables.index").write_bytes((saved / "variables" / "variables.index").read_bytes())
    data = "variables.data-00000-of-00001"
    (model / "variables" / data).symlink_to(saved / "variables" / data)
    with pytest.raises(ModelError, match="points outside the model's folder"):
        read_graph(model)
    (model / "variables" / data).unlink()
    (model / "variables" / "variables.index").unlink()
    assert "no checkpoint; variables have no values" in read_graph(model).notes[0]
    (model / "saved_model.pb").unlink()
    (model / "saved_model.pb").symlink_to(saved / "saved_model.pb")
    with pytest.raises(ModelError, match="points outside the model's folder"):
        read_graph(model)


# --- what is no graph ---------------------------------------------------------------------------------------------------


def graph_of(*nodes: tuple[str, str, list[str]], **fields: Any) -> bytes:
    proto = graph_pb2.GraphDef(**fields)
    for name, op, inputs in nodes:
        proto.node.add(name=name, op=op, input=inputs)
    return proto.SerializeToString()


BROKEN = {
    "a name twice": (graph_of(("a", "Const", []), ("a", "Const", [])), "two nodes are called 'a'"),
    "no name": (graph_of(("a", "Const", []), ("", "Const", [])), "a node has no name"),
    "missing operand": (graph_of(("a", "Neg", ["b"])), "node 'a' reads 'b', which does not exist"),
    "missing control": (graph_of(("a", "Neg", ["^b"])), "node 'a' reads 'b', which does not exist"),
    "odd index": (graph_of(("b", "Const", []), ("a", "Neg", ["b:x"])), "node 'a' reads 'b:x', which names no result"),
    "huge index": (graph_of(("b", "Const", []), ("a", "Neg", ["b:99999999999"])), "names no result"),
    "circle": (graph_of(("a", "Neg", ["b"]), ("b", "Neg", ["a"])), "depends on itself without being a loop"),
    "circle of one": (graph_of(("a", "Neg", ["a"])), "node 'a' depends on itself without being a loop"),
    "newer": (
        graph_of(("a", "Const", []), versions={"producer": NEWEST_VERSION + 9, "min_consumer": NEWEST_VERSION + 1}),
        "written for a newer TensorFlow",
    ),
    "empty": (b"", "the file is empty"),
    "text": (b"this is no graph at all", "not a TensorFlow graph"),
    "no nodes": (graph_of(versions={"producer": 1}), "not a TensorFlow graph"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_graphs_are_one_line(case: str, tmp_path: Path) -> None:
    data, message = BROKEN[case]
    (tmp_path / "g.pb").write_bytes(data)
    with pytest.raises(ModelError) as error:
        read_graph(tmp_path / "g.pb")
    assert message in str(error.value) and "\n" not in str(error.value)


def test_other_broken_files(tmp_path: Path, saved: Path) -> None:
    def message(name: str, content: bytes | str | None = None, **options: Any) -> str:
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        with pytest.raises(ModelError) as error:
            read_graph(path, **options)
        assert "\n" not in str(error.value)
        return str(error.value)

    assert "no such file" in message("missing.pb")
    assert "not the text of a TensorFlow graph" in message("g.pbtxt", "node { name: }")
    assert "not the text of a TensorFlow graph" in message(
        "g.pbtxt", "node { name: 'a' op: 'Const' attr {" + "key: 'a' value {list {func {attr {" * 9000
    )
    assert "not text in UTF-8" in message("g.pbtxt", b"\xff\xfe")
    assert "holds no nodes" in message("g.pbtxt", "versions { producer: 1 }")
    assert "no MetaGraphDef with nodes" in message("g.meta", b"\x0a\x03abc")
    assert "has no signatures" in message("g.pb", graph_of(("a", "Const", [])), signature="s")
    (tmp_path / "folder").mkdir()
    assert "no SavedModel" in message("folder")
    (tmp_path / "folder" / "saved_model.pb").write_bytes((saved / "saved_model.pb").read_bytes()[:1000])
    assert "damaged" in message("folder")
    with (tmp_path / "large.pb").open("wb") as file:
        file.truncate(2**31)
    assert "larger than 2 GB" in message("large.pb")


def test_limit_of_versions_is_that_of_tensorflow() -> None:
    assert tf.version.GRAPH_DEF_VERSION == NEWEST_VERSION
    graph_from_proto(graph_of(("a", "Const", []), versions={"min_consumer": NEWEST_VERSION}))


def test_missing_functions_stay(saved: Path) -> None:
    proto = saved_model_pb2.SavedModel.FromString((saved / "saved_model.pb").read_bytes()).meta_graphs[0].graph_def
    del proto.library.function[:]
    graph = graph_from_proto(proto)
    assert any(node.op == "StatefulPartitionedCall" for node in graph.nodes) and not graph.functions


def test_nodes_out_of_order_are_put_in_order() -> None:
    nodes = [(f"n{index}", "Neg", [f"n{index + 1}"]) for index in range(5000)] + [("n5000", "Const", [])]
    graph = graph_from_proto(graph_of(*nodes))
    assert [node.name for node in graph.nodes] == [f"n{index}" for index in range(5000, -1, -1)]


def reading(read: Callable[[], object]) -> bool:
    """Whether reading succeeds; only a ModelError of one line may come out of it otherwise."""
    try:
        read()
    except ModelError as error:
        assert "\n" not in str(error)
        return False
    return True


def touch(graph: TensorflowGraph) -> None:
    """Convert every attribute: they are read when they are asked for."""
    for node in [*graph.nodes, *(node for function in graph.functions.values() for node in function.nodes)]:
        dict(node.attributes)


@pytest.mark.parametrize("kind", ["graph", "text", "meta", "saved"])
def test_damaged_files(kind: str, training: Path, saved: Path, tmp_path: Path) -> None:
    original, turns = {
        "graph": (training / "graph.pb", 120),
        "text": (training / "graph.pbtxt", 6),
        "meta": (training / "model.ckpt-7.meta", 60),
        "saved": (saved / "saved_model.pb", 120),
    }[kind]
    data = original.read_bytes()
    source = random.Random(kind)
    outcomes: set[bool] = set()
    for turn in range(turns):
        damaged = bytearray(data)
        if turn % 4 == 0:
            del damaged[source.randrange(len(damaged)) :]
        else:
            for _ in range(source.choice([1, 1, 2, 5])):
                damaged[source.randrange(len(damaged))] ^= 1 << source.randrange(8)
        path = tmp_path / f"m{original.suffix}"
        path.write_bytes(damaged)
        outcomes.add(reading(lambda path=path: touch(read_graph(path))))
    assert False in outcomes


# --- recognising files, speed, independence -----------------------------------------------------------------------------


def test_files_are_recognised(training: Path, saved: Path, tmp_path: Path) -> None:
    for path in (training / "graph.pb", training / "graph.pbtxt", training / "model.ckpt-7.meta", training / "saved"):
        assert is_tensorflow_file(path)
    assert is_tensorflow_file(saved) and is_tensorflow_file(saved / "saved_model.pb")
    x = onnx.helper.make_tensor_value_info("x", 1, [2])
    for version, producer in ((1, "x" * 10), (1, "\n"), (8, "pytorch"), (10, "")):
        graph = onnx.helper.make_graph(
            [onnx.helper.make_node("Neg", ["x"], ["y"])], "g", [x], [onnx.helper.make_tensor_value_info("y", 1, [2])]
        )
        model = onnx.helper.make_model(graph, ir_version=version, producer_name=producer)
        for name in ("m.onnx", "m.pb", "m.meta"):
            (tmp_path / name).write_bytes(model.SerializeToString())
            assert not is_tensorflow_file(tmp_path / name)
        (tmp_path / "m.pbtxt").write_text(text_format.MessageToString(model))
        assert not is_tensorflow_file(tmp_path / "m.pbtxt")
    assert not is_tensorflow_file(tmp_path) and not is_tensorflow_file(tmp_path / "missing.pb")
    (tmp_path / "graph.onnx").write_bytes((training / "graph.pb").read_bytes())
    assert not is_tensorflow_file(tmp_path / "graph.onnx")


def test_large_graphs_are_read_in_seconds(tmp_path: Path) -> None:
    seconds: list[float] = []
    for nodes in (50_000, 200_000):
        (tmp_path / "g.pb").write_bytes(large_graph(nodes).SerializeToString())
        start = time.process_time()
        graph = read_graph(tmp_path / "g.pb")
        seconds.append(time.process_time() - start)
        assert len(graph.nodes) >= nodes
    assert seconds[1] < 4.0
    assert seconds[1] < 8 * seconds[0] + 0.2


def test_tensors_of_large_files_stay_in_the_file(saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same attributes, mapped, in the graph and in functions; damaged files are errors as ever."""
    proto = saved_model_pb2.SavedModel.FromString((saved / "saved_model.pb").read_bytes())
    graph = proto.meta_graphs[0].graph_def
    weights = np.random.default_rng(0).normal(size=(300, 100)).astype(np.float32)
    for nodes in (graph.node, graph.library.function[0].node_def):
        node = nodes.add(name="frozen", op="Const")
        node.attr["dtype"].type = 1
        node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(weights))
    data = proto.SerializeToString()
    path = tmp_path / "saved_model.pb"
    path.write_bytes(data)
    small = read_graph(path)
    monkeypatch.setattr(tensorflow_files, "MAPPED_FILE", 1)
    large = read_graph(path)
    assert [n.name for n in small.nodes] == [n.name for n in large.nodes]
    for function in ("", graph.library.function[0].signature.name):
        for read, mapped in ((small, False), (large, True)):
            scope = read.functions[function].nodes if function else read.nodes
            found = next(n for n in scope if n.name == "frozen").attributes["value"]
            np.testing.assert_array_equal(found, weights)
            assert isinstance(found.base, np.memmap) == mapped
    source = random.Random(0)
    outcomes: set[bool] = set()
    for turn in range(40):
        damaged = bytearray(data)
        if turn % 4 == 0:
            del damaged[source.randrange(len(damaged)) :]
        else:
            damaged[source.randrange(len(damaged))] ^= 1 << source.randrange(8)
        path.write_bytes(damaged)
        outcomes.add(reading(lambda: touch(read_graph(path))))
    assert outcomes == {True, False}


def test_tensorflow_is_not_needed(saved: Path, training: Path) -> None:
    program = (
        "import sys; sys.modules['tensorflow'] = None\n"
        "from pathlib import Path\n"
        "from tensorproof.frontends.tensorflow_files import read_graph\n"
        "for path in sys.argv[1:]:\n"
        "    graph = read_graph(Path(path)); [dict(n.attributes) for n in graph.nodes]; print(len(graph.nodes), len(graph.values))\n"
    )
    paths = [saved, training / "saved", training / "model.ckpt-7.meta", training / "graph.pbtxt"]
    done = subprocess.run([sys.executable, "-c", program, *map(str, paths)], capture_output=True, text=True, check=True)
    expected = [read_graph(path) for path in paths]
    assert done.stdout.splitlines() == [f"{len(graph.nodes)} {len(graph.values)}" for graph in expected]


def test_signature_names_that_do_not_exist(saved: Path, tmp_path: Path) -> None:
    proto = saved_model_pb2.SavedModel.FromString((saved / "saved_model.pb").read_bytes())
    proto.meta_graphs[0].signature_def["serving_default"].outputs["score"].name = "nowhere:0"
    (tmp_path / "saved_model.pb").write_bytes(proto.SerializeToString())
    with pytest.raises(ModelError, match=r"names 'nowhere:0' as 'score', which does not exist"):
        read_graph(tmp_path)


def test_graph_for_serving_is_chosen(saved: Path, tmp_path: Path) -> None:
    proto = saved_model_pb2.SavedModel.FromString((saved / "saved_model.pb").read_bytes())
    training_graph = meta_graph_pb2.MetaGraphDef()
    training_graph.meta_info_def.tags.append("train")
    training_graph.graph_def.node.add(name="only", op="NoOp")
    training_graph.signature_def["learn"].outputs["only"].name = "only"
    both = saved_model_pb2.SavedModel(saved_model_schema_version=1, meta_graphs=[training_graph, proto.meta_graphs[0]])
    (tmp_path / "saved_model.pb").write_bytes(both.SerializeToString())
    assert len(read_graph(tmp_path).nodes) > 1
    assert [node.name for node in read_graph(tmp_path, signature="learn").nodes] == ["only"]


@pytest.fixture(autouse=True)
def nothing_left_open() -> Iterator[None]:
    yield
    tf.compat.v1.reset_default_graph()
