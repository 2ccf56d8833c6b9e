"""`FrameworkModel`: a model of TensorFlow, Keras or JAX, read into our graph, with the means to run it where it lives.

Each front end gives one. What is behind it stays the front end's own: a file, a traced function, a live model. Everything else
(check, confirm, fix) works on the interface here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

import numpy.typing as npt

from tensorproof.graph import Model

if TYPE_CHECKING:
    from tensorproof.assumptions import Domain
    from tensorproof.confirm.framework_confirm import FrameworkConfirm
    from tensorproof.findings import Finding
    from tensorproof.frontends.input_declarations import InputDeclaration

Arrays = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class ReadingOptions:
    """What a front end is told beside the model: as given by the user, None or empty where nothing was given.

    `example` are example inputs, `inputs` declarations of inputs, `dims` sizes of symbolic dimensions. `training` asks for the
    graph of the training step. `trust` allows what executes code of the model (Lambda layers, operators that call Python or read
    files). `signature` picks one of a SavedModel.
    """

    example: Any = None
    inputs: Sequence[InputDeclaration] = ()
    dims: Mapping[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    state: str | None = None
    training: bool = False
    precision: str | None = None
    trust: bool = False
    signature: str | None = None


class RunFailed(Exception):
    """The framework refused the model or the input, or its process ended; the message is one line."""


class FrameworkRunner(Protocol):
    """A model that can be run on points of its box: arrays by the names of the inputs (and of weights that are ranges)."""

    def shows(self, name: str) -> bool:
        """Whether a value of our graph, by name, can be seen in a run."""
        ...

    def values(self, point: Arrays, names: Sequence[str]) -> Arrays:
        """Values of the graph on a point, computed as they are written: no rewriting of the framework takes part.

        Raises `RunFailed`.
        """
        ...

    def replayed(self, point: Arrays, name: str | None) -> Arrays:
        """The model as its users run it, optimisations on: its outputs and, beside them, the value `name` alone (None: none).

        Raises `RunFailed`.
        """
        ...


class FrameworkModel(ABC):
    """A model that was read, for one phase."""

    #: For messages: TensorFlow, Keras, JAX.
    framework: str
    #: The graph; in training, nodes of the gradients have the phase `backward`.
    model: Model
    #: Ranges of inputs that the program declares itself.
    domains: Mapping[str, Domain]
    #: The target that is assumed if none is asked for.
    target: str
    #: What training changes, by number; empty: not known.
    trainable: frozenset[int]
    #: The file, None for a live model.
    path: str | None
    #: What the report has to say about how the model was read.
    notes: tuple[str, ...]
    #: The nodes that those of the gradients differentiate, by name, where the front end knows.
    partners: Mapping[str, str] = MappingProxyType({})
    #: Whether graph mode may compute (x + a) + b as x + (a + b): see `tensorproof.targets`.
    reassociates: bool = False
    #: Whether the front end converts the model to the precision that is asked for.
    converts: bool = False

    @abstractmethod
    def runner(self, *, time_limit: float | None = None) -> AbstractContextManager[FrameworkRunner]:
        """What runs the model, started on entering; in a process of its own where code of the model is run."""

    @abstractmethod
    def script(self, finding: Finding, names: Sequence[str], arrays: Path) -> str:
        """A standalone program that loads the model in its framework, feeds the arrays of an .npz file beside it, and fails with
        exit code 1 while the finding is there: one of the values `names` is not finite."""

    def confirmation(self) -> type[FrameworkConfirm]:
        """What confirms findings of the model."""
        from tensorproof.confirm.framework_confirm import FrameworkConfirm

        return FrameworkConfirm

    def operators(self) -> Mapping[str, str]:
        """The framework's own operators by the names of our nodes, where they are known."""
        return {}

    def kept(self) -> Arrays:
        """Arrays that a witness keeps beside its point, by name: what the script needs and the file alone does not give it."""
        return {}
