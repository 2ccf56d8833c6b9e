"""Perceptron for stochastic computing, where each layer carries a scale, with L2 regularisation: GRIST 28c and 28d.

Values stay within [-1, 1]; each product is divided by the sum of its weights, multiplied by a gain, and the scale keeps the
account. Defect: the scale is divided by the gain, which is drawn from [0, 16) and trained. A gain of zero makes the scale
infinite. The sum of absolute weights and the scale are divisors as well.
"""

import argparse

import tensorflow.compat.v1 as tf
from digits import Digits

tf.disable_eager_execution()

BATCH = 500


def sc_matmul(x, w, s, gain):
    largest = tf.reduce_max(s)
    scaled = x * (s / largest)  # also
    total = tf.reduce_sum(tf.abs(w), axis=0, keepdims=True)
    z = tf.matmul(scaled, w) / total  # also
    out = tf.clip_by_value(z * gain, -1.0, 1.0)
    return out, largest * total / gain  # defect


def sc_add(x, b, s):
    shifted = b / s  # also
    return tf.clip_by_value(2.0 * ((x + shifted) / 2.0), -1.0, 1.0), s


def normal(shape):
    return tf.Variable(tf.random_normal(shape))


parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=1001)
args = parser.parse_args()

mnist = Digits()
features = tf.placeholder(tf.float32, [None, 784], name="features")
labels = tf.placeholder(tf.float32, [None, 10], name="labels")

w1, b1, wout, bout = normal([784, 128]), normal([128]), normal([128, 10]), normal([10])
gain_1 = tf.Variable(tf.random_uniform([1], 0.0, 16.0), name="gain_1")
gain_2 = tf.Variable(tf.random_uniform([1], 0.0, 16.0), name="gain_2")

h, scale = sc_matmul(features, w1, tf.ones([1, 784]), gain_1)
h, scale = sc_add(h, b1, scale)
h, scale = sc_matmul(h, wout, scale, gain_2)
h, scale = sc_add(h, bout, scale)
logits = h * scale

error = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=labels, logits=logits))
loss = error + 0.0012 * tf.add_n([tf.nn.l2_loss(v) for v in (w1, wout, b1, bout)])
train = tf.train.AdamOptimizer(0.1).minimize(loss)

with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for step in range(args.steps):
        batch_x, batch_y = mnist.train.next_batch(BATCH)
        _, value = sess.run([train, loss], feed_dict={features: batch_x, labels: batch_y})
        if step % 50 == 0:
            print("Step", step, "loss", value)
