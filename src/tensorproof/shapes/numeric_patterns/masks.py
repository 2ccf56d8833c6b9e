"""Masks with a number that half precision cannot hold: NUM509."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tensorproof.rules.source.half_precision_mask import HALF_PRECISION_MASK
from tensorproof.shapes.numeric_patterns.operations import Operation, is_number, operation_of
from tensorproof.shapes.numeric_patterns.regions import managers_around, name_of
from tensorproof.shapes.numeric_patterns.reporting import warn
from tensorproof.shapes.numeric_patterns.rewriting import Written
from tensorproof.shapes.problems import Edit
from tensorproof.shapes.values import Tensor, Value

if TYPE_CHECKING:
    from tensorproof.shapes.run import Run

HALF_MAXIMUM = 65504.0
#: Larger numbers are limits of wider formats, which programs ask the library for; or infinite, which every format holds.
_LARGEST_WRITTEN = 1e38
_LIMITS = {"torch": "torch.finfo(x.dtype).min", "jax": "jnp.finfo(x.dtype).min", "numpy": "np.finfo(x.dtype).min"}


def check_fill(run: Run, fill: Operation, result: Value) -> None:
    """A number that is put where a mask says so."""
    number = _too_large((*fill.operands[1:], *dict(fill.keywords).values()))
    if number is not None and _is_half(run, fill, fill.operand):
        _report(run, fill, number)


def check_where(run: Run, where: Operation, result: Value) -> None:
    """A number that takes the place of elements."""
    number = _too_large((*where.operands, *dict(where.keywords).values()))
    if number is not None and _is_half(run, where, result):
        _report(run, where, number)


def check_product(run: Run, product: Operation, result: Value) -> None:
    """A mask times a large negative number."""
    number = _too_large(product.operands)
    if number is not None and number < 0 and isinstance(result, Tensor) and result.dtype == "f16":
        _report(run, product, number)


def _too_large(values: Sequence[Value]) -> float | None:
    for value in values:
        if isinstance(value, int | float) and HALF_MAXIMUM < abs(value) < _LARGEST_WRITTEN:
            return value
    return None


def _report(run: Run, operation: Operation, number: float) -> None:
    message = (
        f"{number:g} is beyond the largest number of float16, {HALF_MAXIMUM:g}: it is refused, or becomes infinite, and a row "
        f"that is masked everywhere NaN; write {_LIMITS.get(operation.library, 'a number that fits')}"
    )
    warn(run, HALF_PRECISION_MASK, operation, message, _limit(run, operation, number))


# -- what is in half precision ----------------------------------------------------------------------------------------


def _is_half(run: Run, operation: Operation, value: Value) -> bool:
    """Whether a tensor is in half precision: by its type, or since PyTorch casts the products in a region that it comes from."""
    if not isinstance(value, Tensor):
        return False
    if value.dtype in ("f32", "") and value.framework == "torch" and operation.kind == "fill":
        return _comes_from_product(run, value) and _is_autocast(run, operation)
    return value.dtype == "f16"


def _comes_from_product(run: Run, value: Value) -> bool:
    """Whether a tensor is a matrix product, scaled by numbers at most: what autocasting computes in half precision."""
    operation = operation_of(run, value)
    while operation is not None and operation.kind != "matrix product":
        scaled = operation.kind in ("multiply", "divide") and operation.pair is not None
        if not (scaled and not isinstance(operation.operands[1], Tensor)) and operation.kind not in ("view", "part"):
            return False
        operation = operation_of(run, operation.operand)
    return operation is not None


def _is_autocast(run: Run, operation: Operation) -> bool:
    """Whether the operation, or a call that leads to it, is written in a region of PyTorch with automatic half precision."""
    if not any(b"autocast" in source for source in run.sources.values()):
        return False
    places = (operation.place, *run.call_places)
    return any(_casts_to_half(manager) for place in places for manager in managers_around(run, place))


def _casts_to_half(manager: ast.expr) -> bool:
    """`torch.autocast("cuda")` and its spellings; on other devices, and if another type is named, it is not half precision."""
    if name_of(manager) != "autocast" or not isinstance(manager, ast.Call):
        return False
    options = {keyword.arg: keyword.value for keyword in manager.keywords}
    enabled = options.get("enabled")
    if isinstance(enabled, ast.Constant) and not enabled.value:
        return False
    if "dtype" in options:
        return name_of(options["dtype"]) in ("float16", "half")
    if "cuda" in ast.unparse(manager.func):
        return not manager.args
    device = options.get("device_type", manager.args[0] if len(manager.args) == 1 else None)
    return isinstance(device, ast.Constant) and device.value == "cuda"


# -- corrections ------------------------------------------------------------------------------------------------------


def _limit(run: Run, operation: Operation, value: float) -> tuple[Edit, ...]:
    """The lowest number of the tensor's own type instead of a written one, where the library's name is there to ask for it."""
    written = Written.at(run, operation.place)
    if written is None or not isinstance(written.node, ast.Call) or not isinstance(written.node.func, ast.Attribute) or value > 0:
        return ()
    arguments = written.node.args
    if operation.name == "torch.Tensor.masked_fill":
        owner, library = written.node.func.value, "torch"
    elif operation.kind == "where" and len(arguments) == 3 and operation.library in _LIMITS:
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
