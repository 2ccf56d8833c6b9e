"""A program of Python as the user names it: `module.py:name`, or an object of a running program; and whose framework's it is.

Code runs here, and only here, because the user named it: the module file is imported, and its function `tensorproof_inputs` is
called for example inputs. Which framework a program belongs to is told by what it imported itself: no framework is imported to
find out.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.abc
import importlib.util
import inspect
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from tensorproof.errors import ModelError
from tensorproof.frontends.input_declarations import InputDeclaration, declarations_in
from tensorproof.frontends.user_frames import described_failure

#: A function of this name in the user's file gives example inputs.
INPUTS_FUNCTION = "tensorproof_inputs"

Framework = Literal["torch", "keras", "tensorflow", "jax"]
_FRAMEWORKS: tuple[Framework, ...] = ("keras", "tensorflow", "jax", "torch")


@dataclass(frozen=True, slots=True)
class UserProgram:
    """What the user named. `example` is what the file itself gives as example inputs, None if it gives none."""

    found: Any
    name: str
    path: Path | None = None
    declared: Sequence[InputDeclaration] = ()
    example: Any = None

    @property
    def label(self) -> str:
        """The program as reports call it."""
        return self.name if self.path is None else f"{self.path}:{self.name}"


def split_name(text: str) -> tuple[Path, str] | None:
    """`module.py:name` as the file and the name; None if it is not of that form."""
    file, colon, name = text.rpartition(":")
    if colon and file.endswith(".py") and name.replace(".", "").isidentifier():
        return Path(file), name
    return None


def find_program(model: object, *, source: bytes | None = None, example: Any = None) -> UserProgram:
    """The object that `module.py:name` names, or a live object as it is; `source` stands for the content of the file.

    The file's own example inputs are asked for only if no `example` is given.
    """
    named = split_name(str(model)) if isinstance(model, str | Path) else None
    if named is None:
        return UserProgram(model, getattr(model, "__name__", type(model).__name__), example=example)
    path, name = named
    if not path.is_file():
        raise ModelError(f"{path}: no such file")
    module = imported(path, source)
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise ModelError(f"{path}: has no {name!r}; it has {_offered(module) or 'no class or function of its own'}")
        found = getattr(found, part)
    declared = declarations_in(path)
    if example is None and hasattr(module, INPUTS_FUNCTION):
        example = called(getattr(module, INPUTS_FUNCTION), INPUTS_FUNCTION)
    return UserProgram(found, name, path, declared, example)


def built(program: UserProgram) -> UserProgram:
    """What a function without parameters builds, under its name; any other program as it is."""
    found = program.found
    if inspect.isfunction(found) and not inspect.signature(found).parameters:
        return replace(program, found=called(found, program.name))
    return program


# -- the user's file --------------------------------------------------------------------------------------------------


def module_name(path: Path) -> str:
    """The name that the user's file has among the modules of Python."""
    return f"tensorproof_program_{path.stem}"


class _GivenSource(importlib.abc.SourceLoader):
    """Loads a file from a content that is given, as if it were on the disk."""

    def __init__(self, path: Path, source: bytes) -> None:
        self._path = path
        self._source = source

    def get_filename(self, fullname: str) -> str:
        return str(self._path)

    def get_data(self, path: str) -> bytes:
        if path != str(self._path):
            raise OSError(f"{path}: only {self._path} is given")
        return self._source


def imported(path: Path, source: bytes | None = None) -> Any:
    """The user's file as a module, its folder importable as it is when Python runs the file; `source` stands for its content."""
    path = path.resolve()
    name = module_name(path)
    spec = importlib.util.spec_from_file_location(name, path, loader=None if source is None else _GivenSource(path, source))
    if spec is None or spec.loader is None:
        raise ModelError(f"{path}: is no Python file")
    module = importlib.util.module_from_spec(spec)
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    sys.modules[name] = module
    try:
        with speaking_aside():
            spec.loader.exec_module(module)
    except SyntaxError as error:
        raise ModelError(f"{error.filename or path}:{error.lineno or 1}: not Python ({error.msg})") from None
    except (Exception, SystemExit) as error:
        raise ModelError(described_failure(path.name, "cannot be imported", error)) from None
    return module


@contextlib.contextmanager
def speaking_aside() -> Generator[None]:
    """What the user's code prints goes to standard error: standard output is the report's."""
    with contextlib.redirect_stdout(sys.stderr):
        yield


def called(function: Callable[[], Any], name: str) -> Any:
    """What a function of the user's without parameters gives."""
    try:
        with speaking_aside():
            return function()
    except Exception as error:
        raise ModelError(described_failure(name, "fails", error)) from None


def _offered(module: Any) -> str:
    own = [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__ and callable(value)
    ]
    return ", ".join(sorted(own)[:8])


# -- whose it is ------------------------------------------------------------------------------------------------------


#: The classes whose instances and subclasses are models, by the modules that have them.
_MODELS: tuple[tuple[Framework, str, str], ...] = (
    ("keras", "keras", "Model"),
    ("torch", "torch.nn", "Module"),
    ("tensorflow", "tensorflow", "Module"),
)


def framework_of(program: UserProgram) -> Framework:
    """The framework that a program is written in: by its class, its example, what its function uses, and what its file imports.

    PyTorch's where nothing says it.
    """
    found = program.found
    whole = found if isinstance(found, type) else type(found)
    for framework, module, name in _MODELS:
        base = getattr(sys.modules.get(module), name, None)
        if isinstance(base, type) and issubclass(whole, base):
            return framework
    owners: list[Framework | None] = [owner_of(whole), *(owner_of(type(leaf)) for leaf in _leaves(program.example))]
    for owner in owners:
        if owner is not None:
            return owner
    function = _plain_function(found)
    code, around = getattr(function, "__code__", None), getattr(function, "__globals__", {})
    if code is not None:
        used: set[Framework | None] = {owner_of(around[name]) for name in _names_in(code) if name in around}
        defined: set[Framework | None] = {owner_of(value) for value in list(around.values())}
        for several in (used, defined):
            chosen: Framework | None = next((framework for framework in _FRAMEWORKS if framework in several), None)
            if chosen is not None:
                return chosen
    return "torch"


def owner_of(value: Any) -> Framework | None:
    """The framework that a module, class, function or object of the user's file comes from."""
    name = value.__name__ if inspect.ismodule(value) else getattr(value, "__module__", None) or type(value).__module__
    root = str(name).partition(".")[0]
    root = {"jaxlib": "jax", "flax": "jax", "optax": "jax", "haiku": "jax", "equinox": "jax", "tf_keras": "keras"}.get(root, root)
    found: Framework | None = next((framework for framework in _FRAMEWORKS if framework == root), None)
    return found


def _plain_function(found: Any) -> Any:
    """The function of Python behind wrappers, partial applications, methods and objects that are called."""
    while True:
        if isinstance(found, functools.partial):
            found = found.func
        elif inspect.ismethod(found):
            found = found.__func__
        elif hasattr(found, "__wrapped__"):
            found = found.__wrapped__
        elif not inspect.isroutine(found) and not isinstance(found, type) and callable(found):
            call = type(found).__call__
            if not inspect.isfunction(call):
                return found
            found = call
        else:
            return found


def _names_in(code: Any) -> Iterator[str]:
    """The names that a function uses, and those of the functions in it."""
    yield from code.co_names
    for constant in code.co_consts:
        if inspect.iscode(constant):
            yield from _names_in(constant)


def _leaves(example: Any) -> Iterator[Any]:
    if isinstance(example, Mapping):
        for item in example.values():
            yield from _leaves(item)
    elif isinstance(example, list | tuple):
        for item in example:
            yield from _leaves(item)
    elif example is not None:
        yield example
