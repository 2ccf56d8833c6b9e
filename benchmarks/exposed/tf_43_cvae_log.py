"""Variational auto-encoder that is told the digit: GRIST 43a.

Defect: log(1e-10 + 1 - r), where the epsilon is absorbed by the 1 in float32.
Sums of exp(s) over latent numbers and batch overflow as well, since s may be as large as 87.
"""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf
from digits import Digits

tf.disable_eager_execution()


def variables(fan_in, fan_out):
    limit = np.sqrt(6.0 / (fan_in + fan_out))
    return tf.Variable(tf.random_uniform((fan_in, fan_out), -limit, limit)), tf.Variable(tf.zeros([fan_out]))


def layer(value, parameters):
    return tf.matmul(value, parameters[0]) + parameters[1]


parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=1501)
args = parser.parse_args()

mnist = Digits()
x = tf.placeholder(tf.float32, [None, 784], name="x")
y = tf.placeholder(tf.float32, [None, 10], name="y")
eps = tf.placeholder(tf.float32, [None, 2], name="eps")

encoder = tf.nn.softplus(layer(tf.concat([x, y], 1), variables(794, 500)))
encoder = tf.nn.softplus(layer(encoder, variables(500, 500)))
m, s = layer(encoder, variables(500, 2)), layer(encoder, variables(500, 2))
s = tf.clip_by_value(s, -87.0, 87.0)
z = m + tf.sqrt(tf.exp(s)) * eps
decoder = tf.nn.softplus(layer(tf.concat([z, y], 1), variables(12, 500)))
decoder = tf.nn.softplus(layer(decoder, variables(500, 500)))
r = tf.nn.sigmoid(layer(decoder, variables(500, 784)))

rec = x * tf.log(1e-10 + r)
rec += (1 - x) * tf.log(1e-10 + 1 - r)  # defect
lat = -0.5 * tf.reduce_sum(1 + s - tf.square(m) - tf.exp(s), 1)
cost = tf.reduce_mean(-tf.reduce_sum(rec, 1) + lat)  # also
train = tf.train.AdamOptimizer(0.001).minimize(cost)

noise = np.random.default_rng(43)
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for step in range(args.steps):
        images, labels = mnist.train.next_batch(100)
        feed_dict = {x: images, y: labels, eps: noise.normal(0, 1, (100, 2))}
        _, value = sess.run([train, cost], feed_dict)
        if step % 50 == 0:
            print("step", step, "cost", value)
