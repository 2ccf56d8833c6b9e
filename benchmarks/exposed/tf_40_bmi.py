"""Thin, normal or fat: softmax regression on weight and height, in a finished graph: GRIST 40.

Defect: the logarithm of a softmax, summed over the batch. Two inputs in [0, 1]: the weights have to become large.
"""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=30001)
args = parser.parse_args()

random = np.random.default_rng(40)
height = random.integers(120, 201, 20000)
weight = random.integers(35, 81, 20000)
bmi = weight / (height / 100) ** 2
labels = np.eye(3, dtype=np.float32)[np.digitize(bmi, [18.5, 25.0])]
people = np.stack([weight / 100, height / 200], axis=1).astype(np.float32)

x = tf.placeholder(tf.float32, [None, 2], name="x")
y_ = tf.placeholder(tf.float32, [None, 3], name="y_")
W = tf.Variable(tf.zeros([2, 3]))
b = tf.Variable(tf.zeros([3]))
y = tf.nn.softmax(tf.matmul(x, W) + b)
cross_entropy = -tf.reduce_sum(y_ * tf.log(y))  # defect
train = tf.train.GradientDescentOptimizer(0.01).minimize(cross_entropy)
predict = tf.equal(tf.argmax(y, 1), tf.argmax(y_, 1))
accuracy = tf.reduce_mean(tf.cast(predict, tf.float32))
init = tf.global_variables_initializer()
tf.get_default_graph().finalize()

with tf.Session() as sess:
    sess.run(init)
    for step in range(args.steps):
        i = (step * 100) % 14000
        feed = {x: people[i : i + 100], y_: labels[i : i + 100]}
        sess.run(train, feed_dict=feed)
        if step % 1000 == 0:
            cre, acc = sess.run([cross_entropy, accuracy], feed_dict={x: people[15000:], y_: labels[15000:]})
            print("step=", step, "cre=", cre, "acc=", acc)
