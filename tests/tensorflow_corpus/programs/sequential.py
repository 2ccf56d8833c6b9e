"""Rates of events: an exponential after two layers."""

# tensorproof: x = float32[N,6] in [-10,10]
from typing import Any

import keras
from keras import ops


class Rate(keras.layers.Layer):
    def __init__(self, bounded: bool, **given: Any) -> None:
        super().__init__(**given)
        self.bounded = bounded

    def call(self, x: Any) -> Any:
        if self.bounded:
            x = ops.clip(x, -20.0, 20.0)
        return ops.exp(x)  # BUG


def rates(bounded: bool) -> keras.Model:
    return keras.Sequential(
        [
            keras.Input([6], name="x"),
            keras.layers.Dense(8, activation="relu", kernel_initializer=keras.initializers.Constant(0.5)),
            keras.layers.BatchNormalization(),
            keras.layers.Dense(2, kernel_initializer=keras.initializers.Constant(1.0)),
            Rate(bounded, name="rate"),
        ]
    )


model = rates(False)
model_safe = rates(True)
