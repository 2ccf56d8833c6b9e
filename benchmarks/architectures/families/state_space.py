"""States that are filtered: hidden Markov models, Kalman filters, deep state-space models, spike trains."""

from __future__ import annotations

from typing import Any

from benchmarks.architectures.architecture import Deferred, Family, Seen, fails, holds
from benchmarks.architectures.layers import dense, gru, hidden, placeholder, trained, weight, zeros

tf: Any = Deferred("tensorflow.compat.v1")
family = Family("state space")


@family(
    holds("emission/Exp", "of minus a square"),
    holds("emission/truediv", "a softplus, and 0.01 more"),
    fails(
        "filter/while/truediv",
        "an observation that is 9 and more away from all means has no likelihood in float32",
        {"y": 10.0, "means": -1.0, "spread": -1.0},
        fixed="the sum is 0 or more, and 1e-8 is added to it",
        seen=Seen(("joint", "total"), "belief"),
    ),
    fails(
        "Log",
        "the likelihood of the last observation is 0 in float32",
        {"y": [0.0, 0.0, 0.0, 0.0, 0.0, 10.0], "means": -1.0, "spread": -1.0},
        fixed="the sum is 0 or more, and 1e-8 is added to it",
    ),
    ranges={"y": (-10, 10)},
)
def hidden_markov_model(fixed: bool) -> Any:
    """The forward filter: the belief is carried on, weighted by the likelihood and normalised."""
    y = placeholder("y", 6)
    transition = tf.nn.softmax(weight("transition", 4, 4))
    means, spread = weight("means", 4), zeros("spread", 4)
    with tf.name_scope("emission"):
        distance = (tf.expand_dims(y, 1) - means) / (tf.nn.softplus(spread) + 0.01)
        likelihood = tf.exp(-0.5 * tf.square(distance))

    def step(before: Any, likely: Any) -> Any:
        joint = tf.reduce_sum(tf.expand_dims(before[0], 1) * transition, 0) * likely
        total = tf.reduce_sum(joint) + (1e-8 if fixed else 0.0)
        return joint / total, joint, total

    start = tf.fill([4], 0.25), tf.zeros([4]), tf.zeros([])
    beliefs, joints, totals = tf.scan(step, likelihood, initializer=start, name="filter")
    tf.identity(beliefs, "belief")
    tf.identity(joints, "joint")
    loss = -tf.reduce_sum(tf.log(tf.identity(totals, "total")))
    return trained(loss), beliefs


@family(
    fails(
        "noise/Exp",
        "the logarithm of the noise is 90 where the network is at the upper end of its box",
        {"y": 3.0, "noise/hidden/kernel": 1.0, "noise/out/kernel": 1.0},
    ),
    holds(r"step_\d/truediv", "a variance is 0 or more, and the noise of the process, 0.0001, is added to it"),
    holds(r"step_\d/truediv_1", "the variance of the prediction is at least 0.0001"),
    holds(r"step_\d/Log", "the variance of the prediction is at least 0.0001"),
    ranges={"y": (-3, 3)},
)
def kalman_filter(fixed: bool) -> Any:
    """A filter of one dimension whose measurements are as noisy as a network says."""
    y = placeholder("y", 4)
    with tf.variable_scope("noise"):
        spread = dense(hidden(tf.expand_dims(y, 1), 30, "hidden"), 1, "out")[:, 0]
        noise = tf.nn.softplus(spread) + 1e-3 if fixed else tf.exp(spread)
    carried = weight("carried")
    mean, variance, loss = tf.zeros([]), tf.ones([]), tf.zeros([])
    for index in range(4):
        with tf.name_scope(f"step_{index}"):
            mean, variance = carried * mean, tf.square(carried) * variance + 1e-4
            total = variance + noise[index]
            error = y[index] - mean
            gain = variance / total
            loss += 0.5 * (tf.log(total) + tf.square(error) / total)
            mean, variance = mean + gain * error, variance - gain * variance
    return trained(loss), mean


@family(
    fails(
        "divergence/truediv",
        "a deviation that is a softplus of -45 or less is squared to 0",
        {
            "x": 1.0,
            "state/gates/bias": -1.0,
            "state/candidate/kernel": 1.0,
            "prior/hidden/kernel": 1.0,
            "prior/spread/kernel": -1.0,
        },
        fixed="deviations are at least 0.0001, and their squares 1e-8",
    ),
    fails(
        "divergence/truediv_1",
        "a deviation that is a softplus of -90 or less is flushed to 0",
        {
            "x": 1.0,
            "state/gates/bias": -1.0,
            "state/candidate/kernel": 1.0,
            "posterior/hidden/kernel": 1.0,
            "posterior/spread/kernel": -1.0,
        },
        fixed="deviations are at least 0.0001",
    ),
    fails(
        "divergence/Log",
        "the deviation of the prior is 0, and that of the posterior is not",
        {
            "x": 1.0,
            "state/gates/bias": -1.0,
            "state/candidate/kernel": 1.0,
            "prior/hidden/kernel": 1.0,
            "prior/spread/kernel": -1.0,
        },
        fixed="a quotient of deviations that are at least 0.0001 and below 1000000",
    ),
    ranges={"x": (-1, 1), "noise": (-4, 4)},
)
def deep_state_space(fixed: bool) -> Any:
    """A recurrent network with latent states: the divergence between its Gaussian posterior and its prior."""
    x, noise = placeholder("x", 3, 1, 6), placeholder("noise", 3, 1, 4)
    floor = 1e-4 if fixed else 0.0
    states = tf.concat(gru([x[step] for step in range(3)], 12, "state"), 0)

    def gaussian(given: Any, name: str) -> Any:
        with tf.variable_scope(name):
            inner = hidden(given, 12, "hidden")
            return dense(inner, 4, "mean"), tf.nn.softplus(dense(inner, 4, "spread")) + floor

    prior_mean, prior = gaussian(states, "prior")
    mean, deviation = gaussian(tf.concat([states, tf.reshape(x, [3, 6])], 1), "posterior")
    z = mean + deviation * tf.reshape(noise, [3, 4])
    with tf.name_scope("divergence"):
        spread = (tf.square(deviation) + tf.square(mean - prior_mean)) / (2.0 * tf.square(prior))
        each = tf.log(prior / deviation) + spread - 0.5
    fit = tf.reduce_sum(tf.square(dense(z, 6, "decoder") - tf.reshape(x, [3, 6])))
    return trained(fit + tf.reduce_sum(each))


@family(
    fails(
        "likelihood/rate",
        "the logarithm of a rate is above 89 where the factors are at the upper end of their box",
        {"spikes": 3.0, "encoder/gates/bias": -1.0, "encoder/candidate/kernel": 1.0, "factors/kernel": 1.0, "rates/kernel": 1.0},
        fixed="its operand is at most 10",
    ),
    ranges={"spikes": (0, 5)},
)
def spike_trains(fixed: bool) -> Any:
    """Dynamics behind spike trains: the likelihood of counts whose rates are powers of a network's output."""
    spikes = placeholder("spikes", 4, 1, 5)
    states = tf.concat(gru([spikes[step] for step in range(4)], 10, "encoder"), 0)
    factors = dense(states, 10, "factors")
    logarithm = dense(factors, 5, "rates")
    counts = tf.reshape(spikes, [4, 5])
    with tf.name_scope("likelihood"):
        bounded = tf.minimum(logarithm, 10.0) if fixed else logarithm
        loss = tf.reduce_sum(tf.exp(bounded, name="rate") - counts * bounded + tf.lgamma(counts + 1.0))
    return trained(loss)
