"""Thin, normal or fat, with name scopes and summaries for TensorBoard: GRIST 42.

Defect: the logarithm of a softmax, summed over the batch. The loss is not fetched; it leaves the graph inside a summary.
"""

import argparse
import tempfile

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()


class People:
    """Weights and heights, scaled, with one-hot classes."""

    def __init__(self, count=20000, seed=42):
        random = np.random.default_rng(seed)
        height, weight = random.integers(120, 201, count), random.integers(35, 81, count)
        self.x = np.stack([weight / 100, height / 200], axis=1).astype(np.float32)
        self.y = np.eye(3, dtype=np.float32)[np.digitize(weight / (height / 100) ** 2, [18.5, 25.0])]
        self.position = 0

    def next_batch(self, size):
        rows = np.arange(self.position, self.position + size) % len(self.x)
        self.position += size
        return self.x[rows], self.y[rows]


parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=10001)
args = parser.parse_args()

people = People()
x = tf.placeholder(tf.float32, [None, 2], name="x")
y_ = tf.placeholder(tf.float32, [None, 3], name="y_")
with tf.name_scope("interface"):
    W = tf.Variable(tf.zeros([2, 3]), name="W")
    b = tf.Variable(tf.zeros([3]), name="b")
    with tf.name_scope("softmax"):
        y = tf.nn.softmax(tf.matmul(x, W) + b)
with tf.name_scope("loss"):
    cross_entropy = -tf.reduce_sum(y_ * tf.log(y))  # defect
with tf.name_scope("training"):
    train = tf.train.GradientDescentOptimizer(0.01).minimize(cross_entropy)
tf.summary.scalar("cross_entropy", cross_entropy)
tf.summary.histogram("weights", W)
merged = tf.summary.merge_all()

with tempfile.TemporaryDirectory() as folder, tf.Session() as sess:
    writer = tf.summary.FileWriter(folder, sess.graph)
    sess.run(tf.global_variables_initializer())
    for step in range(args.steps):
        batch_x, batch_y = people.next_batch(100)
        if step % 500:
            sess.run(train, feed_dict={x: batch_x, y_: batch_y})
            continue
        _, summary = sess.run([train, merged], feed_dict={x: batch_x, y_: batch_y})
        writer.add_summary(summary, step)
        (loss,) = [value.simple_value for value in tf.Summary.FromString(summary).value if value.tag == "cross_entropy"]
        print("step", step, "cross_entropy", loss)
    writer.close()
