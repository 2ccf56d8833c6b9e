"""The rules, by mathematical family. Each module declares its functions when it is imported."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache


@cache
def load_rules() -> None:
    """Import all families, once."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
