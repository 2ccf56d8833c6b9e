"""Softmax regression on digits, the tutorial as it was: GRIST 3.

Defect: the cross-entropy takes the logarithm of a softmax, which is zero once a logit lies 88 below the largest one.
"""

import argparse

import tensorflow.compat.v1 as tf
from digits import Digits

tf.disable_eager_execution()

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=2001)
args = parser.parse_args()

mnist = Digits()

x = tf.placeholder(tf.float32, [None, 784], name="x")
W = tf.Variable(tf.zeros([784, 10]))
b = tf.Variable(tf.zeros([10]))
y = tf.nn.softmax(tf.matmul(x, W) + b)

y_ = tf.placeholder(tf.float32, [None, 10], name="y_")
cross_entropy = -tf.reduce_sum(y_ * tf.log(y))  # defect
train_step = tf.train.AdamOptimizer(0.005).minimize(cross_entropy)

sess = tf.Session()
sess.run(tf.global_variables_initializer())
for i in range(args.steps):
    batch_xs, batch_ys = mnist.train.next_batch(100)
    if i % 100 == 0:
        print("step", i, "loss", sess.run([train_step, cross_entropy], feed_dict={x: batch_xs, y_: batch_ys})[1])
    else:
        sess.run(train_step, feed_dict={x: batch_xs, y_: batch_ys})

correct = tf.equal(tf.argmax(y, 1), tf.argmax(y_, 1))
accuracy = tf.reduce_mean(tf.cast(correct, tf.float32))
print("accuracy", sess.run(accuracy, feed_dict={x: mnist.test.images, y_: mnist.test.labels}))
