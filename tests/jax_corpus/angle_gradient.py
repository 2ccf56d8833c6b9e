"""An angle, which has no derivative at the origin."""

import jax.numpy as jnp

# phase: training
# tensorproof: a = float32[6] in [-1,1]
# tensorproof: b = float32[6] in [0,1]


def defective(a, b):
    return jnp.sum(jnp.arctan2(a, b))  # defect: NUM40 jnp.arctan2 backward


def safe(a, b):
    return jnp.sum(jnp.arctan2(a, b + 0.1))
