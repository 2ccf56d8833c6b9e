"""Attention with a mask."""

import jax
import jax.numpy as jnp

# tensorproof: query = float32[2,4,8] in [-2,2]
# tensorproof: key = float32[2,4,8] in [-2,2]
# tensorproof: mask = bool[2,4,4]


def defective(query, key, mask):
    scores = jnp.einsum("bqd,bkd->bqk", query, key) / jnp.sqrt(8.0)
    scores = jnp.where(mask, scores, -jnp.inf)
    return jax.nn.softmax(scores, axis=-1)  # defect: NUM1 jax.nn.softmax


def safe(query, key, mask):
    scores = jnp.einsum("bqd,bkd->bqk", query, key) / jnp.sqrt(8.0)
    scores = jnp.where(mask, scores, -1e9)
    return jax.nn.softmax(scores, axis=-1)
