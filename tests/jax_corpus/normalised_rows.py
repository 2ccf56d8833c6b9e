"""Rows that sum to one, by vmap."""

import jax
import jax.numpy as jnp

# tensorproof: x = float32[4,6] in [-1,1]


def defective(x):
    return jax.vmap(lambda row: row / jnp.sum(row))(jax.nn.relu(x))  # defect: NUM103 row / jnp.sum


def safe(x):
    return jax.vmap(lambda row: row / (jnp.sum(row) + 1e-6))(jax.nn.relu(x))
