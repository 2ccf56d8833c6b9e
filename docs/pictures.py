"""Pictures of real runs: python -m docs.pictures [--check] [--pages].

`session.svg` is what a terminal shows: the commands of the README are run in a pseudo-terminal, and rich draws what they print. The
same code gives the same file, so that a test can say whether it drifted. `--pages` takes those of pages in a browser as well.
"""

from __future__ import annotations

import os
import pty
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

from tensorproof.files import write_text

ROOT = Path(__file__).resolve().parents[1]
PICTURES = Path(__file__).resolve().parent / "pictures"
WIDTH = 100


@dataclass(frozen=True, slots=True)
class Shown:
    """A command, and the part of its output that is shown: from the first line that begins so, up to another one.

    What is left out is marked. Lines with measured times are never shown: they differ from run to run.
    """

    command: str
    begins: str
    ends: str
    but: tuple[str, ...] = ()


VAE = "--range z=-4:4 --range x=0:1"
SESSION = (
    Shown(f"tensorproof check vae_loss.onnx {VAE}", "NUM101", "NUM302"),
    Shown(f"tensorproof fix vae_loss.onnx {VAE} --apply fixed.onnx", "  fix", "  proof"),
    Shown(f"tensorproof check fixed.onnx {VAE}", "  findings", "  time"),
)


def in_a_terminal(command: str, folder: Path) -> str:
    """What a command of tensorproof writes to a terminal, colours included."""
    reader, writer = pty.openpty()
    surroundings = {**os.environ, "COLUMNS": str(WIDTH), "LINES": "60", "TERM": "xterm-256color", "TENSORPROOF_CACHE": str(folder)}
    surroundings.pop("NO_COLOR", None)
    words = [sys.executable, "-m", *shlex.split(command)]
    with subprocess.Popen(words, cwd=folder, stdout=writer, stderr=subprocess.DEVNULL, env=surroundings) as process:
        os.close(writer)
        parts: list[bytes] = []
        while part := _read(reader):
            parts.append(part)
    os.close(reader)
    if process.returncode not in (0, 1):
        raise RuntimeError(f"{command}: exit code {process.returncode}")
    return b"".join(parts).decode().replace("\r\n", "\n")


def _read(reader: int) -> bytes:
    try:
        return os.read(reader, 65536)
    except OSError:  # the other end of a pseudo-terminal is closed
        return b""


def excerpt(output: str, shown: Shown) -> str:
    """The lines that are shown, with a mark where others stand before and after."""
    lines = output.rstrip("\n").split("\n")
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines]
    first = next(place for place, line in enumerate(plain) if line.startswith(shown.begins))
    last = next(place for place, line in enumerate(plain) if place > first and line.startswith(shown.ends))
    kept = lines[first:last]
    while not kept[-1].strip():
        kept.pop()
    return "\n".join([*(["\x1b[2m  ...\x1b[0m"] if first else []), *kept, "\x1b[2m  ...\x1b[0m"])


def session() -> str:
    """The picture of a session: check, fix, check."""
    from examples.models import build

    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder))
        steps = [(shown.command, excerpt(in_a_terminal(shown.command, Path(folder)), shown)) for shown in SESSION]
    return drawn(steps, "tensorproof", "session")


def drawn(steps: Sequence[tuple[str, str]], title: str, name: str) -> str:
    """Commands and their output as a terminal shows them, in one SVG file that loads nothing."""
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        console = Console(record=True, width=WIDTH, file=nowhere, force_terminal=True, color_system="truecolor")
        for place, (command, output) in enumerate(steps):
            if place:
                console.print()
            console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
            console.print(Text.from_ansi(output))
        # The template of rich fetches its font from elsewhere.
        template = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL).replace(
            "Fira Code, monospace", "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"
        )
        return console.export_svg(title=title, theme=DIMMED_MONOKAI, code_format=template, unique_id=name) + "\n"


#: Every picture that the code alone determines, and what draws it.
DRAWN: dict[str, Callable[[], str]] = {"session.svg": session}


def drifted() -> list[Path]:
    """Pictures that are not what the commands print now."""
    wanted = {PICTURES / name: draw() for name, draw in DRAWN.items()}
    return [path for path, text in wanted.items() if not path.is_file() or path.read_text("utf-8") != text]


def main() -> int:
    """Draw what has changed, or only say what has."""
    if "--check" in sys.argv:
        found = drifted()
        for path in found:
            print(f"drifted: {path.name}; run `make docs`")
        return 1 if found else 0
    PICTURES.mkdir(exist_ok=True)
    for name, draw in DRAWN.items():
        write_text(PICTURES / name, draw())
        print(f"docs/pictures/{name}")
    if "--pages" in sys.argv:
        from docs.screenshots import taken

        for path in taken(PICTURES):
            print(f"docs/pictures/{path.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
