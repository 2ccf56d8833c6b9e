"""Programs for TensorFlow: what a run with its feeds reveals, variables by name, and what is not reported."""

from __future__ import annotations

import textwrap

import pytest

from tensorproof.shapes.analysis import analyse_source, analyse_with_frame
from tensorproof.shapes.problems import SourceAnalysis
from tensorproof.shapes.values import Tensor

pytestmark = pytest.mark.area("shapes")

HEADER = "import numpy as np\nimport tensorflow as tf\n"


def analysed(program: str) -> SourceAnalysis:
    return analyse_source(HEADER + textwrap.dedent(program).lstrip("\n"), "program.py")


def codes(program: str) -> list[tuple[int, str]]:
    """Lines (behind the header) and rules that are reported."""
    return [(problem.place.line - 2, problem.rule.code) for problem in analysed(program).problems]


REPORTED = {
    "a feed that does not fit its placeholder": (
        """
        x = tf.placeholder(tf.float32, [None, 4])
        y = x * 2.0
        with tf.Session() as session:
            session.run(y, {x: np.zeros((3, 5))})
        """,
        [(4, "SHP112")],
    ),
    "an operation that fails for what is fed": (
        """
        x = tf.placeholder(tf.float32)
        y = tf.matmul(x, tf.zeros([4, 2]))
        tf.Session().run(y, feed_dict={x: np.zeros((3, 5))})
        """,
        [(2, "SHP101")],
    ),
    "a step of training that needs what fails": (
        """
        x = tf.placeholder(tf.float32, [None, 4])
        y = tf.placeholder(tf.float32, [None, 2])
        w = tf.Variable(tf.zeros([4, 2]))
        loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=y, logits=tf.matmul(x, w)))
        step = tf.group(tf.train.AdamOptimizer().minimize(loss))
        tf.Session().run(step, {x: np.zeros((3, 4)), y: np.zeros((5, 2))})
        """,
        [(4, "SHP114")],
    ),
    "a size that is fed": (
        """
        n = tf.placeholder(tf.int32, [])
        y = tf.zeros([n, 3]) + tf.zeros([4, 3])
        y.eval({n: 4}, session=tf.Session())
        y.eval({n: 5}, session=tf.Session())
        """,
        [(2, "SHP102")],
    ),
    "a part of a list of tensors": (
        """
        x = tf.placeholder(tf.float32, [None, 6])
        a, b, c = tf.split(x, 3, axis=1)
        y = tf.concat([a, -b], 0) + tf.zeros([7, 2])
        tf.Session().run(y, {x: np.zeros((5, 6))})
        """,
        [(3, "SHP102")],
    ),
    "a reshape that some batches allow, but not this one": (
        """
        x = tf.placeholder(tf.float32, [None, 6])
        y = tf.reshape(x, [-1, 4])
        tf.Session().run(y, {x: np.zeros((5, 6))})
        """,
        [(2, "SHP103")],
    ),
    "two declarations of one shape": (
        """
        x = tf.placeholder(tf.float32)
        same = x
        same.set_shape([None, 3])
        x.set_shape([None, 4])
        """,
        [(4, "SHP113")],
    ),
    "a variable that is asked for with another shape": (
        """
        def weights(size):
            with tf.variable_scope("layer", reuse=tf.AUTO_REUSE):
                return tf.get_variable("w", [size, 2])

        weights(3)
        weights(4)
        """,
        [(3, "SHP113")],
    ),
    "a variable of the size of a batch": (
        """
        x = tf.placeholder(tf.float32, [None, 3])
        v = tf.Variable(tf.zeros([tf.shape(x)[0], 2]))
        """,
        [(2, "SHP119")],
    ),
    "a value of another shape for a variable": (
        """
        v = tf.Variable(tf.zeros([3, 2]))
        v.assign_add(tf.zeros([2, 3]))
        """,
        [(2, "SHP118")],
    ),
    "the same operand that fails twice in the same way": (
        """
        x = tf.zeros([2, 3])
        a = tf.matmul(x, tf.zeros([4, 5]))
        b = tf.matmul(x, tf.zeros([4, 5]))
        """,
        [(2, "SHP101")],
    ),
}


@pytest.mark.parametrize("name", REPORTED)
def test_what_is_reported(name: str) -> None:
    program, expected = REPORTED[name]
    assert codes(program) == expected


SILENT = {
    "names that two graphs share": """
        for size in (3, 4):
            with tf.Graph().as_default():
                with tf.variable_scope("layer", reuse=tf.AUTO_REUSE):
                    w = tf.get_variable("w", [size, 2])
        """,
    "a graph that is left behind": """
        for size in (3, 4):
            tf.reset_default_graph()
            with tf.variable_scope("layer", reuse=tf.AUTO_REUSE):
                w = tf.get_variable("w", [size, 2])
        placeholder = tf.placeholder(tf.float32)
        """,
    "a scope that is left by a return": """
        def layer(name, size):
            with tf.variable_scope(name, reuse=tf.AUTO_REUSE):
                return tf.get_variable("w", [size])

        layer("a", 3)
        b = layer("b", 4)
        c = tf.get_variable("w", [5])
        """,
    "batches of two placeholders": """
        x = tf.placeholder(tf.float32, [None, 3])
        y = tf.placeholder(tf.float32, [None, 3])
        z = tf.reshape(x, [-1, 9])[:, :3] + y
        tf.Session().run(z, {x: np.zeros((9, 3)), y: np.zeros((3, 3))})
        """,
    "products of unequal ranks in the compatible module": """
        tf.compat.v1.disable_eager_execution()
        x = tf.compat.v1.placeholder(tf.float32, [None, 5, 3])
        v = tf.compat.v1.Variable(tf.zeros([tf.shape(x)[0], 2]))
        y = tf.matmul(x, tf.zeros([3, 2]))
        """,
}


@pytest.mark.parametrize("name", SILENT)
def test_what_is_not_reported(name: str) -> None:
    assert codes(SILENT[name]) == []


def test_a_failure_of_a_run_names_the_run() -> None:
    program, _ = REPORTED["an operation that fails for what is fed"]
    (problem,) = analysed(program).problems
    assert problem.certain
    assert problem.related[-1].place.line == 5


def test_a_run_gives_arrays_of_numpy() -> None:
    program = """
    x = tf.placeholder(tf.float32, [None, 4])
    session = tf.Session()
    y, nothing = session.run([tf.transpose(x), tf.global_variables_initializer()], {x: np.zeros((3, 4))})
    """
    _, frame = analyse_with_frame(HEADER + textwrap.dedent(program), "program.py")
    result = frame.slots["y"]
    assert isinstance(result, Tensor)
    assert (str(result.shape), result.framework) == ("[4, 3]", "numpy")
    assert frame.slots["nothing"] is None


def test_defaults_of_the_command_line_are_taken() -> None:
    program = """
    flags = tf.app.flags
    flags.DEFINE_integer("units", 7, "how many")
    x = tf.zeros([flags.FLAGS.units, 2])
    """
    _, frame = analyse_with_frame(HEADER + textwrap.dedent(program), "program.py")
    assert str(frame.slots["x"].shape) == "[7, 2]"
