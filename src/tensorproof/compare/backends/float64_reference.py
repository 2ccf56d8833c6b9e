"""The float64 reference as a backend, so that it can stand where a framework stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tensorproof.compare.backends.backend import Failure, Mode, ModelFacts, NetworkRun, Unavailable
from tensorproof.compare.drawing import Array, Arrays, dtype_of
from tensorproof.compare.reference import NoReference, run_reference
from tensorproof.compare.spec import TestSpec
from tensorproof.compare.workers.backend_id import BackendId


def open_backend(_backend: BackendId) -> Float64Reference:
    """Nothing has to be imported."""
    return Float64Reference()


class Float64Reference:
    """Results of the reference, rounded to the test's format."""

    def versions(self) -> dict[str, str]:
        return {"numpy": np.__version__}

    def run_network(self, test: TestSpec, arrays: Arrays, keep: Sequence[str] | None, mode: Mode) -> NetworkRun:
        if mode != "eager" or test.phase == "gradient":
            raise Unavailable(f"the reference has no mode {mode} in phase {test.phase}")
        try:
            results = run_reference(test, arrays, keep)
        except NoReference as error:
            if error.reason.startswith("cannot be computed"):
                return NetworkRun(failure=Failure("call", "NoReference", str(error)))
            raise Unavailable(str(error)) from None
        with np.errstate(over="ignore"):
            rounded = {
                name: value.astype(dtype_of(test.dtype)) if value.dtype.kind == "f" else value for name, value in results.items()
            }
        return NetworkRun(rounded, {name: value.shape for name, value in rounded.items()})

    def open_model(self, path: str, options: Mapping[str, Any]) -> ModelFacts:
        raise Unavailable("the reference reads no model files")

    def run_model(self, path: str, feeds: Arrays, keep: Sequence[str]) -> dict[str, Array]:
        raise Unavailable("the reference reads no model files")
