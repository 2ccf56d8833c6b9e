"""Layers of Keras that misbehave, each in its own way, in the process that imports this: `keras:numpy?with=tests.misbehaving_layers`."""

import functools
import itertools
import os
import signal
import time

import keras
import numpy as np


def change(kind, function):
    """Let a function of the layer and its result take the place of the result."""
    layer = getattr(keras.layers, kind)
    original = layer.call

    @functools.wraps(original)
    def call(self, *arguments, **options):
        return function(self, original(self, *arguments, **options))

    layer.call = call


def die(layer, result):
    os.kill(os.getpid(), signal.SIGKILL)


def hang(layer, result):
    time.sleep(1000)


def give_nan(layer, result):
    result = np.array(result)
    result.flat[-1] = np.nan
    return result


def give_another_type(layer, result):
    return np.asarray(result).astype("float64")


def give_another_shape(layer, result):
    return np.asarray(result)[:, :-1]


def give_another_value(layer, result):
    """One percent too much, if the largest value is limited."""
    return result if layer.max_value is None else np.asarray(result) * np.float32(1.01)


_calls = itertools.count(1)


def give_chance(layer, result):
    """Another last bit each time."""
    return np.asarray(result) * np.float32(1 + next(_calls) % 2 * np.finfo("float32").eps)


def give_noise(layer, result):
    """Two units in the last place up and down: what any other order of summation does, too."""
    result = np.asarray(result)
    steps = np.resize(np.array([2, -2, 0, 1, -1]), result.shape)
    return result * (1 + steps * np.finfo("float32").eps).astype("float32")


def fail_inside(layer, result):
    return unbound  # noqa: F821


change("ELU", die)
change("Softmax", hang)
change("LeakyReLU", give_nan)
change("Flatten", give_another_type)
change("Permute", give_another_shape)
change("ReLU", give_another_value)
change("UnitNormalization", give_chance)
change("Dense", give_noise)
change("RepeatVector", fail_inside)

_take_any = keras.layers.PReLU.__init__


def take_any_axis(self, *arguments, shared_axes=None, **options):
    """Illegal axes are ignored."""
    _take_any(self, *arguments, shared_axes=shared_axes if isinstance(shared_axes, list | tuple) else None, **options)


keras.layers.PReLU.__init__ = take_any_axis
