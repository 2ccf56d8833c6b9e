"""A root by Newton's iteration, in a loop that ends when it is near."""

import jax.numpy as jnp
from jax import lax

# tensorproof: a = float32[] in [0,100]


def defective(a):
    def goes_on(state):
        return state[1] < 20

    def improve(state):
        x, count = state
        return 0.5 * (x + a / x), count + 1  # defect: NUM103 a / x

    return lax.while_loop(goes_on, improve, (a, 0))[0]


def safe(a):
    def goes_on(state):
        return state[1] < 20

    def improve(state):
        x, count = state
        return 0.5 * (x + a / jnp.maximum(x, 1e-3)), count + 1

    return lax.while_loop(goes_on, improve, (a + 1.0, 0))[0]
