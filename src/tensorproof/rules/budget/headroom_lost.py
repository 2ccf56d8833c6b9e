"""Headroom that a committed budget promises and the model no longer has.

## What it does
The headroom of a node is the number of bits between the largest magnitude that its result can have and the largest number of its
format: log2(65504 / 2047) is 5 in float16. `tensorproof check --write-budget FILE` notes it for every node, `--budget-file FILE`
compares. A node is reported if it has lost more bits than `--budget-bits` allows (1 by default), if less than that many are left
where there were more, or if nothing is known of its result any more. So is a new node with less than that many. Such a finding is
*certain*: two numbers were compared, and there is nothing to run.

## Why it matters
Nothing has failed yet: what is lost is the distance to failure. A rescaled weight or a wider input that takes three bits today
leaves one change less until the model overflows, in float16 above all.

## Example
    logits = 8 * (q @ k.mT)  # was: q @ k.mT

## Use instead
    logits = q @ k.mT

Or accept the new values: `tensorproof check model.onnx --write-budget headroom.json`, and commit the file.
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

HEADROOM_LOST = Rule("NUM601", "headroom-lost", __doc__ or "")
