"""Softmax regression on digits that is saved half-way, restored and trained on: GRIST 60.

Defect: the logarithm of a softmax, summed over the batch. The second half runs in a second session with the variables of a file.
"""

import argparse
import tempfile
from pathlib import Path

import tensorflow.compat.v1 as tf
from digits import Digits

tf.disable_v2_behavior()

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=3001)
args = parser.parse_args()

mnist = Digits()
x = tf.placeholder(tf.float32, [None, 784], name="x")
y_ = tf.placeholder(tf.float32, [None, 10], name="y_")
W = tf.Variable(tf.zeros([784, 10]))
b = tf.Variable(tf.zeros([10]))
y = tf.nn.softmax(tf.matmul(x, W) + b)
cross_entropy = -tf.reduce_sum(y_ * tf.log(y))  # defect
train_step = tf.train.GradientDescentOptimizer(0.01).minimize(cross_entropy)
saver = tf.train.Saver()


def train(sess, steps):
    for step in steps:
        batch_xs, batch_ys = mnist.train.next_batch(100)
        _, loss = sess.run([train_step, cross_entropy], feed_dict={x: batch_xs, y_: batch_ys})
        if step % 100 == 0:
            print(f"step {step}, loss {loss:.4f}")


with tempfile.TemporaryDirectory() as folder:
    path = str(Path(folder, "model.ckpt"))
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        train(sess, range(args.steps // 2))
        saver.save(sess, path)
    with tf.Session() as sess:
        saver.restore(sess, path)
        train(sess, range(args.steps // 2, args.steps))
