"""`[tool.tensorproof]` as text: every setting with its meaning, all of them commented out.

A line that begins with `#` and a letter is a setting: without the `#` it holds. All others are explanations.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from tensorproof.configuration import SETTINGS
from tensorproof.errors import ConfigurationError
from tensorproof.project_files.found_models import FoundModel
from tensorproof.report.plain_text import count, number, one_line

HEADER = "[tool.tensorproof]"
_TABLE = ("tool", "tensorproof")

#: A link of Markdown, of which a comment keeps the text.
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


def configuration_text(models: Sequence[FoundModel], *, further: int = 0) -> str:
    """The section with every setting. `further` counts models that were found and not read."""
    lines = [HEADER, "# Settings of tensorproof; the command line wins. Take away a `#` to change one.", ""]
    lines += _ranges(models)
    if further:
        lines.append(f"# There are {count(further, 'more model')}.")
    for key, setting in SETTINGS.items():
        if key != "ranges":
            lines += ["", f"# {_LINK.sub(lambda link: link[1], setting.meaning)}", f"#{key} = {setting.example}"]
    return "\n".join(lines) + "\n"


def with_configuration(existing: str, section: str, *, force: bool, where: str) -> str:
    """The text of a pyproject.toml with the section at its end; an old one is replaced with `force`.

    Nothing else of the file changes: it is read again, and compared.
    """
    before = _parsed(existing, where)
    tools = before.get("tool", {})
    if not isinstance(tools, dict):
        raise ConfigurationError(f"{where}: `tool` must be a table")
    kept = existing
    if "tensorproof" in tools:
        if not force:
            raise ConfigurationError(f"{where}: has {HEADER} already; --force replaces it")
        kept = "".join(_without_section(existing.splitlines(keepends=True)))
    elif existing.strip() and not existing.endswith("\n"):
        kept += "\n"
    joined = f"{kept.rstrip()}\n\n{section}" if kept.strip() else section
    after = _parsed(joined, where)
    if _others(after) != _others(before):
        raise ConfigurationError(f"{where}: {HEADER} is written in a way that is not replaced safely; take it out by hand")
    return joined


def _ranges(models: Sequence[FoundModel]) -> Iterator[str]:
    yield '# What inputs may be: [low, high], or a domain such as "one-hot"; `*` stands for all inputs. Without it, numbers'
    yield "# are taken from [-100, 100]. A name that a model does not have is an error, so name inputs that all of them share."
    for model in models:
        if model.problem is not None:
            yield f"# {one_line(model.path)} cannot be read: {one_line(model.problem, 200)}"
            continue
        inputs = ", ".join(f"{one_line(name)}{_shape(model.shapes[name])}" for name in model.inputs)
        yield f"# {one_line(model.path)} has the inputs {inputs}" if inputs else f"# {one_line(model.path)} has no inputs"
    shared = _shared([model for model in models if model.inputs])
    listed = ", ".join(f"{_key(name)} = [{_end(low)}, {_end(high)}]" for name, (low, high) in shared.items())
    yield f"#ranges = {{ {listed} }}" if listed else f"#ranges = {SETTINGS['ranges'].example}"


def _shared(models: Sequence[FoundModel]) -> dict[str, tuple[float, float]]:
    """The inputs that all models have, with a range that holds what each of them would take by default."""
    names = [name for name in models[0].inputs if all(name in model.inputs for model in models)] if models else []
    ends = {name: [model.inputs[name] for model in models] for name in names if _is_text(name)}
    return {name: (min(low for low, _ in found), max(high for _, high in found)) for name, found in ends.items()}


def _shape(shape: tuple[int, ...] | None) -> str:
    return "" if shape is None else f" [{', '.join(map(str, shape))}]"


def _end(value: float) -> str:
    """A number of TOML: `1e+39` and `inf` are, too."""
    return number(value)


def _is_text(name: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in name)


def _key(name: str) -> str:
    """A quoted key (TOML 1.0, "Keys"); characters that are not visible are escaped."""
    return '"' + "".join(_escaped(character) for character in name) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    return character if character.isprintable() else f"\\U{ord(character):08x}"


def _parsed(text: str, where: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except ValueError as error:
        raise ConfigurationError(f"{where}: not TOML ({error})") from None


def _others(document: Mapping[str, Any]) -> dict[str, Any]:
    """Everything but the section; a `tool` without anything else in it counts as none."""
    tools = {key: value for key, value in cast("Mapping[str, Any]", document.get("tool", {})).items() if key != "tensorproof"}
    rest = {key: value for key, value in document.items() if key != "tool"}
    return rest | ({"tool": tools} if tools else {})


def _without_section(lines: Iterable[str]) -> Iterator[str]:
    """The lines but those from a header of the section, or of a table in it, to the next header of another one."""
    inside = False
    for line in lines:
        header = line.strip()
        if header.startswith("["):
            names = header.lstrip("[").partition("]")[0].split(".")
            inside = tuple(name.strip().strip("\"'") for name in names[:2]) == _TABLE
        if not inside:
            yield line
