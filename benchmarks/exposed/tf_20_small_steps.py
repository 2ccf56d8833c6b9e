"""Softmax regression on digits that learns slowly, epoch by epoch: GRIST 20.

Defect: the logarithm of a softmax. With a mean loss and a rate of 0.01 no plain run gets there.
"""

import argparse

import tensorflow.compat.v1 as tf
from digits import Digits

tf.disable_eager_execution()

learning_rate = 0.01
batch_size = 100
display_step = 5

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=6000)
args = parser.parse_args()

mnist = Digits()

x = tf.placeholder(tf.float32, [None, 784], name="x")
y = tf.placeholder(tf.float32, [None, 10], name="y")
W = tf.Variable(tf.zeros([784, 10]))
b = tf.Variable(tf.zeros([10]))
pred = tf.nn.softmax(tf.matmul(x, W) + b)
cost = tf.reduce_mean(-tf.reduce_sum(y * tf.log(pred), reduction_indices=1))  # defect
optimizer = tf.train.GradientDescentOptimizer(learning_rate).minimize(cost)
init = tf.global_variables_initializer()

with tf.Session() as sess:
    sess.run(init)
    total_batch = len(mnist.train.images) // batch_size
    epochs, rest = divmod(args.steps, total_batch)
    for epoch in range(epochs + bool(rest)):
        avg_cost = 0.0
        batches = total_batch if epoch < epochs else rest
        for _ in range(batches):
            batch_xs, batch_ys = mnist.train.next_batch(batch_size)
            _, c = sess.run([optimizer, cost], feed_dict={x: batch_xs, y: batch_ys})
            avg_cost += c / batches
        if epoch % display_step == 0 or epoch == epochs - 1:
            print("Epoch:", f"{epoch + 1:04d}", "cost=", f"{avg_cost:.9f}")
    print("Optimization Finished!")
