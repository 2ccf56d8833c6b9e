"""Softmax regression on digits that computes its gradient and its updates by hand: GRIST 59.

Defect: the logarithm of a softmax. The program clips the softmax, but throws the result away. No optimiser and no gradient
of TensorFlow is in the graph; the weights start in [-1, 1].
"""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf
from digits import draw, one_hot

tf.disable_eager_execution()


def next_batch(images, labels, size, random):
    chosen = random.integers(0, len(images), size)
    return images[chosen], labels[chosen]


parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=3001)
args = parser.parse_args()

images, classes = draw(2000)
labels = one_hot(classes)

x = tf.placeholder(tf.float32, [None, 784], name="x")
y_true = tf.placeholder(tf.float32, [None, 10], name="y_true")
w = tf.Variable(tf.random_uniform([784, 10], -1, 1), name="weights")
b = tf.Variable(tf.zeros([10]), name="bias")
y = tf.nn.softmax(tf.matmul(x, w) + b)
tf.clip_by_value(y, 1e-15, 1.0)
loss = tf.reduce_mean(-tf.reduce_sum(y_true * tf.log(y), axis=1))  # defect

gradient = -tf.matmul(tf.transpose(x), y_true - y)
update_w = tf.assign_sub(w, 0.01 * gradient)
update_b = tf.assign_sub(b, 0.01 * tf.reduce_mean(gradient, axis=0))

random = np.random.default_rng(59)
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for step in range(args.steps):
        batch_x, batch_y = next_batch(images, labels, 100, random)
        _, _, value = sess.run([update_w, update_b, loss], feed_dict={x: batch_x, y_true: batch_y})
        if step % 100 == 0:
            print(f"step: {step:d}, loss: {value:f}")
