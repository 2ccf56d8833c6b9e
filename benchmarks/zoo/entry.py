"""An entry of the zoo: one program with its facts, and the forms that its description yields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import onnx

from benchmarks.zoo import onnx_form, tensorflow_form, torch_form
from benchmarks.zoo.builder import Builder, Input, Recording, Weight
from tensorproof.assumptions import Declarations, Domain

Description = Callable[[Builder], None]
Framework = Literal["tensorflow", "pytorch"]
ErrorType = Literal["invalid value", "invalid derivative"]


@dataclass(frozen=True, slots=True)
class Bug:
    """A defect by GRIST's number and letter, and the node of our form where it fails.

    `also` names further nodes with the same defect that GRIST does not count. A number that ends in a word (`4-exp`) is a
    form of the program that GRIST does not run. An invalid derivative is a failure of training: forward, the node is sound.
    """

    letter: str
    operator: str
    node: str
    why: str
    also: tuple[str, ...] = ()
    error: ErrorType = "invalid value"

    @property
    def is_forward(self) -> bool:
        return self.error == "invalid value"


@dataclass(frozen=True, slots=True)
class Optimiser:
    """How the program trains. `options` are further numbers of the method; `trains` says which weights make which output
    small, by the beginning of their names."""

    method: str
    rate: float
    details: str = ""
    options: Mapping[str, float] = field(default_factory=dict[str, float])
    trains: Mapping[str, str] = field(default_factory=lambda: {"loss": ""})


@dataclass(frozen=True, slots=True)
class Repair:
    """The same program as repaired; the nodes that failed keep their names.

    `remains` says why such a node is flagged still, `elsewhere` why other nodes of the repaired program are.
    """

    how: str
    describe: Description
    remains: str = ""
    elsewhere: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """A program of GRIST, rebuilt. Programs whose variants differ in their graphs have an entry for each graph.

    `fails_at_start` says why the program fails with the very values that it starts with; most do not.
    """

    id: str
    program: int
    project: str
    framework: Framework
    family: str
    describe: Description
    optimiser: Optimiser | None
    bugs: tuple[Bug, ...]
    repair: Repair | None = None
    fails_at_start: str = ""
    notes: tuple[str, ...] = ()

    def recording(self) -> Recording:
        builder = Builder()
        self.describe(builder)
        return builder.recording

    @property
    def inputs(self) -> dict[str, Input]:
        return self.recording().inputs

    @property
    def weights(self) -> dict[str, Weight]:
        return self.recording().weights

    @property
    def loss(self) -> str | None:
        """The output that training makes small; None where the program has no loss."""
        return "loss" if "loss" in self.recording().outputs else None

    @property
    def flushes_subnormals(self) -> bool:
        """Whether the program's framework takes subnormal numbers for 0, on the CPU: TensorFlow does, PyTorch does not."""
        return self.framework == "tensorflow"

    @property
    def target(self) -> str:
        """The name of the target that computes as the program's framework does."""
        return "tensorflow-cpu" if self.flushes_subnormals else "torch-cpu"

    @property
    def training_inputs(self) -> tuple[str, ...]:
        return tuple(name for name, given in self.inputs.items() if given.is_training_data)

    @property
    def safe(self) -> Entry | None:
        """The twin: this program with its repair, without its bugs."""
        if self.repair is None:
            return None
        notes = tuple(text for text in (self.repair.how, self.repair.remains, self.repair.elsewhere) if text)
        return replace(
            self, id=f"{self.id}-safe", describe=self.repair.describe, bugs=(), repair=None, fails_at_start="", notes=notes
        )

    def onnx(self, seed: int = 0, weights: Mapping[str, npt.NDArray[np.float32]] | None = None) -> onnx.ModelProto:
        """The program at the start of a training, or with the weights given, by name."""
        recording = self.recording()
        return onnx_form.write(recording, initial_weights(recording, seed) if weights is None else weights, f"grist_{self.id}")

    def torch(self, seed: int = 0) -> Any:
        recording = self.recording()
        return torch_form.module(recording, initial_weights(recording, seed))

    def tensorflow(self, seed: int = 0, *, training: bool = False) -> Any:
        """The `tf.Graph` of a program that is written in TensorFlow; for training, with gradients and steps of its optimiser."""
        if self.framework != "tensorflow":
            raise ValueError(f"program {self.id} is written in PyTorch")
        return tensorflow_form.graph(self.recording(), seed=seed, optimiser=self.optimiser if training else None)

    def tensorflow_file(self, folder: Path, seed: int = 0, *, training: bool = False) -> Path:
        """The graph as a file of the folder, for whoever reads files."""
        path = folder / f"grist_{self.id}.pb"
        path.write_bytes(self.tensorflow(seed, training=training).as_graph_def().SerializeToString())
        return path

    def declarations(self) -> Declarations:
        """Domains of the inputs and ranges of the weights: what the program may meet over a whole training."""
        recording = self.recording()
        domains = {name: given.domain for name, given in recording.inputs.items()}
        domains |= {name: Domain("box", *weight.range) for name, weight in recording.weights.items()}
        return Declarations(domains)

    def plain_inputs(self, seed: int = 0) -> dict[str, npt.NDArray[Any]]:
        """The values that the program starts with; where it has none of its own, draws from the domains."""
        generator = np.random.default_rng(seed)
        return {name: _drawn(given, generator) if given.start is None else given.start for name, given in self.inputs.items()}


def initial_weights(recording: Recording, seed: int) -> dict[str, npt.NDArray[np.float32]]:
    """One start of training. Each weight has a stream of its own, so that all forms of a program start alike."""
    return {
        name: weight.initial.values(np.random.default_rng([seed, index]), weight.shape)
        for index, (name, weight) in enumerate(recording.weights.items())
    }


def _drawn(given: Input, generator: np.random.Generator) -> npt.NDArray[Any]:
    domain = given.domain
    match domain.kind:
        case "one-hot":
            values = np.eye(given.shape[-1])[generator.integers(given.shape[-1], size=given.shape[:-1])]
        case "values":
            values = generator.choice(domain.values, given.shape)
        case "channels":
            low, high = np.array(domain.channels).T
            values = generator.uniform(low, high, given.shape)
        case _ if given.integer:
            values = generator.integers(int(domain.low), int(domain.high) + 1, given.shape)
        case _:
            values = generator.uniform(domain.low, domain.high, given.shape)
    return values.astype(np.int64 if given.integer else np.float32)
