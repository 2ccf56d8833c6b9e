"""`tensorproof expose`: a program is run as its author wrote it, and its data are moved until an operator fails.

`running.py` asks for runs, and makes a report of them (`outcome.py`, `findings.py`). A run is a fork (`child.py`) of a process that
has the frameworks loaded (`server.py`, from outside `host.py`); it is told `Settings`, and tells `events.py`.

    search     how values are moved, whatever the framework
    pytorch    PyTorch programs under observation
    sessions   programs of TensorFlow sessions
    eager      eager programs of TensorFlow and Keras
    replays    the values that show a failure, made few, and the script that replays it
    functions  one function in place of a program
"""

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
