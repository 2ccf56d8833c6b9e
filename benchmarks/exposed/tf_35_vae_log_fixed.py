"""Repaired twin of `tf_35_vae_log.py`.

The operand of the logarithm is held above zero by a maximum, which no rounding loses; exponents stay below 20, and sums of
exponentials finite.
"""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf
from digits import Digits

tf.disable_eager_execution()


def xavier_init(fan_in, fan_out):
    limit = np.sqrt(6.0 / (fan_in + fan_out))
    return tf.random_uniform((fan_in, fan_out), minval=-limit, maxval=limit)


class Linear:
    def __init__(self, fan_in, fan_out):
        self.w = tf.Variable(xavier_init(fan_in, fan_out))
        self.b = tf.Variable(tf.zeros([fan_out]))

    def __call__(self, value):
        return tf.matmul(value, self.w) + self.b


class VariationalAutoencoder:
    """Encodes pictures to normal distributions of `n_z` numbers, and decodes samples of these."""

    def __init__(self, n_hidden=500, n_z=20, batch_size=100, learning_rate=0.001):
        self.random = np.random.default_rng(35)
        self.shape = (batch_size, n_z)
        self.x = tf.placeholder(tf.float32, [None, 784], name="x")
        self.eps = tf.placeholder(tf.float32, [None, n_z], name="eps")
        self.build(n_hidden, n_z)
        self.cost = self.create_loss()
        self.optimizer = tf.train.AdamOptimizer(learning_rate).minimize(self.cost)
        self.sess = tf.Session()
        self.sess.run(tf.global_variables_initializer())

    def build(self, n_hidden, n_z):
        e1 = tf.nn.softplus(Linear(784, n_hidden)(self.x))
        e2 = tf.nn.softplus(Linear(n_hidden, n_hidden)(e1))
        self.z_mean, self.z_log_sigma_sq = Linear(n_hidden, n_z)(e2), Linear(n_hidden, n_z)(e2)
        variance = tf.exp(tf.clip_by_value(self.z_log_sigma_sq, -87.0, 20.0))
        self.variance = variance
        self.z = self.z_mean + tf.sqrt(variance) * self.eps
        d1 = tf.nn.softplus(Linear(n_z, n_hidden)(self.z))
        d2 = tf.nn.softplus(Linear(n_hidden, n_hidden)(d1))
        self.reconstruction = tf.nn.sigmoid(Linear(n_hidden, 784)(d2))

    def create_loss(self):
        lit = self.x * tf.log(1e-10 + self.reconstruction)
        dark = (1 - self.x) * tf.log(tf.maximum(1 - self.reconstruction, 1e-10))
        reconstruction_loss = -tf.reduce_sum(lit + dark, 1)
        latent_loss = -0.5 * tf.reduce_sum(1 + self.z_log_sigma_sq - tf.square(self.z_mean) - self.variance, 1)
        return tf.reduce_mean(reconstruction_loss + latent_loss)

    def partial_fit(self, X):
        eps = self.random.normal(0, 1, self.shape)
        _, cost = self.sess.run((self.optimizer, self.cost), feed_dict={self.x: X, self.eps: eps})
        return cost


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1501)
    steps = parser.parse_args().steps

    mnist = Digits()
    vae = VariationalAutoencoder()
    for step in range(steps):
        batch, _ = mnist.train.next_batch(100)
        cost = vae.partial_fit(batch)
        if step % 50 == 0:
            print("Step:", f"{step:04d}", "cost=", f"{cost:.5f}")
