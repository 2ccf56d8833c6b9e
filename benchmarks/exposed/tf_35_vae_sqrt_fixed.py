"""Repaired twin of `tf_35_vae_sqrt.py`.

The root of the exponential is the exponential of the half; exponents stay below 20, and sums of exponentials finite.
"""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf
from digits import Digits

tf.disable_eager_execution()


def xavier_init(fan_in, fan_out):
    limit = np.sqrt(6.0 / (fan_in + fan_out))
    return tf.random_uniform((fan_in, fan_out), minval=-limit, maxval=limit)


def linear(value, fan_out):
    fan_in = int(value.shape[1])
    return tf.matmul(value, tf.Variable(xavier_init(fan_in, fan_out))) + tf.Variable(tf.zeros([fan_out]))


parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=1501)
args = parser.parse_args()

HIDDEN, LATENT, BATCH = 500, 2, 100
mnist = Digits()
random = np.random.default_rng(35)

x = tf.placeholder(tf.float32, [None, 784], name="x")
eps = tf.placeholder(tf.float32, [None, LATENT], name="eps")

encoded = tf.nn.softplus(linear(tf.nn.softplus(linear(x, HIDDEN)), HIDDEN))
z_mean = linear(encoded, LATENT)
z_log_sigma_sq = linear(encoded, LATENT)
clipped = tf.clip_by_value(z_log_sigma_sq, -100.0, 20.0)
sigma = tf.exp(0.5 * clipped)
z = z_mean + sigma * eps
decoded = tf.nn.softplus(linear(tf.nn.softplus(linear(z, HIDDEN)), HIDDEN))
r = tf.nn.sigmoid(linear(decoded, 784))

lit = x * tf.log(tf.clip_by_value(r, 1e-6, 1.0))
dark = (1 - x) * tf.log(tf.clip_by_value(1 - r, 1e-6, 1.0))
reconstruction_loss = -tf.reduce_sum(lit + dark, 1)
latent_loss = -0.5 * tf.reduce_sum(1 + z_log_sigma_sq - tf.square(z_mean) - tf.exp(clipped), 1)
cost = tf.reduce_mean(reconstruction_loss + latent_loss)
optimizer = tf.train.AdamOptimizer(learning_rate=0.001).minimize(cost)

with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for step in range(args.steps):
        batch, _ = mnist.train.next_batch(BATCH)
        noise = random.normal(0, 1, (BATCH, LATENT))
        _, value = sess.run((optimizer, cost), feed_dict={x: batch, eps: noise})
        if step % 50 == 0:
            print("step", step, "cost", value)
