"""The logarithm of a sum of exponentials, written by hand."""

import jax.numpy as jnp

# tensorproof: x = float32[4,6] in [-200,200]


def defective(x):
    return jnp.log(jnp.sum(jnp.exp(x), axis=-1))  # defect: NUM201 jnp.exp


def safe(x):
    highest = jnp.max(x, axis=-1, keepdims=True)
    return jnp.log(jnp.sum(jnp.exp(x - highest), axis=-1)) + highest[:, 0]
