"""The options that say what is scanned, as several commands have them: what the user typed into what the library takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tensorproof.assumptions import Domain, parse_dimension_option, parse_range_option, read_ranges_file
from tensorproof.configuration import Configuration
from tensorproof.errors import AssumptionError
from tensorproof.preparing import ScanOptions


@dataclass(frozen=True, slots=True)
class ScanArguments:
    """The options as given; None where the configuration, or the library, decides."""

    ranges: tuple[str, ...]
    ranges_file: Path | None
    samples: Path | None
    dims: tuple[str, ...]
    weights: str | None
    precision: str | None
    target: str | None
    effort: int | None
    phase: str | None = None
    inputs: tuple[str, ...] = ()
    state: Path | None = None
    signature: str | None = None
    trust: bool = False

    def options(self, configuration: Configuration, *, weights: str = "fixed") -> ScanOptions:
        """The options of the command line, then those of the configuration, then the defaults (`weights` is one)."""
        return ScanOptions(
            ranges=declared_domains(self.ranges, self.ranges_file, configuration),
            dims=dict(configuration.dims) | dict(map(parse_dimension_option, self.dims)),
            weights=self.weights or configuration.weights or weights,
            samples=None if self.samples is None else str(self.samples),
            target=self.target or configuration.target,
            precision=self.precision or configuration.precision,
            effort=next((e for e in (self.effort, configuration.effort) if e is not None), 1),
            phase=self.phase or configuration.phase or "inference",
            inputs=dict(configuration.inputs) | dict(map(parse_input_option, self.inputs)),
            state=None if self.state is None else str(self.state),
            signature=self.signature,
            trust=self.trust,
        )

    def words(self) -> Iterator[str]:
        """The options as they were typed, for a command that is to scan the same."""
        for name, values in (("--range", self.ranges), ("--dim", self.dims), ("--input", self.inputs)):
            for value in values:
                yield from (name, value)
        single = {
            "--ranges": self.ranges_file,
            "--samples": self.samples,
            "--weights": self.weights,
            "--precision": self.precision,
            "--target": self.target,
            "--effort": self.effort,
            "--phase": self.phase,
            "--state": self.state,
            "--signature": self.signature,
        }
        for name, value in single.items():
            if value is not None:
                yield from (name, str(value))
        if self.trust:
            yield "--trust"


def parse_input_option(option: str) -> tuple[str, str]:
    """`x=float32[N,3,32,32] in [0,1]`."""
    name, equals, text = option.partition("=")
    if not equals or not name.strip().isidentifier():
        raise AssumptionError(f"--input {option!r}: write x=float32[N,3,32,32] in [0,1]")
    return name.strip(), text.strip()


def declared_domains(ranges: Sequence[str], ranges_file: Path | None, configuration: Configuration) -> dict[str, Domain]:
    """The ranges of the configuration, of a file and of the command line; each overrides those before it."""
    domains: dict[str, Domain] = dict(configuration.ranges)
    if ranges_file is not None:
        domains |= read_ranges_file(ranges_file)
    return domains | dict(map(parse_range_option, ranges))
