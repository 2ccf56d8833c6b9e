"""Agents: values with prioritised replay, actors with entropies and ratios, plans by value iteration."""

from __future__ import annotations

from typing import Any

from benchmarks.architectures.architecture import Deferred, Family, fails, holds
from benchmarks.architectures.layers import dense, hidden, placeholder, trained, weight, zeros

tf: Any = Deferred("tensorflow.compat.v1")
family = Family("reinforcement")


@family(
    fails(
        "replay/Pow",
        "a priority of 0 to a negative power",
        {"priority": 0.0},
        fixed="priorities are 0 or more, and 1e-6 is added to them",
    ),
    holds("replay/truediv", "weights are powers of numbers from 1e-6 to 5: the largest is not 0", form="fixed"),
    holds("replay/truediv", "weights are powers of numbers up to 4: the largest is not 0", form="defective"),
    ranges={"state": (-1, 1), "next": (-1, 1), "reward": (-1, 1), "action": (0, 3), "priority": (0, 1)},
)
def deep_q_network(fixed: bool) -> Any:
    """Temporal differences with a target network, Huber's loss, and weights that correct for prioritised replay."""
    state, following = placeholder("state", 4, 6), placeholder("next", 4, 6)
    reward, action = placeholder("reward", 4), placeholder("action", 4, integer=True)
    priority = placeholder("priority", 4)

    def values(x: Any, name: str) -> Any:
        with tf.variable_scope(name):
            return dense(hidden(x, 8, "hidden"), 4, "values")

    chosen = tf.reduce_sum(values(state, "online") * tf.one_hot(action, 4), 1)
    target = reward + 0.99 * tf.reduce_max(values(following, "target"), 1)
    with tf.name_scope("replay"):
        weights = tf.pow(4.0 * (priority + 1e-6 if fixed else priority), -0.4)
        weights = weights / tf.reduce_max(weights)
    difference = tf.abs(chosen - tf.stop_gradient(target))
    huber = tf.where(difference < 1.0, 0.5 * tf.square(difference), difference - 0.5)
    return trained(tf.reduce_mean(weights * huber), tf.train.RMSPropOptimizer(2.5e-4))


@family(
    fails(
        "entropy/Log",
        "the softmax of logits that are 88 apart underflows",
        {"state": 1.0, "hidden/kernel": 1.0, "policy/kernel": [[-1.0, 1.0, 1.0]] * 8},
    ),
    fails(
        "advantage/truediv",
        "returns that all exceed the values by as much",
        {"returns": 1.0},
        fixed="a deviation is 0 or more, and 1e-8 is added to it",
    ),
    holds("advantage/Sqrt", "a mean of squares is 0 or more"),
    ranges={"state": (-1, 1), "returns": (-10, 10), "action": (0, 2)},
)
def advantage_actor_critic(fixed: bool) -> Any:
    """An actor with an entropy bonus, and advantages that are normalised over the batch."""
    state, returns, action = placeholder("state", 4, 6), placeholder("returns", 4), placeholder("action", 4, integer=True)
    inner = hidden(state, 8, "hidden")
    logits, value = dense(inner, 3, "policy"), dense(inner, 1, "value")[:, 0]
    with tf.name_scope("advantage"):
        mean, variance = tf.nn.moments(returns - value, [0])
        deviation = tf.sqrt(variance)
        advantage = (returns - value - mean) / (deviation + 1e-8 if fixed else deviation)
    with tf.name_scope("entropy"):
        p = tf.nn.softmax(logits)
        entropy = -tf.reduce_sum(p * (tf.nn.log_softmax(logits) if fixed else tf.log(p)), 1)
    surprise = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=action, logits=logits)
    loss = tf.reduce_mean(surprise * tf.stop_gradient(advantage) + 0.5 * tf.square(returns - value) - 0.01 * entropy)
    return trained(loss, tf.train.RMSPropOptimizer(7e-4))


@family(
    holds("policy/Exp", "the logarithm of a deviation is a variable within [-10, 10] in any box"),
    holds("policy/truediv", "a deviation is the power of a number of at least -10"),
    fails(
        "ratio/Exp",
        "an action that the old policy held for impossible: a difference of logarithms of 200",
        {"old": -200.0},
        fixed="the difference is clipped to [-20, 20]",
    ),
    ranges={"state": (-1, 1), "action": (-1, 1), "old": (-200, 10), "advantage": (-10, 10)},
)
def proximal_policy(fixed: bool) -> Any:
    """A Gaussian policy that is kept near the old one by the ratio of their densities."""
    state, action = placeholder("state", 4, 6), placeholder("action", 4, 2)
    old, advantage = placeholder("old", 4), placeholder("advantage", 4)
    mean = dense(tf.tanh(dense(state, 8, "hidden")), 2, "mean")
    with tf.variable_scope("policy"):
        logarithm = zeros("deviation", 2)
        distance = (action - mean) / tf.exp(logarithm)
        likely = -tf.reduce_sum(0.5 * tf.square(distance) + logarithm + 0.918939, 1)
    with tf.name_scope("ratio"):
        difference = likely - old
        ratio = tf.exp(tf.clip_by_value(difference, -20.0, 20.0) if fixed else difference)
    bounded = tf.clip_by_value(ratio, 0.8, 1.2)
    return trained(-tf.reduce_mean(tf.minimum(ratio * advantage, bounded * advantage)))


@family(
    fails(
        "plan/Exp",
        "values grow from iteration to iteration, and their power overflows",
        {"map": 1.0, "reward": 1.0, "transition": 1.0, "action/kernel": 1.0},
        fixed="differences from the largest",
    ),
    fails(
        "plan/truediv",
        "values fall from iteration to iteration, and all powers are 0",
        {"map": 1.0, "reward": -1.0, "transition": 1.0, "action/kernel": 1.0},
        fixed="the power of the largest difference is 1",
    ),
    ranges={"map": (0, 1)},
    resources=True,
)
def value_iteration(fixed: bool) -> Any:
    """A plan on a map: values by repeated convolutions, and a softmax over actions that is written out."""
    grid = placeholder("map", 1, 5, 5, 2)
    reward = tf.nn.conv2d(grid, weight("reward", 3, 3, 2, 1), [1, 1, 1, 1], "SAME")
    transition = weight("transition", 3, 3, 2, 4)

    def step(count: Any, value: Any) -> Any:
        both = tf.concat([reward, value], 3)
        return count + 1, tf.reduce_max(tf.nn.conv2d(both, transition, [1, 1, 1, 1], "SAME"), 3, keepdims=True)

    _, value = tf.while_loop(lambda count, value: count < 3, step, [tf.constant(0), tf.zeros_like(reward)])
    q = dense(tf.reshape(value, [1, 25]), 4, "action")
    with tf.name_scope("plan"):
        powers = tf.exp(q - tf.reduce_max(q, 1, keepdims=True) if fixed else q)
        policy = powers / tf.reduce_sum(powers, 1, keepdims=True)
    return trained(tf.reduce_mean(tf.square(policy - 0.25)), tf.train.RMSPropOptimizer(1e-3)), policy
