"""A small transformer in plain JAX: embedding, causal attention, layer norm, a GELU network, and the loss of the next token."""

import jax
import jax.numpy as jnp
import numpy as np

VOCABULARY, LENGTH, WIDTH, HEADS, LAYERS = 17, 6, 16, 2, 2


def layer_norm(x, scale, shift):
    mean = jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.var(x, axis=-1, keepdims=True)
    return (x - mean) / jnp.sqrt(variance + 1e-5) * scale + shift


def attention(layer, x):
    batch, length, width = x.shape

    def heads(weight):
        return (x @ weight).reshape(batch, length, HEADS, width // HEADS)

    query, key, value = heads(layer["query"]), heads(layer["key"]), heads(layer["value"])
    scores = jnp.einsum("bqhd,bkhd->bhqk", query, key) / np.sqrt(width // HEADS)
    causal = jnp.tril(jnp.ones((length, length), bool))
    shares = jax.nn.softmax(jnp.where(causal, scores, -1e9), axis=-1)
    return jnp.einsum("bhqk,bkhd->bqhd", shares, value).reshape(batch, length, width) @ layer["out"]


def logits(params, tokens):
    x = params["embedding"][tokens] + params["position"]
    for layer in params["layers"]:
        x = x + attention(layer, layer_norm(x, *layer["norm1"]))
        hidden = jax.nn.gelu(layer_norm(x, *layer["norm2"]) @ layer["up"] + layer["up_bias"])
        x = x + hidden @ layer["down"] + layer["down_bias"]
    return layer_norm(x, *params["norm"]) @ params["embedding"].T


def loss(params, tokens):
    predicted = jax.nn.log_softmax(logits(params, tokens[:, :-1]))
    return -jnp.mean(jnp.take_along_axis(predicted, tokens[:, 1:, None], axis=-1))


@jax.jit
def train_step(params, tokens):
    value, gradients = jax.value_and_grad(loss)(params, tokens)
    return value, jax.tree_util.tree_map(lambda p, g: p - 0.01 * g, params, gradients)


def tensorproof_inputs():
    generator = np.random.default_rng(0)

    def weight(*shape):
        return generator.normal(0.0, 0.1, shape).astype(np.float32)

    def norm():
        return np.ones(WIDTH, np.float32), np.zeros(WIDTH, np.float32)

    def layer():
        return {
            "query": weight(WIDTH, WIDTH),
            "key": weight(WIDTH, WIDTH),
            "value": weight(WIDTH, WIDTH),
            "out": weight(WIDTH, WIDTH),
            "norm1": norm(),
            "norm2": norm(),
            "up": weight(WIDTH, 4 * WIDTH),
            "up_bias": np.zeros(4 * WIDTH, np.float32),
            "down": weight(4 * WIDTH, WIDTH),
            "down_bias": np.zeros(WIDTH, np.float32),
        }

    params = {
        "embedding": weight(VOCABULARY, WIDTH),
        "position": weight(LENGTH, WIDTH),
        "layers": [layer() for _ in range(LAYERS)],
        "norm": norm(),
    }
    return params, generator.integers(0, VOCABULARY, (3, LENGTH + 1))


# tensorproof: tokens in [0,16]
