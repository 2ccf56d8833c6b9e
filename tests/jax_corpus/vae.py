"""The divergence of a variational autoencoder whose encoder gives standard deviations."""

import jax
import jax.numpy as jnp
import numpy as np


def encode(params, x):
    hidden = jnp.tanh(x @ params["hidden"])
    return hidden @ params["mean"], hidden @ params["spread"]


def defective(params, x):
    mean, raw = encode(params, x)
    deviation = jax.nn.relu(raw)
    return 0.5 * jnp.sum(mean**2 + deviation**2 - 1.0 - 2.0 * jnp.log(deviation))  # defect: NUM101 jnp.log


def safe(params, x):
    mean, raw = encode(params, x)
    deviation = jax.nn.softplus(raw) + 1e-3
    return 0.5 * jnp.sum(mean**2 + deviation**2 - 1.0 - 2.0 * jnp.log(deviation))


def tensorproof_inputs():
    generator = np.random.default_rng(0)
    params = {
        "hidden": generator.normal(0, 0.3, (6, 8)).astype(np.float32),
        "mean": generator.normal(0, 0.3, (8, 2)).astype(np.float32),
        "spread": generator.normal(0, 0.3, (8, 2)).astype(np.float32),
    }
    return params, generator.normal(size=(3, 6)).astype(np.float32)


# tensorproof: x in [-1,1]
