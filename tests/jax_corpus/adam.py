"""A step of Adam, written by hand around value_and_grad."""

import jax
import jax.numpy as jnp
import numpy as np


def loss(w, x, y):
    return jnp.mean((x @ w - y) ** 2)


def defective(params, x, y):
    value, gradient = jax.value_and_grad(loss)(params["w"], x, y)
    first = 0.1 * gradient
    second = 0.001 * gradient**2
    return value, params["w"] - 0.01 * first / jnp.sqrt(second)  # defect: NUM103 0.01 * first / jnp.sqrt


def safe(params, x, y):
    value, gradient = jax.value_and_grad(loss)(params["w"], x, y)
    first = 0.1 * gradient
    second = 0.001 * gradient**2
    return value, params["w"] - 0.01 * first / (jnp.sqrt(second) + 1e-8)


def tensorproof_inputs():
    generator = np.random.default_rng(0)
    params = {"w": generator.normal(0, 0.3, (4, 2)).astype(np.float32)}
    return params, generator.normal(size=(3, 4)).astype(np.float32), generator.normal(size=(3, 2)).astype(np.float32)


# tensorproof: x in [-1,1]
# tensorproof: y in [-1,1]
