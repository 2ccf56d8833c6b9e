"""Every command with its arguments and options, from the application that parses them."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import typer.main

from docs.generators.markdown import code, page, table
from tensorproof.cli.app import app
from tensorproof.cli.shapes import parser as shapes_parser
from tensorproof.configuration import SETTINGS

_TOP = """\
# Command line

`tensorproof COMMAND --help` prints the same. What is said of a project rather than of one run can stand in its
[pyproject.toml](configuration.md), and the command line wins.

Exit codes: 0 clean, 1 findings by `--fail-on`, 2 the tool or its input is wrong, with one line on standard error.
`tensorproof --debug COMMAND ...` shows the traceback of an error."""


def pages() -> dict[str, str]:
    group = typer.main.get_command(app)
    commands: dict[str, Any] = group.commands  # type: ignore[attr-defined]
    return {"command-line.md": page(_TOP, *(line for name, command in commands.items() for line in _command(name, command)))}


def _command(name: str, command: Any) -> Iterator[str]:
    yield from ("", f"## {name}", "", inspect.cleandoc(command.help or ""), "")
    if name == "shapes":
        yield from _parsed(shapes_parser())
        return
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and "--help" not in p.opts]
    usage = " ".join([f"tensorproof {name}", *(_usage(argument) for argument in arguments), *(["[OPTIONS]"] if options else [])])
    yield from ("```text", usage, "```")
    if arguments:
        yield from ("", *table(("argument", "meaning"), ((code(_shown(a)), a.help or "") for a in arguments)))
    if options:
        rows = (_option(option, _SETTINGS if name in _CONFIGURED else {}) for option in options)
        yield from ("", *table(("option", "meaning", "default"), rows))


def _shown(argument: Any) -> str:
    return str(argument.metavar or argument.name.upper())


def _usage(argument: Any) -> str:
    return _shown(argument) if argument.required else f"[{_shown(argument)}]"


def _option(option: Any, settings: Mapping[str, str]) -> tuple[str, str, str]:
    spelled = ", ".join(option.opts)
    words = code(spelled if option.is_flag else f"{spelled} {option.metavar or _kind(option)}")
    return words, (option.help or "") + settings.get(option.opts[0], ""), _default(option)


#: The commands whose options have settings, all of them.
_CONFIGURED = ("check", "confirm", "fix")

#: A link to the setting of an option; of repeated options the setting is a table, with a name in the plural.
_SETTINGS = {
    f"--{key.removesuffix('s') if setting.kind is dict else key}": f" Setting: [`{key}`](configuration.md#{key})."
    for key, setting in SETTINGS.items()
}


def _kind(option: Any) -> str:
    return {int: "N", float: "NUMBER"}.get(option.type_descriptor.annotation, "TEXT")


def _default(option: Any) -> str:
    if option.is_flag:
        return ""
    if isinstance(option.show_default, str):
        return option.show_default
    return "" if option.default is None else code(str(option.default))


def _parsed(parser: argparse.ArgumentParser) -> Iterator[str]:
    """The command that has a parser of its own."""
    rows: list[tuple[str, str]] = []
    for action in parser._actions:
        if not action.option_strings:
            usage = f"tensorproof shapes {action.metavar}... [OPTIONS]"
            yield from (
                "```text",
                usage,
                "```",
                "",
                *table(("argument", "meaning"), [(code(f"{action.metavar}..."), action.help or "")]),
                "",
            )
        elif "--help" not in action.option_strings:
            value = str(action.metavar or "") or ("|".join(action.choices) if action.choices else "")
            rows.append((code(f"{action.option_strings[-1]} {value}".strip()), action.help or ""))
    yield from table(("option", "meaning"), rows)
    yield from ("", parser.epilog or "")
