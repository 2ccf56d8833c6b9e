"""Softmax regression on digits that come out of tf.data: GRIST 25.

Defect: the logarithm of a softmax. There is no placeholder; the batches are values of an iterator inside the graph.
"""

import argparse

import tensorflow.compat.v1 as tf
from digits import draw, one_hot

tf.disable_eager_execution()

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=3001)
args = parser.parse_args()

images, labels = draw(2000)
dataset = tf.data.Dataset.from_tensor_slices((images, one_hot(labels)))
dataset = dataset.shuffle(2000, seed=25).repeat().batch(100, drop_remainder=True)
x, y_ = tf.data.make_one_shot_iterator(dataset).get_next()

W = tf.Variable(tf.zeros([784, 10]))
b = tf.Variable(tf.zeros([10]))
y = tf.nn.softmax(tf.matmul(x, W) + b)
cross_entropy = tf.reduce_mean(-tf.reduce_sum(y_ * tf.log(y), axis=1))  # defect
train_step = tf.train.GradientDescentOptimizer(0.6).minimize(cross_entropy)

with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for step in range(args.steps):
        _, loss = sess.run([train_step, cross_entropy])
        if step % 100 == 0:
            print("step", step, "loss", loss)
