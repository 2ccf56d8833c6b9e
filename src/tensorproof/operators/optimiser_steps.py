"""Steps of TensorFlow's optimisers (`ApplyAdam`, `ResourceApplyAdam`): what a variable holds after one of them.

Variables are operands of a step, those that an optimiser keeps for itself among them. What such a variable can hold follows from
the steps before, not from how variables are initialised: running means of squares are not negative, sums of squares start above
zero, powers of a decay lie between zero and the decay. The spellings say so, whatever range the variable has.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorproof.errors import NotAnalysed
from tensorproof.formats import INT64, Format
from tensorproof.frontends.calls import Handle
from tensorproof.operators.arithmetic import sub
from tensorproof.operators.optimisers import DOMAIN, adagrad, adam

if TYPE_CHECKING:
    from tensorproof.frontends.tensorflow_call import TensorflowCall


def _both(name: str) -> tuple[str, str]:
    """The step on references of version 1, and on resources."""
    return f"Apply{name}", f"ResourceApply{name}"


def _held(call: TensorflowCall, index: int) -> int:
    """What an operand holds: a tensor, or a variable of the graph (`tensorproof.frontends.tensorflow_graph.Variable`)."""
    operand: Any = call.operands[index]
    if isinstance(operand, Handle):
        return operand.number
    read = getattr(operand, "value", None)
    if read is None:
        raise NotAnalysed(f"operand {index} of {call.name} is no variable")
    return int(read(call).number)


def _not_negative(call: TensorflowCall, x: int, format: Format, least: float = 0.0) -> int:
    return call.emit("Max", x, call.value(least, format), formats=(format,))


def _number(call: TensorflowCall, index: int) -> float:
    """An operand that is one number of the program."""
    return float(call.known(index).reshape(()))


@sub.tensorflow(*_both("GradientDescent"))
def _(call: TensorflowCall) -> int:
    """x - r g."""
    format = call.arithmetic_format()
    change = call.emit("Mul", call.operand(1), call.operand(2), formats=(format,))
    return call.emit("Sub", _held(call, 0), change, formats=(format,))


@sub.tensorflow(*_both("Momentum"))
def _(call: TensorflowCall) -> int:
    """x - r v with the running sum v of gradients; with Nesterov's rule x - (r g + r m v)."""
    format = call.arithmetic_format()
    pair = partial(call.emit, formats=(format,))
    rate, gradient, momentum = (call.operand(index) for index in (2, 3, 4))
    speed = pair("Add", pair("Mul", _held(call, 1), momentum), gradient)
    if call.attribute("use_nesterov", False):
        ahead = pair("Mul", pair("Mul", speed, momentum), rate)
        return pair("Sub", _held(call, 0), pair("Add", pair("Mul", gradient, rate), ahead))
    return pair("Sub", _held(call, 0), pair("Mul", rate, speed))


@sub.tensorflow("ResourceApplyKerasMomentum")
def _(call: TensorflowCall) -> int:
    """x + v with v = m v - r g; with Nesterov's rule x + m v - r g."""
    format = call.arithmetic_format()
    pair = partial(call.emit, formats=(format,))
    change = pair("Mul", call.operand(2), call.operand(3))
    speed = pair("Sub", pair("Mul", _held(call, 1), call.operand(4)), change)
    if call.attribute("use_nesterov", False):
        speed = pair("Sub", pair("Mul", speed, call.operand(4)), change)
    return pair("Add", _held(call, 0), speed)


@adam.tensorflow(*_both("Adam"))
def _(call: TensorflowCall) -> int:
    """x - r sqrt(1 - b2^t) / (1 - b1^t) m / (sqrt(v) + e) with running means m of gradients and v of their squares."""
    format = call.arithmetic_format()
    pair = partial(call.emit, formats=(format,))
    first, second, epsilon = (_number(call, index) for index in (6, 7, 8))
    one = call.value(1.0, format)
    # The powers of both decays as optimisers keep them: of the first step, or of a later one.
    powers = [call.emit("Clip", _held(call, i), call.value(0.0, format), call.operand(i + 3), formats=(format,)) for i in (3, 4)]
    rests = [pair("Sub", one, power) for power in powers]
    rate = pair("Div", pair("Mul", call.operand(5), pair("Sqrt", rests[1])), rests[0])
    squares = _not_negative(call, _held(call, 2), format)
    if call.attribute("use_nesterov", False):
        # The mean is faded once more.
        squares = _running_squares(call, squares, call.operand(7), call.operand(9), format)
        new = pair("Mul", call.operand(9), pair("Sub", one, call.operand(6)))
        mean = pair("Add", pair("Mul", _held(call, 1), call.operand(6)), new)
        mean = pair("Add", pair("Mul", mean, call.operand(6)), new)
        quotient = pair("Div", pair("Mul", mean, rate), pair("Add", pair("Sqrt", squares), call.operand(8)))
        return pair("Sub", _held(call, 0), quotient)
    # The operator corrects no rate for the iteration 0.
    operands = rate, call.constant(np.array(0), INT64), _held(call, 0), call.operand(9), _held(call, 1), squares
    attributes = {"alpha": first, "beta": second, "epsilon": epsilon}
    return call.emit("Adam", *operands, domain=DOMAIN, outputs=3, formats=(format,) * 3, **attributes)[0]


@adagrad.tensorflow(*_both("Adagrad"))
def _(call: TensorflowCall) -> int:
    """x - r g / sqrt(h) with the sum h of squares, which starts above zero."""
    return _adagrad(call, call.operand(2), 0.0, call.operand(3), call.arithmetic_format().smallest_normal)


@adagrad.tensorflow(*_both("AdagradV2"))
def _(call: TensorflowCall) -> int:
    """x - r g / (sqrt(h) + e) with the sum h of squares."""
    return _adagrad(call, call.operand(2), _number(call, 3), call.operand(4), 0.0)


def _adagrad(call: TensorflowCall, rate: int, epsilon: float, gradient: int, least: float) -> int:
    if not call.attribute("update_slots", True):
        raise NotAnalysed(f"{call.name} that leaves its sums as they are")
    format = call.arithmetic_format()
    squares = _not_negative(call, _held(call, 1), format, least)
    operands = rate, call.constant(np.array(0), INT64), _held(call, 0), gradient, squares
    return call.emit("Adagrad", *operands, domain=DOMAIN, outputs=2, formats=(format,) * 2, epsilon=epsilon)[0]


def _running_squares(call: TensorflowCall, squares: int, decay: int, gradient: int, format: Format) -> int:
    """p h + (1 - p) g^2, of a running mean h that is not negative."""
    pair = partial(call.emit, formats=(format,))
    rest = pair("Sub", call.value(1.0, format), decay)
    old = pair("Mul", _not_negative(call, squares, format), decay)
    return pair("Add", old, pair("Mul", pair("Mul", gradient, gradient), rest))


@sub.tensorflow(*_both("RMSProp"))
def _(call: TensorflowCall) -> int:
    """x - v with v = m v + r g / sqrt(h + e) and the running mean h of squares."""
    format = call.arithmetic_format()
    pair = partial(call.emit, formats=(format,))
    rate, decay, momentum, epsilon, gradient = (call.operand(index) for index in (3, 4, 5, 6, 7))
    squares = _running_squares(call, _held(call, 1), decay, gradient, format)
    root = pair("Sqrt", pair("Add", squares, epsilon))
    change = pair("Div", pair("Mul", rate, gradient), root)
    return pair("Sub", _held(call, 0), pair("Add", pair("Mul", _held(call, 2), momentum), change))


@sub.tensorflow(*_both("CenteredRMSProp"))
def _(call: TensorflowCall) -> int:
    """x - v with v = m v + r g / sqrt(h - a^2 + e) and the running means h of squares and a of gradients.

    The variance h - a^2 is not negative in exact arithmetic. As computed it can be, by more than e: where gradients fall to a
    constant, both means stop a few units in the last place above their limits, and the square of one is farther above.
    """
    format = call.arithmetic_format()
    pair = partial(call.emit, formats=(format,))
    rate, decay, momentum, epsilon, gradient = (call.operand(index) for index in (4, 5, 6, 7, 8))
    rest = pair("Sub", call.value(1.0, format), decay)
    # In TensorFlow's own order, x + (new - x) (1 - p): their difference cancels, and another rounding would be another number.
    mean, squares = _held(call, 1), _not_negative(call, _held(call, 2), format)
    mean = pair("Add", mean, pair("Mul", pair("Sub", gradient, mean), rest))
    squares = pair("Add", squares, pair("Mul", pair("Sub", pair("Mul", gradient, gradient), squares), rest))
    variance = pair("Sub", squares, pair("Mul", mean, mean))
    root = pair("Sqrt", pair("Add", variance, epsilon))
    change = pair("Div", pair("Mul", rate, gradient), root)
    return pair("Sub", _held(call, 0), pair("Add", pair("Mul", _held(call, 3), momentum), change))


@sub.tensorflow(*_both("Adadelta"))
def _(call: TensorflowCall) -> int:
    """x - r g sqrt(d + e) / sqrt(h + e) with running means h of squares and d of squares of changes."""
    format = call.arithmetic_format()
    pair = partial(call.emit, formats=(format,))
    rate, decay, epsilon, gradient = (call.operand(index) for index in (3, 4, 5, 6))
    squares = _running_squares(call, _held(call, 1), decay, gradient, format)
    changes = _not_negative(call, _held(call, 2), format)
    roots = [pair("Sqrt", pair("Add", mean, epsilon)) for mean in (changes, squares)]
    update = pair("Mul", pair("Div", roots[0], roots[1]), gradient)
    return pair("Sub", _held(call, 0), pair("Mul", rate, update))


@sub.tensorflow(*_both("AdaMax"))
def _(call: TensorflowCall) -> int:
    """x - r / (1 - b1^t) m / (v + e) with the running mean m and the fading maximum v of gradients."""
    format = call.arithmetic_format()
    pair = partial(call.emit, formats=(format,))
    rate, first, second, epsilon, gradient = (call.operand(index) for index in (4, 5, 6, 7, 8))
    one = call.value(1.0, format)
    power = call.emit("Clip", _held(call, 3), call.value(0.0, format), first, formats=(format,))
    mean = pair("Add", pair("Mul", _held(call, 1), first), pair("Mul", gradient, pair("Sub", one, first)))
    faded = pair("Mul", _not_negative(call, _held(call, 2), format), second)
    largest = pair("Max", faded, pair("Abs", gradient))
    corrected = pair("Div", rate, pair("Sub", one, power))
    return pair("Sub", _held(call, 0), pair("Mul", corrected, pair("Div", mean, pair("Add", largest, epsilon))))
