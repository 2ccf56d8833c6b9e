"""A recurrent cell, unrolled by scan."""

import jax.numpy as jnp
from jax import lax

# tensorproof: steps = float32[12,4] in [-3,3]
# tensorproof: state = float32[4] in [-1,1]


def defective(state, steps):
    def cell(carry, step):
        carry = 2.0 * carry + step
        return carry, jnp.exp(carry)  # defect: NUM201 jnp.exp

    return lax.scan(cell, state, steps)


def safe(state, steps):
    def cell(carry, step):
        carry = jnp.tanh(2.0 * carry + step)
        return carry, jnp.exp(carry)

    return lax.scan(cell, state, steps)
