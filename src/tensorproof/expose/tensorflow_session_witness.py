"""Replays of failures in TensorFlow sessions: the script `tensorflow_session_replay`, with what is replayed written into it."""

from __future__ import annotations

from pathlib import Path

from tensorproof.expose.recipe import Recipe
from tensorproof.expose.replay_script import Template

_TEMPLATE = Template("tensorflow_session_replay.py", "TensorFlow", "tensorflow")


def script(recipe: Recipe, folder: Path, *, steps: int = 4) -> str:
    """The text of a script that stands in that folder, beside its arrays."""
    return _TEMPLATE.script(recipe, folder, steps)
