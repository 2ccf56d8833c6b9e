"""Perceptron with a softmax and a cross-entropy written by hand, without any guard: GRIST 11b.

Defect: p = exp(a) / sum exp(a) is zero where the logit a is 88 below the others, and log(p) is minus infinity; exp(a)
overflows above 88.
"""

import argparse

import tensorflow.compat.v1 as tf
from digits import DataSet, draw, one_hot

tf.disable_eager_execution()

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=2001)
args = parser.parse_args()

pictures, classes = draw(2000)
train_data = DataSet((pictures * 2 - 1).reshape(-1, 28, 28, 1), one_hot(classes))

image = tf.placeholder(tf.float32, [None, 28, 28, 1], name="image")
label = tf.placeholder(tf.float32, [None, 10], name="label")

hidden = tf.reshape(image, [-1, 784])
for fan_in, fan_out in ((784, 200), (200, 100), (100, 10)):
    if fan_in != 784:
        hidden = tf.nn.relu(hidden)
    kernel = tf.Variable(tf.random_uniform([fan_in, fan_out], -0.25, 0.25))
    hidden = tf.matmul(hidden, kernel) + tf.Variable(tf.zeros([fan_out]))

exponents = tf.exp(hidden)  # also
p = exponents / tf.reduce_sum(exponents, 1, keepdims=True)  # also
loss = tf.reduce_mean(-tf.reduce_sum(label * tf.log(p), 1))  # defect
train = tf.train.GradientDescentOptimizer(0.01).minimize(loss)

with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for step in range(args.steps):
        batch = train_data.next_batch(100)
        _, value = sess.run((train, loss), {image: batch[0], label: batch[1]})
        if step % 100 == 0:
            print(f"step {step:d}, loss {value:.5f}")
