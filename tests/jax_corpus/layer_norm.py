"""A layer normalised over its features."""

import jax.numpy as jnp

# tensorproof: x = float32[4,8] in [-10,10]


def defective(x):
    mean = jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.mean((x - mean) ** 2, axis=-1, keepdims=True)
    return (x - mean) / jnp.sqrt(variance)  # defect: NUM103 (x - mean) / jnp


def safe(x):
    mean = jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.mean((x - mean) ** 2, axis=-1, keepdims=True)
    return (x - mean) / jnp.sqrt(variance + 1e-5)
