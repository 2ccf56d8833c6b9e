"""`Version`: one text of a program, traced and scanned, with the findings that are defects of their own."""

from __future__ import annotations

import contextlib
import linecache
import sys
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from pathlib import Path

from tensorproof.checking import Analysis
from tensorproof.errors import ConfigurationError, TensorproofError
from tensorproof.findings import Finding
from tensorproof.frontends.torch_program import TorchProgram, read_program
from tensorproof.frontends.user_program import module_name
from tensorproof.preparing import Prepared
from tensorproof.repair.program.text import SourceText
from tensorproof.repair.source.text import lines_of
from tensorproof.repair.verify import Refused, roots_of, scanned


@dataclass(frozen=True, slots=True)
class Version:
    """A program as it was before or after a repair. `roots` are the findings of its scan that a report shows by default."""

    source: SourceText
    prepared: Prepared
    analyses: tuple[Analysis, ...]
    roots: tuple[Finding, ...]

    @classmethod
    def of(cls, prepared: Prepared, source: SourceText) -> Version:
        analyses = tuple(scanned(prepared))
        return cls(source, prepared, analyses, tuple(roots_of(prepared, analyses).values()))

    @property
    def program(self) -> TorchProgram:
        return program_of(self.prepared)

    def line(self, finding: Finding) -> int | None:
        """The line of a finding in the text; None for findings of other files, or of no line."""
        location = finding.location
        if location is None or location.file is None or location.line is None:
            return None
        return location.line if Path(location.file).resolve() == self.source.path.resolve() else None

    def place(self, finding: Finding, of_line: Callable[[int], int]) -> object:
        """Where a finding is, so that it can be found again in another version: `of_line` gives the place of a line of the text."""
        line, location = self.line(finding), finding.location
        if line is not None:
            return of_line(line)
        return finding.node if location is None or location.line is None else (location.file, location.line)

    def patched(self, text: str) -> Version:
        """The program from another text of its file, with the same weights and declarations; raises Refused if it does not load."""
        program, source = self.program, self.source.changed(text)
        assert program.path is not None
        options = replace(program.options, source=source.to_bytes(), state=program.traced.module.state_dict())
        try:
            with _standing_for(source):
                again = read_program(f"{program.path}:{program.name}", options)
            return Version.of(replace(self.prepared, program=again, graph=again.traced.model), source)
        except TensorproofError as error:
            raise Refused(f"the patched program cannot be checked: {error}") from None


def program_of(prepared: Prepared) -> TorchProgram:
    """The program of a file that the user named; others have no source that could be changed."""
    if prepared.program is None or prepared.program.path is None or not prepared.program.path.endswith(".py"):
        raise ConfigurationError(f"{prepared.graph.name}: fix changes source files; name the program as module.py:name")
    return prepared.program


@contextlib.contextmanager
def _standing_for(source: SourceText) -> Generator[None]:
    """Let what reads source lines (such as `inspect`) see the given ones, and leave the user's own module where it was."""
    file, name = str(source.path.resolve()), module_name(source.path)
    entry, module = linecache.cache.get(file), sys.modules.get(name)
    # Entries without a time are not compared with the disk.
    linecache.cache[file] = (len(source.text), None, lines_of(source.text), file)
    try:
        yield
    finally:
        linecache.cache.pop(file, None)
        if entry is not None:
            linecache.cache[file] = entry
        if module is not None:
            sys.modules[name] = module
