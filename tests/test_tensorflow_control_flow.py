"""Branches, loops and lists of tensors of TensorFlow: what is translated computes, and is bounded, as TensorFlow computes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.tensorflow_cases import check_case

pytestmark = pytest.mark.area("tensorflow control flow")

X = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]], np.float32)
V = np.array([0.5, -1.0, 2.0, 0.25], np.float32)
KERNEL = tf.Variable(np.full((3, 3), 0.25, np.float32), name="kernel")


def _branch(x: Any) -> Any:
    return tf.cond(tf.reduce_sum(x) > 0.0, lambda: tf.exp(x), lambda: -x)


def _nested(x: Any) -> Any:
    return tf.cond(
        tf.reduce_max(x) > 1.0, lambda: tf.cond(tf.reduce_min(x) < 0.0, lambda: x * 2.0, lambda: x + 3.0), lambda: tf.abs(x)
    )


def _cases(x: Any, index: Any) -> Any:
    return tf.switch_case(index, [lambda: x + 1.0, lambda: x * x, lambda: tf.sigmoid(x)])


def _counted(x: Any) -> Any:
    _, total = tf.while_loop(lambda i, total: i < 5, lambda i, total: (i + 1, total + tf.sigmoid(x)), (0, tf.zeros_like(x)))
    return total


def _until(x: Any) -> Any:
    return tf.while_loop(lambda y: tf.reduce_max(y) < 100.0, lambda y: (tf.abs(y) * 2.0 + 1.0,), (x,))[0]


def _reads_a_variable(x: Any) -> Any:
    return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.tanh(tf.matmul(y, KERNEL))), (0, x))[1]


def _scanned(x: Any) -> Any:
    return tf.scan(lambda total, item: tf.tanh(total + item), x, initializer=tf.zeros([3]))


def _mapped(x: Any) -> Any:
    return tf.map_fn(lambda row: tf.nn.softmax(row), x)


def _array(x: Any) -> Any:
    array = tf.TensorArray(tf.float32, size=4, element_shape=[3])
    for i in tf.range(4):
        array = array.write(i, x[0] * tf.cast(i, tf.float32))
    return array.stack()


def _growing(x: Any) -> Any:
    array = tf.TensorArray(tf.float32, size=0, dynamic_size=True)
    for i in range(3):
        array = array.write(i, x[0] + float(i))
    return array.concat()


def _for_loop(x: Any) -> Any:
    total = tf.zeros([3])
    for row in x:
        total = total + tf.exp(-tf.abs(row))
    return total


def _breaks(x: Any) -> Any:
    total = tf.constant(0.0)
    for _i in tf.range(10):
        if total > 3.0:
            break
        total += tf.reduce_mean(tf.abs(x)) + 1.0
    return total


def _folded(x: Any) -> Any:
    return tf.foldl(lambda a, b: a * 0.5 + b, x)


def _calls(x: Any) -> Any:
    @tf.function
    def inner(y: Any, z: Any) -> Any:
        return tf.nn.relu(y) + z, y * 2.0

    first, second = inner(x, x + 1.0)
    return inner(first, second)[0]


@pytest.mark.parametrize(
    "function",
    [
        _branch,
        _nested,
        _counted,
        _until,
        _reads_a_variable,
        _scanned,
        _mapped,
        _array,
        _growing,
        _for_loop,
        _breaks,
        _folded,
        _calls,
    ],
    ids=lambda f: f.__name__.strip("_"),
)
def test_control_flow_is_followed(function: Callable[..., Any]) -> None:
    # AutoGraph is what turns the loops and branches of Python into TensorFlow's.
    check_case(tf.autograph.to_graph(function) if function in (_array, _for_loop, _breaks) else function, X)


@pytest.mark.parametrize("index", [0, 2])
def test_cases_are_chosen_by_an_index(index: int) -> None:
    check_case(_cases, X, np.array(index, np.int32), ranges={1: (0, 2)})


def test_an_open_batch_is_scanned() -> None:
    check_case(_scanned, X, specs={0: (None, 3)})


def test_a_loop_that_grows_without_a_bound_is_reported() -> None:
    def grows(x: Any) -> Any:
        return tf.while_loop(lambda i, y: i < 200, lambda i, y: (i + 1, y * 2.0), (0, x))[1]

    assert "NUM202" in check_case(grows, X, ranges={0: (1.0, 2.0)}, is_random=True).rules
