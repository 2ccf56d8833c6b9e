"""Warnings of numerical patterns: blamed on the operation that completes the pattern."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tensorproof.rules.rule import Rule
from tensorproof.shapes.numeric_patterns.operations import Operation
from tensorproof.shapes.problems import Edit
from tensorproof.shapes.values import Tensor

if TYPE_CHECKING:
    from tensorproof.shapes.run import Run


def warn(run: Run, rule: Rule, operation: Operation, message: str, edits: Sequence[Edit] = ()) -> None:
    """Report a pattern. The history of the operands shows where its other parts are written."""
    operands = [operand for operand in operation.operands if isinstance(operand, Tensor)]
    run.report(rule, operation.place, message, certain=False, tensors=operands, edits=edits, operation=operation.name)
