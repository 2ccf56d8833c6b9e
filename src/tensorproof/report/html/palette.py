"""The colours of the page, for what is drawn outside of it: they are written down once, in its style sheet."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Literal

Theme = Literal["light", "dark"]

#: What the block of a theme begins with in the style sheet.
_BLOCKS: dict[Theme, str] = {"light": ":root {", "dark": ':root[data-theme="dark"] {'}
_COLOUR = re.compile(r"--([\w-]+): (#[0-9a-f]{6});")


@cache
def palette(theme: Theme) -> Mapping[str, str]:
    """The colours of a theme by name, as `red`, `red-tint` or `h0` (the class of headroom in which no bit is left)."""
    style = resources.files("tensorproof.report.html").joinpath("page.css").read_text("utf-8")
    block = style.split(_BLOCKS[theme], 1)[1].split("}", 1)[0]
    return MappingProxyType(dict(_COLOUR.findall(block)))
