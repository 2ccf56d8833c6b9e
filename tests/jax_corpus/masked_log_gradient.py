"""A logarithm that is chosen only where it is finite: its derivative is 0 / 0 where it is not chosen."""

import jax.numpy as jnp

# phase: training
# tensorproof: x = float32[6] in [-1,1]


def defective(x):
    return jnp.sum(jnp.where(x > 0.1, jnp.log(jnp.maximum(x, 0.0)), 0.0))  # defect: NUM jnp.log backward


def safe(x):
    inside = jnp.where(x > 0.1, x, 1.0)
    return jnp.sum(jnp.where(x > 0.1, jnp.log(inside), 0.0))
