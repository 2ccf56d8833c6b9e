"""Reports: one module per output format, all with the same signature, and the table that names them."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Protocol, cast

from tensorproof.errors import ConfigurationError
from tensorproof.findings import Report


class Render(Protocol):
    """Turns the reports of one run into the text of one format.

    `source_root` is the folder of the user's program: files below it may be quoted and are named relative to it.
    Without it no source file is opened.
    """

    def __call__(self, reports: Sequence[Report], *, source_root: Path | None = None) -> str: ...


#: The module of each format, by the name that users know. It is imported when it is first asked for.
FORMATS: Mapping[str, str] = MappingProxyType(
    {
        "terminal": "terminal",
        "json": "json_report",
        "sarif": "sarif",
        "github": "github",
        "junit": "junit",
        "gitlab": "gitlab",
        "markdown": "markdown",
        "html": "html",
    }
)

#: The formats that show the model itself: checks keep it for them (`model_map=True`).
SHOW_MODEL = frozenset({"html"})


def find_format(name: str) -> Render:
    """The render function of the format with that name."""
    if name not in FORMATS:
        raise ConfigurationError(f"unknown format {name!r}; known are {', '.join(FORMATS)}")
    return cast("Render", importlib.import_module(f"{__name__}.{FORMATS[name]}").render)
