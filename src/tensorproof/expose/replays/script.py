"""Scripts that replay failures: the module `replay` of a framework's package, with what is replayed written into it.

Such a module is a program by itself. Its docstring is replaced, and so are the constants between two comments; all else stays.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tensorproof.expose.replays.recipe import Recipe
from tensorproof.report.plain_text import interval
from tensorproof.rules import all_rules

_BEGIN = "# -- what is replayed --\n"
_END = "# -- end of what is replayed --\n"

_TITLE = '''\
"""{title}

{summary}.

    program   {program}
    line      {line}
    operator  {operator}
    operand   {operand}
    found     with seed {seed}, in step {iteration} of training

{seen}
The values are in {arrays}:

{values}

They are given to the program in its first steps{later}, in place of its own.{remark}
This file needs {needs} and numpy, and the program itself. Run it either way:

    python {script}
        exit code 1: the failure is there; 0: it is gone; 2: the program cannot be run with these values
    python -m pytest {script}
        passes when the failure is gone
"""

'''
_SEEN = {
    "forward": "The operands of the operator are finite, and its result is not.",
    "backward": "All values are finite; gradients that go into the derivative of the operator are, and one that comes out is not.",
}


@dataclass(frozen=True, slots=True)
class Template:
    """The script of one framework: the package that holds it, what the framework is called, imported as, and puts before names."""

    package: str
    framework: str
    needs: str
    prefix: str = ""
    remark: str = ""

    def script(self, recipe: Recipe, folder: Path, steps: int) -> str:
        """The text of a script that stands in that folder, beside its arrays, and gives its values for so many steps."""
        before, described, after = _parts(self.package)
        return self._title(recipe) + before + _assigned(described, _constants(recipe, folder, steps)) + after

    def _title(self, recipe: Recipe) -> str:
        failure, rule = recipe.failure, all_rules()[recipe.failure.rule]
        return _TITLE.format(
            title=f"{rule.code} {rule.name}: values that make a {self.framework} program fail.",
            summary=_plain(rule.summary),
            program=_plain(" ".join((recipe.program.script.name, *recipe.arguments))),
            line=_plain(f"{Path(failure.file or '').name}:{failure.line}"),
            operator=_plain(f"{self.prefix}{failure.operator}"),
            operand=_plain(f"{failure.operand} in {interval(failure.low, failure.high)}"),
            seed=failure.seed,
            iteration=failure.iteration,
            seen=_SEEN[failure.phase],
            arrays=f"{recipe.name}.npz",
            values="\n".join(f"    {_plain(line)}" for line in recipe.described()) or "    none: the program fails by itself",
            later=f" from step {recipe.first} on" if recipe.first else "",
            remark=self.remark,
            needs=self.needs,
            script=f"test_{recipe.name}.py",
        )


def _constants(recipe: Recipe, folder: Path, steps: int) -> dict[str, Any]:
    failure, rule = recipe.failure, all_rules()[recipe.failure.rule]
    return {
        "PROGRAM": recipe.path_from(folder, recipe.program.script),
        "FOLDER": recipe.path_from(folder, recipe.program.folder),
        "ARGUMENTS": list(recipe.arguments),
        "SEED": failure.seed,
        "ARRAYS": f"{recipe.name}.npz",
        "ROWS": dict(recipe.rows),
        "FIRST": recipe.first,
        "STEPS": steps,
        "RULE": f"{rule.code} {rule.name}",
        "OPERATOR": failure.operator,
        "PHASE": failure.phase,
        "FILE": Path(failure.file or "").name,
        "LINE": failure.line or 0,
        "LINES": recipe.lines(),
    }


@cache
def _parts(package: str) -> tuple[str, str, str]:
    """The module `replay` without its docstring: what stands before the constants, these, and what stands after them."""
    text = (Path(__file__).parents[1] / package / "replay.py").read_text("utf-8")
    text = text[text.index('"""\n', 3) + 4 :].lstrip("\n")
    before, _, rest = text.replace("# ruff: noqa: E402\n", "").partition(_BEGIN)
    described, _, after = rest.partition(_END)
    return before, described, after


def _assigned(described: str, constants: dict[str, Any]) -> str:
    """The constants with their values; the comments between them stay."""
    lines: list[str] = []
    for line in described.splitlines():
        name = line.partition(" ")[0].partition(":")[0]
        lines.append(f"{name} = {constants[name]!a}" if name in constants else line)
    return "\n".join(lines) + "\n"


def _plain(text: str) -> str:
    """Text inside the docstring of the script: nothing in it can end the docstring."""
    return ascii(text)[1:-1].replace('"', '\\"')
