"""Keras models as `.keras` files: stacks of layers, shared layers, and functions of `keras.ops` between them. Weights are fixed."""

from __future__ import annotations

from typing import Any

from tests.tensorflow_corpus.pairs import Deferred, Expected, pair

keras: Any = Deferred("keras")


def weights(seed: int, reach: float = 1.0) -> Any:
    return keras.initializers.RandomUniform(-reach, reach, seed=seed)


@pair(
    "keras",
    Expected("NUM201", "Exp", "(.*/)?rates/(.*/)?[Ee]xp.*"),
    ranges={"x": (-10, 10)},
    point={"x": 10.0},
    phase="inference",
)
def exponential_rates(safe: bool) -> Any:
    layers = keras.layers
    unit = "softplus" if safe else "exponential"
    return keras.Sequential(
        [
            keras.Input([6], name="x"),
            layers.Dense(8, activation="relu", kernel_initializer=keras.initializers.Constant(0.5), name="hidden"),
            layers.Dropout(0.2),
            layers.Dense(2, activation=unit, kernel_initializer=keras.initializers.Constant(1.0), name="rates"),
        ],
        name="rates_model",
    )


@pair(
    "keras",
    Expected("NUM103", "Div", ".*"),
    Expected("NUM103", "Div", ".*"),
    ranges={"a": (-1, 1), "b": (-1, 1)},
    point={"a": 0.0, "b": 1.0},
    phase="inference",
    also=(Expected("NUM203", ".*", ".*"),),
)
def shared_tower(safe: bool) -> Any:
    """One tower for both inputs: what it gives is divided by its length, once for each."""
    a, b = keras.Input([5], name="a"), keras.Input([5], name="b")
    tower = keras.layers.Dense(4, kernel_initializer=weights(1), use_bias=False, name="tower")
    if safe:
        unit = keras.layers.UnitNormalization(name="unit")
        left, right = unit(tower(a)), unit(tower(b))
    else:
        left, right = (
            keras.ops.divide(side, keras.ops.sqrt(keras.ops.sum(keras.ops.square(side), axis=-1, keepdims=True)))
            for side in (tower(a), tower(b))
        )
    return keras.Model([a, b], keras.layers.Dot(axes=1, name="similarity")([left, right]))


@pair(
    "keras",
    Expected("NUM101", "Log", ".*"),
    ranges={"x": (0, 1)},
    point={"x": 1.0},
    phase="inference",
)
def logarithm_of_a_softmax(safe: bool) -> Any:
    layers = keras.layers
    x = keras.Input([8, 8, 1], name="x")
    hidden = layers.Conv2D(
        4, 3, padding="same", activation="relu", kernel_initializer=keras.initializers.Constant(0.5), name="conv"
    )(x)
    hidden = layers.BatchNormalization(name="norm")(hidden)
    hidden = layers.MaxPooling2D(2)(hidden)
    hidden = layers.GlobalAveragePooling2D()(hidden)
    logits = layers.Dense(3, kernel_initializer=weights(3, 30.0), name="logits")(hidden)
    p = keras.ops.softmax(logits)
    return keras.Model(x, [p, keras.ops.log_softmax(logits) if safe else keras.ops.log(p)])


@pair(
    "keras",
    Expected("NUM102", "Sqrt", ".*"),
    ranges={"x": (-2, 2)},
    point={"x": -2.0},
    phase="inference",
)
def root_after_a_residual(safe: bool) -> Any:
    layers = keras.layers
    x = keras.Input([6], name="x")
    hidden = layers.LayerNormalization(name="norm")(x)
    hidden = layers.Dense(6, activation="gelu", kernel_initializer=weights(5, 0.3), name="dense")(hidden)
    hidden = layers.Add(name="sum")([x, hidden])
    if safe:
        hidden = layers.ReLU(name="positive")(hidden)
    return keras.Model(x, keras.ops.sqrt(hidden))


@pair(
    "keras",
    Expected("NUM101", "Log", ".*"),
    ranges={"steps": (-1, 1)},
    point={"steps": 1.0},
    phase="inference",
)
def recurrent_score(safe: bool) -> Any:
    layers = keras.layers
    steps = keras.Input([4, 3], name="steps")
    one = keras.initializers.Constant(1.0)
    state = layers.GRU(5, kernel_initializer=one, recurrent_initializer=weights(8, 0.5), name="gru")(steps)
    logit = layers.Dense(1, kernel_initializer=keras.initializers.Constant(100.0), name="logit")(state)
    if safe:
        return keras.Model(steps, keras.ops.log_sigmoid(keras.ops.negative(logit)))
    return keras.Model(steps, keras.ops.log(keras.ops.subtract(1.0, keras.ops.sigmoid(logit))))
