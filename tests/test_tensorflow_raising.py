"""Loops and conditions of TensorFlow 1 as While and If: what TensorFlow computes of the one and of the other is the same."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import pytest
import tensorflow as tf

from tensorproof.errors import ModelError
from tensorproof.frontends.tensorflow_files import graph_from_proto
from tensorproof.frontends.tensorflow_raising import raised
from tensorproof.frontends.tensorflow_records import Reference, TensorflowGraph, TensorflowNode
from tests.control_flow_graphs import GRAPHS, Built
from tests.large_tensorflow_graph import large_control_flow
from tests.rebuilt_graph import rebuilt

pytestmark = pytest.mark.area("tensorflow files")
v1 = tf.compat.v1

OLD = {"Switch", "RefSwitch", "Merge", "RefMerge", "Enter", "RefEnter", "Exit", "RefExit", "NextIteration", "LoopCond"}
PASSING = OLD | {"Identity", "Const", "NoOp", "ControlTrigger"}
ROUNDS = 4


@pytest.fixture(autouse=True)
def control_flow_of_the_first_version() -> Iterator[None]:
    enabled = v1.control_flow_v2_enabled()
    v1.disable_control_flow_v2()
    yield
    if enabled:
        v1.enable_control_flow_v2()


def all_nodes(graph: TensorflowGraph) -> list[TensorflowNode]:
    return [*graph.nodes, *(node for function in graph.functions.values() for node in function.nodes)]


def random_values(source: np.random.Generator, tensor: Any) -> Any:
    if tensor.dtype == tf.bool:
        return bool(source.integers(2))
    if tensor.dtype == tf.int32:
        return int(source.integers(0, 5))
    return source.normal(size=tensor.shape.as_list()).astype(np.float32) * 2


@pytest.mark.parametrize("name", GRAPHS)
def test_same_results(name: str) -> None:
    same_results(GRAPHS[name])


def same_results(build: Callable[[], Built]) -> None:
    with tf.Graph().as_default() as old:
        inputs, outputs = build()
        initial = v1.global_variables_initializer()
    record = graph_from_proto(old.as_graph_def())
    graph = raised(record)
    found = [node.op for node in all_nodes(graph)]
    assert not OLD & set(found) and not graph.notes
    assert {"If", "While"} & set(found)
    with tf.Graph().as_default() as new:
        tf.import_graph_def(v1.GraphDef.FromString(rebuilt(graph)), name="")
    source = np.random.default_rng(0)
    fetched = [tensor.name for tensor in outputs]
    with v1.Session(graph=old) as first, v1.Session(graph=new) as second:
        first.run(initial.name)
        second.run(initial.name)
        for _ in range(ROUNDS):
            feed = {tensor.name: random_values(source, tensor) for tensor in inputs}
            for expected, result in zip(first.run(fetched, feed), second.run(fetched, feed)):
                np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


def random_program(seed: int) -> Built:
    """Conditions and loops in each other, with the gradient of the whole."""
    source = random.Random(seed)
    x, numbers, flags = (
        v1.placeholder(tf.float32, [3]),
        [v1.placeholder(tf.int32, [])],
        [v1.placeholder(tf.bool, []) for _ in range(2)],
    )
    operations = [tf.tanh, tf.sin, lambda v: v * 0.7 + 0.1, lambda v: v * x, lambda v: tf.math.log(v * v + 1.0)]

    def block(value: Any, depth: int) -> Any:
        for _ in range(source.randrange(1, 3)):
            kind = source.random()
            if depth == 0 or kind < 0.35:
                value = source.choice(operations)(value)
            elif kind < 0.7:
                predicate = source.choice([*flags, tf.reduce_sum(value) > 0.2])
                state = source.getstate()
                value = v1.cond(predicate, lambda value=value: block(value, depth - 1), lambda value=value: block(value, depth - 1))
                source.setstate(state)
                source.random()
            else:
                rounds = source.choice([*numbers, tf.constant(2)])
                condition = lambda i, _, rounds=rounds: i < rounds  # noqa: E731
                value = v1.while_loop(condition, lambda i, v: (i + 1, block(v, depth - 1)), [0, value])[1]
        return value

    y = v1.cond(flags[0], lambda: block(x, 2), lambda: tf.exp(-x * x))
    return [x, *numbers, *flags], [y, *tf.gradients(y, x)]


@pytest.mark.parametrize("seed", range(10))
def test_same_results_of_random_programs(seed: int) -> None:
    same_results(lambda: random_program(seed))


@pytest.mark.parametrize("name", ["gradient_of_condition_in_loop", "nested_conditions", "nested_loops", "scan_and_map"])
def test_rewired_graphs_raise_nothing(name: str) -> None:
    """Nodes rewired at random: control flow of any form is raised or left, and no node that computes is lost."""
    with tf.Graph().as_default() as old:
        GRAPHS[name]()
    original = old.as_graph_def()
    source = random.Random(name)
    read = 0
    for _ in range(30):
        proto = v1.GraphDef.FromString(original.SerializeToString())
        for _ in range(source.choice([1, 2, 4])):
            node, other = source.choice(proto.node), source.choice(proto.node)
            change = source.randrange(5)
            if change == 0 and node.input:
                node.input[source.randrange(len(node.input))] = source.choice([other.name, f"{other.name}:1", f"^{other.name}"])
            elif change == 1:
                node.op = source.choice(sorted(OLD | {"Identity"}))
            elif change == 2 and node.input:
                del node.input[-1]
            elif change == 3:
                node.input.append(f"^{other.name}")
            elif node.attr:
                del node.attr[source.choice(sorted(node.attr))]
        try:
            record = graph_from_proto(proto)
        except ModelError:
            continue
        read += 1
        graph = raised(record)
        there = {node.name for node in all_nodes(graph)}
        assert {node.name for node in record.nodes if node.op not in PASSING} <= there
        in_order(graph)
    assert read > 5


@pytest.mark.parametrize("name", GRAPHS)
def test_nodes_keep_their_names(name: str) -> None:
    """What computes is there under its own name; references lead to nodes and arguments that are there, in order."""
    with tf.Graph().as_default() as old:
        GRAPHS[name]()
    record = graph_from_proto(old.as_graph_def())
    graph = raised(record)
    there = {node.name for node in all_nodes(graph)}
    assert {node.name for node in record.nodes if node.op not in PASSING} <= there
    originals = {node.original for node in record.nodes}
    assert {node.original for node in all_nodes(graph)} <= originals
    in_order(graph)


def in_order(graph: TensorflowGraph) -> None:
    """References lead to nodes and arguments of their own scope, which stand before them (but for those of loops left)."""
    scopes = [(graph.nodes, ()), *[(function.nodes, function.inputs) for function in graph.functions.values()]]
    for nodes, arguments in scopes:
        seen = set(arguments)
        assert len(seen) == len(arguments)
        back = {node.name for node in nodes if node.op in ("NextIteration", "RefNextIteration")}
        for node in nodes:
            assert {operand.node for operand in node.inputs} | set(node.controls) <= seen | back
            assert node.name not in seen
            seen.add(node.name)
    for function in graph.functions.values():
        known = {*function.inputs, *(node.name for node in function.nodes)}
        assert {output.node for output in function.outputs} <= known


def test_branches_hold_each_node_once() -> None:
    """Results of one condition share an If: no node is in it twice."""
    with tf.Graph().as_default() as old:
        GRAPHS["several_results"]()
    graph = raised(graph_from_proto(old.as_graph_def()))
    assert [node.op for node in all_nodes(graph)].count("Exp") == 1
    assert [node.op for node in all_nodes(graph)].count("If") == 3


def test_effects_without_results() -> None:
    """A branch that nothing reads is kept: it may fail all the same."""
    from tensorflow.python.ops import gen_control_flow_ops

    with tf.Graph().as_default() as old:
        x, p, q = v1.placeholder(tf.float32, [3]), v1.placeholder(tf.bool, []), v1.placeholder(tf.bool, [])
        _, then = gen_control_flow_ops.switch(x, p)
        _, inner = gen_control_flow_ops.switch(tf.math.log(then), gen_control_flow_ops.switch(q, p)[1])
        v1.Print(tf.sqrt(inner), [inner])
    graph = raised(graph_from_proto(old.as_graph_def()))
    assert not OLD & {node.op for node in all_nodes(graph)}
    outer = [node for node in graph.nodes if node.op == "If"]
    assert len(outer) == 1 and not outer[0].attributes["Tout"]
    branch = graph.functions[outer[0].attributes["then_branch"].name]
    assert {"Log", "If"} <= {node.op for node in branch.nodes}
    assert not graph.functions[outer[0].attributes["else_branch"].name].nodes
    assert [node.op for node in all_nodes(graph)].count("Sqrt") == 1


def test_unknown_forms_stay() -> None:
    """A Merge of two conditions and a frame without a condition are left as they are, beside a loop that is raised."""
    from tensorflow.python.ops import gen_control_flow_ops

    with tf.Graph().as_default() as old:
        x, p, q = v1.placeholder(tf.float32, [3]), v1.placeholder(tf.bool, []), v1.placeholder(tf.bool, [])
        _, first = gen_control_flow_ops.switch(x, p)
        _, second = gen_control_flow_ops.switch(x, q)
        gen_control_flow_ops.merge([tf.exp(first), tf.math.log(second)], name="strange")
        gen_control_flow_ops.enter(x, frame_name="open", name="entered")
        v1.while_loop(lambda i: i < 3, lambda i: i + 1, [0])
    before = graph_from_proto(old.as_graph_def())
    graph = raised(before)
    by_name = {node.name: node for node in graph.nodes}
    assert by_name["strange"].op == "Merge" and by_name["entered"].op == "Enter"
    assert {node.op for node in before.nodes if "while" not in node.name} == {
        node.op for node in graph.nodes if "while" not in node.name
    }
    assert [node.op for node in graph.nodes].count("While") == 1


def test_graphs_without_old_control_flow_are_the_same() -> None:
    with tf.Graph().as_default() as old:
        tf.exp(v1.placeholder(tf.float32, [3]))
    graph = graph_from_proto(old.as_graph_def())
    assert raised(graph) is graph


def test_functions_are_raised_too() -> None:
    from tensorflow.python.framework import function

    with tf.Graph().as_default() as old:

        @function.Defun(tf.float32, tf.bool)
        def chosen(x: Any, p: Any) -> Any:
            return v1.cond(p, lambda: tf.exp(x), lambda: x)

        chosen(v1.placeholder(tf.float32, []), v1.placeholder(tf.bool, []))
    before = graph_from_proto(old.as_graph_def())
    assert OLD & {node.op for node in all_nodes(before)}
    graph = raised(before)
    assert not OLD & {node.op for node in all_nodes(graph)}
    exponents = [node for node in all_nodes(graph) if node.op == "Exp"]
    assert [(node.function in before.functions, node.name == node.original) for node in exponents] == [(True, True)]


def test_lowered_control_flow_of_the_second_version() -> None:
    """Freezing writes While and If as loops and conditions of TensorFlow 1, in a form of its own."""
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    v1.enable_control_flow_v2()
    weights = tf.Variable(np.full((3, 3), 0.3, np.float32))

    @tf.function(input_signature=[tf.TensorSpec([2, 3], tf.float32, name="x")])
    def model(x: Any) -> Any:
        def body(i: Any, y: Any) -> Any:
            return i + 1, tf.cond(tf.reduce_sum(y) > 0.0, lambda: tf.tanh(tf.matmul(y, weights)), lambda: y * 2.0 + 1.0)

        return tf.math.log(tf.abs(tf.while_loop(lambda i, _: i < 4, body, (0, x))[1]) + 1.0)

    frozen = convert_variables_to_constants_v2(model.get_concrete_function(), lower_control_flow=True).graph.as_graph_def()
    before = graph_from_proto(frozen)
    assert OLD - {"RefSwitch", "RefMerge", "RefEnter", "RefExit"} == OLD & {node.op for node in all_nodes(before)}
    graph = raised(before)
    assert not OLD & {node.op for node in all_nodes(graph)}
    with tf.Graph().as_default() as new:
        tf.import_graph_def(v1.GraphDef.FromString(rebuilt(graph)), name="")
    x = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)
    expected = model(x).numpy()
    with v1.Session(graph=new) as session:
        np.testing.assert_allclose(session.run("Identity:0", {"x:0": x}), expected, rtol=1e-5)


def test_lines_lead_through_raising() -> None:
    """Nodes of branches are found by the function and the name that they were written in."""
    with tf.Graph().as_default() as old:
        _, outputs = GRAPHS["condition_in_loop_in_condition"]()
    graph = raised(graph_from_proto(old.as_graph_def()))
    exponent = next(node for node in all_nodes(graph) if node.op == "Exp")
    assert exponent.function == "" and exponent.original == exponent.name == "cond/while/cond/Exp"
    assert Reference(outputs[0].op.name) in {Reference(node.name) for node in graph.nodes}


def test_many_conditions_and_loops_take_linear_time() -> None:
    seconds: list[float] = []
    for count in (500, 2000):
        record = graph_from_proto(large_control_flow(count))
        start = time.process_time()
        graph = raised(record)
        seconds.append(time.process_time() - start)
        found = [node.op for node in graph.nodes]
        assert (found.count("If"), found.count("While")) == (count, count) and not OLD & set(found)
    assert seconds[1] < 9 * seconds[0] + 0.5
