"""Network that gives something else after it was saved and loaded.

## What it does
The network is saved to a file, loaded again and run: it cannot be saved or loaded, or computes something else.

## Why it matters
The model that is deployed is not the one that was tested.

## Example
    keras.models.load_model(path)(x)  # differs from model(x)

## Use instead
    model.load_weights(path)  # into a network that is built in code
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

SAVED_DIFFERS = Rule("CMP209", "saved-differs", __doc__ or "", severity="error")
