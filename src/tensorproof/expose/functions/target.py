"""`Target`: the function that is searched, found by its name, and what can be known of its parameters.

A method needs an object: arguments that are parameters of the class go to its constructor, the others to the method. A class
stands for what it computes when it is called (`forward` of a module, `call` of a layer).
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Literal

from tensorproof.errors import SourceError
from tensorproof.expose.imports import OBSERVED, frameworks_of

Framework = Literal["torch", "tensorflow"]
_FILE = re.compile(r"(?P<file>.+\.py):(?P<name>[\w.]+)")
#: Packages that no folder of the user's has anything to do with.
_LIBRARIES = ("torch", "tensorflow", "keras")
_TENSORPROOF = str(Path(__file__).parents[2]) + os.sep
#: What classes compute with when they are called, the first that there is.
_CALLS = ("forward", "call", "__call__")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter; `is_tensor` is None where nothing says what it is."""

    name: str
    is_required: bool
    is_tensor: bool | None
    is_positional: bool = False


@dataclass(frozen=True, slots=True)
class Target:
    """The function. `owner` is the class whose object it is a method of.

    `parts` are the names that lead to it, a module that can be imported from `folder` first; no folder
    is needed for the frameworks' own.
    """

    name: str
    framework: Framework
    function: Callable[..., Any]
    parts: tuple[str, ...]
    folder: str
    parameters: tuple[Parameter, ...]
    owner: type | None = None
    method: str = ""
    constructor: tuple[Parameter, ...] = ()
    #: Whether it takes names that its signature does not list.
    is_open: bool = False
    #: The files that its own lines are in.
    files: frozenset[str] = frozenset()

    @property
    def known(self) -> list[str]:
        """The names of all parameters."""
        return [parameter.name for parameter in (*self.constructor, *self.parameters)]

    def is_own(self, file: str) -> bool:
        """Whether lines of a file are told as the function's: its own files, and of a user's function all files beside it."""
        if file in self.files:
            return True
        beside = bool(self.folder) and file.startswith(f"{self.folder}{os.sep}")
        return beside and "site-packages" not in file and not file.startswith(_TENSORPROOF)

    def made(self, arguments: Mapping[str, Any]) -> Any:
        """The object that the method is called on."""
        assert self.owner is not None
        return self.owner(**{p.name: arguments[p.name] for p in self.constructor if p.name in arguments})

    def call(self, arguments: Mapping[str, Any]) -> Any:
        """What the function returns for these arguments."""
        if self.owner is None:
            return self._given(self.function, arguments)
        found = getattr(self.made(arguments), self.method)
        own = {parameter.name for parameter in self.constructor}
        rest = {name: value for name, value in arguments.items() if name not in own}
        return self._given(found, rest) if callable(found) else found

    def positional(self, names: Sequence[str]) -> list[str]:
        """Which of these arguments are given by their places: those that have no other way, and what stands before them."""
        order = [parameter.name for parameter in self.parameters]
        last = max((index for index, p in enumerate(self.parameters) if p.is_positional and p.name in names), default=-1)
        return order[: last + 1]

    def _given(self, function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
        first = self.positional(list(arguments))
        return function(*(arguments[name] for name in first), **{n: value for n, value in arguments.items() if n not in first})


def resolved(name: str, folder: str) -> Target:
    """The function of a dotted name, or of `file.py:name`. Modules of the user's are looked for in `folder`."""
    folder, parts = _parts(name, folder)
    if folder:
        sys.path.insert(0, folder)
    module, path = _module(name, parts)
    value, owner = _walked(name, module, path)
    if isinstance(value, type):
        method = next((call for call in _CALLS if isinstance(getattr(value, call, None), FunctionType)), None)
        if method is not None:
            owner, value, parts = value, getattr(value, method), (*parts, method)
    if owner is None and not callable(value):
        raise SourceError(name, f"this is no function, but {type(value).__name__}")
    parameters, is_open = _parameters(value, skips_self=owner is not None) if callable(value) else ((), False)
    constructor = () if owner is None else _parameters(owner, skips_self=False)[0]
    return Target(
        name,
        _framework(name, module, value),
        value,
        parts,
        folder,
        parameters,
        owner,
        parts[-1],
        constructor,
        is_open,
        frozenset(filter(None, (_file(value), _file(getattr(owner, "__init__", None))))),
    )


# -- finding it ----------------------------------------------------------------------------------------------------------


def _parts(name: str, folder: str) -> tuple[str, tuple[str, ...]]:
    """The folder that modules of the user's are looked for in, and the names that lead to the function."""
    match = _FILE.fullmatch(name)
    if match is not None:
        file = Path(folder, match["file"])
        if not file.is_file():
            raise SourceError(name, f"there is no file {match['file']}")
        return str(file.resolve().parent), (file.stem, *match["name"].split("."))
    first, *rest = name.split(".")
    if not rest or not all(part.isidentifier() for part in (first, *rest)):
        raise SourceError(name, "write the name of a function, as in torch.nn.functional.normalize or train.py:loss")
    first = "tensorflow" if first == "tf" else first
    return "" if first in _LIBRARIES else folder, (first, *rest)


def _module(name: str, parts: Sequence[str]) -> tuple[ModuleType, Sequence[str]]:
    """The innermost module of a name, imported, and the names that lead on from there."""
    module = _imported(name, parts[0])
    count = 1
    while count < len(parts) and not hasattr(module, parts[count]):
        # A package does not have its modules before they are imported.
        try:
            module = import_module(".".join(parts[: count + 1]))
        except ModuleNotFoundError as error:
            if error.name is None or not ".".join(parts).startswith(error.name):
                raise SourceError(name, f"cannot be imported: {_told(error)}") from None
            break
        except Exception as error:
            raise SourceError(name, f"cannot be imported: {_told(error)}") from None
        count += 1
    while count < len(parts) and isinstance(getattr(module, parts[count], None), ModuleType):
        module = getattr(module, parts[count])
        count += 1
    if count == len(parts):
        raise SourceError(name, "this is a module; name a function of it")
    return module, parts[count:]


def _imported(name: str, module: str) -> ModuleType:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name == module:
            raise SourceError(name, f"there is no module {module!r}") from None
        raise SourceError(name, f"cannot be imported: {_told(error)}") from None
    except (Exception, SystemExit) as error:
        raise SourceError(name, f"cannot be imported: {_told(error)}") from None


def _told(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else 'no message'}"


def _walked(name: str, module: ModuleType, path: Sequence[str]) -> tuple[Any, type | None]:
    """What the names lead to, and the class of whose objects it is a method or a property."""
    value: Any = module
    owner: type | None = None
    for part in path:
        if not hasattr(value, part):
            near = get_close_matches(part, dir(value), 1)
            holder = getattr(value, "__name__", type(value).__name__)
            raise SourceError(name, f"{holder} has no {part!r}" + (f"; there is {near[0]!r}" if near else ""))
        owner = value if isinstance(value, type) and _needs_object(value, part) else None
        value = getattr(value, part)
    return value, owner


def _needs_object(owner: type, name: str) -> bool:
    """Whether a class has it for its objects. Methods of tensors are functions of a tensor."""
    if owner.__name__ in ("Tensor", "TensorBase", "EagerTensor"):
        return False
    static = inspect.getattr_static(owner, name)
    return not isinstance(static, staticmethod | classmethod | type)


# -- what is known of it -------------------------------------------------------------------------------------------------


def _parameters(function: Any, *, skips_self: bool) -> tuple[tuple[Parameter, ...], bool]:
    """Its parameters, and whether it takes others."""
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):
        return _of_schemas(function)
    listed = list(signature.parameters.values())[1 if skips_self else 0 :]
    is_open = any(p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL) for p in listed)
    return tuple(
        Parameter(p.name, p.default is p.empty, _is_tensor(p.annotation), p.kind is p.POSITIONAL_ONLY)
        for p in listed
        if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
    ), is_open


def _is_tensor(annotation: Any) -> bool | None:
    """What an annotation says; TensorFlow's own stand for any of several types."""
    text = annotation if isinstance(annotation, str) else str(annotation)
    if "Tensor" in text:
        return True
    is_telling = annotation is not inspect.Parameter.empty and annotation is not Any and "Annotated" not in text
    return False if is_telling and "Array" not in text else None


def _of_schemas(function: Any) -> tuple[tuple[Parameter, ...], bool]:
    """The parameters of a function that PyTorch has in C++: those of the operator of its name that needs least besides tensors.

    It takes others where there is more than one.
    """
    torch = sys.modules.get("torch")
    name = str(getattr(function, "__name__", ""))
    is_torch = str(getattr(function, "__module__", "")).startswith("torch") or "torch" in repr(function)
    if torch is None or not is_torch:
        return (), True
    is_method = not isinstance(function, type(len))
    schemas: Any = torch._C
    known: list[tuple[Parameter, ...]] = []
    for schema in schemas._jit_get_schemas_for_operator(f"aten::{name}"):
        if schema.arguments and not any(a.alias_info is not None and a.alias_info.is_write for a in schema.arguments):
            known.append(tuple(_of_argument(argument, is_method) for argument in schema.arguments))
    least = min(known, key=lambda ways: sum(p.is_required and not p.is_tensor for p in ways), default=())
    return least, len(known) != 1


def _of_argument(argument: Any, is_method: bool) -> Parameter:
    is_self = argument.name == "self"
    return Parameter(
        "input" if is_self else argument.name,
        not argument.has_default_value(),
        str(argument.type) == "Tensor",
        is_self and is_method,
    )


def _file(function: Any) -> str | None:
    plain = inspect.unwrap(getattr(function, "fget", None) or function) if function is not None else None
    code = getattr(plain, "__code__", None)
    return None if code is None else str(code.co_filename)


def _framework(name: str, module: ModuleType, value: Any) -> Framework:
    """The framework that a function computes with."""
    root = module.__name__.partition(".")[0]
    if root in ("torch", "tensorflow"):
        return root
    if root == "keras":
        return _checked(name, {str(sys.modules["keras"].backend.backend())})
    file = _file(value) or getattr(module, "__file__", None)
    try:
        found = frameworks_of(Path(file)) if file else set[str]()
    except (OSError, ValueError, SyntaxError):
        found = set[str]()
    for item in () if found else getattr(value, "__globals__", {}).values():
        origin = str(getattr(item, "__name__" if isinstance(item, ModuleType) else "__module__", "")).partition(".")[0]
        found |= {origin} & OBSERVED.keys()
    return _checked(name, found)


def _checked(name: str, found: set[str]) -> Framework:
    if "torch" in found:
        return "torch"
    if "tensorflow" in found:
        return "tensorflow"
    raise SourceError(name, f"it computes with neither {' nor '.join(OBSERVED.values())}: nothing of it can be observed")
