"""Reports: one module per output format, all with the same signature, and the table that names them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from tensorproof.errors import ConfigurationError
from tensorproof.findings import Report
from tensorproof.report import github, json_report, junit, sarif, terminal


class Render(Protocol):
    """Turns the reports of one run into the text of one format.

    `source_root` is the folder of the user's program: files below it may be quoted and are named relative to it.
    Without it no source file is opened.
    """

    def __call__(self, reports: Sequence[Report], *, source_root: Path | None = None) -> str: ...


FORMATS: Mapping[str, Render] = MappingProxyType(
    {
        "terminal": terminal.render,
        "json": json_report.render,
        "sarif": sarif.render,
        "github": github.render,
        "junit": junit.render,
    }
)


def find_format(name: str) -> Render:
    """The render function of the format with that name."""
    try:
        return FORMATS[name]
    except KeyError:
        raise ConfigurationError(f"unknown format {name!r}; known are {', '.join(FORMATS)}") from None
