"""Scripts of witnesses run one after another in a process without tensorproof.

    python -I tests/keras_replays.py JOBS

JOBS is a JSON file: a list of steps, each a script with its arguments, or a file to copy over another one. Prints the exit codes of
the scripts and the last line that each printed.
"""

from __future__ import annotations

import contextlib
import io
import json
import runpy
import shutil
import sys
from pathlib import Path
from typing import Any


class Refusing:
    """Lets nothing of the project be imported."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name.partition(".")[0] == "tensorproof":
            raise ImportError("the script imports tensorproof")


def replayed(script: str, arguments: list[str]) -> tuple[int | str | None, str]:
    sys.argv = [script, *arguments]
    out = io.StringIO()
    code: int | str | None = None
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            runpy.run_path(script, run_name="__main__")
        except SystemExit as exit_request:
            code = exit_request.code
    return code, out.getvalue().strip().rpartition("\n")[2]


def main(jobs: Path) -> None:
    sys.meta_path.insert(0, Refusing())  # type: ignore[arg-type]
    found: list[tuple[str, int | str | None, str]] = []
    for label, kind, *given in json.loads(jobs.read_text()):
        if kind == "copy":
            shutil.copy(*given)
        else:
            found.append((label, *replayed(given[0], given[1:])))
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
