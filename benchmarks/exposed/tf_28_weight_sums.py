"""Perceptron for stochastic computing with a gain for each unit, weights pressed into [-1, 1]: GRIST 28b.

Defect: products are divided by the sum of the absolute weights of a unit, which is zero for a unit without weights. The
gains, drawn from [0, 16), are divisors as well, and so is the scale.
"""

import argparse

import tensorflow.compat.v1 as tf
from digits import Digits

tf.disable_eager_execution()


class Layer:
    """A product and a sum of stochastic computing."""

    def __init__(self, size, units):
        self.w = tf.Variable(tf.random_normal([size, units]))
        self.b = tf.Variable(tf.random_normal([units]))
        self.gain = tf.Variable(tf.random_uniform([units], 0.0, 16.0))

    def __call__(self, x, scale):
        largest = tf.reduce_max(scale)
        x = x * (scale / largest)  # also
        total = tf.reduce_sum(tf.abs(self.w), axis=0, keepdims=True)
        z = tf.matmul(x, self.w) / total  # defect
        z = tf.clip_by_value(z * self.gain, -1.0, 1.0)
        scale = largest * total / self.gain  # also
        bias = self.b / scale  # also
        return tf.clip_by_value(2.0 * ((z + bias) / 2.0), -1.0, 1.0), scale

    def excess(self):
        """How far weights lie outside of [-1, 1]."""
        return tf.add_n([tf.reduce_sum(2.0 * (tf.abs(v) - tf.clip_by_value(tf.abs(v), -1.0, 1.0))) for v in (self.w, self.b)])


def main(steps):
    mnist = Digits()
    features = tf.placeholder(tf.float32, [None, 784], name="features")
    labels = tf.placeholder(tf.float32, [None, 10], name="labels")
    layers = [Layer(784, 128), Layer(128, 10)]
    h, scale = features, tf.ones([1, 784])
    for layer in layers:
        h, scale = layer(h, scale)
    error = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=labels, logits=h * scale))
    loss = error + 0.25 * tf.add_n([layer.excess() for layer in layers])
    train = tf.train.AdamOptimizer(0.1).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for step in range(steps):
            batch_x, batch_y = mnist.train.next_batch(500)
            _, value = sess.run([train, loss], feed_dict={features: batch_x, labels: batch_y})
            if step % 50 == 0:
                print(f"step {step} loss {value}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1001)
    main(parser.parse_args().steps)
