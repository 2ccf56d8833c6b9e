"""Code blocks of the documents, in the order in which a reader meets them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
#: What is written by hand or by the generators; the tables of `make paper` are written by measurements, and hold no code.
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(path for path in (ROOT / "docs").rglob("*.md") if "paper" not in path.parts),
]
_BLOCK = re.compile(
    r'^(?P<indent> *)```(?P<language>\w*)(?: title="(?P<title>[^"]+)")?\n(?P<body>.*?)^ *```$', re.MULTILINE | re.DOTALL
)
_FENCE = re.compile(r"^ *```", re.MULTILINE)


class Block(NamedTuple):
    """One fenced block. `title` is the file that it belongs into."""

    document: str
    language: str
    title: str | None
    body: str

    @property
    def commands(self) -> list[str]:
        """The commands of a console block."""
        return [line.strip()[2:] for line in self.body.splitlines() if line.strip().startswith("$ ")]


def blocks_of(path: Path) -> list[Block]:
    """The blocks of one document; a fence that belongs to none is an error."""
    text = path.read_text("utf-8")
    found = [Block(name_of(path), m["language"], m["title"], m["body"]) for m in _BLOCK.finditer(text)]
    assert 2 * len(found) == len(_FENCE.findall(text)), f"{path}: a fence is not closed, or has words that no test knows"
    return found


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()
