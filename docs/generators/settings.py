"""The keys of `[tool.tensorproof]`."""

from __future__ import annotations

from collections.abc import Iterator

from docs.generators.markdown import page
from tensorproof.configuration import SETTINGS

_TOP = """\
# Configuration

Settings stand in the table `[tool.tensorproof]` of the nearest `pyproject.toml` at or above the current folder that has
one. They mean what the [options](command-line.md) of the same name mean, which win. An unknown key, or a value of the wrong kind,
is an error.

```toml
[tool.tensorproof]
ranges = { image = [0, 1], label = "one-hot" }
dims = { N = [1, 8] }
ignore = ["NUM101[/decoder/*]"]
fail-on = "possible"
```"""

_KINDS = {dict: "table", str: "text", int: "number", list: "list"}


def pages() -> dict[str, str]:
    return {"configuration.md": page(_TOP, *_keys())}


def _keys() -> Iterator[str]:
    for key, setting in SETTINGS.items():
        yield from ("", f"## {key}", "", f"A {_KINDS[setting.kind]}. {setting.meaning}")
