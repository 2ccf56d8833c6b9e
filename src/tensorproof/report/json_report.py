"""The JSON format: the contract for machines.

Names stand in it as they are in the model; JSON's own escapes keep them harmless.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from tensorproof.findings import SCHEMA_VERSION, Report, number


def render(reports: Sequence[Report], *, source_root: Path | None = None) -> str:
    """One object for one model; for several, an object with the list of theirs."""
    if len(reports) == 1:
        return dumps(reports[0].to_json())
    return dumps({"schema_version": SCHEMA_VERSION, "reports": [report.to_json() for report in reports]})


def dumps(value: Any) -> str:
    """Strict JSON in ASCII: infinities and NaN become text, and no character in it can act on a terminal."""
    text = json.dumps(strict(value), indent=2, ensure_ascii=True, allow_nan=False)
    return text.replace("\x7f", "\\u007f").replace("##[", "#\\u0023[") + "\n"


def strict(value: Any) -> Any:
    """The value in what JSON has: no infinities, no NaN, no lone surrogates, no NumPy."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        if value.isascii():
            return value
        # A lone surrogate has no UTF-8 form, and strict parsers refuse its escape.
        return "".join(f"\\u{ord(c):04x}" if "\ud800" <= c <= "\udfff" else c for c in value)
    if isinstance(value, float):
        return number(value)
    if isinstance(value, dict | Mapping):
        entries = cast("Mapping[Any, Any]", value)
        return {strict(str(key)): strict(item) for key, item in entries.items()}
    if isinstance(value, list | tuple | Sequence | set | frozenset):
        return [strict(item) for item in cast("Iterable[Any]", value)]
    if callable(getattr(value, "tolist", None)):  # a NumPy scalar or array
        return strict(value.tolist())
    return str(value)
