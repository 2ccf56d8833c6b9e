"""The backward pass of a program of the zoo in its own framework: whether the gradients of its loss are finite at a point."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.zoo import Entry

Point = Mapping[str, npt.NDArray[Any]]


def gradients_fail(entry: Entry) -> Callable[[Point], bool]:
    """Whether a gradient by a weight (by an input, where there are no weights) is not finite, from weights and inputs by name.

    The loss itself must be finite there: else the forward pass fails, and not the derivative.
    """
    return _on_tensorflow(entry) if entry.framework == "tensorflow" else _on_torch(entry)


def _on_tensorflow(entry: Entry) -> Callable[[Point], bool]:
    import tensorflow.compat.v1 as tf

    graph = entry.tensorflow()
    with graph.as_default():
        loss = graph.get_tensor_by_name("loss:0")
        wanted = [gradient for gradient in tf.gradients(loss, tf.global_variables()) if gradient is not None]
        session = tf.Session(config=tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1))

    def fails(point: Point) -> bool:
        forward, *backward = session.run([loss, *wanted], {f"{name}:0": array for name, array in point.items()})
        return bool(np.isfinite(forward).all()) and not all(np.isfinite(gradient).all() for gradient in backward)

    return fails


def _on_torch(entry: Entry) -> Callable[[Point], bool]:
    import torch

    module = entry.torch()
    weights = dict(module.named_parameters())

    def fails(point: Point) -> bool:
        inputs = {name: torch.tensor(array) for name, array in point.items() if name not in weights}
        with torch.no_grad():
            for name, weight in weights.items():
                weight.copy_(torch.tensor(point[name]))
        moved = list(weights.values()) or [value.requires_grad_() for value in inputs.values() if value.is_floating_point()]
        loss = next(iter(module(**inputs).values())).sum()
        backward = torch.autograd.grad(loss, moved, allow_unused=True)
        finite = all(torch.isfinite(gradient).all() for gradient in backward if gradient is not None)
        return bool(torch.isfinite(loss)) and not finite

    return fails
