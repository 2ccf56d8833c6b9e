"""Repaired twin of `tf_02_softmax_two_logs.py`.

The operands of both logarithms are held above zero.
"""

import argparse

import tensorflow.compat.v1 as tf
from digits import Digits

tf.disable_eager_execution()


def main(steps, batch_size=10, learning_rate=0.01):
    data = Digits()
    x = tf.placeholder(tf.float32, [None, 784], name="x")
    y = tf.placeholder(tf.float32, [None, 10], name="y")
    with tf.name_scope("model"):
        weights = tf.Variable(tf.zeros([784, 10]), name="weights")
        biases = tf.Variable(tf.zeros([10]), name="biases")
        p = tf.nn.softmax(tf.matmul(x, weights) + biases)
    with tf.name_scope("cost"):
        hit = y * tf.log(tf.clip_by_value(p, 1e-10, 1.0))
        miss = (1 - y) * tf.log(tf.clip_by_value(1 - p, 1e-10, 1.0))
        cost = -tf.reduce_mean(hit + miss)
    optimizer = tf.train.AdamOptimizer(learning_rate).minimize(cost)

    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for step in range(steps):
            images, labels = data.train.next_batch(batch_size)
            _, value = sess.run([optimizer, cost], feed_dict={x: images, y: labels})
            if step % 100 == 0:
                print(f"step {step} cost {value:.6f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=2001)
    main(parser.parse_args().steps)
