"""Network that gives something else when it is compiled.

## What it does
One framework runs the network call by call and compiled as a whole (tf.function, torch.compile, jax.jit), and the results differ by
more than rounding, or one of the two fails.

## Why it matters
What was debugged call by call is not what runs in production.

## Example
    tf.function(model)(x)  # differs from model(x)

## Use instead
    model(x)  # until the compiler is mended
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

COMPILED_DIFFERS = Rule("CMP208", "compiled-differs", __doc__ or "", severity="error")
