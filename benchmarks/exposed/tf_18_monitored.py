"""Softmax regression on digits in a monitored session: GRIST 18.

Defect: the logarithm of a softmax. The weights are random at the start; the monitored session makes the graph final before
it runs.
"""

import argparse

import tensorflow.compat.v1 as tf
from digits import Digits

tf.disable_eager_execution()

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=3001)
args = parser.parse_args()

mnist = Digits()

with tf.name_scope("input"):
    x = tf.placeholder(tf.float32, shape=[None, 784], name="x")
    label = tf.placeholder(tf.float32, shape=[None, 10], name="label")
weight = tf.Variable(tf.truncated_normal([784, 10], stddev=0.1), name="weight")
bias = tf.Variable(tf.constant(0.1, shape=[10]), name="bias")
predict = tf.nn.softmax(tf.matmul(x, weight) + bias)

with tf.name_scope("loss"):
    loss = tf.reduce_mean(-tf.reduce_sum(label * tf.log(predict), axis=1))  # defect
global_step = tf.train.get_or_create_global_step()
train = tf.train.GradientDescentOptimizer(0.5).minimize(loss, global_step=global_step)

hooks = [tf.train.StopAtStepHook(last_step=args.steps)]
with tf.train.MonitoredTrainingSession(hooks=hooks) as sess:
    while not sess.should_stop():
        batch_xs, batch_ys = mnist.train.next_batch(100)
        _, value, step = sess.run([train, loss, global_step], feed_dict={x: batch_xs, label: batch_ys})
        if step % 100 == 1:
            print("step", step, "loss", value)
