"""The contract of JSON reports: the schema for machines, and a table of its keys for people."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from docs.generators.markdown import code, page, table
from tensorproof.report.schema import COMMANDS, schema

_TOP = """\
# JSON reports

`--format json` writes one object. Its schema is [report.schema.json](report.schema.json) (JSON Schema, draft 2020-12). Within one
`schema_version` keys may be added, never renamed: take unknown keys for granted. Infinities and NaN, which JSON does not have, are
the texts `inf`, `-inf` and `nan`."""


def pages() -> dict[str, str]:
    whole = schema()
    rows = [(code(f"tensorproof {command}"), f"[{name}](#{name})") for command, name in COMMANDS.items()]
    lines = [_TOP, "", *table(("command", "what it writes"), rows), "", "`check` of several models writes [reports](#reports)."]
    for name, part in whole["$defs"].items():
        lines += ["", f"## {name}", "", part.get("description", "")]
        listed = list(_keys(part, ""))
        if listed:
            lines += ["", *table(("key", "kind", "meaning"), listed)]
    return {"report.schema.json": json.dumps(whole, indent=2) + "\n", "json.md": page(*lines)}


def _keys(part: dict[str, Any], prefix: str) -> Iterator[tuple[str, str, str]]:
    """The keys of an object, and of objects inside of it that have no definition of their own."""
    for key, value in part.get("properties", {}).items():
        optional = "" if key in part.get("required", ()) else "optional. "
        yield code(prefix + key), _kind(value), optional + value.get("description", "")
        for nested in _inside(value):
            yield from _keys(nested, f"{prefix}{key}{'[]' if value.get('type') == 'array' else ''}.")


def _inside(value: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for part in (value, value.get("items", {}), *value.get("anyOf", ())):
        if part.get("type") == "object" and "properties" in part:
            yield part


def _kind(value: dict[str, Any]) -> str:
    if "$ref" in value:
        name = value["$ref"].rpartition("/")[2]
        return f"[{name}](#{name})"
    if "const" in value:
        return code(json.dumps(value["const"]))
    if "enum" in value:
        return ", ".join("null" if item is None else code(item) for item in value["enum"])
    if "anyOf" in value:
        return " or ".join(map(_kind, value["anyOf"]))
    kind = value.get("type", "anything")
    if isinstance(kind, list):
        return " or ".join(kind)
    if kind == "array":
        return f"list of {_kind(value['items'])}"
    if kind == "object" and isinstance(value.get("additionalProperties"), dict):
        return f"map to {_kind(value['additionalProperties'])}"
    return str(kind)
