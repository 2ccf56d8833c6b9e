"""Softmax regression on digits with a ReLU behind the softmax: GRIST 19.

Defect: the logarithm of relu(softmax(.)); the ReLU changes no value, and the softmax is zero once a logit lies 88 below the
largest one.
"""

import argparse

import tensorflow.compat.v1 as tf
from digits import Digits

tf.disable_v2_behavior()


def add_layer(inputs, in_size, out_size, activation_function=None):
    Weights = tf.Variable(tf.zeros([in_size, out_size]))
    biases = tf.Variable(tf.zeros([out_size]))
    outputs = tf.nn.softmax(tf.matmul(inputs, Weights) + biases)
    return outputs if activation_function is None else activation_function(outputs)


parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=3001)
steps = parser.parse_args().steps

mnist = Digits()
x_input = tf.placeholder(tf.float32, [None, 784], name="x_input")
y_input = tf.placeholder(tf.float32, [None, 10], name="y_input")
prediction = add_layer(x_input, 784, 10, tf.nn.relu)
cross_entropy = tf.reduce_mean(-tf.reduce_sum(y_input * tf.log(prediction), reduction_indices=[1]))  # defect
train_step = tf.train.GradientDescentOptimizer(0.2).minimize(cross_entropy)

sess = tf.Session()
sess.run(tf.global_variables_initializer())
for i in range(steps):
    batch_x, batch_y = mnist.train.next_batch(50)
    sess.run(train_step, feed_dict={x_input: batch_x, y_input: batch_y})
    if i % 100 == 0:
        loss, _ = sess.run([cross_entropy, prediction], feed_dict={x_input: batch_x, y_input: batch_y})
        print(i, "loss", loss)
sess.close()
