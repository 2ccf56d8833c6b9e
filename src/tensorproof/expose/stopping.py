"""`Stop`: the end of a run, out of the middle of the user's program."""

from __future__ import annotations


class Stop(BaseException):
    """Ends a program whose run has shown what it had to show; no `except Exception` of the program's holds it back."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
