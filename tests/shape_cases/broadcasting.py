"""Operands that are stretched to a common shape."""

from __future__ import annotations

from tensorproof.shapes.families import broadcasting as rules
from tests.shape_cases import Draw, cases, names_of

_SYMBOLS = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "and": "&", "or": "|", "xor": "^",
    "lshift": "<<", "rshift": ">>",
}  # fmt: skip
_INTEGERS = ("gcd", "lcm", "shift", "bitwise", "__and", "__or", "__xor")
_BOOLS = ("logical_and", "logical_or", "logical_xor")


def _pair(draw: Draw) -> tuple[tuple[int, ...], tuple[int, ...]]:
    left = draw.shape(0, 4, 4)
    right = [1 if draw.chance(0.2) else size for size in left[draw.integer(0, len(left)) :]]
    right = draw.varied(right, 0.45)
    return (left, right) if draw.chance(0.5) else (right, left)


def _dtype(draw: Draw) -> str:
    library = draw.name.partition(".")[0]
    if any(part in draw.name for part in _BOOLS):
        return "bool"
    if any(part in draw.short for part in _INTEGERS):
        return "int64" if library in ("torch", "numpy") else "int32"
    return ""


def _operands(draw: Draw, name: str) -> tuple[str, str]:
    left, right = _pair(draw)
    dtype = _dtype(draw)
    if draw.name.startswith(("tf.", "keras.")) and name in ("and", "or", "xor"):
        dtype = "bool"
    return draw.array_of(left, dtype), draw.array_of(right, dtype)


@cases(*names_of(rules.operator))
def _(draw: Draw) -> str:
    name = draw.short.strip("_")
    left, right = _operands(draw, name)
    return f"{left} {_SYMBOLS[name]} {right}"


@cases(*names_of(rules.operator_in_place))
def _(draw: Draw) -> str:
    name = draw.short.strip("_").removeprefix("i")
    left, right = _pair(draw)
    if draw.chance(0.5):
        left, right = sorted((left, right), key=len, reverse=True)
    dtype = "" if draw.name.endswith(("iadd__", "isub__", "imul__", "itruediv__", "ifloordiv__", "imod__", "ipow__")) else "int64"
    # A scalar of NumPy is bound anew where the program holds a number, which is not told apart.
    return f"{draw.array_of(left or (1,), dtype)}.__i{name}__({draw.array_of(right, dtype)})"


@cases(*names_of(rules.comparison))
def _(draw: Draw) -> str:
    left, right = _pair(draw)
    return f"{draw.array(left)} {draw.pick(['<', '<=', '>', '>='])} {draw.array(right)}"


@cases(*names_of(rules.equality))
def _(draw: Draw) -> str:
    left, right = _pair(draw)
    if draw.name.startswith(("tf.", "keras.")):
        right = left
    return f"{draw.array(left)} {draw.pick(['==', '!='])} {draw.array(right)}"


@cases(*names_of(rules.torch_binary, rules.torch_rsub, rules.numpy_binary, rules.tf_binary))
def _(draw: Draw) -> str:
    left, right = _pair(draw)
    dtype = _dtype(draw)
    return draw.call(draw.array_of(left, dtype), draw.array_of(right, dtype))


@cases(*names_of(rules.torch_addcmul, rules.torch_lerp))
def _(draw: Draw) -> str:
    left, right = _pair(draw)
    third = draw.varied([1 if draw.chance(0.2) else size for size in left], 0.2)
    return draw.call(draw.array(left), draw.array(right), draw.array(third))


@cases(*names_of(rules.torch_clamp, rules.numpy_clip, rules.jax_clip, rules.keras_clip))
def _(draw: Draw) -> str:
    left, right = _pair(draw)
    if draw.name.startswith("keras"):
        # Whether limits may stretch the tensor depends on the backend.
        left = right
    low = draw.array(right) if draw.chance(0.6) else "0.0"
    return draw.call(draw.array(left), low, draw.array(right) if low != "0.0" else "1.0")


@cases("tf.clip_by_value")
def _(draw: Draw) -> str:
    left, right = _pair(draw)
    return draw.call(draw.array(left), "0.0" if draw.chance(0.3) else draw.array(right), "1.0")
