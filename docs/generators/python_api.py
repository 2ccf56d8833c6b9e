"""The public names of the package, with signatures and docstrings."""

from __future__ import annotations

import dataclasses
import enum
import importlib.util
import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import tensorproof
from docs.generators.markdown import page
from tensorproof.compare.diffing.comparison import Comparison
from tensorproof.low_precision.plan import Plan
from tensorproof.preparing import ScanOptions
from tensorproof.repair.fixing import Fixed

_TOP = """\
# Python

What `import tensorproof` gives. Importing it loads no framework. All errors are a `tensorproof.errors.TensorproofError` with one
line of text; the [command line](command-line.md) only wires these functions."""

#: What functions give back besides a report; not names of the package itself.
_RESULTS: tuple[type, ...] = (Comparison, Fixed, Plan)


def pages() -> dict[str, str]:
    interface = _interface()
    public = {name: getattr(interface, name) for name in tensorproof.__all__ if name != "__version__"}
    functions = {name: value for name, value in public.items() if not inspect.isclass(value)}
    classes = {name: value for name, value in public.items() if inspect.isclass(value)}
    lines = [_TOP, "", "## Functions"]
    for name, function in functions.items():
        lines += ["", f"### {name}", "", *_signature(f"tensorproof.{name}", function), "", _prose(function)]
    lines += ["", "### Options of every scan", "", "Keyword arguments of the functions above that take `**scan`.", ""]
    lines += ["```text", *(f"{name}: {kind}" for name, kind in _annotations(ScanOptions).items()), "```"]
    lines += ["", _prose(ScanOptions), "", "## Results"]
    for name, cls in (*classes.items(), *((cls.__name__, cls) for cls in _RESULTS)):
        lines += ["", f"### {name}", "", *_class(cls)]
    return {"python.md": page(*lines)}


def _interface() -> ModuleType:
    """The package's own names, whatever was imported before: `tensorproof.expose` is a package, too, once something of it was."""
    found = importlib.util.spec_from_file_location("interface", tensorproof.__file__)
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def _signature(name: str, function: Any) -> Iterator[str]:
    """One parameter per line, as in the source."""
    signature = inspect.signature(function)
    yield "```text"
    yield f"{name}("
    keyword_only = False
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            yield "    *,"
        yield f"    {_plain(str(parameter))},"
    yield f"){_returned(signature)}"
    yield "```"


def _returned(signature: inspect.Signature) -> str:
    return "" if signature.return_annotation is inspect.Signature.empty else f" -> {_plain(str(signature.return_annotation))}"


def _plain(text: str) -> str:
    """An annotation as it is written; those of `from __future__ import annotations` come in quotes."""
    return re.sub(r": '(.*?)'(?= =|$)", r": \1", text).replace("~", "")


def _prose(described: Any) -> str:
    """A docstring; its paragraphs are Markdown already."""
    return inspect.cleandoc(described.__doc__ or "")


def _class(cls: type) -> Iterator[str]:
    yield _prose(cls)
    if issubclass(cls, enum.Enum):
        yield from ("", "Values: " + ", ".join(f"`{member.value}`" for member in cls) + ".")
        return
    if dataclasses.is_dataclass(cls):
        annotations = _annotations(cls)
        yield from ("", "```text", *(f"{field.name}: {annotations[field.name]}" for field in dataclasses.fields(cls)), "```")
    members = [line for name, member in vars(cls).items() if not name.startswith("_") for line in _member(name, member)]
    if members:
        yield from ("", *members)


def _annotations(cls: type) -> dict[str, str]:
    return {name: str(getattr(kind, "__forward_arg__", kind)) for name, kind in cls.__annotations__.items()}


def _member(name: str, member: Any) -> Iterator[str]:
    """A property or a method, if it says what it is."""
    function = member.fget if isinstance(member, property) else member
    if not inspect.isfunction(function) or not function.__doc__:
        return
    spelled = name if isinstance(member, property) else f"{name}({', '.join(_arguments(function))})"
    yield f"- `{spelled}`: {' '.join(_prose(function).split())}"


def _arguments(function: Any) -> list[str]:
    return [_plain(str(parameter)) for name, parameter in inspect.signature(function).parameters.items() if name != "self"]
