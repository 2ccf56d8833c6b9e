"""A penalty on the length of a vector: its derivative at zero is 0 / 0."""

import jax.numpy as jnp

# phase: training
# tensorproof: x = float32[4,6] in [-1,1]


def defective(x):
    lengths = jnp.linalg.norm(x, axis=-1)  # defect: NUM40 jnp.linalg.norm backward
    return jnp.sum(lengths)


def safe(x):
    lengths = jnp.sqrt(jnp.sum(x * x, axis=-1) + 1e-6)
    return jnp.sum(lengths)
