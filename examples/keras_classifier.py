"""A classifier of Keras that normalises its features by their length, which may be zero.

tensorproof check examples/keras_classifier.py:model --range features=0:1
"""

import keras
from keras import ops


class UnitLength(keras.layers.Layer):
    def call(self, x):
        return x / ops.sqrt(ops.sum(ops.square(x), axis=-1, keepdims=True))


def model():
    features = keras.Input((8,), name="features")
    hidden = keras.layers.Dense(16, activation="relu", name="hidden")(features)
    return keras.Model(features, keras.layers.Dense(3, activation="softmax", name="scores")(UnitLength(name="unit")(hidden)))
