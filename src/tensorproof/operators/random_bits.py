"""Random bits of JAX, and the keys that they are drawn with; keys, counters and bits of TensorFlow.

A key is one 32-bit word that may be anything, under the shape that JAX gives the key: keys are moved and chosen as any array is,
and what is drawn with them may be any word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tensorproof.errors import NotAnalysed
from tensorproof.formats import BY_NAME, INT32, UINT32, UINT64, Format
from tensorproof.frontends.calls import Handle
from tensorproof.operators.random import random_uniform_like
from tensorproof.operators.shapes import anything, uninitialised

if TYPE_CHECKING:
    from tensorproof.frontends.jax_call import JaxCall
    from tensorproof.frontends.tensorflow_call import TensorflowCall


def _any_words(call: JaxCall, result: Handle, format: Format | None = None) -> int:
    """Any numbers of the shape and the format of a result."""
    shape = result.shape
    if shape is None or not all(isinstance(size, int) for size in shape):
        raise NotAnalysed(f"a shape of {call.name} is not fixed")
    return anything(call, call.integers(list(shape)), format or result.format)


@uninitialised.jax(
    *("random_seed", "random_wrap", "random_split", "random_fold_in", "random_clone"),
)
def _(call: JaxCall) -> int:
    """A key, or several."""
    return _any_words(call, call.result, UINT32)


@uninitialised.jax("random_unwrap", "random_bits")
def _(call: JaxCall) -> int:
    return _any_words(call, call.result)


@uninitialised.jax("threefry2x32", "iota_2x32_shape", "rng_bit_generator")
def _(call: JaxCall) -> tuple[int, ...]:
    """Words, and the next state of a generator."""
    return tuple(_any_words(call, result) for result in call.results)


@random_uniform_like.jax("rng_uniform")
def _(call: JaxCall) -> int:
    """low + u * (high - low), u from 0 to before 1; the result may be rounded to the end. Integers stay below it."""
    format = call.result.format
    if format is None or not format.is_float:
        raise NotAnalysed("random integers between two numbers that are computed")
    zeros = call.emit("ConstantOfShape", call.integers(call.result_shape), value=np.zeros(1, format.dtype), formats=(format,))
    share = call.emit("RandomUniformLike", zeros, high=1.0 - format.unit_roundoff, dtype=format.onnx_code, formats=(format,))
    low, high = call.operand(0), call.operand(1)
    drawn = call.moved("Add", low, call.moved("Mul", share, call.moved("Sub", high, low)))
    return call.moved("Min", call.moved("Max", drawn, call.moved("Min", low, high)), call.moved("Max", low, high))


# -- TensorFlow --------------------------------------------------------------------------------------------------------


@uninitialised.tensorflow("StatelessRandomGetKeyCounter", "StatelessRandomGetKeyCounterAlg")
def _(call: TensorflowCall) -> tuple[int, ...]:
    """A key of one word, a counter of two, and the number of the algorithm."""
    words = anything(call, call.integers([1]), UINT64), anything(call, call.integers([2]), UINT64)
    return words if call.name == "StatelessRandomGetKeyCounter" else (*words, _algorithm(call))


@uninitialised.tensorflow("StatelessRandomGetAlg")
def _(call: TensorflowCall) -> int:
    return _algorithm(call)


def _algorithm(call: TensorflowCall) -> int:
    return call.emit("Identity", call.constant(np.array(1, np.int32)), formats=(INT32,))


@uninitialised.tensorflow("StatelessRandomUniformFullInt", "StatelessRandomUniformFullIntV2", "StatefulUniformFullInt")
def _(call: TensorflowCall) -> int:
    """Any integers of the format."""
    place = 2 if call.name.startswith("Stateful") else 0
    return anything(call, call.as_integers(place), call.format("dtype"))


@uninitialised.tensorflow("RngReadAndSkip")
def _(call: TensorflowCall) -> int:
    """The state of a generator: three words."""
    return anything(call, call.integers([3]), BY_NAME["int64"])
