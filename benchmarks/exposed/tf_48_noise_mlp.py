"""Perceptron on digits with noise added inside the graph: GRIST 48a.

Defect: the logarithm of a softmax. Adagrad with a rate of 0.3 makes the logits large within the first steps.
"""

import argparse

import tensorflow.compat.v1 as tf
from digits import Digits

tf.disable_eager_execution()

in_units = 784
h1_units = 300

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=2001)
args = parser.parse_args()

mnist = Digits()
sess = tf.InteractiveSession()

w1 = tf.Variable(tf.truncated_normal([in_units, h1_units], stddev=0.1))
b1 = tf.Variable(tf.zeros([h1_units]))
w2 = tf.Variable(tf.zeros([h1_units, 10]))
b2 = tf.Variable(tf.zeros([10]))

x = tf.placeholder(tf.float32, [None, in_units], name="x")
keep_prob = tf.placeholder(tf.float32, name="keep_prob")
noisy = x + 0.01 * tf.random_normal((in_units,))
hidden1 = tf.nn.relu(tf.matmul(noisy, w1) + b1)
hidden1_drop = tf.nn.dropout(hidden1, keep_prob)
y = tf.nn.softmax(tf.matmul(hidden1_drop, w2) + b2)

y_ = tf.placeholder(tf.float32, [None, 10], name="y_")
cross_entropy = tf.reduce_mean(-tf.reduce_sum(y_ * tf.log(y), reduction_indices=[1]))  # defect
train_step = tf.train.AdagradOptimizer(0.3).minimize(cross_entropy)

tf.global_variables_initializer().run()
for i in range(args.steps):
    batch_xs, batch_ys = mnist.train.next_batch(100)
    feed = {x: batch_xs, y_: batch_ys, keep_prob: 0.75}
    if i % 100 == 0:
        _, loss = sess.run([train_step, cross_entropy], feed_dict=feed)
        print(f"step {i} loss {loss:.5f}")
    else:
        train_step.run(feed)
sess.close()
