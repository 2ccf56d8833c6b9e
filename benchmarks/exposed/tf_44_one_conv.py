"""Network with one convolution in a class that trains itself: GRIST 44.

Defect: the logarithm of a softmax, summed over the batch. Adagrad with a rate of 0.001: no plain run gets there.
"""

import argparse

import tensorflow.compat.v1 as tf
from digits import Digits

tf.disable_eager_execution()


class CNN:
    def __init__(self, height=28, width=28, n_class=10):
        self.x = tf.placeholder(tf.float32, [None, height, width, 1], name="x")
        self.y = tf.placeholder(tf.float32, [None, n_class], name="y")
        self.keep_prob = tf.placeholder(tf.float32, name="keep_prob")
        conv = tf.nn.conv2d(self.x, self.weight([5, 5, 1, 16]), strides=[1, 1, 1, 1], padding="SAME")
        pool = tf.nn.max_pool(tf.nn.relu(conv + self.bias([16])), [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
        flat = tf.reshape(pool, [-1, 14 * 14 * 16])
        full = tf.nn.relu(tf.matmul(flat, self.weight([14 * 14 * 16, 128])) + self.bias([128]))
        dropped = tf.nn.dropout(full, self.keep_prob)
        self.predict = tf.nn.softmax(tf.matmul(dropped, self.weight([128, n_class])) + self.bias([n_class]))
        self.loss = -tf.reduce_sum(self.y * tf.log(self.predict))  # defect
        self.train_op = tf.train.AdagradOptimizer(1e-3).minimize(self.loss)

    @staticmethod
    def weight(shape):
        return tf.Variable(tf.truncated_normal(shape, stddev=0.1))

    @staticmethod
    def bias(shape):
        return tf.Variable(tf.constant(0.1, shape=shape))

    def fit(self, data, steps, keep_prob=0.5):
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            for step in range(steps):
                images, labels = data.next_batch(50)
                feed = {self.x: images.reshape(-1, 28, 28, 1), self.y: labels, self.keep_prob: keep_prob}
                _, loss = sess.run([self.train_op, self.loss], feed_dict=feed)
                if step % 50 == 0:
                    print("step", step, "loss", loss)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1001)
    CNN().fit(Digits().train, parser.parse_args().steps)
