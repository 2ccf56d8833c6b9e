"""`Pair`: a defective model and its repaired twin, described once.

A pair is a function that builds either, decorated by the family that it belongs to:

    POWERS = Family("power")

    @POWERS.program("NUM104", "Pow", image=(0, 1))
    def gamma_correction(fixed: bool) -> Program:
        "What the model is, and what is wrong with it."

`fixed` chooses the twin: whatever does not depend on it is the same in both. The line of a program that fails ends in `# defect`;
of an ONNX file the node is named.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import onnx
    import torch

#: What ends the line of a program that fails.
MARK = "# defect"


@dataclass(frozen=True, slots=True)
class Program:
    """A module or a function of PyTorch, and an example of its arguments by name."""

    run: Any
    example: Mapping[str, torch.Tensor]


@dataclass(frozen=True, slots=True)
class Pair:
    """The two models, the box of their inputs, and the rule and operator that the defective one breaks.

    `node` is where an ONNX file fails; a program fails at its marked line. `silent` says why no output shows the failure, although
    the operator fails, and `not_replayed` why not even the operator's result does.
    """

    name: str
    family: str
    build: Callable[[bool], Program | onnx.ModelProto]
    rule: str
    operator: str
    ranges: Mapping[str, Any]
    node: str | None = None
    phase: Literal["inference", "training"] = "inference"
    precision: str | None = None
    silent: str = ""
    not_replayed: str = ""

    @property
    def summary(self) -> str:
        """What the pair is about."""
        return inspect.cleandoc(self.build.__doc__ or "")

    @property
    def is_file(self) -> bool:
        """Whether the models are ONNX files."""
        return self.node is not None

    @property
    def place(self) -> tuple[str, int]:
        """File and line at which the defective program fails."""
        lines, first = inspect.getsourcelines(self.build)
        marked = [first + index for index, line in enumerate(lines) if line.rstrip().endswith(MARK)]
        assert len(marked) == 1, f"{self.name}: one line has to end in {MARK!r}, not {len(marked)}"
        return str(Path(inspect.getfile(self.build)).resolve()), marked[0]

    def built(self, fixed: bool) -> Program | onnx.ModelProto:
        """One of the two models; weights that are drawn are the same in both, and in every run."""
        if self.is_file:
            return self.build(fixed)
        import torch

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return self.build(fixed)


@dataclass(frozen=True, slots=True)
class Family:
    """Pairs about one kind of operator."""

    name: str
    pairs: list[Pair] = field(default_factory=list[Pair])

    def program(
        self,
        rule: str,
        operator: str,
        *,
        phase: Literal["inference", "training"] = "inference",
        precision: str | None = None,
        silent: str = "",
        **ranges: Any,
    ) -> Callable[[Callable[[bool], Program]], Pair]:
        """A pair of PyTorch programs; `ranges` are those of the arguments."""

        def add(build: Callable[[bool], Program]) -> Pair:
            pair = Pair(build.__name__, self.name, build, rule, operator, ranges, phase=phase, precision=precision, silent=silent)
            self.pairs.append(pair)
            return pair

        return add

    def file(
        self, rule: str, operator: str, node: str, *, precision: str | None = None, not_replayed: str = "", **ranges: Any
    ) -> Callable[[Callable[[bool], onnx.ModelProto]], Pair]:
        """A pair of ONNX files; `ranges` are those of the inputs."""

        def add(build: Callable[[bool], onnx.ModelProto]) -> Pair:
            name = build.__name__
            pair = Pair(name, self.name, build, rule, operator, ranges, node, precision=precision, not_replayed=not_replayed)
            self.pairs.append(pair)
            return pair

        return add


def onnx_file(signature: str, body: str) -> onnx.ModelProto:
    """A model in ONNX's text form: `signature` is `(float[2,3] x) => (float y)`, `body` one statement a line.

    Nodes are named after their first outputs.
    """
    import onnx.checker
    import onnx.parser

    proto = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]>\nmodel {signature}\n{{\n{body}\n}}')
    _name_nodes(proto.graph)
    onnx.checker.check_model(proto)
    return proto


def _name_nodes(graph: onnx.GraphProto) -> None:
    for node in graph.node:
        node.name = node.output[0]
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _name_nodes(attribute.g)
