"""Backend whose process dies or hangs.

## What it does
A network that is legal makes the framework's process end (a signal, an abort), or gives no answer within the time limit.

## Why it matters
No exception can be caught: a server that meets such a network or input is gone, with all other requests in it.

## Example
    keras.layers.Conv2D(2, 3, dilation_rate=4)(images)  # SIGSEGV on one backend

## Use instead
    keras.layers.Conv2D(2, 3, dilation_rate=1)(images)  # until the backend is mended
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

BACKEND_DIES = Rule("CMP201", "backend-dies", __doc__ or "", severity="error")
