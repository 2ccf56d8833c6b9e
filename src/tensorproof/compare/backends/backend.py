"""`Backend`: the face that every framework shows to a worker, and `NetworkRun`: what running a test gave."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from tensorproof.compare.drawing import Array, Arrays
from tensorproof.compare.spec import TestSpec

#: How a network is run: call by call, compiled by the framework as a whole, or saved, loaded again and run.
Mode = Literal["eager", "compiled", "saved"]


#: How a worker says on its standard error stream which layer it is at.
ANNOUNCEMENT = b"\x02tensorproof at "


def announce(layer: str) -> None:
    """Tell the parent process which layer is run next (empty: it cannot be said), so that a death has a place."""
    os.write(2, ANNOUNCEMENT + layer.encode() + b"\n")


class Unavailable(Exception):
    """The backend cannot run here: the framework is not installed, or cannot do what is asked. The message says which."""


@dataclass(frozen=True)
class Failure:
    """A test that gave no result.

    `stage` is `build` while the network is made, `call` when it is run, `process` when the process died or had to be killed
    (`kind` is then `death` or `timeout`; otherwise the exception's class name).
    """

    stage: Literal["build", "call", "process"]
    kind: str
    message: str
    #: The layer at fault, where that is known; when the process ended, the layer that it was at.
    layer: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {"stage": self.stage, "kind": self.kind, "message": self.message, "layer": self.layer}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Failure:
        return cls(data["stage"], data["kind"], data["message"], data["layer"])


@dataclass(frozen=True)
class NetworkRun:
    """Arrays by layer name (gradients as `gradient:INPUT`), and the shapes that the framework promised before it ran.

    A layer with several results has them as `NAME`, `NAME:1`, `NAME:2`, ...
    """

    arrays: Arrays = field(default_factory=dict[str, Array])
    static_shapes: Mapping[str, tuple[int | None, ...]] = field(default_factory=dict[str, tuple[int | None, ...]])
    failure: Failure | None = None
    #: CPU seconds inside the worker.
    seconds: float = 0.0


@dataclass(frozen=True)
class ModelFacts:
    """A model file as a backend reads it: inputs (name, dtype, shape with None where open), outputs, and all inner values in order.

    `operators` gives for each value the operator or layer that makes it, `reads` the values that this one computes it from
    (constants left out), `places` where it comes from, as far as the file says: `file`, `line`, `module`, `node` (the operator's
    own name), `origin` (the node of the program that an exporter made it from). `precision` is the coarsest format in which
    something is computed (`int8` in a quantised model), `ranges` what the model itself declares about its inputs.
    """

    inputs: tuple[tuple[str, str, tuple[int | None, ...]], ...]
    outputs: tuple[str, ...]
    values: tuple[str, ...]
    operators: Mapping[str, str]
    reads: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    places: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    precision: str = "float32"
    ranges: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def to_json(self) -> dict[str, Any]:
        return {
            "inputs": [[name, dtype, list(shape)] for name, dtype, shape in self.inputs],
            "outputs": list(self.outputs),
            "values": list(self.values),
            "operators": dict(self.operators),
            "reads": {name: list(read) for name, read in self.reads.items()},
            "places": {name: dict(place) for name, place in self.places.items()},
            "precision": self.precision,
            "ranges": dict(self.ranges),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ModelFacts:
        return cls(
            tuple((name, dtype, tuple(shape)) for name, dtype, shape in data["inputs"]),
            tuple(data["outputs"]),
            tuple(data["values"]),
            data["operators"],
            {name: tuple(read) for name, read in data.get("reads", {}).items()},
            data.get("places", {}),
            data.get("precision", "float32"),
            data.get("ranges", {}),
        )


def given_or_computed(
    feeds: Arrays, keep: Sequence[str], compute: Callable[[tuple[str, ...]], Mapping[str, Array]]
) -> dict[str, Array]:
    """Values by name: those that are fed as they are, the others computed."""
    found = {name: feeds[name] for name in keep if name in feeds}
    wanted = tuple(name for name in keep if name not in found)
    return {**found, **compute(wanted)} if wanted else found


class Backend(Protocol):
    """One framework in this process. What it cannot do raises `Unavailable`."""

    def versions(self) -> dict[str, str]:
        """Versions of what takes part, by package."""
        ...

    def run_network(self, test: TestSpec, arrays: Arrays, keep: Sequence[str] | None, mode: Mode) -> NetworkRun:
        """Build and run a test; `arrays` take the place of drawn inputs (by name) and weights (`LAYER/INDEX`).

        `keep` names the layers whose results are wanted; None for the outputs alone.
        """
        ...

    def open_model(self, path: str, options: Mapping[str, Any]) -> ModelFacts:
        """Read a model file; it stays open under its path."""
        ...

    def run_model(self, path: str, feeds: Arrays, keep: Sequence[str]) -> dict[str, Array]:
        """Values of an open model by name, outputs or inner ones.

        `feeds` may name inner values, too: what leads to them is not computed then.
        """
        ...
