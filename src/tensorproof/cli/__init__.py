"""The command line. It only wires: reading options, calling the library, printing, exit codes."""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point: exit 0 clean, 1 findings, 2 the tool or the user's input is wrong."""
    from tensorproof.cli.app import run

    sys.exit(run(sys.argv[1:]))
