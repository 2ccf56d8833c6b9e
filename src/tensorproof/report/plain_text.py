"""Names and numbers as plain text.

Names of models, nodes and tensors come out of model files: they are data, and a reader's terminal, browser or build
server must not obey them. Everything a report shows goes through `one_line`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

#: Longer names are cut in the middle where people read them; formats for machines keep them whole.
LONGEST_NAME = 160

_SHORT_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}

#: GitHub's runner obeys `##[command]` anywhere in a line of output (actions/runner, ActionCommand.TryParse).
_RUNNER_COMMAND = "##["
#: It obeys a line that begins with `::`, too, white space before it or not.
_COMMAND_AT_START = re.compile(r"^([ \t]*):(?=:)", re.MULTILINE)


def one_line(text: str, longest: int | None = None) -> str:
    """The text on one line; characters that are not visible (control, bidirectional, surrogate) become escapes."""
    if not text.isprintable():
        text = "".join(c if c.isprintable() else _escape(c) for c in text)
    text = text.replace(_RUNNER_COMMAND, "\\x23#[")
    if longest is not None and len(text) > longest:
        head = longest // 2 - 3
        text = f"{text[:head]} ... {text[len(text) - (longest - head - 5) :]}"
    return text


def without_commands(text: str) -> str:
    """Several lines, none of which begins as a command of a build server."""
    return _COMMAND_AT_START.sub(r"\1\\x3a", text)


def name(text: str) -> str:
    """A name for people: one line, of bounded length, never empty."""
    return one_line(text, LONGEST_NAME) or "(unnamed)"


def names(texts: Iterable[str], shown: int = 3) -> str:
    """The first few names and how many more there are."""
    every = list(texts)
    listed = ", ".join(name(text) for text in every[:shown])
    return f"{listed} and {len(every) - shown} more" if len(every) > shown else listed


def number(value: float) -> str:
    """Six digits, and no negative zero."""
    return "nan" if math.isnan(value) else f"{value + 0.0:.6g}"


def interval(low: float, high: float) -> str:
    """A range, ends included."""
    return f"[{number(low)}, {number(high)}]"


def count(amount: int, noun: str) -> str:
    """`1 node`, `2 nodes`."""
    return f"{amount} {noun}" if amount == 1 else f"{amount} {noun}s"


def _escape(character: str) -> str:
    code = ord(character)
    if character in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[character]
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
