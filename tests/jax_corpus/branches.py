"""Two formulas, chosen while the program runs."""

import jax.numpy as jnp
from jax import lax

# tensorproof: x = float32[] in [-1,1]


def defective(x):
    return lax.cond(x >= 0.0, lambda v: jnp.log(v), lambda v: v, x)  # defect: NUM101 jnp.log


def safe(x):
    return lax.cond(x > 0.5, lambda v: jnp.log(v), lambda v: v, x)
