"""Recurrent layers RNN, GRU and LSTM: one step of each cell. The iteration over time is in `ranges.recurrence`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorproof.errors import NotAnalysed
from tensorproof.formats import Array
from tensorproof.graph import ABSENT
from tensorproof.operators.table import NEWEST, Call, operator
from tensorproof.ranges.cells import Activation, Box, Term, product, read_activations
from tensorproof.ranges.gate_weights import Whole
from tensorproof.ranges.range import Range
from tensorproof.ranges.recurrence import Layer
from tensorproof.ranges.sums import interval_product
from tensorproof.ranges.unrolling import Inputs, State, Step, Weights
from tensorproof.rules.accumulation_overflow import ACCUMULATION_OVERFLOW
from tensorproof.rules.exponential_overflow import EXPONENTIAL_OVERFLOW

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor
    from tensorproof.frontends.aten import AtenCall
    from tensorproof.frontends.calls import Handle

_COARSE = "gates share their operands, and states are correlated over time: each is bounded on its own"

#: Slopes and their products are followed up to this many numbers per step.
SLOPES = 1 << 20


@operator("RNN", hazards=(ACCUMULATION_OVERFLOW, EXPONENTIAL_OVERFLOW), coarse=_COARSE)
def rnn(
    op: Call,
    x: Range,
    w: Range,
    r: Range,
    b: Range | None = None,
    sequence_lens: Range | None = None,
    initial_h: Range | None = None,
) -> tuple[Range, ...]:
    """H = f(X W' + H R' + Wb + Rb), step by step; f is Tanh by default."""
    layer = Layer(op, 1, ("Tanh",), 0, x, w, r, b, sequence_lens, (initial_h,))

    def cell(weights: Weights, functions: Sequence[Activation]) -> Step:
        def step(inputs: Inputs, state: State) -> State:
            total = layer.arithmetic.total(inputs.term, weights.recurrent.times(state[0]), *weights.biases)
            return (layer.arithmetic.activated(functions[0], total),)

        return step

    return layer.run(cell)


@rnn.meaning
def _(
    run: Run,
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    sequence_lens: Tensor | None = None,
    initial_h: Tensor | None = None,
) -> tuple[Tensor, ...]:
    def step(cell: _Cell, inputs: Tensor, state: Sequence[Tensor]) -> tuple[Tensor, ...]:
        return (cell.activated(0, inputs + state[0] @ cell.recurrent.T + cell.bias),)

    return _unrolled(run, step, ("Tanh",), (x, w, r, b), sequence_lens, (initial_h,))


@operator("GRU", hazards=(ACCUMULATION_OVERFLOW, EXPONENTIAL_OVERFLOW), coarse=_COARSE)
def gru(
    op: Call,
    x: Range,
    w: Range,
    r: Range,
    b: Range | None = None,
    sequence_lens: Range | None = None,
    initial_h: Range | None = None,
) -> tuple[Range, ...]:
    """H = (1 - z) h + z H, a mean of the candidate h and the old state, step by step."""
    layer = Layer(op, 3, ("Sigmoid", "Tanh"), 1, x, w, r, b, sequence_lens, (initial_h,))
    linear = bool(op.attribute("linear_before_reset", 0))

    def cell(weights: Weights, functions: Sequence[Activation]) -> Step:
        return _GruCell(layer, weights, functions, linear)

    return layer.run(cell)


@gru.meaning
def _(
    run: Run,
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    sequence_lens: Tensor | None = None,
    initial_h: Tensor | None = None,
) -> tuple[Tensor, ...]:
    linear = bool(run.attribute("linear_before_reset", 0))

    def step(cell: _Cell, inputs: Tensor, state: Sequence[Tensor]) -> tuple[Tensor, ...]:
        hidden, units = state[0], cell.units
        of_gates, of_candidate = cell.recurrent[: 2 * units].T, cell.recurrent[2 * units :].T
        gates = cell.activated(0, inputs[:, : 2 * units] + hidden @ of_gates + cell.bias[: 2 * units])
        update, reset = gates[:, :units], gates[:, units:]
        bias = cell.bias[2 * units :]
        inner = reset * (hidden @ of_candidate + bias) if linear else (reset * hidden) @ of_candidate + bias
        proposed = cell.activated(1, inputs[:, 2 * units :] + inner)
        return ((1.0 - update) * proposed + update * hidden,)

    return _unrolled(run, step, ("Sigmoid", "Tanh"), (x, w, r, b), sequence_lens, (initial_h,))


class _GruCell:
    """One step of a GRU. Where its slope in an input has one sign, the input's ends decide (monotonicity)."""

    def __init__(self, layer: Layer, weights: Weights, functions: Sequence[Activation], linear: bool) -> None:
        n = layer.units
        self.layer = layer
        self.arithmetic = layer.arithmetic
        self.functions = functions
        self.linear = linear
        self.gates, self.candidate = weights.recurrent.units(0, 2 * n), weights.recurrent.units(2 * n, 3 * n)
        of_inputs, of_state = weights.biases
        self.gate_biases = of_inputs.units(0, 2 * n), of_state.units(0, 2 * n)
        self.biases = of_inputs.units(2 * n, 3 * n), of_state.units(2 * n, 3 * n)
        known = [f.name for f in functions] == ["sigmoid", "tanh"] and self.arithmetic.clip is None
        work = layer.groups * weights.inputs.rows * n * (1 if linear else n)
        self.follows_slopes = False
        if known and n == layer.hidden and work <= SLOPES and not layer.summarises:
            assert isinstance(weights.inputs, Whole) and isinstance(weights.recurrent, Whole)
            self.follows_slopes = True
            self.weights = [weights.inputs.box.units(k * n, (k + 1) * n) for k in range(3)]
            self.of_state = weights.recurrent.box.units(2 * n, 3 * n)

    def __call__(self, inputs: Inputs, state: State) -> State:
        hidden, n = state[0], self.layer.units
        recurrent = self.gates.times(hidden)
        sums = self.arithmetic.total(inputs.term.units(0, 2 * n), recurrent, *self.gate_biases)
        both = self.arithmetic.activated(self.functions[0], sums)
        update, reset = both.units(0, n), both.units(n, 2 * n)
        of_inputs, of_state = self.biases
        if self.linear:
            inner = self.arithmetic.total(self.candidate.times(hidden), of_state)
            terms = (product(reset, inner), of_inputs)
        else:
            inner = self.arithmetic.times(reset, hidden)
            terms = (self.candidate.times(inner), of_state, of_inputs)
        proposed = self._proposed(inputs.term.units(2 * n, 3 * n), terms)
        result = self.arithmetic.mixed(update, proposed, hidden, fresh=proposed)
        if not self.follows_slopes or bool((inputs.box.low == inputs.box.high).all()):
            return (result,)
        slopes = self._slopes(hidden, update, reset, proposed, inner)
        # The rounding errors of all inputs in the box, not of those at its ends alone.
        slack = 32.0 * self.arithmetic.roundoff * np.maximum(np.maximum(hidden.magnitude, proposed.magnitude), 1.0)
        ends: list[Array] = []
        for upper, lower in ((slopes.high <= 0.0, slopes.low >= 0.0), (slopes.low >= 0.0, slopes.high <= 0.0)):
            chosen = _ends(inputs.box, upper, lower)
            gate, value = (self._chosen(chosen, inputs.term, k) for k in (0, 2))
            biases = [bias.units(0, n) for bias in self.gate_biases]
            share = self.arithmetic.total(gate, recurrent.units(0, n), *biases)
            share = self.arithmetic.activated(self.functions[0], share)
            candidate = self._proposed(value, terms)
            mean = self.arithmetic.mixed(share, candidate, hidden, fresh=proposed)
            ends.append(mean.high if ends else mean.low)
        low, high = np.maximum(result.low, ends[0] - slack), np.minimum(result.high, ends[1] + slack)
        return (Box(low, high),)

    def _proposed(self, inputs: Term, terms: Sequence[Term]) -> Box:
        return self.arithmetic.activated(self.functions[1], self.arithmetic.total(inputs, *terms))

    def _slopes(self, hidden: Box, update: Box, reset: Box, proposed: Box, inner: Box) -> Box:
        """Bounds of the derivative of every unit's new state by every input: groups x features x units.

        H' = (1 - z) h + z H, so that dH' = (H - h) z' dSz + (1 - z) h' dSh, where Sz and Sh are the sums of the gates:
        dSz = Wz and dSh = Wh + the part of the reset gate; sigmoid' = s (1 - s), tanh' = 1 - t^2.
        """
        by_update = _times(Box(hidden.low - proposed.high, hidden.high - proposed.low), _logistic_slope(update))
        by_sum = _times(Box(1.0 - update.high, 1.0 - update.low), _tanh_slope(proposed))
        through_reset = _times(inner if self.linear else hidden, _logistic_slope(reset))
        of_update, of_reset, of_value = self.weights
        if self.linear:
            indirect = _times(_per_input(through_reset), of_reset)
        else:
            left = _times(_per_input(through_reset), of_reset)
            low, high, _ = interval_product(left.low, left.high, self.of_state.low, self.of_state.high)
            indirect = Box(low, high)
        of_sum = Box(of_value.low + indirect.low, of_value.high + indirect.high)
        first, second = _times(_per_input(by_update), of_update), _times(_per_input(by_sum), of_sum)
        # Signs that depend on the rounding of the slopes themselves count as undecided.
        margin = 2.0**-40 * (np.maximum(np.abs(first.low), first.high) + np.maximum(np.abs(second.low), second.high))
        return Box(first.low + second.low - margin, first.high + second.high + margin)

    def _chosen(self, chosen: Box, whole: Term, gate: int) -> Term:
        """Products of inputs that differ from unit to unit with the weights of one gate."""
        n = self.layer.units
        terms = _times(chosen, self.weights[gate])
        part = whole.units(gate * n, (gate + 1) * n)
        return Term(terms.low.sum(axis=1), terms.high.sum(axis=1), part.magnitude, part.terms)


def _per_input(box: Box) -> Box:
    return Box(box.low[:, None, :], box.high[:, None, :])


def _times(a: Box, b: Box) -> Box:
    term = product(a, b)
    return Box(term.low, term.high)


def _ends(x: Box, upper: npt.NDArray[np.bool_], lower: npt.NDArray[np.bool_]) -> Box:
    """Inputs moved to their upper or lower ends, for each unit on its own."""
    low, high = x.low[:, :, None], x.high[:, :, None]
    return Box(np.where(upper, high, low), np.where(lower, low, high))


def _logistic_slope(s: Box) -> Box:
    ends = s.low * (1.0 - s.low), s.high * (1.0 - s.high)
    most = np.where((s.low <= 0.5) & (s.high >= 0.5), 0.25, np.maximum(*ends))
    return Box(np.minimum(*ends), most)


def _tanh_slope(t: Box) -> Box:
    ends = 1.0 - t.low**2, 1.0 - t.high**2
    return Box(np.minimum(*ends), np.where((t.low <= 0.0) & (t.high >= 0.0), 1.0, np.maximum(*ends)))


@operator("LSTM", hazards=(ACCUMULATION_OVERFLOW, EXPONENTIAL_OVERFLOW), coarse=_COARSE)
def lstm(
    op: Call,
    x: Range,
    w: Range,
    r: Range,
    b: Range | None = None,
    sequence_lens: Range | None = None,
    initial_h: Range | None = None,
    initial_c: Range | None = None,
    p: Range | None = None,
) -> tuple[Range, ...]:
    """C = f C + i c and H = o h(C), step by step; gates i, o, f may see the memory C through peepholes."""
    layer = Layer(op, 4, ("Sigmoid", "Tanh", "Tanh"), 2, x, w, r, b, sequence_lens, (initial_h, initial_c), p)
    arithmetic, n = layer.arithmetic, layer.units
    coupled = bool(op.attribute("input_forget", 0))

    def cell(weights: Weights, functions: Sequence[Activation]) -> Step:
        def sums(inputs: Inputs, hidden: Box) -> tuple[Term, ...]:
            return inputs.term, weights.recurrent.times(hidden), *weights.biases

        def seeing(index: int, terms: Sequence[Term], memory: Box) -> Box:
            """A gate that sees the memory through its peephole."""
            part = index * n, (index + 1) * n
            assert weights.peepholes is not None
            seen = product(weights.peepholes.units(*part), memory)
            return arithmetic.activated(functions[0], arithmetic.total(*(term.units(*part) for term in terms), seen))

        def step(inputs: Inputs, state: State) -> State:
            hidden, memory = state
            terms = sums(inputs, hidden)
            if weights.peepholes is None:
                total = arithmetic.total(*terms)
                gates = arithmetic.activated(functions[0], total.units(0, 3 * n))
                gain, output, keep = (gates.units(k * n, (k + 1) * n) for k in range(3))
                value = total.units(3 * n, 4 * n)
            else:
                gain, output, keep = seeing(0, terms, memory), None, seeing(2, terms, memory)
                value = arithmetic.total(*(term.units(3 * n, 4 * n) for term in terms))
            value = arithmetic.activated(functions[1], value)
            if coupled:
                updated = arithmetic.mixed(gain, memory, value, fresh=value)
            else:
                updated = arithmetic.remembered(keep, memory, gain, value)
            output = seeing(1, terms, updated) if output is None else output
            return arithmetic.times(output, arithmetic.activated_memory(functions[2], updated)), updated

        return step

    return layer.run(cell)


@lstm.meaning
def _(
    run: Run,
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    sequence_lens: Tensor | None = None,
    initial_h: Tensor | None = None,
    initial_c: Tensor | None = None,
    p: Tensor | None = None,
) -> tuple[Tensor, ...]:
    coupled = bool(run.attribute("input_forget", 0))

    def step(cell: _Cell, inputs: Tensor, state: Sequence[Tensor]) -> tuple[Tensor, ...]:
        hidden, memory = state
        sums = inputs + hidden @ cell.recurrent.T + cell.bias
        gain, output, keep, value = sums.split(cell.units, dim=1)
        if cell.peepholes is not None:
            gain, keep = gain + cell.peepholes[0] * memory, keep + cell.peepholes[2] * memory
        gain, value = cell.activated(0, gain), cell.activated(1, value)
        kept = 1.0 - gain if coupled else cell.activated(0, keep)
        memory = kept * memory + gain * value
        if cell.peepholes is not None:
            output = output + cell.peepholes[1] * memory
        # ONNX Runtime does not clip the memory.
        return cell.activated(0, output) * cell.function(2, memory), memory

    operands = (x, w, r, b)
    return _unrolled(run, step, ("Sigmoid", "Tanh", "Tanh"), operands, sequence_lens, (initial_h, initial_c), p)


# -- in torch ---------------------------------------------------------------------------------------------------------

#: The gates of ONNX by their places among those of torch: i, o, f, c out of i, f, g, o; z, r, h out of r, z, n.
_GATES: Mapping[str, Sequence[int]] = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN": (0,)}


@lstm.aten("lstm.input")
def _(call: AtenCall) -> tuple[int, ...]:
    return _stacked(call, "LSTM", call.tensors("hx", call.result.format))


@gru.aten("gru.input")
def _(call: AtenCall) -> tuple[int, ...]:
    return _stacked(call, "GRU", [call.tensor("hx", call.result.format)], linear_before_reset=1)


@rnn.aten("rnn_tanh.input", "rnn_relu.input")
def _(call: AtenCall) -> tuple[int, ...]:
    activation = "Relu" if call.name.startswith("rnn_relu") else "Tanh"
    directions = 2 if call["bidirectional"] else 1
    return _stacked(call, "RNN", [call.tensor("hx", call.result.format)], activations=[activation] * directions)


def _stacked(call: AtenCall, op: str, states: Sequence[int], **attributes: Any) -> tuple[int, ...]:
    """Layers one on the other: all hidden states of the last one, and the last states of all of them."""
    format = call.result.format
    layers, directions = int(call["num_layers"]), 2 if call["bidirectional"] else 1
    parameters: list[Handle] = call.arguments["params"]
    count = 4 if call["has_biases"] else 2
    if len(parameters) != layers * directions * count:
        raise NotAnalysed("recurrent layers with a projection are not modelled")
    x = call.tensor("input", format)
    x = call.moved("Transpose", x, perm=[1, 0, 2]) if call["batch_first"] else x
    last: list[tuple[int, ...]] = []
    for layer in range(layers):
        mine = range(layer * directions, (layer + 1) * directions)
        weights = _weights(call, op, [parameters[index * count : (index + 1) * count] for index in mine])
        initial = [_rows(call, state, mine, layers * directions) for state in states]
        direction = "bidirectional" if directions == 2 else None
        hidden = (parameters[0].shape or (0,))[0]
        attributes |= {"hidden_size": int(hidden or 0) // len(_GATES[op]), "direction": direction}
        formats = (format,) * (1 + len(states))
        y, *final = call.emit(op, x, *weights, ABSENT, *initial, outputs=1 + len(states), formats=formats, **attributes)
        last.append(tuple(final))
        x = _joined_directions(call, y, directions)
        if call["train"] and call["dropout"] and layer < layers - 1:
            ratio, training = call.value(float(call["dropout"]), format), call.constant(np.array(True))
            x = call.emit("Dropout", x, ratio, training, formats=(format,))
    x = call.moved("Transpose", x, perm=[1, 0, 2]) if call["batch_first"] else x
    return x, *(_concatenated(call, parts, 0) for parts in zip(*last))


def _weights(call: AtenCall, op: str, directions: Sequence[Sequence[Handle]]) -> list[int]:
    """W, R and B of all directions, (directions, gates * units, ...), the gates in the order of ONNX."""
    columns = [[_gates_in_order(call, op, handle) for handle in parameters] for parameters in directions]
    w, r = (_concatenated(call, [column[index] for column in columns], 0) for index in range(2))
    if len(columns[0]) == 2:
        return [w, r, ABSENT]
    return [w, r, _concatenated(call, [_concatenated(call, column[2:], 1) for column in columns], 0)]


def _gates_in_order(call: AtenCall, op: str, parameter: Handle) -> int:
    """A weight or bias with its gates in the order of ONNX, and an axis for the direction in front."""
    rows, gates = int((parameter.shape or (0,))[0] or 0), _GATES[op]
    units = rows // len(gates)
    order = np.concatenate([np.arange(gate * units, (gate + 1) * units) for gate in gates])
    return call.moved("Gather", call.value(parameter, call.result.format), call.constant(order[None].astype(np.int64)), axis=0)


def _rows(call: AtenCall, x: int, rows: range, count: int) -> int:
    return x if len(rows) == count else call.moved("Gather", x, call.constant(np.array(rows, np.int64)), axis=0)


def _concatenated(call: AtenCall, parts: Sequence[int], axis: int) -> int:
    return parts[0] if len(parts) == 1 else call.emit("Concat", *parts, axis=axis, formats=(call.result.format,))


def _joined_directions(call: AtenCall, y: int, directions: int) -> int:
    """(time, directions, batch, units) as (time, batch, directions * units)."""
    if directions == 1:
        return call.moved("Squeeze", y, call.constant(np.array([1], np.int64)))
    turned = call.moved("Transpose", y, perm=[0, 2, 1, 3])
    # Zero keeps a size (ONNX Reshape).
    return call.moved("Reshape", turned, call.constant(np.array([0, 0, -1], np.int64)))


@lstm.aten("lstm_cell")
def _(call: AtenCall) -> tuple[int, ...]:
    return _step(call, "LSTM", call.tensors("hx", call.result.format))


@gru.aten("gru_cell")
def _(call: AtenCall) -> int:
    return _step(call, "GRU", [call.tensor("hx", call.result.format)], linear_before_reset=1)[0]


@rnn.aten("rnn_tanh_cell", "rnn_relu_cell")
def _(call: AtenCall) -> int:
    activation = "Relu" if call.name.startswith("rnn_relu") else "Tanh"
    return _step(call, "RNN", [call.tensor("hx", call.result.format)], activations=[activation])[0]


def _step(call: AtenCall, op: str, states: Sequence[int], **attributes: Any) -> tuple[int, ...]:
    """One step of a cell: a layer over a sequence of one element."""
    format, front = call.result.format, call.constant(np.array([0], np.int64))
    names = [name for name in ("w_ih", "w_hh", "b_ih", "b_hh") if call.is_given(name)]
    weights = _weights(call, op, [[call.handle(name) for name in names]])
    x, *initial = (call.moved("Unsqueeze", part, front) for part in (call.tensor("input", format), *states))
    hidden = int((call.handle("w_hh").shape or (0, 0))[1] or 0)
    formats = (format,) * (1 + len(states))
    made = call.emit(op, x, *weights, ABSENT, *initial, outputs=1 + len(states), hidden_size=hidden, formats=formats, **attributes)
    return tuple(call.moved("Squeeze", part, front) for part in made[1:])


# -- on tensors ------------------------------------------------------------------------------------------------------


#: The operators that activations by these names stand for; Affine and ScaledTanh have none.
_OPERATORS = {
    "relu": "Relu",
    "tanh": "Tanh",
    "sigmoid": "Sigmoid",
    "leakyrelu": "LeakyRelu",
    "thresholdedrelu": "ThresholdedRelu",
    "hardsigmoid": "HardSigmoid",
    "elu": "Elu",
    "softsign": "Softsign",
    "softplus": "Softplus",
}


@dataclass(frozen=True, slots=True)
class _Cell:
    """What the steps of one direction share; `bias` is added to what the state contributes."""

    run: Run
    recurrent: Tensor
    bias: Tensor
    peepholes: Tensor | None
    activations: Sequence[Activation]

    @property
    def units(self) -> int:
        return self.recurrent.shape[1]

    def activated(self, index: int, sums: Tensor) -> Tensor:
        """An activation of a gate sum, which is clipped first where the node says so."""
        clip = self.run.attribute("clip")
        if clip is not None and clip > 0:
            sums = self.run.passing(sums.clamp(-clip, clip), sums)
        return self.function(index, sums)

    def function(self, index: int, x: Tensor) -> Tensor:
        """An activation by its position."""
        name, parameters = self.activations[index]
        alpha, beta = parameters[0]
        if name == "affine":
            return alpha * x + beta
        if name == "scaledtanh":
            return alpha * self.run.torch.tanh(beta * x)
        return self.run.apply(_OPERATORS[name], x, version=NEWEST, alpha=alpha, beta=beta)


_TensorStep = Callable[[_Cell, "Tensor", Sequence["Tensor"]], "tuple[Tensor, ...]"]


def _unrolled(
    run: Run,
    step: _TensorStep,
    defaults: Sequence[str],
    operands: tuple[Tensor, Tensor, Tensor, Tensor | None],
    lengths: Tensor | None,
    initial: Sequence[Tensor | None],
    peepholes: Tensor | None = None,
) -> tuple[Tensor, ...]:
    """All hidden states, and the last states, of all directions (ONNX RNN-22, GRU-22, LSTM-22)."""
    x, w, r, b = operands
    batch_first = bool(run.attribute("layout", 0))
    x = x.transpose(0, 1) if batch_first else x
    directions, _, units = r.shape
    activations = read_activations(run, defaults, directions)
    valid = None if lengths is None else (run.torch.arange(x.shape[0])[:, None] < run.whole(lengths))[..., None]
    outputs: list[Tensor] = []
    states: list[tuple[Tensor, ...]] = []
    for direction in range(directions):
        of_inputs, of_state = w.new_zeros(2, w.shape[1]) if b is None else b[direction].reshape(2, -1)
        seen = None if peepholes is None else peepholes[direction].reshape(3, units)
        cell = _Cell(run, r[direction], of_state, seen, activations[direction])
        starts = [y if y is None or not batch_first else y.transpose(0, 1) for y in initial]
        state = tuple(x.new_zeros(x.shape[1], units) if y is None else y[direction] for y in starts)
        backwards = direction == 1 or run.attribute("direction", "forward") == "reverse"
        inputs = x @ w[direction].T + of_inputs
        hidden, state = _sequence(run, cell, step, inputs, state, valid, backwards=backwards)
        outputs.append(hidden)
        states.append(state)
    whole = run.torch.stack(outputs, dim=1)
    last = [run.torch.stack(parts) for parts in zip(*states)]
    if batch_first:
        whole, last = whole.permute(2, 0, 1, 3), [y.transpose(0, 1) for y in last]
    return whole, *last


def _sequence(
    run: Run,
    cell: _Cell,
    step: _TensorStep,
    inputs: Tensor,
    state: tuple[Tensor, ...],
    valid: Tensor | None,
    *,
    backwards: bool,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The hidden state after every step, zero where a sequence has ended, and the last state of each sequence."""
    times = range(len(inputs))
    hidden: list[Tensor] = [inputs.new_zeros(state[0].shape)] * len(inputs)
    for time in reversed(times) if backwards else times:
        after = step(cell, inputs[time], state)
        if valid is None:
            state, hidden[time] = after, after[0]
        else:
            here = valid[time]
            state = tuple(run.torch.where(here, new, old) for new, old in zip(after, state))
            hidden[time] = run.torch.where(here, after[0], 0.0)
    return run.torch.stack(hidden) if hidden else inputs.new_zeros(0, *state[0].shape), state
