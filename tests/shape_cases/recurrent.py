"""Recurrent layers."""

from __future__ import annotations

from tests.shape_cases import Draw, cases


@cases("torch.nn.RNN", "torch.nn.GRU", "torch.nn.LSTM")
def _(draw: Draw) -> str:
    features, hidden, layers = draw.integer(1, 4), draw.integer(2, 4), draw.integer(1, 2)
    first, both = draw.chance(0.5), draw.chance(0.4)
    projected = draw.integer(1, hidden) if draw.short == "LSTM" and draw.chance(0.2) else 0
    batch, steps = draw.integer(1, 4), draw.integer(1, 4)
    batched = draw.chance(0.8)
    input = (*(((batch, steps) if first else (steps, batch)) if batched else (steps,)), features)
    states = layers * (2 if both else 1)
    middle = (batch,) if batched else ()
    hidden_state = draw.array(draw.varied((states, *middle, projected or hidden), 0.2))
    cell_state = draw.array(draw.varied((states, *middle, hidden), 0.2))
    given = ""
    if draw.chance(0.6):
        given = f", ({hidden_state}, {cell_state})" if draw.short == "LSTM" else f", {hidden_state}"
    options = [f"num_layers={layers}", f"batch_first={first}", f"bidirectional={both}"]
    options += [f"proj_size={projected}"] if projected else []
    made = f"nn.{draw.short}({features}, {hidden}, {', '.join(options)})"
    return f"{made}({draw.array(draw.varied(input, 0.2))}{given})"


def _resized(draw: Draw, shape: tuple[int, ...]) -> str:
    """An array of this rank, sometimes of other sizes: PyTorch crashes on states of cells of another rank."""
    return draw.array([draw.integer(1, 4) if draw.chance(0.12) else size for size in shape])


@cases("torch.nn.RNNCell", "torch.nn.GRUCell", "torch.nn.LSTMCell")
def _(draw: Draw) -> str:
    features, hidden = draw.integer(1, 4), draw.integer(1, 4)
    front = (draw.integer(1, 4),) if draw.chance(0.8) else ()
    states = [_resized(draw, (*front, hidden)) for _ in range(2 if draw.short == "LSTMCell" else 1)]
    given = f", {states[0]}" if len(states) == 1 else f", ({states[0]}, {states[1]})"
    if draw.chance(0.5):
        return f"nn.{draw.short}({features}, {hidden})({_resized(draw, (*front, features))}{given})"
    return f"nn.{draw.short}({features}, {hidden})({draw.array(draw.varied((*front, features), 0.3))})"


@cases("torch.nn.utils.rnn.pad_sequence")
def _(draw: Draw) -> str:
    rest = draw.shape(0, 2)
    rows = [draw.array((draw.integer(1, 4), *rest)) for _ in range(draw.integer(1, 3))]
    return f"nn.utils.rnn.pad_sequence([{', '.join(rows)}], batch_first={draw.chance(0.5)})"


@cases("torch.nn.utils.rnn.pack_padded_sequence", "torch.nn.utils.rnn.pad_packed_sequence")
def _(draw: Draw) -> str:
    batch, steps, first = draw.integer(1, 4), draw.integer(1, 4), draw.chance(0.5)
    shape = (batch, steps, 3) if first else (steps, batch, 3)
    lengths = [steps] * (draw.integer(1, 4) if draw.chance(0.3) else batch)
    packed = f"nn.utils.rnn.pack_padded_sequence({draw.array(shape)}, {lengths}, batch_first={first})"
    return f"nn.utils.rnn.pad_packed_sequence({packed}, total_length={steps}, batch_first={draw.chance(0.5)})"
