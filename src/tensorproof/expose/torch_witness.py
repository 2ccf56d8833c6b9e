"""Replays of failures of PyTorch programs: the script `torch_replay`, with what is replayed written into it."""

from __future__ import annotations

from pathlib import Path

from tensorproof.expose.recipe import Recipe
from tensorproof.expose.replay_script import Template

_TEMPLATE = Template("torch_replay.py", "PyTorch", "torch", prefix="aten.")


def script(recipe: Recipe, folder: Path, *, steps: int = 4) -> str:
    """The text of a script that stands in that folder, beside its arrays."""
    return _TEMPLATE.script(recipe, folder, steps)
