"""Generates docs/reference/ from the code: python -m docs.generate [--check]."""

from __future__ import annotations

import sys
from pathlib import Path

from docs.generators import arithmetic, command_line, operators, python_api, report_schema, rules, settings
from tensorproof.files import write_text

REFERENCE = Path(__file__).resolve().parent / "reference"
PARTS = (operators, rules, command_line, python_api, report_schema, settings, arithmetic)


def pages() -> dict[Path, str]:
    """Every generated page by its path."""
    return {REFERENCE / name: text for part in PARTS for name, text in part.pages().items()}


def present() -> list[Path]:
    """What is in the folder now."""
    return [path for path in REFERENCE.rglob("*") if path.suffix in (".md", ".json")]


def drifted() -> list[Path]:
    """Pages that are not what the code says, and pages that no code stands behind any more."""
    wanted = pages()
    stale = [path for path in present() if path not in wanted]
    return stale + [path for path, text in wanted.items() if not path.is_file() or path.read_text("utf-8") != text]


def main() -> int:
    """Write what has changed, or only say what has."""
    if "--check" in sys.argv:
        found = drifted()
        for path in found:
            print(f"drifted: {path.name}; run `make docs`")
        return 1 if found else 0
    wanted = pages()
    for path in present():
        if path not in wanted:
            path.unlink()
    for path, text in wanted.items():
        write_text(path, text)
    print(f"{len(wanted)} pages written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
