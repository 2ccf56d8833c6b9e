"""U-Net that finds discs in noise, with the dice loss: GRIST 17.

Defect: the softmax over two channels is written as exp(a) / sum exp(a), and exp(a) overflows above 88. GRIST did not reach it.
Smaller than the program: pictures of 92 by 92 in place of 572, 8 channels at the top in place of 16.
"""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()

SIDE, MASK, ROOT = 92, 52, 8


def discs(random):
    """One picture with discs in noise, in [0, 1], and the one-hot mask of its centre."""
    rows, columns = np.mgrid[0:SIDE, 0:SIDE]
    picture, mask = np.zeros((SIDE, SIDE)), np.zeros((SIDE, SIDE), bool)
    for _ in range(8):
        row, column, radius = random.integers(8, SIDE - 8), random.integers(8, SIDE - 8), random.integers(3, 9)
        inside = (rows - row) ** 2 + (columns - column) ** 2 <= radius**2
        picture[inside] = random.integers(1, 255)
        mask |= inside
    picture += random.normal(0.0, 20.0, picture.shape)
    picture = (picture - picture.min()) / (picture.max() - picture.min())
    edge = (SIDE - MASK) // 2
    mask = mask[edge:-edge, edge:-edge]
    return picture[None, :, :, None].astype(np.float32), np.stack([~mask, mask], -1)[None].astype(np.float32)


def weights(shape, std):
    return tf.Variable(tf.truncated_normal(shape, stddev=std))


def biases(size):
    return tf.Variable(tf.constant(0.1, shape=[size]))


def convolved(value, channels, filters, keep):
    w = weights([3, 3, channels, filters], np.sqrt(2 / (9 * filters)))
    result = tf.nn.conv2d(value, w, strides=[1, 1, 1, 1], padding="VALID")
    return tf.nn.relu(tf.nn.dropout(result, keep) + biases(filters))


def raised(value, size, channels, filters):
    """A transposed convolution that doubles the sides to `size`."""
    w = weights([2, 2, filters, channels], np.sqrt(2 / (9 * channels)))
    shape = tf.stack([tf.shape(value)[0], size, size, filters])
    result = tf.nn.conv2d_transpose(value, w, shape, strides=[1, 2, 2, 1], padding="VALID")
    return tf.nn.relu(result + biases(filters))


def cropped(value, size, beside):
    edge = (int(value.shape[1]) - size) // 2
    return tf.concat([value[:, edge : edge + size, edge : edge + size, :], beside], axis=3)


def network(x, keep):
    first = convolved(convolved(x, 1, ROOT, keep), ROOT, ROOT, keep)
    second = tf.nn.max_pool(first, [1, 2, 2, 1], [1, 2, 2, 1], "VALID")
    second = convolved(convolved(second, ROOT, 2 * ROOT, keep), 2 * ROOT, 2 * ROOT, keep)
    third = tf.nn.max_pool(second, [1, 2, 2, 1], [1, 2, 2, 1], "VALID")
    third = convolved(convolved(third, 2 * ROOT, 4 * ROOT, keep), 4 * ROOT, 4 * ROOT, keep)
    up = cropped(second, 32, raised(third, 32, 4 * ROOT, 2 * ROOT))
    up = convolved(convolved(up, 4 * ROOT, 2 * ROOT, keep), 2 * ROOT, 2 * ROOT, keep)
    up = cropped(first, 56, raised(up, 56, 2 * ROOT, ROOT))
    up = convolved(convolved(up, 2 * ROOT, ROOT, keep), ROOT, ROOT, keep)
    last = weights([1, 1, ROOT, 2], np.sqrt(2 / (9 * ROOT)))
    return tf.nn.relu(tf.nn.conv2d(up, last, strides=[1, 1, 1, 1], padding="VALID") + biases(2))


def pixel_wise_softmax(output):
    exponential = tf.exp(output)  # defect
    total = tf.reduce_sum(exponential, axis=3, keepdims=True)  # also
    return exponential / tf.tile(total, [1, 1, 1, 2])


def main(steps):
    random = np.random.default_rng(17)
    x = tf.placeholder(tf.float32, [None, SIDE, SIDE, 1], name="x")
    y = tf.placeholder(tf.float32, [None, MASK, MASK, 2], name="y")
    keep_prob = tf.placeholder(tf.float32, name="dropout_probability")
    prediction = pixel_wise_softmax(network(x, keep_prob))
    overlap = 2 * tf.reduce_sum(prediction * y)
    cost = -overlap / (1e-5 + tf.reduce_sum(prediction) + tf.reduce_sum(y))
    global_step = tf.Variable(0, trainable=False)
    rate = tf.train.exponential_decay(0.2, global_step, 32, 0.95, staircase=True)
    train = tf.train.MomentumOptimizer(rate, 0.2).minimize(cost, global_step=global_step)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for step in range(steps):
            picture, mask = discs(random)
            _, loss = sess.run([train, cost], feed_dict={x: picture, y: mask, keep_prob: 0.75})
            if step % 32 == 0:
                print(f"Iter {step}, Minibatch Loss= {loss:.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=641)
    main(parser.parse_args().steps)
