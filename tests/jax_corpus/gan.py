"""The loss of a discriminator."""

import jax
import jax.numpy as jnp

# tensorproof: real = float32[8] in [-50,50]
# tensorproof: fake = float32[8] in [-50,50]


@jax.jit
def defective(real, fake):
    on_real = jnp.log(jax.nn.sigmoid(real) + 1e-12)
    on_fake = jnp.log(1.0 - jax.nn.sigmoid(fake))  # defect: NUM101 jnp.log
    return -jnp.mean(on_real) - jnp.mean(on_fake)


@jax.jit
def safe(real, fake):
    return -jnp.mean(jax.nn.log_sigmoid(real)) - jnp.mean(jax.nn.log_sigmoid(-fake))
