"""A classifier whose cross entropy takes the logarithm of a probability."""

import jax
import jax.numpy as jnp
import numpy as np


def defective(params, x, label):
    logits = jnp.dot(x, params["w"]) + params["b"]
    probability = jax.nn.softmax(logits)
    chosen = jnp.take_along_axis(probability, label[:, None], axis=1)
    return -jnp.mean(jnp.log(chosen))  # defect: NUM101 jnp.log


def safe(params, x, label):
    logits = jnp.dot(x, params["w"]) + params["b"]
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), label[:, None], axis=1)
    return -jnp.mean(chosen)


def tensorproof_inputs():
    generator = np.random.default_rng(0)
    params = {"w": generator.normal(0, 1, (8, 4)).astype(np.float32), "b": np.zeros(4, np.float32)}
    return params, generator.normal(size=(5, 8)).astype(np.float32), np.array([0, 1, 2, 3, 1])


# tensorproof: x in [-100,100]
