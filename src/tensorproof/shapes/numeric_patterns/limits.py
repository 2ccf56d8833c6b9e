"""Numbers that the format of a tensor cannot hold: NUM508 and NUM509."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tensorproof.rules.source.half_precision_mask import HALF_PRECISION_MASK
from tensorproof.rules.source.one_minus_epsilon import ONE_MINUS_EPSILON
from tensorproof.shapes.numeric_patterns.operations import Operation, is_number
from tensorproof.shapes.numeric_patterns.reporting import warn
from tensorproof.shapes.numeric_patterns.rewriting import Written
from tensorproof.shapes.problems import Edit
from tensorproof.shapes.values import Tensor, Value

if TYPE_CHECKING:
    from tensorproof.shapes.run import Run

#: Half the distance from 1 to the next number below: what is nearer to 1 rounds to it. (A tie does, too: 1 is the even one.)
_HALF_STEP = {"f16": 2.0**-12, "bf16": 2.0**-9, "f32": 2.0**-25, "f64": 2.0**-54}
_NAMES = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"}
#: Programs that change the type of new tensors: single precision is then not what it seems.
_OTHER_DEFAULT = re.compile(rb"set_default_dtype|set_default_tensor_type|enable_x64|set_floatx")

HALF_MAXIMUM = 65504.0
#: Larger ones are limits of wider formats, which programs ask the library for.
_LARGEST_WRITTEN = 1e38


# -- 1 - eps ----------------------------------------------------------------------------------------------------------


def check_clip(run: Run, clip: Operation, result: Value) -> None:
    """An upper limit just below 1."""
    keywords = dict(clip.keywords)
    given = clip.operands[2] if len(clip.operands) > 2 else None
    high = next((keywords[name] for name in ("max", "a_max", "x_max", "clip_value_max") if name in keywords), given)
    _check_upper_limit(run, clip, high, clip.operand)


def check_minimum(run: Run, minimum: Operation, result: Value) -> None:
    """`minimum(p, 1 - eps)` is an upper limit, too."""
    for high, tensor in (minimum.pair, minimum.pair[::-1]) if minimum.pair is not None else ():
        _check_upper_limit(run, minimum, high, tensor)


def _check_upper_limit(run: Run, operation: Operation, high: Value, tensor: Value) -> None:
    if not isinstance(high, float) or not isinstance(tensor, Tensor) or tensor.dtype not in _HALF_STEP:
        return
    if tensor.dtype == "f32" and any(_OTHER_DEFAULT.search(source) for source in run.sources.values()):
        return
    step = _HALF_STEP[tensor.dtype]
    if (high < 1 and 1 - high <= step) or (high == 1.0 and _is_written_difference(run, operation)):
        message = (
            f"the upper limit rounds to 1 in {_NAMES[tensor.dtype]}, and limits nothing: "
            f"the nearest number below 1 is 1 - {2 * step:.0e}; write a larger epsilon"
        )
        warn(run, ONE_MINUS_EPSILON, operation, message)


def _is_written_difference(run: Run, operation: Operation) -> bool:
    """Whether a limit is written as `1 - something`, of which nothing is left."""
    written = Written.at(run, operation.place)
    if written is None or not isinstance(written.node, ast.Call):
        return False
    values = [*written.node.args, *(keyword.value for keyword in written.node.keywords)]
    return any(_loses_number(value) for value in values)


def _loses_number(node: ast.expr) -> bool:
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Sub):
        return False
    one, small = (part.value if isinstance(part, ast.Constant) else None for part in (node.left, node.right))
    return isinstance(one, int | float) and one == 1 and isinstance(small, float) and small > 0


# -- -1e9 in half precision -------------------------------------------------------------------------------------------


def check_fill(run: Run, fill: Operation, result: Value) -> None:
    """A number that is put where a mask says so."""
    tensor = fill.operand
    given = (*fill.operands[1:], *dict(fill.keywords).values())
    if isinstance(tensor, Tensor) and tensor.dtype == "f16":
        _check_mask(run, fill, given, tensor)


def check_where(run: Run, where: Operation, result: Value) -> None:
    """A number that takes the place of elements."""
    if isinstance(result, Tensor) and result.dtype == "f16":
        _check_mask(run, where, (*where.operands, *dict(where.keywords).values()), result)


def check_product(run: Run, product: Operation, result: Value) -> None:
    """A mask times a large negative number."""
    if isinstance(result, Tensor) and result.dtype == "f16":
        _check_mask(run, product, [value for value in product.operands if isinstance(value, float) and value < 0], result)


def _check_mask(run: Run, operation: Operation, values: Sequence[Value], tensor: Tensor) -> None:
    for value in values:
        if isinstance(value, int | float) and HALF_MAXIMUM < abs(value) < _LARGEST_WRITTEN and math.isfinite(value):
            message = (
                f"{value:g} is beyond the largest number of float16, {HALF_MAXIMUM:g}: it becomes infinite, and a row masked "
                f"everywhere NaN; write {_finfo(operation.library)}(x.dtype).min"
            )
            warn(run, HALF_PRECISION_MASK, operation, message, _limit(run, operation, value))
            return


def _finfo(library: str) -> str:
    return {"torch": "torch.finfo", "jax": "jnp.finfo", "numpy": "np.finfo"}.get(library, "np.finfo")


def _limit(run: Run, operation: Operation, value: float) -> tuple[Edit, ...]:
    """The lowest number of the tensor's own type instead of a written one, where the library's name is there to ask for it."""
    written = Written.at(run, operation.place)
    if written is None or not isinstance(written.node, ast.Call) or not isinstance(written.node.func, ast.Attribute) or value > 0:
        return ()
    arguments = written.node.args
    if operation.name == "torch.Tensor.masked_fill":
        owner, library = written.node.func.value, "torch"
    elif operation.kind == "where" and len(arguments) == 3 and operation.library in ("torch", "jax", "numpy"):
        owner, library = arguments[1], written.of(written.node.func.value)
    else:
        return ()
    if not isinstance(owner, ast.Name) or not arguments or not _is_written_as(arguments[-1], value):
        return ()
    head = written.of(written.node)[: -len(written.of(arguments[-1])) - 1]
    return written.edit("write the lowest number of the type", f"{head}{library}.finfo({owner.id}.dtype).min)")


def _is_written_as(node: ast.expr, value: float) -> bool:
    try:
        return is_number(ast.literal_eval(node), value)
    except ValueError:
        return False
