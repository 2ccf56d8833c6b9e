"""The entropy of distributions that may be sharp."""

import jax.numpy as jnp

# tensorproof: p = float32[4,5] in [0,1]


def defective(p):
    return -jnp.sum(p * jnp.log(p), axis=-1)  # defect: NUM101 jnp.log


def safe(p):
    return -jnp.sum(p * jnp.log(jnp.maximum(p, 1e-12)), axis=-1)
