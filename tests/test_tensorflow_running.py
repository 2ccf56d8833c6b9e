"""TensorFlow graphs in their own process: values as written and as used, and what is never run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensorproof.execute.tensorflow_graph import TensorflowRunner, TensorflowWorker
from tensorproof.execute.tensorflow_part import RunnableGraph, is_pure
from tensorproof.execute.worker import WorkerError
from tensorproof.frontends.framework_model import ReadingOptions, RunFailed
from tensorproof.frontends.tensorflow_files import graph_from_proto
from tensorproof.frontends.tensorflow_inlining import inlined
from tensorproof.frontends.tensorflow_program import TensorflowModel, read_tensorflow
from tensorproof.frontends.tensorflow_records import Reference
from tensorproof.frontends.tensorflow_writing import graph_def, graph_def_bytes

tf = pytest.importorskip("tensorflow")
v1 = tf.compat.v1

pytestmark = pytest.mark.area("framework confirm")

POINT = {
    "x": np.array([1.0, 0.5, 0.0, 0.2], np.float32),
    "old": np.array([1.0, 2.0, 3.0, 4.0], np.float32),
    "new": np.array([0.5, -1.0, 2.0, 1.0], np.float32),
}


def saved(path: Path, build: Callable[[], None]) -> Path:
    """The file of a graph that a function builds."""
    graph = tf.Graph()
    with graph.as_default():
        build()
    path.write_bytes(graph.as_graph_def().SerializeToString())
    return path


def read(path: Path, **options: Any) -> TensorflowModel:
    return read_tensorflow(path, ReadingOptions(**options))


def all_kinds() -> None:
    """Variables of both kinds, loops and conditions of both versions, a function, an assertion, and changes of variables."""
    x = v1.placeholder(tf.float32, [4], name="x")
    old = v1.get_variable("old", shape=[4], use_resource=False)
    new = v1.get_variable("new", shape=[4], use_resource=True)
    y = tf.math.log((1 - x) + 1e-8, name="logarithm")
    v1.disable_control_flow_v2()
    first = tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * new.read_value() + old), (0, y))[1]
    second = tf.cond(tf.reduce_sum(x) > 0, lambda: x + 1.0, lambda: x * 2.0)
    v1.enable_control_flow_v2()
    third = tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * new + old), (0, y))[1]
    fourth = tf.cond(tf.reduce_sum(x) > 0, lambda: x + new, lambda: x * 2.0)

    @tf.function
    def scaled(a: Any, b: Any) -> Any:
        return tf.identity(tf.tanh(a) * b, name="inner")

    fifth = scaled(x, new)
    steps = v1.get_variable("steps", shape=[], use_resource=False)
    with tf.control_dependencies([v1.assign(steps, 1.0), v1.assert_less(x, 2.0)]):
        tf.identity(first + second + third + fourth + fifth, name="out")
    tf.io.write_file("/nowhere/at/all", tf.constant("text"))


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("graphs") / "kinds.pb", all_kinds)


@pytest.fixture(scope="module")
def runner(kinds: Path) -> Iterator[TensorflowRunner]:
    with TensorflowRunner(read(kinds)) as found:
        yield found


@pytest.fixture(scope="module")
def worker() -> Iterator[TensorflowWorker]:
    with TensorflowWorker() as found:
        found.begin(600)
        yield found


def in_session(path: Path, fetches: list[str], *, optimised: bool) -> list[Any]:
    """What TensorFlow itself gives in this process, variables assigned."""
    graph = tf.Graph()
    configuration = v1.ConfigProto()
    configuration.graph_options.rewrite_options.disable_meta_optimizer = not optimised
    with graph.as_default():
        tf.graph_util.import_graph_def(v1.GraphDef.FromString(path.read_bytes()), name="")
        handle = graph.get_tensor_by_name("new:0")
        assign = tf.raw_ops.AssignVariableOp(resource=handle, value=tf.constant(POINT["new"]))
        with v1.Session(graph=graph, config=configuration) as session:
            session.run(assign)
            session.run(v1.assign(graph.get_tensor_by_name("old:0"), POINT["old"]))
            return session.run(fetches, {"x:0": POINT["x"]})


def test_values_are_those_of_the_graph_as_it_is_written(kinds: Path, runner: TensorflowRunner) -> None:
    found = runner.values(POINT, ["x", "new", "logarithm", "out"])
    logarithm, out = in_session(kinds, ["logarithm:0", "out:0"], optimised=False)
    np.testing.assert_array_equal(found["logarithm"], logarithm)
    np.testing.assert_array_equal(found["out"], out)
    assert np.isfinite(found["logarithm"]).all()
    assert found["x"] is POINT["x"] and found["new"] is POINT["new"]


def test_what_users_get_has_its_constants_gathered(kinds: Path, runner: TensorflowRunner) -> None:
    found = runner.replayed(POINT, "logarithm")
    logarithm, out = in_session(kinds, ["logarithm:0", "out:0"], optimised=True)
    np.testing.assert_array_equal(found["logarithm"], logarithm)
    np.testing.assert_array_equal(found["out"], out)
    assert found["logarithm"][0] == -np.inf


def test_nodes_of_functions_are_seen_and_those_of_loops_are_not(kinds: Path, runner: TensorflowRunner) -> None:
    model = read(kinds)
    inner = next(node.name for node in model.graph.nodes if node.name.endswith("/inner"))
    assert runner.shows(inner)
    expected = np.tanh(POINT["x"]) * POINT["new"]
    np.testing.assert_allclose(runner.values(POINT, [inner])[inner], expected, rtol=1e-6)
    flat = inlined(graph_from_proto(v1.GraphDef.FromString(kinds.read_bytes())))
    whole = RunnableGraph(flat, model.found.fed)
    hidden = {node.name for node in flat.nodes if whole.reference(node.name) is None}
    assert {"while/mul", "while/add_1", "cond/add", "cond/mul"} <= hidden
    assert not {"logarithm", "out", "while/Exit_1", "cond/Merge"} & hidden


def test_the_control_flow_of_version_1_runs_as_it_is(kinds: Path, worker: TensorflowWorker) -> None:
    flat = inlined(graph_from_proto(v1.GraphDef.FromString(kinds.read_bytes())))
    part = RunnableGraph(flat, read(kinds).found.fed).part([Reference("out")])
    assert b"WriteFile" not in part.graph_def and b"AssignSub" not in part.graph_def
    number = worker.load_graph(part.graph_def)
    feeds = {tensor: POINT[name] for tensor, name in part.feeds.items()}
    (found,) = worker.run_graph(number, part, feeds, ["out:0"], optimised=False)
    (expected,) = in_session(kinds, ["out:0"], optimised=False)
    np.testing.assert_array_equal(found, expected)


def test_a_failing_assertion_of_the_graph_stops_the_run(runner: TensorflowRunner) -> None:
    with pytest.raises(RunFailed, match=r"TensorFlow refuses: .*x < y"):
        runner.values({**POINT, "x": np.full(4, 3.0, np.float32)}, ["out"])
    # The next point is run as if nothing had been.
    assert np.isfinite(runner.values(POINT, ["out"])["out"]).all()


def test_what_is_not_fed_is_said(runner: TensorflowRunner) -> None:
    with pytest.raises(RunFailed, match="no value for 'old'"):
        runner.values({"x": POINT["x"], "new": POINT["new"]}, ["out"])


def dangerous(tmp_path: Path) -> dict[str, Callable[[], Any]]:
    """Ways in which a graph reaches beyond itself, each with the name of the operator that does."""
    x = v1.placeholder(tf.float32, [], name="x")

    def in_loop() -> Any:
        def body(a: Any) -> Any:
            return tf.ensure_shape(tf.numpy_function(lambda b: b + 1, [a], tf.float32), [])

        return tf.while_loop(lambda a: a < 3.0, body, [x])[0]

    def in_function() -> Any:
        called = tf.function(lambda a: a + tf.strings.to_number(tf.io.read_file(str(tmp_path / "number"))))
        return called(x)

    return {
        "PyFunc": lambda: tf.numpy_function(lambda a: a, [x], tf.float32) * 2.0,
        "ReadFile": lambda: tf.strings.to_number(tf.io.read_file("/etc/hostname")) + x,
        "MatchingFiles": lambda: tf.cast(tf.size(tf.io.matching_files("/*")), tf.float32) + x,
        "PyFunc in a loop": in_loop,
        "ReadFile in a function": in_function,
    }


@pytest.mark.parametrize("name", ["PyFunc", "ReadFile", "MatchingFiles", "PyFunc in a loop", "ReadFile in a function"])
def test_operators_that_reach_out_are_refused_before_anything_is_sent(tmp_path: Path, name: str) -> None:
    def build() -> None:
        tf.identity(dangerous(tmp_path)[name](), name="out")

    path = saved(tmp_path / "reaching.pb", build)
    with TensorflowRunner(read(path)) as runner, pytest.raises(RunFailed, match=f"not run: operator {name.split()[0]}"):
        runner.values({"x": np.float32(0.0)}, ["out"])


def test_pure_operators_are_a_list_and_not_the_rest() -> None:
    assert all(map(is_pure, ("Log", "AddV2", "MatMul", "Softmax", "While", "Assert", "ReadVariableOp", "Const")))
    reaching = (
        "ReadFile", "WriteFile", "PyFunc", "PyFuncStateless", "EagerPyFunc", "SaveV2", "RestoreV2", "MergeV2Checkpoints",
        "QueueDequeueV2", "IteratorGetNext", "TensorDataset", "WriteScalarSummary", "PrintV2", "DebugIdentityV2", "RemoteCall",
        "LookupTableFindV2", "NoSuchOperator", "AssignVariableOp",
    )  # fmt: skip
    assert not any(map(is_pure, reaching))


def test_the_process_writes_no_file_even_where_the_model_is_trusted(tmp_path: Path, worker: TensorflowWorker) -> None:
    def build() -> None:
        x = v1.placeholder(tf.float32, [], name="x")
        with tf.control_dependencies([tf.io.write_file(str(tmp_path / "written"), tf.constant("text" * 100))]):
            tf.identity(x * 2.0, name="out")
        size = tf.strings.length(tf.io.read_file(str(tmp_path / "here")))
        tf.identity(tf.cast(size, tf.float32) + x, name="size")

    graph = v1.GraphDef.FromString(saved(tmp_path / "writing.pb", build).read_bytes())
    (tmp_path / "here").write_text("12345")
    whole = RunnableGraph(inlined(graph_from_proto(graph)), {"x": Reference("x")}, trust=True)
    feeds = {"x:0": np.float32(1.0)}
    for name, expected in (("out", 2.0), ("size", 6.0)):
        part = whole.part([Reference(name)])
        number = worker.load_graph(part.graph_def)
        assert worker.run_graph(number, part, feeds, [f"{name}:0"], optimised=False)[0] == expected
    # What no value needs is not there at all; and what is there cannot write.
    assert not (tmp_path / "written").exists()
    number = worker.load_graph(graph.SerializeToString())
    with pytest.raises(WorkerError):
        worker.run_graph(number, whole.part([Reference("x")]), feeds, ["out:0"], optimised=False)
    assert not (tmp_path / "written").exists() or not (tmp_path / "written").read_bytes()


def test_a_graph_without_end_is_ended(tmp_path: Path) -> None:
    def build() -> None:
        x = v1.placeholder(tf.float32, [], name="x")
        tf.identity(tf.while_loop(lambda a: a > 0.0, lambda a: a + 0.0, [x])[0], name="out")

    path = saved(tmp_path / "endless.pb", build)
    start = time.monotonic()
    with TensorflowRunner(read(path), time_limit=4.0) as runner:
        assert runner.values({"x": np.float32(-1.0)}, ["out"])["out"] == -1.0
        with pytest.raises(RunFailed, match="time limit"):
            runner.values({"x": np.float32(1.0)}, ["out"])
        with pytest.raises(RunFailed, match="time limit"):
            runner.values({"x": np.float32(-1.0)}, ["out"])
    assert time.monotonic() - start < 30


def test_what_is_written_is_what_was_read(kinds: Path) -> None:
    original = v1.GraphDef.FromString(kinds.read_bytes())
    again = v1.GraphDef.FromString(graph_def_bytes(graph_from_proto(original)))
    expected = {node.name: node for node in original.node}
    assert {node.name for node in again.node} == set(expected)
    for node in again.node:
        before = expected[node.name]
        operands = [text if text.startswith("^") or ":" in text else f"{text}:0" for text in before.input]
        assert (node.op, sorted(node.input)) == (before.op, sorted(operands))
        for name, value in node.attr.items():
            if value.WhichOneof("value") == "tensor":
                np.testing.assert_array_equal(tf.make_ndarray(value.tensor), tf.make_ndarray(before.attr[name].tensor))
            else:
                assert value == before.attr[name], (node.name, name)
        assert {name for name in before.attr if not name.startswith("_")} <= set(node.attr)


def test_tensors_of_all_types_are_written(tmp_path: Path) -> None:
    import ml_dtypes

    arrays = [
        np.arange(6, dtype=np.float32).reshape(2, 3),
        np.full((3, 4), 2.5),
        np.array([1, -2], np.int8),
        np.array([True, False]),
        np.array([1.5, -2.0], ml_dtypes.bfloat16),
        np.array(3 + 4j, np.complex64),
        np.zeros((0, 2), np.int64),
        np.array([b"a", b""], object),
    ]
    graph = tf.Graph()
    with graph.as_default():
        for index, array in enumerate(arrays):
            tf.constant(array, name=f"c{index}")
    found = v1.GraphDef.FromString(graph_def(graph_from_proto(graph.as_graph_def())).SerializeToString())
    for index, array in enumerate(arrays):
        written = tf.make_ndarray(next(node for node in found.node if node.name == f"c{index}").attr["value"].tensor)
        assert written.dtype == array.dtype and written.shape == array.shape
        np.testing.assert_array_equal(written, array)
