"""Variational auto-encoder of digits whose two latent numbers are to be plotted, in a graph of its own: GRIST 36a.

Defect: log(1e-10 + 1 - r), where the epsilon is absorbed by the 1 in float32. The logarithm of the variance is clipped once
for all uses.
Sums of exp(s) over latent numbers and batch overflow as well, since s may be as large as 87.
"""

import argparse
from itertools import pairwise

import numpy as np
import tensorflow.compat.v1 as tf
from digits import Digits

tf.disable_eager_execution()


def get_variables(sizes):
    """Weights and biases of layers that follow each other, by number."""
    variables = {}
    for number, (fan_in, fan_out) in enumerate(pairwise(sizes)):
        limit = np.sqrt(6.0 / (fan_in + fan_out))
        variables[f"w{number}"] = tf.Variable(tf.random_uniform((fan_in, fan_out), -limit, limit))
        variables[f"b{number}"] = tf.Variable(tf.zeros([fan_out]))
    return variables


def hidden(value, variables):
    for number in (0, 1):
        value = tf.nn.softplus(tf.add(tf.matmul(value, variables[f"w{number}"]), variables[f"b{number}"]))
    return value


def latent(value, variables):
    return tf.add(tf.matmul(value, variables["w0"]), variables["b0"])


parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=1501)
args = parser.parse_args()

mnist = Digits()
graph = tf.Graph()
with graph.as_default():
    x = tf.placeholder(tf.float32, [None, 784], name="x")
    eps = tf.placeholder(tf.float32, [None, 2], name="eps")
    code = hidden(x, get_variables([784, 500, 500]))
    mean, log_sigma_sq = latent(code, get_variables([500, 2])), latent(code, get_variables([500, 2]))
    log_sigma_sq = tf.clip_by_value(log_sigma_sq, -87.0, 87.0)
    z = tf.add(mean, tf.multiply(tf.sqrt(tf.exp(log_sigma_sq)), eps))
    r = tf.sigmoid(latent(hidden(z, get_variables([2, 500, 500])), get_variables([500, 784])))
    log_r = tf.log(1e-10 + r)
    log_not_r = tf.log(1e-10 + 1 - r)  # defect
    reconstruction = -tf.reduce_sum(x * log_r + (1 - x) * log_not_r, 1)
    divergence = -0.5 * tf.reduce_sum(1 + log_sigma_sq - tf.square(mean) - tf.exp(log_sigma_sq), 1)
    cost = tf.reduce_mean(reconstruction + divergence)  # also
    train = tf.train.AdamOptimizer(0.001).minimize(cost)
    init = tf.global_variables_initializer()

random = np.random.default_rng(36)
with tf.Session(graph=graph) as sess:
    sess.run(init)
    for step in range(args.steps):
        feed = {x: mnist.train.next_batch(100)[0], eps: random.normal(0.0, 1.0, (100, 2)).astype(np.float32)}
        _, value = sess.run([train, cost], feed_dict=feed)
        if step % 50 == 0:
            print(f"step {step} cost {value:.4f}")
    places = sess.run(mean, feed_dict={x: mnist.test.images})
    print("latent space from", places.min(axis=0), "to", places.max(axis=0))
