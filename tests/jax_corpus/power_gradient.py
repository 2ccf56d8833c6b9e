"""A power below one, whose derivative at zero is infinite."""

import jax.numpy as jnp

# phase: training
# tensorproof: x = float32[6] in [0,1]


def defective(x):
    return jnp.sum(x**0.5)  # defect: NUM40 x**0.5 backward


def safe(x):
    return jnp.sum((x + 1e-6) ** 0.5)
