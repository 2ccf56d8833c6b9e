"""`Settings`: how a program is run and searched, as the process that runs it is told."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

#: `search` is the whole method; `no-replacement` keeps all samples of the batch (GRIST without replacement); `plain` only watches.
Method = Literal["search", "no-replacement", "plain"]


@dataclass(frozen=True, slots=True)
class Settings:
    """One run of a program.

    `epsilon` is the step of inputs as a part of their legal width, `switch_rate` the part of the samples that is replaced every
    `switch_every` iterations (GRIST, section 4.3). `ranges` are legal ranges by the name of an external value, declared by the
    user; other values lie where the data of the program lie. `settled` are suspects that need no search: found in earlier runs, or
    proven safe. `iterations` ends the run after so many iterations of training, 0 never does; `evaluations` bounds the gradients
    taken. `overrides` is an archive of arrays that external values get when the program first uses them, by name.
    """

    script: str
    arguments: tuple[str, ...] = ()
    seed: int = 0
    method: Method = "search"
    epsilon: float = 0.15
    switch_rate: float = 0.05
    switch_every: int = 100
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])
    settled: tuple[str, ...] = ()
    iterations: int = 0
    evaluations: int = 100_000
    overrides: str | None = None
    time_limit: float | None = None

    def to_json(self) -> str:
        """The settings as text, for the process that runs the program."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Settings:
        """The settings that `to_json` wrote."""
        values: dict[str, Any] = json.loads(text)
        values["arguments"] = tuple(values["arguments"])
        values["settled"] = tuple(values["settled"])
        values["ranges"] = {name: (float(low), float(high)) for name, (low, high) in values["ranges"].items()}
        return cls(**values)

    @property
    def moves_inputs(self) -> bool:
        return self.method != "plain"

    @property
    def replaces_samples(self) -> bool:
        return self.method == "search"
