"""Steps of TensorFlow's optimisers of version 1: what TensorFlow computes lies in the range, which is no wider than rounding."""

from __future__ import annotations

import numpy as np
import pytest

from tensorproof.assumptions import Declarations, resolve
from tensorproof.checking import analyse
from tensorproof.frontends.tensorflow_graph import translated
from tensorproof.frontends.tensorflow_live import live_graph
from tensorproof.frontends.tensorflow_records import Reference
from tensorproof.targets import TENSORFLOW_CPU

pytestmark = pytest.mark.area("tensorflow corpus")

#: A variable, the gradient of a first step, and that of the step that is looked at.
POINTS = ((0.5, 0.3, 0.0), (-2.0, -0.7, 1e-3), (3.0, 20.0, -4.0))

OPTIMISERS = {
    "ApplyGradientDescent": lambda tf: tf.train.GradientDescentOptimizer(0.1),
    "ApplyMomentum": lambda tf: tf.train.MomentumOptimizer(0.1, 0.9),
    "ApplyMomentum with a look ahead": lambda tf: tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
    "ApplyAdam": lambda tf: tf.train.AdamOptimizer(0.01),
    "ApplyRMSProp": lambda tf: tf.train.RMSPropOptimizer(0.01, momentum=0.5),
    "ApplyCenteredRMSProp": lambda tf: tf.train.RMSPropOptimizer(0.01, momentum=0.5, centered=True),
    "ApplyAdagrad": lambda tf: tf.train.AdagradOptimizer(0.1),
}


@pytest.mark.parametrize("name", OPTIMISERS)
@pytest.mark.parametrize("point", POINTS, ids=str)
def test_steps(name: str, point: tuple[float, float, float]) -> None:
    import tensorflow.compat.v1 as tf

    start, before, now = point
    with tf.Graph().as_default() as graph:
        gradient = tf.placeholder_with_default(tf.constant([now]), [1], name="gradient")
        variable = tf.Variable([start], name="variable", use_resource=False)
        OPTIMISERS[name](tf).apply_gradients([(gradient, variable)])
        step = next(op for op in graph.get_operations() if op.type == name.partition(" ")[0])
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            # Another step first, so that what the optimiser keeps is not zero.
            session.run(step.outputs[0], {"gradient:0": [before]})
            records = live_graph(graph, "step")
            records.values |= {kept.op.name: np.asarray(session.run(kept)) for kept in tf.global_variables()}
            (computed,) = session.run(step.outputs[0])
    found = translated(records, name="step", training=True, roots=[Reference(step.name)])
    (assumptions,), _ = resolve(found.model, Declarations(found.domains))
    analysis = analyse(found.model, assumptions, TENSORFLOW_CPU)
    summary = analysis.summaries[found.model.graph.outputs[0]]
    assert not analysis.coverage.not_analysed
    assert all(finding.rule.severity == "warning" for finding in analysis.findings)
    assert summary.low <= computed <= summary.high
    assert summary.high - summary.low <= 1e-5 * (1.0 + abs(computed))


def test_a_variance_that_rounding_makes_negative() -> None:
    """Centred RMSProp fails in TensorFlow where gradients fall to a constant, and is found to."""
    import tensorflow.compat.v1 as tf

    constant = 10.0 ** np.linspace(0.0, 1.0, 300, dtype=np.float32)
    with tf.Graph().as_default() as graph:
        gradient = tf.placeholder_with_default(tf.constant(constant), constant.shape, name="gradient")
        variable = tf.Variable(np.ones_like(constant), name="variable", use_resource=False)
        tf.train.RMSPropOptimizer(0.01, centered=True).apply_gradients([(gradient, variable)])
        step = next(op for op in graph.get_operations() if op.type == "ApplyCenteredRMSProp")
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for _ in range(50):
                session.run(step.outputs[0], {"gradient:0": 2.0 * constant})
            kept: dict[str, np.ndarray] = {}
            for _ in range(300):
                kept = {held.op.name: np.asarray(session.run(held)) for held in tf.global_variables()}
                computed = session.run(step.outputs[0])
                if np.isnan(computed).any():
                    break
    assert np.isnan(computed).any() and all(np.isfinite(held).all() for held in kept.values())
    records = live_graph(graph, "step")
    records.values |= kept
    found = translated(records, name="step", training=True, roots=[Reference(step.name)])
    (assumptions,), _ = resolve(found.model, Declarations(found.domains))
    analysis = analyse(found.model, assumptions, TENSORFLOW_CPU)
    assert "NUM102" in {finding.rule.code for finding in analysis.findings}
