"""Similarity of pairs of vectors."""

import jax.numpy as jnp

# tensorproof: a = float32[3,5] in [-1,1]
# tensorproof: b = float32[3,5] in [-1,1]


def defective(a, b):
    dot = jnp.sum(a * b, axis=-1)
    lengths = jnp.sqrt(jnp.sum(a * a, axis=-1)) * jnp.sqrt(jnp.sum(b * b, axis=-1))
    return dot / lengths  # defect: NUM103 dot / lengths


def safe(a, b):
    dot = jnp.sum(a * b, axis=-1)
    lengths = jnp.sqrt(jnp.sum(a * a, axis=-1)) * jnp.sqrt(jnp.sum(b * b, axis=-1))
    return dot / jnp.maximum(lengths, 1e-6)
