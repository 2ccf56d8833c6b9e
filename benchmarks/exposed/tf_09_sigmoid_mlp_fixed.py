"""Repaired twin of `tf_09_sigmoid_mlp.py`.

The operands of both logarithms are held above zero.
"""

import argparse

import tensorflow.compat.v1 as tf
from digits import Digits

tf.disable_eager_execution()


def model(X, w_h, w_o):
    h = tf.nn.sigmoid(tf.matmul(X, w_h))
    return tf.nn.sigmoid(tf.matmul(h, w_o))


parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=2001)
args = parser.parse_args()

mnist = Digits()
X = tf.placeholder("float", [None, 784], name="X")
Y = tf.placeholder("float", [None, 10], name="Y")
w_h1 = tf.Variable(tf.zeros([784, 512]))
w_out = tf.Variable(tf.zeros([512, 10]))

y_hypo = model(X, w_h1, w_out)
log_y = tf.log(tf.clip_by_value(y_hypo, 1e-10, 1.0))
log_not_y = tf.log(tf.clip_by_value(1 - y_hypo, 1e-10, 1.0))
cost = tf.reduce_mean(tf.reduce_sum(-Y * log_y - (1 - Y) * log_not_y, axis=1))
train_op = tf.train.GradientDescentOptimizer(0.5).minimize(cost)

with tf.Session() as sess:
    tf.global_variables_initializer().run()
    for i in range(args.steps):
        images, labels = mnist.train.next_batch(100)
        _, current = sess.run([train_op, cost], feed_dict={X: images, Y: labels})
        if i % 100 == 0:
            print(i, "cost", current)
