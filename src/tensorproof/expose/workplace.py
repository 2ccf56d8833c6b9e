"""`Workplace`: where a program is run: in place, or in a scratch copy of its folder, so that its files stay as they are."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from tensorproof.errors import ConfigurationError

#: A folder that holds more than this is not copied.
LARGEST_COPY = 512 << 20
MOST_FILES = 20_000
#: Folders that no program reads its data from.
_LEFT_OUT = frozenset(
    {".git", ".hg", ".svn", ".venv", "venv", "__pycache__", "node_modules", ".mypy_cache", ".pytest_cache", ".ruff_cache"}
)


@dataclass(frozen=True, slots=True)
class Workplace:
    """The script that is run, and its working directory. `copied` is the folder that `copy` is a copy of, if there is one."""

    script: Path
    folder: Path
    copied: Path | None = None
    copy: Path | None = None

    def known_as(self, file: str) -> str:
        """A file as the user knows it: in the original folder, and relative to where the user is."""
        path = Path(file)
        if self.copy is not None and self.copied is not None and path.is_relative_to(self.copy):
            path = self.copied / path.relative_to(self.copy)
        here = Path.cwd()
        return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)

    def refresh(self) -> None:
        """Make the copy anew: what one run of the program wrote is not there in the next one."""
        if self.copy is None or self.copied is None:
            return
        # The folder itself stays: processes are in it.
        for entry in self.copy.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink()
        _copy(self.copied, self.copy)

    @property
    def original(self) -> Workplace:
        """The same without the copy: what a user replays later."""
        if self.copy is None or self.copied is None:
            return self
        return Workplace(self.copied / self.script.relative_to(self.copy), self.copied / self.folder.relative_to(self.copy))


def in_place(script: Path) -> Workplace:
    """The program where it is, run from where the user is."""
    return Workplace(script.resolve(), Path.cwd())


def sandboxed(script: Path, scratch: Path) -> Workplace:
    """The program in a copy of the folder that the user is in, if the script is below it, or else of the script's own folder.

    What a program opens by an absolute path, or by a path that leads out of the folder, is not copied.
    """
    script, here = script.resolve(), Path.cwd().resolve()
    root = here if script.is_relative_to(here) else script.parent
    copy = scratch / "program"
    copy.mkdir()
    found = Workplace(copy / script.relative_to(root), copy, root, copy)
    found.refresh()
    return found


def _copy(root: Path, copy: Path) -> None:
    """Copy a folder, no more than is allowed. Links to files become files, links to folders are left out."""
    bytes_left, files_left = LARGEST_COPY, MOST_FILES
    for place, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in _LEFT_OUT and not (Path(place) / name).is_symlink())
        target = copy / Path(place).relative_to(root)
        target.mkdir(parents=True, exist_ok=True)
        for name in sorted(files):
            source = Path(place) / name
            # Sockets and pipes are no files to copy, and a link may lead nowhere.
            if not source.is_file():
                continue
            bytes_left -= source.stat().st_size
            files_left -= 1
            if bytes_left < 0 or files_left < 0:
                raise ConfigurationError(
                    f"--sandbox: {root} is too large to copy (more than {LARGEST_COPY >> 20} MB, or {MOST_FILES} files);"
                    " start in the folder of the script, or run without --sandbox"
                )
            try:
                shutil.copy2(source, target / name)
            except OSError as error:
                raise ConfigurationError(f"--sandbox: {source} cannot be copied ({error.strerror})") from None
