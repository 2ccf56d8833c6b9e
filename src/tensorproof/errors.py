"""The exceptions that tensorproof raises on purpose.

Each message is one line that says what is wrong, where, and what to do about it: the command line prints it as it is.
"""

from __future__ import annotations


class TensorproofError(Exception):
    """Root of all errors that are a user's to mend; the command line exits with 2."""


class ModelError(TensorproofError):
    """The model file cannot be read or is not a valid model."""


class SourceError(TensorproofError):
    """A source file cannot be read, or is not Python: `what` is wrong with it, at `line` if one line is at fault."""

    def __init__(self, path: str, what: str, line: int | None = None) -> None:
        super().__init__(f"{path}: {what}" if line is None else f"{path}:{line}: {what}")
        self.path = path
        self.what = what
        self.line = line


class AssumptionError(TensorproofError):
    """A declared range, dimension or sample does not fit the model."""


class ConfigurationError(TensorproofError):
    """An option or the configuration file is wrong."""


class UnknownShape(Exception):
    """A transfer rule needs a shape that is not known; the engine turns this into a visible "not analysed"."""


class NotAnalysed(Exception):
    """A transfer rule meets a case that it does not model; the message is the reason shown to the user."""
