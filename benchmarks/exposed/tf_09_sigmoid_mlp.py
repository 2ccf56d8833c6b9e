"""Perceptron with sigmoid outputs and a binary cross-entropy written by hand: GRIST 9a and 9b.

Defect: log(1 - p) and log(p) of a sigmoid p. The first one fails from a logit of 17 on, the second one below -87.
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
log_y = tf.log(y_hypo)  # also
log_not_y = tf.log(1 - y_hypo)  # defect
cost = tf.reduce_mean(tf.reduce_sum(-Y * log_y - (1 - Y) * log_not_y, axis=1))
train_op = tf.train.GradientDescentOptimizer(0.5).minimize(cost)

with tf.Session() as sess:
    tf.global_variables_initializer().run()
    for i in range(args.steps):
        images, labels = mnist.train.next_batch(100)
        _, current = sess.run([train_op, cost], feed_dict={X: images, Y: labels})
        if i % 100 == 0:
            print(i, "cost", current)
