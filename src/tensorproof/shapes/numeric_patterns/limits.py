"""Upper limits that round to 1: NUM508."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from tensorproof.rules.source.one_minus_epsilon import ONE_MINUS_EPSILON
from tensorproof.shapes.numeric_patterns.operations import Operation
from tensorproof.shapes.numeric_patterns.reporting import warn
from tensorproof.shapes.numeric_patterns.rewriting import Written
from tensorproof.shapes.values import Tensor, Value

if TYPE_CHECKING:
    from tensorproof.shapes.run import Run

#: Half the distance from 1 to the next number below: what is nearer to 1 rounds to it. (A tie does, too: 1 is the even one.)
_HALF_STEP = {"f16": 2.0**-12, "bf16": 2.0**-9, "f32": 2.0**-25, "f64": 2.0**-54}
_NAMES = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"}
#: Programs that change the type of new tensors: single precision is then not what it seems.
_OTHER_DEFAULT = re.compile(rb"set_default_dtype|set_default_tensor_type|enable_x64|set_floatx")


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
