"""Models and losses of Keras."""

from __future__ import annotations

from tensorproof.shapes.families.keras_losses import NAMES
from tests.shape_cases import Draw, cases


@cases(
    *(f"keras.losses.{name}" for name in sorted(NAMES)),
    *(f"keras.metrics.{name}" for name in sorted(NAMES - {"cosine_similarity"})),
)
def _(draw: Draw) -> str:
    return f"{draw.name}({_targets_and_outputs(draw)})"


_OBJECTS = (
    "MeanSquaredError MeanAbsoluteError MeanAbsolutePercentageError MeanSquaredLogarithmicError Huber LogCosh CosineSimilarity Hinge "
    "SquaredHinge KLDivergence Poisson CategoricalCrossentropy BinaryCrossentropy SparseCategoricalCrossentropy"
)


@cases(*(f"keras.losses.{name}" for name in _OBJECTS.split()))
def _(draw: Draw) -> str:
    return f"{draw.name}({draw.pick(['', 'reduction=None', 'reduction=' + repr('sum')])})({_targets_and_outputs(draw)})"


def _targets_and_outputs(draw: Draw) -> str:
    output = draw.shape(1, 3)
    sparse = "sparse" in draw.name or "Sparse" in draw.name
    target = draw.varied(output[:-1] if sparse else output, 0.5)
    if draw.chance(0.2):
        target = (*target, 1)
    return f"{draw.array(target or (1,))}, {draw.array(output)}"


@cases("keras.Sequential")
def _(draw: Draw) -> str:
    features = draw.integer(1, 4)
    first = draw.pick(["", f"keras.Input(({features},)), ", f"keras.Input((3, {features})), "])
    layers = f"{first}keras.layers.Dense(2), keras.layers.Flatten(), {draw.pick(['keras.layers.Dense(3)', 'keras.layers.Reshape((2, 1))'])}"
    shape = (2, features) if draw.chance(0.6) else draw.varied((2, 3, features), 0.5)
    return f"keras.Sequential([{layers}])({draw.array(shape)})"


@cases("keras.Model", "keras.Input", "keras.layers.InputLayer")
def _(draw: Draw) -> str:
    declared = draw.shape(1, 3)
    shape = draw.varied((2, *declared), 0.5)
    if draw.short == "InputLayer":
        return f"keras.Sequential([keras.layers.InputLayer({declared}), keras.layers.Dense(3)])({draw.array(shape)})"
    body = draw.pick(["keras.layers.Dense(3)(x)", "keras.layers.Flatten()(x)", "keras.layers.Add()([x, x])", "x * 2"])
    return f"(lambda x: keras.Model(x, {body}))(keras.Input({declared}))({draw.array(shape)})"
