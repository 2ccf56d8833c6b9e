"""Replays of failures of eager TensorFlow programs: the script `replay.py`, with what is replayed written into it."""

from __future__ import annotations

from pathlib import Path

from tensorproof.expose.replays.recipe import Recipe
from tensorproof.expose.replays.script import Template

_TEMPLATE = Template("eager", "TensorFlow", "tensorflow", remark=" Traced functions run operator by operator.")


def script(recipe: Recipe, folder: Path, *, steps: int = 4) -> str:
    """The text of a script that stands in that folder, beside its arrays."""
    return _TEMPLATE.script(recipe, folder, steps)
