"""Which backend Keras runs on: the one that it was imported with, else the one that the user asks for, else one that is there."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

from tensorproof.errors import ConfigurationError

#: The backends that are analysed, in the order in which they are tried.
BACKENDS = ("tensorflow", "jax", "torch")

_VARIABLE = "KERAS_BACKEND"


def chosen_backend() -> tuple[str, ...]:
    """Import Keras with a backend; what the report has to say about the choice."""
    if importlib.util.find_spec("keras") is None:
        raise ConfigurationError("models of Keras need the extra `keras`: pip install tensorproof[keras]")
    note: tuple[str, ...] = ()
    if "keras" not in sys.modules and not os.environ.get(_VARIABLE):
        asked = _configured()
        if asked is None or not _is_installed(asked):
            found = next((name for name in BACKENDS if _is_installed(name)), None)
            if found is None:
                raise ConfigurationError(f"Keras needs a backend: install one of {', '.join(BACKENDS)}")
            os.environ[_VARIABLE] = found
            note = (f"no backend of Keras is chosen: {found} is the first that is installed ({_VARIABLE} chooses)",)
    asked = os.environ.get(_VARIABLE)
    if "keras" not in sys.modules and asked in BACKENDS and not _is_installed(asked):
        raise ConfigurationError(f"{_VARIABLE}={asked}: it is not installed")
    import keras

    if not keras.__version__.startswith("3."):
        raise ConfigurationError(f"Keras {keras.__version__} is installed; models of Keras 3 are read")
    return note


def _configured() -> str | None:
    """The backend in the user's configuration of Keras."""
    home = Path(os.environ.get("KERAS_HOME") or Path.home() / ".keras")
    try:
        found: Any = json.loads((home / "keras.json").read_text("utf-8"))
    except (OSError, ValueError):
        return None
    name = found.get("backend") if isinstance(found, dict) else None
    return name if isinstance(name, str) else None


def _is_installed(name: str) -> bool:
    return name in BACKENDS and importlib.util.find_spec(name) is not None
