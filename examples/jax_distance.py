"""A triplet loss whose value is always finite and whose gradient is NaN as soon as two embeddings are equal.

tensorproof check examples/jax_distance.py:triplet_loss --phase training
"""

import jax.numpy as jnp

# tensorproof: anchor = float32[4,8] in [-1,1]
# tensorproof: positive = float32[4,8] in [-1,1]
# tensorproof: negative = float32[4,8] in [-1,1]


def distance(a, b):
    return jnp.sqrt(jnp.sum((a - b) ** 2, axis=-1))


def triplet_loss(anchor, positive, negative):
    return jnp.mean(jnp.maximum(distance(anchor, positive) - distance(anchor, negative) + 0.2, 0.0))
