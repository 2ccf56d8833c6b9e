"""`CampaignFinding`: a discrepancy that was localised, reduced, and seen again in a fresh process."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from tensorproof.compare.drawing import Array, Arrays, dtype_of
from tensorproof.compare.fuzzing.discrepancy import Discrepancy
from tensorproof.compare.fuzzing.refusals import ACCEPTS_ILLEGAL
from tensorproof.compare.fuzzing.results import DIFFERENCE
from tensorproof.compare.spec import Json, TestSpec

#: `defect`: the reference, or the framework's own other word, says who is wrong. `difference`: nobody can say. `illegal`: a value
#: that is wrong on purpose is accepted by some.
FindingClass = Literal["defect", "difference", "illegal"]


@dataclass(frozen=True)
class Explanation:
    """What a discrepancy comes from.

    `kind` is the layer at fault, `parameters` those of its arguments without which it does not show, `test` the reduced test, with
    the arrays that it does not draw itself. `numbers` are those of the worst element.
    """

    discrepancy: Discrepancy
    kind: str
    parameters: tuple[str, ...]
    test: TestSpec
    arrays: Arrays = field(default_factory=dict[str, Array])
    numbers: Mapping[str, Json] = field(default_factory=dict[str, Json])
    trail: tuple[str, ...] = ()

    @property
    def signature(self) -> str:
        """Findings of one signature are one finding."""
        entry = self.discrepancy
        parameters = ",".join(sorted(self.parameters))
        return " | ".join((entry.oracle, entry.culprit.name, f"{self.kind}({parameters})", self.test.phase, entry.symptom))

    def to_json(self) -> dict[str, Json]:
        return {
            "discrepancy": dict(self.discrepancy.to_json()),
            "kind": self.kind,
            "parameters": list(self.parameters),
            "test": self.test.to_json(),
            "arrays": {name: array_to_json(array) for name, array in self.arrays.items()},
            "numbers": dict(self.numbers),
            "trail": list(self.trail),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Json]) -> Explanation:
        return cls(
            Discrepancy.from_json(data["discrepancy"]),
            data["kind"],
            tuple(data["parameters"]),
            TestSpec.from_json(data["test"]),
            {name: array_from_json(array) for name, array in data["arrays"].items()},
            data["numbers"],
            tuple(data["trail"]),
        )


@dataclass(frozen=True)
class CampaignFinding:
    """One distinct finding. `number` is the first test that showed it, `similar` counts tests with the same rough symptom.

    `script` reproduces it without tensorproof; `known` is the note of a known issue that it matches, `returned` says that such an
    issue was said to be mended in a version that is installed.
    """

    number: int
    explanation: Explanation
    script: str
    output: str
    versions: Mapping[str, str]
    similar: int = 1
    known: str | None = None
    returned: str | None = None

    @property
    def discrepancy(self) -> Discrepancy:
        return self.explanation.discrepancy

    @property
    def signature(self) -> str:
        return self.explanation.signature

    @property
    def kind(self) -> FindingClass:
        if self.discrepancy.symptom == ACCEPTS_ILLEGAL:
            return "illegal"
        return "difference" if self.discrepancy.symptom.endswith(DIFFERENCE) else "defect"

    @property
    def arguments(self) -> dict[str, Json]:
        """The parameters at fault with their values in the reduced test."""
        for layer in self.explanation.test.layers:
            if layer.kind == self.explanation.kind:
                return {name: layer.parameters[name] for name in self.explanation.parameters if name in layer.parameters}
        return {}

    def __str__(self) -> str:
        entry = self.discrepancy
        arguments = ", ".join(f"{name}={json.dumps(value)}" for name, value in self.arguments.items())
        against = "" if entry.other is None else f", unlike {entry.other}"
        phase = "" if self.explanation.test.phase == "inference" else f" ({self.explanation.test.phase})"
        return f"{entry.culprit}: {self.explanation.kind}({arguments}){phase}: {entry.symptom}{against}"

    def to_json(self) -> dict[str, Json]:
        entry = self.discrepancy
        return {
            "signature": self.signature,
            "class": self.kind,
            "oracle": entry.oracle,
            "culprit": str(entry.culprit),
            "other": None if entry.other is None else str(entry.other),
            "layer": self.explanation.kind,
            "parameters": self.arguments,
            "phase": self.explanation.test.phase,
            "dtype": self.explanation.test.dtype,
            "symptom": entry.symptom,
            "detail": entry.detail,
            "first_test": self.number,
            "similar_tests": self.similar,
            "script": self.script,
            "output": self.output,
            "versions": dict(self.versions),
            "known": self.known,
            "returned": self.returned,
            "test": self.explanation.test.to_json(),
            "trail": list(self.explanation.trail),
        }


def array_to_json(array: Array) -> dict[str, Json]:
    """An array as JSON, bit for bit."""
    data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")
    return {"dtype": array.dtype.name, "shape": list(array.shape), "data": data}


def array_from_json(data: Mapping[str, Json]) -> Array:
    """What `array_to_json` wrote."""
    return np.frombuffer(base64.b64decode(data["data"]), dtype_of(data["dtype"])).reshape(data["shape"])
