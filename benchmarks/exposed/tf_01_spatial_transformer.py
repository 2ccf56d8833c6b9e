"""Spatial transformer on digits among clutter: GRIST 1.

A small network finds an affine map, the picture is sampled through it, and a convolutional network reads what is seen there.
Defect: the cross-entropy takes the logarithm of a softmax, which is zero once a logit lies 88 below the largest one.
Smaller than the program: 128 units in place of 1024 before the last layer.
"""

import argparse

import digits
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()

SIDE = 40
BATCH = 101


def cluttered(count, seed=40):
    """Digits somewhere on a larger field, with pieces of other digits beside them."""
    random = np.random.default_rng(seed)
    pictures, labels = digits.draw(count, seed=seed)
    pictures = pictures.reshape(count, 28, 28)
    fields = np.zeros((count, SIDE, SIDE), np.float32)
    for field, picture in zip(fields, pictures):
        for _ in range(4):
            other = pictures[random.integers(count)]
            (top, left), (row, column) = random.integers(0, 20, 2), random.integers(0, SIDE - 8, 2)
            field[row : row + 8, column : column + 8] = other[top : top + 8, left : left + 8]
        row, column = random.integers(0, SIDE - 28, 2)
        field[row : row + 28, column : column + 28] = np.maximum(field[row : row + 28, column : column + 28], picture)
    return fields.reshape(count, SIDE * SIDE), digits.one_hot(labels)


def weight(shape):
    return tf.Variable(tf.zeros(shape))


def bias(shape):
    return tf.Variable(tf.random_normal(shape, stddev=0.01))


def look_up(image, rows, columns):
    """Values of each picture at integer places that differ from picture to picture."""
    count = tf.shape(image)[0]
    start = tf.reshape(tf.range(count) * SIDE * SIDE, [-1, 1])
    return tf.gather(tf.reshape(image, [-1]), start + rows * SIDE + columns)


def transformed(image, theta):
    """The picture sampled through the affine maps `theta`, bilinearly."""
    line = np.linspace(-1.0, 1.0, SIDE, dtype=np.float32)
    across, down = np.meshgrid(line, line)
    grid = np.stack([across.ravel(), down.ravel(), np.ones(SIDE * SIDE, np.float32)])
    places = tf.einsum("bij,jk->bik", tf.reshape(theta, [-1, 2, 3]), tf.constant(grid))
    u = (places[:, 0] + 1.0) * SIDE / 2.0
    v = (places[:, 1] + 1.0) * SIDE / 2.0
    left, top = tf.cast(tf.floor(u), tf.int32), tf.cast(tf.floor(v), tf.int32)
    x0, x1 = tf.clip_by_value(left, 0, SIDE - 1), tf.clip_by_value(left + 1, 0, SIDE - 1)
    y0, y1 = tf.clip_by_value(top, 0, SIDE - 1), tf.clip_by_value(top + 1, 0, SIDE - 1)
    x0f, x1f, y0f, y1f = (tf.cast(corner, tf.float32) for corner in (x0, x1, y0, y1))
    seen = (x1f - u) * (y1f - v) * look_up(image, y0, x0)
    seen += (x1f - u) * (v - y0f) * look_up(image, y1, x0)
    seen += (u - x0f) * (y1f - v) * look_up(image, y0, x1)
    seen += (u - x0f) * (v - y0f) * look_up(image, y1, x1)
    return tf.reshape(seen, [-1, SIDE, SIDE, 1])


parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=1001)
args = parser.parse_args()

images, labels = cluttered(BATCH * 12)

x = tf.placeholder(tf.float32, [None, SIDE * SIDE], name="x")
y = tf.placeholder(tf.float32, [None, 10], name="y")
keep_prob = tf.placeholder(tf.float32, name="keep_prob")

W_loc1, b_loc1 = weight([SIDE * SIDE, 20]), bias([20])
W_loc2, b_loc2 = weight([20, 6]), tf.Variable(np.array([1, 0, 0, 0, 1, 0], np.float32))
h_loc = tf.nn.dropout(tf.nn.tanh(tf.matmul(x, W_loc1) + b_loc1), keep_prob)
theta = tf.nn.tanh(tf.matmul(h_loc, W_loc2) + b_loc2)
h_trans = transformed(x, theta)

W_conv1, b_conv1 = weight([3, 3, 1, 16]), bias([16])
h_conv1 = tf.nn.relu(tf.nn.conv2d(h_trans, W_conv1, [1, 2, 2, 1], "SAME") + b_conv1)
W_conv2, b_conv2 = weight([3, 3, 16, 16]), bias([16])
h_conv2 = tf.nn.relu(tf.nn.conv2d(h_conv1, W_conv2, [1, 2, 2, 1], "SAME") + b_conv2)
W_fc1, b_fc1 = weight([1600, 128]), bias([128])
h_fc1 = tf.nn.relu(tf.matmul(tf.reshape(h_conv2, [-1, 1600]), W_fc1) + b_fc1)
W_fc2, b_fc2 = weight([128, 10]), bias([10])
y_pred = tf.nn.softmax(tf.matmul(tf.nn.dropout(h_fc1, keep_prob), W_fc2) + b_fc2)

cross_entropy = -tf.reduce_sum(y * tf.log(y_pred))  # defect
train = tf.train.AdamOptimizer().minimize(cross_entropy)

with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for step in range(args.steps):
        rows = slice(step % 12 * BATCH, (step % 12 + 1) * BATCH)
        _, loss = sess.run([train, cross_entropy], feed_dict={x: images[rows], y: labels[rows], keep_prob: 0.8})
        if step % 50 == 0:
            print(f"step {step} loss {loss:.4f}")
