"""Convolutional network on digits, the second tutorial: GRIST 6.

Defect: the logarithm of a softmax, summed over the batch.
Smaller than the program: 8 and 16 channels in place of 32 and 64, 128 units in place of 1024.
"""

import argparse

import tensorflow.compat.v1 as tf
from digits import Digits

tf.disable_eager_execution()


def weight_variable(shape):
    return tf.Variable(tf.truncated_normal(shape, stddev=0.1))


def bias_variable(shape):
    return tf.Variable(tf.constant(0.1, shape=shape))


def conv2d(value, W):
    return tf.nn.conv2d(value, W, strides=[1, 1, 1, 1], padding="SAME")


def max_pool_2x2(value):
    return tf.nn.max_pool(value, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")


parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=1501)
args = parser.parse_args()

mnist = Digits()
x = tf.placeholder(tf.float32, [None, 784], name="x")
y_ = tf.placeholder(tf.float32, [None, 10], name="y_")
keep_prob = tf.placeholder(tf.float32, name="keep_prob")

x_image = tf.reshape(x, [-1, 28, 28, 1])
h_conv1 = tf.nn.relu(conv2d(x_image, weight_variable([5, 5, 1, 8])) + bias_variable([8]))
h_pool1 = max_pool_2x2(h_conv1)
h_conv2 = tf.nn.relu(conv2d(h_pool1, weight_variable([5, 5, 8, 16])) + bias_variable([16]))
h_pool2_flat = tf.reshape(max_pool_2x2(h_conv2), [-1, 7 * 7 * 16])
h_fc1 = tf.nn.relu(tf.matmul(h_pool2_flat, weight_variable([7 * 7 * 16, 128])) + bias_variable([128]))
h_fc1_drop = tf.nn.dropout(h_fc1, keep_prob)
y_conv = tf.nn.softmax(tf.matmul(h_fc1_drop, weight_variable([128, 10])) + bias_variable([10]))

cross_entropy = -tf.reduce_sum(y_ * tf.log(y_conv))  # defect
train_step = tf.train.AdamOptimizer(1e-4).minimize(cross_entropy)
correct_prediction = tf.equal(tf.argmax(y_conv, 1), tf.argmax(y_, 1))
accuracy = tf.reduce_mean(tf.cast(correct_prediction, tf.float32))

with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for i in range(args.steps):
        batch = mnist.train.next_batch(50)
        if i % 100 == 0:
            feed = {x: batch[0], y_: batch[1], keep_prob: 1.0}
            train_accuracy, loss = sess.run([accuracy, cross_entropy], feed_dict=feed)
            print(f"step {i}, training accuracy {train_accuracy:g}, loss {loss:g}")
        sess.run(train_step, feed_dict={x: batch[0], y_: batch[1], keep_prob: 0.5})
