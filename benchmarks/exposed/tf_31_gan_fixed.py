"""Repaired twin of `tf_31_gan.py`.

The operands of both logarithms of the discriminator's loss are held above zero.
Smaller than the program: a quarter of the units in each hidden layer.
"""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf
from digits import Digits

tf.disable_eager_execution()

BATCH = 100


def connected(value, size, name):
    w = tf.get_variable(f"{name}_w", [value.get_shape()[1], size], initializer=tf.truncated_normal_initializer(stddev=0.02))
    b = tf.get_variable(f"{name}_b", [size], initializer=tf.constant_initializer(0))
    return tf.matmul(value, w) + b


def generator(z):
    h = tf.nn.relu(connected(z, 64, "G0"))
    h = tf.nn.relu(connected(h, 128, "G1"))
    h = tf.nn.relu(connected(h, 256, "G2"))
    return tf.nn.tanh(connected(h, 784, "G3"))


def discriminator(x, drop_out):
    h = tf.nn.dropout(tf.nn.relu(connected(x, 256, "D0")), drop_out)
    h = tf.nn.dropout(tf.nn.relu(connected(h, 128, "D1")), drop_out)
    h = tf.nn.dropout(tf.nn.relu(connected(h, 64, "D2")), drop_out)
    return tf.nn.sigmoid(connected(h, 1, "D3"))


parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=1501)
args = parser.parse_args()

mnist = Digits()
x = tf.placeholder(tf.float32, shape=(None, 784), name="x")
z = tf.placeholder(tf.float32, shape=(None, 100), name="z")
drop_out = tf.placeholder(tf.float32, name="drop_out")
with tf.variable_scope("G"):
    G_z = generator(z)
with tf.variable_scope("D") as scope:
    D_real = discriminator(x, drop_out)
    scope.reuse_variables()
    D_fake = discriminator(G_z, drop_out)

eps = 1e-8
real = tf.log(tf.maximum(D_real, eps))
fake = tf.log(tf.maximum(1 - D_fake, eps))
D_loss = tf.reduce_mean(-real - fake)
G_loss = tf.reduce_mean(-tf.log(D_fake + eps))

variables = tf.trainable_variables()
D_optim = tf.train.AdamOptimizer(0.0002).minimize(D_loss, var_list=[v for v in variables if v.name.startswith("D")])
G_optim = tf.train.AdamOptimizer(0.0002).minimize(G_loss, var_list=[v for v in variables if v.name.startswith("G")])

noise = np.random.default_rng(31)
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for step in range(args.steps):
        x_ = (mnist.train.next_batch(BATCH)[0] - 0.5) / 0.5
        z_ = noise.normal(0, 1, (BATCH, 100))
        loss_d, _ = sess.run([D_loss, D_optim], {x: x_, z: z_, drop_out: 0.3})
        z_ = noise.normal(0, 1, (BATCH, 100))
        loss_g, _ = sess.run([G_loss, G_optim], {z: z_, drop_out: 0.3})
        if step % 50 == 0:
            print(f"[{step}] loss_d: {loss_d:.3f}, loss_g: {loss_g:.3f}")
