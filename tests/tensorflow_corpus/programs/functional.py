"""Two inputs through one tower, compared by the cosine of their angle."""

# tensorproof: a = float32[N,5] in [-1,1]
# tensorproof: b = float32[N,5] in [-1,1]
from typing import Any

import keras
from keras import ops


class Cosine(keras.layers.Layer):
    def __init__(self, epsilon: float, **given: Any) -> None:
        super().__init__(**given)
        self.epsilon = epsilon

    def call(self, a: Any, b: Any) -> Any:
        lengths = ops.sqrt(ops.sum(a * a, axis=-1)) * ops.sqrt(ops.sum(b * b, axis=-1))
        if self.epsilon:
            lengths = ops.maximum(lengths, self.epsilon)
        return ops.sum(a * b, axis=-1) / lengths  # BUG


def towers(epsilon: float) -> keras.Model:
    a, b = keras.Input([5], name="a"), keras.Input([5], name="b")
    initial = keras.initializers.RandomUniform(-1.0, 1.0, seed=2)
    tower = keras.layers.Dense(4, kernel_initializer=initial, use_bias=False, name="tower")
    return keras.Model([a, b], Cosine(epsilon, name="cosine")(tower(a), tower(b)))


model = towers(0.0)
model_safe = towers(1e-6)
