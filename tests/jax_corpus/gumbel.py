"""A relaxed choice between categories."""

import jax
import jax.numpy as jnp

# tensorproof: logits = float32[4,6] in [-5,5]
# tensorproof: uniform = float32[4,6] in [0,1]


def defective(logits, uniform):
    noise = -jnp.log(-jnp.log(uniform))  # defect: NUM101 jnp.log(uniform)
    return jax.nn.softmax((logits + noise) / 0.5)


def safe(logits, uniform):
    noise = -jnp.log(-jnp.log(jnp.clip(uniform, 1e-6, 1.0 - 1e-6)))
    return jax.nn.softmax((logits + noise) / 0.5)
