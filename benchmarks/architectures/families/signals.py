"""Sound and other series: spectra and their logarithms, filters that adapt, generators of wave forms."""

from __future__ import annotations

import math
from typing import Any

from benchmarks.architectures.architecture import Deferred, Family, fails, holds
from benchmarks.architectures.layers import dense, gru, hidden, mean_cross_entropy, placeholder, trained

tf: Any = Deferred("tensorflow.compat.v1")
family = Family("signals")

_FRAME = 8


def spectrum(frames: Any) -> Any:
    """The power of each frequency of a frame, by products with cosines and sines."""
    steps = [[2.0 * math.pi * row * column / _FRAME for column in range(5)] for row in range(_FRAME)]
    cosines = tf.constant([[math.cos(angle) for angle in row] for row in steps], tf.float32)
    sines = tf.constant([[math.sin(angle) for angle in row] for row in steps], tf.float32)
    return tf.square(tf.matmul(frames, cosines)) + tf.square(tf.matmul(frames, sines))


@family(
    fails(
        "loudness/Log",
        "silence has no power",
        {"sound": 0.0},
        fixed="a power is 0 or more, and 1e-6 is added to it",
    ),
    fails(
        "normal/truediv",
        "a sound that stays the same has no deviation over time",
        {"sound": [1.0] + [0.0] * 7},
        fixed="the root of at least 0.001",
    ),
    holds("normal/Sqrt", "a mean of squares is 0 or more"),
    ranges={"sound": (-1, 1), "label": (0, 3)},
)
def spectrogram(fixed: bool) -> Any:
    """Sounds by the logarithm of their spectrum, normalised over time."""
    sound, label = placeholder("sound", 4, _FRAME), placeholder("label", 1, integer=True)
    with tf.name_scope("loudness"):
        power = spectrum(sound)
        loudness = tf.log(power + 1e-6 if fixed else power)
    with tf.name_scope("normal"):
        mean, variance = tf.nn.moments(loudness, [0])
        normal = (loudness - mean) / tf.sqrt(variance + 1e-3 if fixed else variance)
    pooled = tf.reduce_max(hidden(normal, 6, "hidden"), 0, keepdims=True)
    return trained(mean_cross_entropy(label, dense(pooled, 4, "classes")))


@family(
    holds("smoothed/truediv", "a running mean of powers is 0 or more, and 1e-6 is added to it", form="fixed"),
    fails(
        "smoothed/truediv",
        "silence from the start: the running mean of powers is 0",
        {"sound": 0.0},
    ),
    holds("smoothed/(pow|Pow)", "a number of 2 and more, to the power of 0.5"),
    holds("smoothed/Pow_1", "a constant of 2 to the power of 0.5"),
    ranges={"sound": (-1, 1), "label": (0, 3)},
)
def channel_energies(fixed: bool) -> Any:
    """Energies of channels, each divided by its own running mean, with a root in place of a logarithm."""
    sound, label = placeholder("sound", 4, _FRAME), placeholder("label", 1, integer=True)
    energy = spectrum(sound)
    mean, means = energy[0], [energy[0]]
    for step in range(1, 4):
        mean = 0.975 * mean + 0.025 * energy[step]
        means.append(mean)
    smooth = tf.stack(means)
    with tf.name_scope("smoothed"):
        gained = energy / (smooth + 1e-6 if fixed else smooth)
        root = tf.pow(gained + 2.0, 0.5) - tf.pow(tf.constant(2.0), 0.5)
    states = gru([root[step : step + 1] for step in range(4)], 5, "states")
    return trained(mean_cross_entropy(label, dense(states[-1], 4, "classes")))


@family(
    holds("companded/Log1p(_1)?", "of a magnitude that is 0 or more, or of 255"),
    holds("companded/truediv", "the logarithm of 256"),
    holds("expanded/Expm1", "of a magnitude of at most 1, times the logarithm of 256"),
    holds("expanded/truediv", "a division by 255"),
    ranges={"sound": (-1, 1)},
)
def wave_forms(fixed: bool) -> Any:
    """A generator of sound, sample by sample, on a scale that is logarithmic as in telephones."""
    sound = placeholder("sound", 2, _FRAME)
    with tf.name_scope("companded"):
        companded = tf.sign(sound) * tf.log1p(255.0 * tf.abs(sound)) / tf.log1p(tf.constant(255.0))
    levels = tf.cast((companded + 1.0) * 7.5, tf.int32)
    inner = tf.tanh(dense(companded[:, :-1], 8, "filter")) * tf.sigmoid(dense(companded[:, :-1], 8, "gate"))
    logits = dense(inner, 16, "levels")
    with tf.name_scope("expanded"):
        heard = tf.tanh(dense(inner, 1, "sample"))
        wave = tf.sign(heard) * tf.expm1(math.log(256.0) * tf.abs(heard)) / 255.0
    return trained(mean_cross_entropy(levels[:, -1], logits)), wave
