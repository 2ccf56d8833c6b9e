"""A classifier as a class: its call takes the logarithm of what a softmax gives."""

# tensorproof: x = float32[N,6] in [-10,10]
from typing import Any

import keras
from keras import ops


class Surprise(keras.Model):
    safe = False

    def __init__(self) -> None:
        super().__init__()
        self.hidden = keras.layers.Dense(6, activation="tanh", kernel_initializer=keras.initializers.Identity())
        self.scores = keras.layers.Dense(3, kernel_initializer=keras.initializers.Identity(gain=100.0))

    def call(self, x: Any) -> Any:
        logits = self.scores(self.hidden(x))
        p = ops.softmax(logits)
        if self.safe:
            return p, -ops.sum(p * ops.log_softmax(logits), axis=-1)
        return p, -ops.sum(p * ops.log(p), axis=-1)  # BUG


class SurpriseSafe(Surprise):
    safe = True
