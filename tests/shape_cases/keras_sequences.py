"""Recurrent layers, attention, normalisation and merges of Keras."""

from __future__ import annotations

from tests.shape_cases import Draw, cases
from tests.shape_cases.keras_layers import called, varied_pair


def _sequence(draw: Draw) -> tuple[int, ...]:
    shape = tuple(draw.integer(1, 3) for _ in range(3))
    return shape if draw.chance(0.85) else draw.varied(shape, 1.0)


@cases("keras.layers.LSTM", "keras.layers.GRU", "keras.layers.SimpleRNN")
def _(draw: Draw) -> str:
    options = draw.pick(["", ", return_sequences=True", ", return_state=True", ", return_sequences=True, return_state=True"])
    units = draw.integer(1, 4)
    shape = _sequence(draw)
    if draw.chance(0.4):
        count = 2 if draw.short == "LSTM" else 1
        shape = (draw.integer(2, 3), draw.integer(1, 3), draw.integer(1, 3))
        state = (shape[0], units) if draw.chance(0.6) else draw.pick([(shape[0] + 1, units), (shape[0], units + 1)])
        states = ", ".join([draw.array(state)] * count)
        return f"{draw.name}({units}{options})({draw.array(shape)}, initial_state=[{states}])"
    return called(draw, f"{units}{options}", *((shape,) if draw.chance(0.6) else (shape, (*shape[:-1], draw.integer(1, 3)))))


@cases(
    "keras.layers.RNN",
    "keras.layers.LSTMCell",
    "keras.layers.GRUCell",
    "keras.layers.SimpleRNNCell",
    "keras.layers.StackedRNNCells",
)
def _(draw: Draw) -> str:
    own = draw.short if draw.short.endswith("RNNCell") or draw.short in ("LSTMCell", "GRUCell") else "GRUCell"
    cell = f"keras.layers.{own}({draw.integer(1, 4)})"
    if draw.short == "StackedRNNCells":
        cell = f"keras.layers.StackedRNNCells([{cell}, keras.layers.LSTMCell({draw.integer(1, 4)})])"
    options = draw.pick(
        ["", ", return_sequences=True"]
        if draw.short == "StackedRNNCells"
        else ["", ", return_sequences=True", ", return_state=True"]
    )
    return f"keras.layers.RNN({cell}{options})({draw.array(_sequence(draw)[:3])})"


@cases("keras.layers.Bidirectional")
def _(draw: Draw) -> str:
    kind = draw.pick(["LSTM", "GRU"])
    options = draw.pick(["", ", return_sequences=True", ", return_state=True", ", return_sequences=True, return_state=True"])
    merge = draw.pick(["", ", merge_mode='sum'", ", 'ave'", ", merge_mode=None"])
    return f"{draw.name}(keras.layers.{kind}({draw.integer(1, 4)}{options}){merge})({draw.array(_sequence(draw))})"


@cases("keras.layers.TimeDistributed")
def _(draw: Draw) -> str:
    inner = draw.pick(
        ["keras.layers.Dense(3)", "keras.layers.Flatten()", "keras.layers.Conv2D(2, 2)", "keras.layers.Reshape((2, -1))"]
    )
    return called(draw, inner, draw.shape(2, 5))


@cases("keras.layers.ConvLSTM1D", "keras.layers.ConvLSTM2D", "keras.layers.ConvLSTM3D")
def _(draw: Draw) -> str:
    axes = int(draw.short[-2])
    shape = (1, 2, *(draw.integer(1, 3) for _ in range(axes)), draw.integer(1, 2))
    options = f"{draw.integer(1, 2)}, {draw.integer(1, 2)}, padding={draw.pick(['valid', 'same'])!r}"
    more = draw.pick(["", ", return_sequences=True", ", return_state=True"])
    return called(draw, options + more, shape if draw.chance(0.8) else draw.varied(shape, 1.0))


@cases("keras.layers.Attention", "keras.layers.AdditiveAttention")
def _(draw: Draw) -> str:
    query = tuple(draw.integer(1, 4) for _ in range(3))
    value = (query[0], draw.integer(1, 4), query[2])
    wrong = draw.short == "Attention"
    tensors = [query, draw.varied(value, 0.0)]
    if draw.chance(0.5):
        tensors.append((query[0], draw.integer(1, 4) if wrong and draw.chance(0.3) else value[1], query[2]))
    elif wrong and draw.chance(0.4):
        tensors[1] = (*value[:2], draw.integer(1, 4))
    arguments = ", ".join(draw.array(shape) for shape in tensors)
    return f"{draw.name}()([{arguments}]{draw.pick(['', ', return_attention_scores=True'])})"


@cases("keras.layers.MultiHeadAttention")
def _(draw: Draw) -> str:
    # One sample meets several or does not, as the way of computing is chosen.
    query = (draw.integer(2, 3), draw.integer(1, 4), draw.integer(1, 4))
    value = (query[0] if draw.chance(0.8) else draw.integer(2, 3), draw.integer(1, 4), draw.integer(1, 4))
    key = (value[0], value[1] if draw.chance(0.7) else draw.integer(1, 4), draw.integer(1, 4))
    tensors = [query, value, key][: draw.integer(2, 3)]
    options = draw.pick(["", ", output_shape=3", ", value_dim=2"])
    arguments = ", ".join(draw.array(shape) for shape in tensors)
    scores = draw.pick(["", ", return_attention_scores=True"])
    return f"{draw.name}({draw.integer(1, 3)}, {draw.integer(1, 3)}{options})({arguments}{scores})"


@cases("keras.layers.BatchNormalization", "keras.layers.LayerNormalization", "keras.layers.RMSNormalization")
def _(draw: Draw) -> str:
    shape = draw.shape(2, 4)
    second = (*draw.shape(len(shape) - 1, len(shape) - 1), shape[-1] if draw.chance(0.5) else shape[-1] + 1)
    # A size of 1 is stretched to that of the weights.
    shapes = (shape,) if draw.chance(0.5) or shape[-1] == 1 else (shape, second)
    axis = f"axis={draw.axis(len(shape), 0.2)}" if len(shapes) == 1 and draw.short[0] != "R" and draw.chance(0.4) else ""
    return called(draw, axis, *shapes)


@cases("keras.layers.GroupNormalization")
def _(draw: Draw) -> str:
    shape = (*draw.shape(2, 3), draw.pick([2, 4, 6, 3]))
    return called(draw, str(draw.pick([1, 2, 3, -1])), shape)


@cases("keras.layers.SpectralNormalization")
def _(draw: Draw) -> str:
    return called(draw, f"keras.layers.Dense({draw.integer(1, 4)})", *varied_pair(draw, draw.shape(2, 3)))


_MERGES = ("Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum")


@cases(*(f"keras.layers.{name}" for name in _MERGES), *(f"keras.layers.{name.lower()}" for name in _MERGES))
def _(draw: Draw) -> str:
    # With one sample TensorFlow takes some inputs for a bias.
    shape = (draw.integer(2, 4), *draw.shape(1, 3))
    shapes = [shape, *(draw.varied(shape, 0.35) for _ in range(draw.integer(1, 2)))]
    shapes = [one if len(one) > 1 else (*one, 1) for one in shapes]
    arguments = "[" + ", ".join(draw.array(one) for one in shapes) + "]"
    return f"{draw.name}()({arguments})" if draw.short[0].isupper() else f"{draw.name}({arguments})"


@cases("keras.layers.Concatenate", "keras.layers.concatenate")
def _(draw: Draw) -> str:
    shape = draw.shape(1, 4)
    axis = draw.axis(len(shape), 0.1)
    place = axis if -len(shape) <= axis < len(shape) else 0
    shapes = [shape]
    for _ in range(draw.integer(1, 2)):
        other = list(shape)
        other[place] = draw.integer(1, 5)
        shapes.append(draw.varied(other, 0.2))
    arguments = "[" + ", ".join(draw.array(one) for one in shapes) + "]"
    return f"{draw.name}(axis={axis})({arguments})" if draw.short[0].isupper() else f"{draw.name}({arguments}, axis={axis})"


@cases("keras.layers.Dot", "keras.layers.dot")
def _(draw: Draw) -> str:
    left = draw.shape(2, 4)
    first = draw.axis(len(left), 0.05)
    size = left[first] if -len(left) <= first < len(left) else 2
    right = [left[0], *draw.shape(1, 2)]
    second = draw.integer(1, len(right) - 1)
    right[second] = size
    axes = f"({first}, {second})"
    arguments = f"[{draw.array(left)}, {draw.array(draw.varied(right, 0.25))}]"
    return f"{draw.name}(axes={axes})({arguments})" if draw.short == "Dot" else f"{draw.name}({arguments}, axes={axes})"
