"""A regression that is trained on the distance to its target: the derivative of a distance of 0 is not finite."""

# tensorproof: x = float32[N,4] in [-1,1]
from typing import Any

import keras
from keras import ops


def distance(y: Any, predicted: Any) -> Any:
    return ops.sqrt(ops.sum(ops.square(predicted - y), axis=-1))  # BUG


def distance_safe(y: Any, predicted: Any) -> Any:
    return ops.sqrt(ops.sum(ops.square(predicted - y), axis=-1) + 1e-6)


def compiled(loss: Any) -> keras.Model:
    model = keras.Sequential(
        [
            keras.Input([4], name="x"),
            keras.layers.Dense(6, activation="relu", kernel_initializer=keras.initializers.RandomUniform(-1.0, 1.0, seed=3)),
            keras.layers.Dense(2, kernel_initializer=keras.initializers.RandomUniform(-1.0, 1.0, seed=4)),
        ]
    )
    model.compile(optimizer="adam", loss=loss)
    return model


model = compiled(distance)
model_safe = compiled(distance_safe)
