"""Perceptron with a softmax written by hand, of which only one half is guarded: GRIST 11a and 11c.

Defect: the exponentials of the numerator are clipped, those of the denominator are not. They overflow above 88; and where
all ten logits are below -87, the denominator is zero. The clip behind the quotient hides both from the loss, not from its
gradient.
"""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf
from digits import draw, one_hot

tf.disable_eager_execution()


class Pictures:
    """Pictures of numbers in [-1, 1], 28 by 28 by 1."""

    def __init__(self, count, seed):
        pictures, labels = draw(count)
        self.pictures = (pictures * 2 - 1).reshape(count, 28, 28, 1)
        self.labels = one_hot(labels)
        self.random = np.random.default_rng(seed)

    def next_batch(self, size):
        chosen = self.random.choice(len(self.pictures), size, replace=False)
        return self.pictures[chosen], self.labels[chosen]


def dense(value, size, name):
    with tf.variable_scope(name):
        kernel = tf.get_variable("kernel", [value.shape[1], size], initializer=tf.random_uniform_initializer(-0.25, 0.25))
        bias = tf.get_variable("bias", [size], initializer=tf.zeros_initializer())
        return tf.matmul(value, kernel) + bias


def classifier(images):
    flat = tf.reshape(images, [-1, 784])
    first = tf.nn.relu(dense(flat, 200, "dense"))
    second = tf.nn.relu(dense(first, 100, "dense_1"))
    return dense(second, 10, "dense_2")


def unsafe_softmax(logits):
    safe = tf.exp(tf.clip_by_value(logits, -87.0, 87.0))
    total = tf.reduce_sum(tf.exp(logits), axis=1, keepdims=True)  # defect
    return safe / total  # also


def main(steps):
    data = Pictures(2000, seed=11)
    x = tf.placeholder(tf.float32, [None, 28, 28, 1], name="x")
    y = tf.placeholder(tf.float32, [None, 10], name="y")
    p = unsafe_softmax(classifier(x))
    loss = tf.reduce_mean(-tf.reduce_sum(y * tf.log(tf.clip_by_value(p, 1e-6, 1.0)), axis=1))
    train = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for step in range(steps):
            images, labels = data.next_batch(100)
            _, value = sess.run([train, loss], feed_dict={x: images, y: labels})
            if step % 100 == 0:
                print(f"step {step}: loss {value}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=2001)
    main(parser.parse_args().steps)
