"""The likelihood of a mixture of Gaussians."""

import jax
import jax.numpy as jnp

# tensorproof: logits = float32[5,3] in [-3,3]
# tensorproof: means = float32[5,3] in [-10,10]
# tensorproof: y = float32[5] in [-10,10]


def defective(logits, means, y):
    share = jax.nn.softmax(logits)
    density = jnp.exp(-0.5 * (y[:, None] - means) ** 2)
    return -jnp.mean(jnp.log(jnp.sum(share * density, axis=-1)))  # defect: NUM101 jnp.log


def safe(logits, means, y):
    share = jax.nn.log_softmax(logits)
    density = -0.5 * (y[:, None] - means) ** 2
    return -jnp.mean(jax.nn.logsumexp(share + density, axis=-1))
