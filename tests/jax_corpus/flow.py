"""A layer of a normalising flow in a training step."""

import jax
import jax.numpy as jnp
import numpy as np


def negative_likelihood(params, x, floor):
    scale = jnp.maximum(params["scale"], floor)
    z = (x - params["shift"]) / scale  # defect: NUM103 (x - params["shift"]) / scale
    return 0.5 * jnp.mean(jnp.sum(z**2, axis=-1)) + jnp.sum(jnp.log(scale))  # defect: NUM101 jnp.log


@jax.jit
def defective(params, x):
    return jax.value_and_grad(negative_likelihood)(params, x, 0.0)


@jax.jit
def safe(params, x):
    return jax.value_and_grad(negative_likelihood)(params, x, 0.1)


def tensorproof_inputs():
    generator = np.random.default_rng(0)
    params = {"scale": np.array([0.5, 1.0, 0.0], np.float32), "shift": np.zeros(3, np.float32)}
    return params, generator.normal(size=(4, 3)).astype(np.float32)


# tensorproof: x in [-5,5]
