"""Two models give different results, and rounding does not explain it.

## What it does
Two models that are meant to compute the same were run on the same input. An output differs by more units of the coarser
format than its operators usually lose, and by more than the model itself magnifies a change of one unit in its inputs. The
operator that is named differs on equal operands.

## Why it matters
The model that was validated is not the one that is deployed: an export, a conversion, an optimisation or a runtime
computes something else.

## Example
    tensorproof diff model.onnx optimised.onnx --range x=-1:1

## Use instead
Repair or replace the operator that is named: another spelling in the source, a higher precision for this node, another
opset or runtime version. The saved input and its program replay the difference.
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

OUTPUTS_DIFFER = Rule("CMP101", "outputs-differ", __doc__ or "")
