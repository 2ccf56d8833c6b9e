"""One model in every form in which TensorFlow writes it: log(x w), which fails where x is 0; and what TensorFlow itself gives for them.

Beside it stand things that a repair has to leave alone: variables, assets, another signature, fields that nobody knows.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf import text_format
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2

v1 = tf.compat.v1

#: A field that no message has: number 999, the bytes `kept`.
UNKNOWN = b"\xba\x3e\x04kept"
WEIGHT = np.array([1.0, 2.0, 3.0], np.float32)
#: The forms, by the name of the file or folder.
FORMS = ("frozen.pb", "model.ckpt.meta", "saved_v1", "saved_v2", "graph.pbtxt", "saved_text")


class Module(tf.Module):  # pyright: ignore[reportUntypedBaseClass]
    """The model as version 2 has it: the logarithm stands in a function of the library."""

    def __init__(self, vocabulary: Path) -> None:
        super().__init__()
        self.weight: Any = tf.Variable(WEIGHT, name="weight")  # pyright: ignore[reportArgumentType]
        self.vocabulary = tf.saved_model.Asset(str(vocabulary))

    @tf.function(input_signature=[tf.TensorSpec([3], tf.float32, name="x")])  # pyright: ignore[reportUntypedFunctionDecorator]
    def __call__(self, x: Any) -> Any:
        return {"result": tf.math.log(x * self.weight, name="logarithm")}

    @tf.function(input_signature=[tf.TensorSpec([3], tf.float32, name="x")])  # pyright: ignore[reportUntypedFunctionDecorator]
    def other(self, x: Any) -> Any:
        return {"total": tf.reduce_sum(x + self.weight)}


def written_graph(path: Path, build: Callable[[], object]) -> Path:
    """The graph that a function builds, as a file."""
    graph = tf.Graph()
    with graph.as_default():
        build()
    path.write_bytes(graph.as_graph_def().SerializeToString())
    return path


def build_forms(folder: Path) -> None:
    """Write the model in all forms."""
    vocabulary = folder / "vocabulary.txt"
    vocabulary.write_text("one\ntwo\n")
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [3], name="x")
        weight = v1.get_variable("weight", initializer=WEIGHT)
        result = tf.math.log(x * weight, name="logarithm")
        total = tf.reduce_sum(x + weight, name="total")
        asset = tf.constant(str(vocabulary), name="vocabulary")
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            v1.train.Saver().save(session, str(folder / "model.ckpt"), write_state=False)
            signatures = {
                "serving_default": v1.saved_model.predict_signature_def({"x": x}, {"result": result}),
                "other": v1.saved_model.predict_signature_def({"x": x}, {"total": total}),
            }
            for name, as_text in (("saved_text", True), ("saved_v1", False)):
                builder = v1.saved_model.Builder(str(folder / name))
                # Of assets a text has messages of any kind, which are not known here.
                assets = None if as_text else [asset]
                builder.add_meta_graph_and_variables(session, ["serve"], signatures, assets_collection=assets)
                builder.save(as_text=as_text)
            names = ["logarithm", "total"]
            frozen = v1.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), names)
    (folder / "frozen.pb").write_bytes(frozen.SerializeToString() + UNKNOWN)
    (folder / "graph.pbtxt").write_text(text_format.MessageToString(frozen))
    module = Module(vocabulary)
    tf.saved_model.save(module, str(folder / "saved_v2"), {"serving_default": module.__call__, "other": module.other})
    for file in (folder / "model.ckpt.meta", folder / "saved_v1" / "saved_model.pb", folder / "saved_v2" / "saved_model.pb"):
        file.write_bytes(file.read_bytes() + UNKNOWN)


def message_of(path: Path) -> Any:
    """TensorFlow's own message of a file."""
    if path.is_dir():
        (file,) = path.glob("saved_model.*")
        return _parsed(file, saved_model_pb2.SavedModel)
    return _parsed(path, meta_graph_pb2.MetaGraphDef if path.suffix == ".meta" else v1.GraphDef)


def _parsed(file: Path, kind: Any) -> Any:
    return text_format.Parse(file.read_text(), kind()) if file.suffix == ".pbtxt" else kind.FromString(file.read_bytes())


def graph_of(message: Any) -> Any:
    """The GraphDef in a message."""
    if isinstance(message, v1.GraphDef):
        return message
    return message.graph_def if isinstance(message, meta_graph_pb2.MetaGraphDef) else message.meta_graphs[0].graph_def


def results(path: Path, points: list[Any]) -> list[tuple[Any, Any]]:
    """The logarithm and the total that TensorFlow computes at points, from the model as it loads it."""
    if path.name.endswith("saved_v2"):
        signatures = tf.saved_model.load(str(path)).signatures
        given = [tf.constant(point, tf.float32) for point in points]
        return [(signatures["serving_default"](x)["result"].numpy(), signatures["other"](x)["total"].numpy()) for x in given]
    with tf.Graph().as_default(), v1.Session() as session:
        if path.is_dir():
            v1.saved_model.load(session, ["serve"], str(path))
        elif path.suffix == ".meta":
            v1.train.import_meta_graph(str(path)).restore(session, str(path.with_suffix("")))
        else:
            tf.graph_util.import_graph_def(message_of(path), name="")
        return [tuple(session.run(["logarithm:0", "total:0"], {"x:0": np.float32(point)})) for point in points]


def values(path: Path, names: list[str], feeds: dict[str, Any]) -> list[Any]:
    """Values of a bare graph, as users run it: with everything that TensorFlow rewrites."""
    graph = tf.Graph()
    with graph.as_default():
        tf.graph_util.import_graph_def(message_of(path), name="")
    with v1.Session(graph=graph) as session:
        return list(session.run([f"{name}:0" for name in names], {f"{name}:0": value for name, value in feeds.items()}))
