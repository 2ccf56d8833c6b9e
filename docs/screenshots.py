"""Pictures of trained models that wheels bring along: python -m docs.pictures --pages.

Reports are opened in Chromium and clicked through; a session is run in a terminal. A browser draws letters as its system has
them, and what runs of large models reach differs in the last digits between processors, so these are not compared by tests: they
are made again when reports change.
"""

from __future__ import annotations

import importlib.util
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.browser import Browser, chromium

from docs.pictures import Shown, drawn, excerpt, in_a_terminal
from tensorproof.files import write_text

#: The largest picture, in bytes: they are part of the repository.
LARGEST = 300_000

#: Trained models as their wheels bring them, one of speech and one of music: the package, and where the file is in it.
MODELS = {
    "speech.onnx": ("silero_vad", "data/silero_vad_16k_op15.onnx"),
    "music.onnx": ("basic_pitch", "saved_models/icassp_2022/nmp.onnx"),
}
#: Half a second at 16 kHz with the state of the model, and the box of both.
RANGES = ("--range", "input=-1:1", "--range", "state=-1:1", "--range", "sr=16000", "--dim", "sequence=576")
#: What is made of it before pages are: a mixed model in float16.
PREPARED = ("plan", "speech.onnx", *RANGES, "--precision", "float16", "--runs", "10", "--apply", "mixed.onnx")


@dataclass(frozen=True, slots=True)
class Screenshot:
    """A page, made by a command of tensorproof (or of Python), and what is done in it before the picture is taken."""

    command: tuple[str, ...]
    show: Callable[[Browser], None] = lambda browser: None
    height: int = 900


def _scrolled_to(selector: str) -> Callable[[Browser], None]:
    def show(browser: Browser) -> None:
        browser.js("document.querySelector(arguments[0]).scrollIntoView({block: 'start'})", selector)

    return show


def _first_finding_in_graph(browser: Browser) -> None:
    browser.click(".card .link")
    browser.js("document.querySelector('.graph').scrollIntoView({block: 'start'})")


#: A report as the last line of a cell, in a page with the letters of a notebook.
_NOTEBOOK = """
import sys
from pathlib import Path

import tensorproof

box = {"input": (-1, 1), "state": (-1, 1), "sr": (16000, 16000)}
report = tensorproof.check("speech.onnx", ranges=box, dims={"sequence": 576}, precision="float16")
style = "margin: 2em; font: 13px system-ui, sans-serif"
Path(sys.argv[-1]).write_text(f"<!doctype html><meta charset='utf-8'><body style='{style}'>{report._repr_html_()}</body>")
"""

#: Two seconds of sound in float16, in which the epsilon before a logarithm, 1e-10, is zero.
SOUND = ("--range", "*=-1:1", "--dim", "unk__749=1", "--precision", "float16")
MUSIC = ("check", "music.onnx", *SOUND)
#: Points of two seconds take long: twenty verify the repair.
REPAIR = ("fix", "music.onnx", *SOUND, "--select", "NUM101", "--runs", "20", "--apply", "repaired.onnx")
#: The same in a terminal.
SESSION = (
    Shown(f"tensorproof {shlex.join(MUSIC)}", "NUM101", "  then"),
    Shown(f"tensorproof {shlex.join(REPAIR)}", "  fix", "  apply"),
    Shown(f"tensorproof {shlex.join(('check', 'repaired.onnx', *SOUND, '--select', 'NUM101'))}", "  findings", "  time"),
)
HALF = ("check", "speech.onnx", *RANGES, "--precision", "float16")
SCREENSHOTS = {
    "report.png": Screenshot(HALF),
    "finding.png": Screenshot(HALF, _scrolled_to("[id^=findings]")),
    "confirmed.png": Screenshot(MUSIC, _scrolled_to("[id^=findings]")),
    "repair.png": Screenshot(REPAIR, _scrolled_to("[id^=repairs]"), height=620),
    "graph.png": Screenshot(HALF, _first_finding_in_graph),
    "comparison.png": Screenshot(("check", "speech.onnx", "mixed.onnx", *RANGES, "--no-confirm")),
    "notebook.png": Screenshot(("-c", _NOTEBOOK), height=1160),
}


def taken(pictures: Path) -> list[Path]:
    """Take every picture; what makes a page is run once."""
    pages: dict[tuple[str, ...], Path] = {}
    paths: list[Path] = []
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        _prepare(Path(folder))
        for name, picture in SCREENSHOTS.items():
            if picture.command not in pages:
                pages[picture.command] = _made(picture.command, Path(folder), f"page_{len(pages)}.html")
            browser.driver.set_window_size(1280, picture.height)
            browser.command("Emulation.setScrollbarsHidden", hidden=True)
            browser.open(pages[picture.command])
            picture.show(browser)
            browser.screenshot(pictures / name)
            size = (pictures / name).stat().st_size
            if size > LARGEST:
                raise RuntimeError(f"{name}: {size} bytes, which is more than {LARGEST}")
            paths.append(pictures / name)
        steps = [(shown.command, excerpt(in_a_terminal(shown.command, Path(folder)), shown)) for shown in SESSION]
    write_text(pictures / "trained.svg", drawn(steps, "tensorproof", "trained"))
    return [*paths, pictures / "trained.svg"]


def _prepare(folder: Path) -> None:
    for name, (package, file) in MODELS.items():
        found = importlib.util.find_spec(package)
        assert found is not None and found.origin is not None, f"{package} is not installed: make .venv/.everything"
        shutil.copyfile(Path(found.origin).parent / file, folder / name)
    _run(("-m", "tensorproof", *PREPARED), folder)


def _made(command: tuple[str, ...], folder: Path, name: str) -> Path:
    _run((*command, name) if command[0] == "-c" else ("-m", "tensorproof", *command, "--format", "html", "--output", name), folder)
    return folder / name


def _run(words: tuple[str, ...], folder: Path) -> None:
    done = subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{' '.join(words)}: {done.stderr}")
