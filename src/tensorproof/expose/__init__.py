"""`tensorproof expose`: a program is run as its author wrote it, and its data are moved until an operator fails."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Package(ModuleType):
    """Python puts a package in the place of the function of the same name, `tensorproof.expose`: so it is one, too."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        from tensorproof.expose.running import exposed

        return exposed(*arguments, **options)


sys.modules[__name__].__class__ = _Package
