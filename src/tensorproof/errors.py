"""The exceptions that tensorproof raises on purpose.

Each message is one line that says what is wrong, where, and what to do about it: the command line prints it as it is.
"""

from __future__ import annotations


class TensorproofError(Exception):
    """Root of all errors that are a user's to mend; the command line exits with 2."""


class ModelError(TensorproofError):
    """The model file cannot be read or is not a valid model."""


class AssumptionError(TensorproofError):
    """A declared range, dimension or sample does not fit the model."""


class ConfigurationError(TensorproofError):
    """An option or the configuration file is wrong."""


class UnknownShape(Exception):
    """A transfer rule needs a shape that is not known; the engine turns this into a visible "not analysed"."""


class NotAnalysed(Exception):
    """A transfer rule meets a case that it does not model; the message is the reason shown to the user."""
