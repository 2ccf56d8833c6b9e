"""`plain_message`: what a framework says is wrong, the point first."""

from __future__ import annotations

import re

#: Characters of a message that are kept.
_LONGEST = 4000
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
#: Lines of OpenVINO that say where in its source the complaint arose and about which node, before they say what it is.
_ROUTE = re.compile(
    r"^(Exception from |Check '.*' failed at |FrontEnd API failed with |Model wasn't fully converted|-- .* with a message:"
    r"|While validating |\[\w+\] )"
)


def plain_message(error: BaseException) -> str:
    """The text of an exception without colours. Where OpenVINO wrote it, the line that says what is wrong comes first."""
    text = _COLOURS.sub("", str(error)).strip()
    if not text.startswith("Exception from src/"):
        return text[:_LONGEST]
    point = next((line for line in text.splitlines() if line.strip() and not _ROUTE.match(line)), "")
    return f"{point}\n{text}".strip()[:_LONGEST]
