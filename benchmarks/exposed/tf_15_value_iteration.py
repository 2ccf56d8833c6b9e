"""Value iteration network on grid worlds of 8 by 8: GRIST 15.

The network gets a map with obstacles and a goal, iterates values over it with shared convolutions, and says which of eight
moves to make at each of ten places. Defect: the logarithm of the whole softmax matrix, of which one column per row is used;
RMSProp makes the weights grow until entries are zero.
"""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()

SIDE, STATES, BATCH, ITERATIONS = 8, 10, 12, 10
MOVES = np.array([(-1, 0), (1, 0), (0, 1), (0, -1), (-1, 1), (-1, -1), (1, 1), (1, -1)])


def worlds(count, seed=15):
    """Maps with a reward of 10 at the goal, places on them, and the move that leads towards the goal from each."""
    random = np.random.default_rng(seed)
    obstacles = (random.random((count, SIDE, SIDE)) < 0.2).astype(np.float32)
    goals = random.integers(1, SIDE - 1, (count, 2))
    rewards = np.zeros((count, SIDE, SIDE), np.float32)
    rewards[np.arange(count), goals[:, 0], goals[:, 1]] = 10.0
    obstacles[rewards > 0] = 0.0
    places = random.integers(1, SIDE - 1, (count, STATES, 2))
    ways = goals[:, None, None, :] - (places[:, :, None, :] + MOVES)
    moves = np.abs(ways).max(axis=-1).argmin(axis=-1)
    return np.stack([obstacles, rewards], axis=-1), places[..., 0], places[..., 1], moves


def flipped(value, kernel):
    """A convolution with its kernel reversed in both directions."""
    return tf.nn.conv2d(value, kernel[::-1, ::-1, :, :], strides=[1, 1, 1, 1], padding="SAME")


def normal(shape):
    return tf.Variable(tf.random_normal(shape, stddev=0.01))


def value_iteration(X, S1, S2):
    bias, w0, w1 = normal([1, 1, 1, 150]), normal([3, 3, 2, 150]), normal([1, 1, 150, 1])
    w, w_fb, w_o = normal([3, 3, 1, 10]), normal([3, 3, 1, 10]), normal([10, 8])
    r = flipped(flipped(X, w0) + bias, w1)
    q = flipped(r, w)
    v = tf.reduce_max(q, axis=3, keepdims=True)
    both = tf.concat([w, w_fb], axis=2)
    for _ in range(ITERATIONS - 1):
        q = flipped(tf.concat([r, v], axis=3), both)
        v = tf.reduce_max(q, axis=3, keepdims=True)
    q = flipped(tf.concat([r, v], axis=3), both)
    sample = tf.reshape(tf.tile(tf.reshape(tf.range(BATCH), [-1, 1]), [1, STATES]), [-1])
    chosen = tf.gather_nd(q, tf.stack([sample, tf.reshape(S1, [-1]), tf.reshape(S2, [-1])], axis=1))
    return tf.nn.softmax(tf.matmul(chosen, w_o))


parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=1001)
args = parser.parse_args()

X = tf.placeholder(tf.float32, [BATCH, SIDE, SIDE, 2], name="X")
S1 = tf.placeholder(tf.int32, [BATCH, STATES], name="S1")
S2 = tf.placeholder(tf.int32, [BATCH, STATES], name="S2")
y = tf.placeholder(tf.int32, [BATCH * STATES], name="y")

p = value_iteration(X, S1, S2)
logs = tf.log(p)  # defect
cost = -tf.reduce_mean(tf.gather_nd(logs, tf.stack([tf.range(BATCH * STATES), y], axis=1)))
train = tf.train.RMSPropOptimizer(0.001, epsilon=1e-6, centered=True).minimize(cost)

maps, rows, columns, moves = worlds(BATCH * 40)
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for step in range(args.steps):
        start = step % 40 * BATCH
        now = slice(start, start + BATCH)
        feed = {X: maps[now], S1: rows[now], S2: columns[now], y: moves[now].ravel()}
        _, value = sess.run([train, cost], feed_dict=feed)
        if step % 50 == 0:
            print(f"step {step:5d}  cost {value:.5f}")
