"""LeNet-5 on digits of 32 by 32: GRIST 14.

Defect: the logarithm of a softmax, summed over the batch.
"""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf
from digits import draw, one_hot

tf.disable_eager_execution()

BATCH_SIZE = 64
RATE = 0.001


class LeNet:
    def __init__(self):
        self.input_x = tf.placeholder(tf.float32, [None, 32, 32, 1], name="input_x")
        self.input_y = tf.placeholder(tf.float32, [None, 10], name="input_y")
        c1 = self.convolution(self.input_x, 1, 6)
        s2 = tf.nn.max_pool(c1, [1, 2, 2, 1], [1, 2, 2, 1], "VALID")
        c3 = self.convolution(s2, 6, 16)
        s4 = tf.nn.max_pool(c3, [1, 2, 2, 1], [1, 2, 2, 1], "VALID")
        c5 = self.convolution(s4, 16, 120)
        f6 = tf.nn.relu(self.connected(tf.reshape(c5, [-1, 120]), 120, 84))
        self.output = tf.nn.softmax(self.connected(f6, 84, 10))
        self.loss = -tf.reduce_sum(self.input_y * tf.log(self.output))  # defect
        self.step = tf.train.GradientDescentOptimizer(RATE).minimize(self.loss)

    def convolution(self, value, channels, filters):
        kernel = tf.Variable(tf.truncated_normal([5, 5, channels, filters], stddev=0.1))
        return tf.nn.relu(tf.nn.conv2d(value, kernel, [1, 1, 1, 1], "VALID") + tf.Variable(tf.zeros([filters])))

    def connected(self, value, size, units):
        return tf.matmul(value, tf.Variable(tf.truncated_normal([size, units], stddev=0.1))) + tf.Variable(tf.zeros([units]))


def epochs(images, labels, random):
    while True:
        order = random.permutation(len(images))
        for start in range(0, len(images) - BATCH_SIZE + 1, BATCH_SIZE):
            yield images[order[start : start + BATCH_SIZE]], labels[order[start : start + BATCH_SIZE]]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=2001)
    steps = parser.parse_args().steps

    images, labels = draw(2048)
    images = np.pad(images.reshape(-1, 28, 28, 1), ((0, 0), (2, 2), (2, 2), (0, 0)))
    net = LeNet()
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for step, (batch_x, batch_y) in zip(range(steps), epochs(images, one_hot(labels), np.random.default_rng(14))):
            _, loss = sess.run([net.step, net.loss], feed_dict={net.input_x: batch_x, net.input_y: batch_y})
            if step % 100 == 0:
                print("step:", step, "loss:", loss)


main()
