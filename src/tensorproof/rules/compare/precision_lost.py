"""Two models differ by rounding: more than usual, no more than their formats and the model itself explain.

## What it does
Two models that are meant to compute the same were run on the same input. An output differs by more than two runtimes of the
finer format usually do; the coarser format (float16, bfloat16, int8), or a model that magnifies rounding, explains it: no
operator differs on equal operands by more than its rounding.

## Why it matters
Nothing is wrong with an operator, but digits are lost. Whether the task can do without them is said by its metric, which is
part of the report.

## Example
    tensorproof diff model.onnx model_int8.onnx --data validation.npz

## Use instead
Where the metric suffers, keep the operators that lose most in a finer format: `tensorproof plan`.
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

PRECISION_LOST = Rule("CMP110", "precision-lost", __doc__ or "", severity="note")
