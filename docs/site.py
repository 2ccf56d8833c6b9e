"""Builds the documentation site into build/site: python -m docs.site. A broken link, anchor or page is an error."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    """Build into a folder; what is said is in the result."""
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--clean", "--site-dir", str(folder)]
    # The theme advertises for the next version of itself otherwise.
    return subprocess.run(words, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True)


def main() -> int:
    """Build, and say where."""
    folder = ROOT / "build" / "site"
    built = build(folder)
    if built.returncode == 0:
        print(folder / "index.html")
    else:
        print(built.stdout + built.stderr, end="", file=sys.stderr)
    return built.returncode


if __name__ == "__main__":
    sys.exit(main())
