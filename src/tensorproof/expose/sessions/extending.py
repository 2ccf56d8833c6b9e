"""Operators that are added to a graph of the program: in a name scope of their own, without control dependencies, also to a graph
that is finalised. Nothing of the program depends on them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

#: The name scope of what we add to a graph.
OWN = "tensorproof/"


def derivatives(differentiate: Callable[[], Sequence[Any]], moved: Sequence[Any]) -> dict[str, Any]:
    """Derivatives by the names of tensors; those that do not matter, or cannot be differentiated by, are left out."""
    import tensorflow as tf

    try:
        found = differentiate()
        return {t.name: tf.convert_to_tensor(slope) for t, slope in zip(moved, found) if slope is not None}
    except (TypeError, ValueError, LookupError, NotImplementedError, RuntimeError):
        # No gradient is registered for an operator on the way, or a loop cannot be differentiated after it ran.
        return {}


@contextmanager
def extended(graph: Any) -> Generator[None]:
    """A context in which operators are added to a graph, be it finalised; outside of all scopes of the program."""
    is_finalised = graph.finalized
    if is_finalised:
        graph._unsafe_unfinalize()
    try:
        with graph.as_default(), graph.control_dependencies(None), graph.device(None), graph.name_scope(OWN):
            yield
    finally:
        if is_finalised:
            graph.finalize()
