"""`Discrepancy`: one way in which a test came out differently than it should."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tensorproof.compare.judging import Judgement
from tensorproof.compare.workers.backend_id import BackendId

#: What noticed it: a process died or hung; one framework refuses what another computes, or fails with an internal error; NaN or
#: infinity at other places; another type; a shape other than promised, or than the others'; eager and compiled differ; the network
#: differs after it was saved and loaded; two runs of the same differ; values differ.
Oracle = Literal["death", "exception", "nan", "dtype", "shape", "compiled", "saved", "repeat", "value"]


@dataclass(frozen=True)
class Discrepancy:
    """`culprit` is the backend held to be wrong, `other` whom it was compared with (None: the float64 reference, or itself).

    `layer` is the first layer at which it shows, where that is known; `symptom` is what stays the same when the test is reduced:
    the kind of difference, or the error's message with its numbers, names and addresses left out (`template`).
    """

    oracle: Oracle
    culprit: BackendId
    other: BackendId | None
    symptom: str
    layer: str | None = None
    detail: str = ""
    judgement: Judgement | None = None

    @property
    def signature(self) -> tuple[str, str, str]:
        """Two discrepancies with one signature may have one cause."""
        return self.oracle, self.culprit.name, self.symptom

    def to_json(self) -> Mapping[str, Any]:
        return {
            "oracle": self.oracle,
            "culprit": str(self.culprit),
            "other": None if self.other is None else str(self.other),
            "symptom": self.symptom,
            "layer": self.layer,
            "detail": self.detail,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Discrepancy:
        """As `to_json` wrote it; the judgement is left out there."""
        other = None if data["other"] is None else backend_of(data["other"])
        return cls(data["oracle"], backend_of(data["culprit"]), other, data["symptom"], data["layer"], data["detail"])


def backend_of(text: str) -> BackendId:
    """A backend from its text, in which the interpreter of another environment stands in parentheses at the end."""
    name, _, python = text.partition(" (")
    return BackendId.parse(name, python.removesuffix(")"))


def template(message: str) -> str:
    """An error message without what differs from test to test."""
    line = next((part for part in message.splitlines() if part.strip() and not part.startswith("Exception encountered")), "")
    line = re.sub(r"0x[0-9a-fA-F]+|[-+]?\d+(\.\d+)?(e[-+]?\d+)?", "#", line)
    line = re.sub(r"(\(|\[)(\s*#\s*,?)+\s*(\)|\])", "(#)", line)
    return re.sub(r"(['\"]).*?\1", "'...'", line).strip()[:160]
