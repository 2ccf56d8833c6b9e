"""Perceptron with a softmax written by hand, its logits clipped by their own minimum: GRIST 16b.

Defect: log(|p|). The absolute value guards nothing: p = exp(a) / sum exp(a) is zero where a is 88 below the others. The clip
from below is at the smallest logit of the batch, so it clips nothing either.
"""

import argparse

import tensorflow.compat.v1 as tf
from digits import DataSet, draw, one_hot

tf.disable_eager_execution()


def layer(value, units):
    kernel = tf.Variable(tf.random_uniform([int(value.shape[1]), units], -0.25, 0.25))
    return tf.add(tf.matmul(value, kernel), tf.Variable(tf.zeros([units])))


parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=2001)
FLAGS = parser.parse_args()

pictures, classes = draw(2000, seed=16)
data = DataSet(pictures * 2 - 1, one_hot(classes))
x = tf.placeholder(tf.float32, [None, 784], name="x")
labels = tf.placeholder(tf.float32, [None, 10], name="labels")

h1 = tf.nn.relu(layer(x, 200))
h2 = tf.nn.relu(layer(h1, 100))
logits = layer(h2, 10)
logits = tf.clip_by_value(logits, tf.reduce_min(logits), 87.0)
p = tf.exp(logits) / tf.reduce_sum(tf.exp(logits), axis=1, keepdims=True)  # also
log_p = tf.log(tf.abs(p))  # defect
loss = tf.reduce_mean(-tf.reduce_sum(labels * log_p, axis=1))
train_op = tf.train.GradientDescentOptimizer(0.01).minimize(loss)

with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for step in range(FLAGS.steps):
        xs, ys = data.next_batch(100)
        _, loss_value = sess.run([train_op, loss], feed_dict={x: xs, labels: ys})
        if step % 100 == 0:
            print("iteration", step, "loss", loss_value)
