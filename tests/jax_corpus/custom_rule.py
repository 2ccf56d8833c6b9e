"""Derivatives that the program gives itself."""

import jax
import jax.numpy as jnp

# phase: training
# tensorproof: x = float32[6] in [0,1]


@jax.custom_jvp
def root(x):
    return jnp.sqrt(x + 1e-12)


@root.defjvp
def _(primals, tangents):
    (x,), (change,) = primals, tangents
    return root(x), change / (2.0 * x)  # defect: NUM40 change / (2.0 * x) backward


@jax.custom_jvp
def guarded_root(x):
    return jnp.sqrt(x + 1e-12)


@guarded_root.defjvp
def _(primals, tangents):
    (x,), (change,) = primals, tangents
    return guarded_root(x), change / (2.0 * x + 1e-3)


def defective(x):
    return jnp.sum(root(x))


def safe(x):
    return jnp.sum(guarded_root(x))
