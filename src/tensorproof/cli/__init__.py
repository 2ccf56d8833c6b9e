"""The command line. It only wires: reading options, calling the library, printing, exit codes."""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point: exit 0 clean, 1 findings, 2 the tool or the user's input is wrong."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["shapes"]:
        sys.exit(_shapes(arguments[1:]))
    from tensorproof.cli.app import run

    sys.exit(run(arguments))


def _shapes(arguments: list[str]) -> int:
    """The command that has to answer at once: without the parser of the others, which takes longer to import than it to run."""
    from tensorproof.cli.output import guarded
    from tensorproof.cli.shapes import run_shapes

    return guarded(lambda: run_shapes(arguments), debug="--debug" in arguments)
