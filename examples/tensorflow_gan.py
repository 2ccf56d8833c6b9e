"""The loss of a discriminator whose epsilon TensorFlow's graph mode removes: (1 - d) + 1e-8 is computed as 1 - d.

tensorproof check examples/tensorflow_gan.py:discriminator_loss
"""

import tensorflow as tf

# tensorproof: real = float32[N,1] in [-20,20]
# tensorproof: fake = float32[N,1] in [-20,20]


def discriminator_loss(real, fake):
    on_real = tf.sigmoid(real)
    on_fake = tf.sigmoid(fake)
    return -tf.reduce_mean(tf.math.log(on_real + 1e-8) + tf.math.log((1.0 - on_fake) + 1e-8))
