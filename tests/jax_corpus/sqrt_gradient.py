"""A square root, whose derivative at zero is infinite."""

import jax.numpy as jnp

# phase: training
# tensorproof: x = float32[6] in [0,1]


def defective(x):
    return jnp.sum(jnp.sqrt(x))  # defect: NUM40 jnp.sqrt backward


def safe(x):
    return jnp.sum(jnp.sqrt(x + 1e-6))
