"""Witnesses of functions that fail: the arguments as arrays, and a script that calls the function with them, by itself."""

from __future__ import annotations

import ast
import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tensorproof.expose.events import Failure
from tensorproof.files import write_bytes, write_text
from tensorproof.findings import Witness
from tensorproof.report.plain_text import interval
from tensorproof.rules import all_rules

_TITLE = '''\
"""{title}

{summary}.

    function  {function}
    line      {line}
    operator  {operator}
    operand   {operand}

{seen}
The arguments are in {arrays}:

{values}

This file needs {needs} and numpy{own}. Run it either way:

    python {script}
        exit code 1: the failure is there; 0: it is gone; 2: the function cannot be called with these arguments
    python -m pytest {script}
        passes when the failure is gone
"""

import json
import random
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import {needs}

HERE = Path(__file__).resolve().parent
'''
_SEEN = {
    "forward": "All arguments are finite, and what the function returns is not.",
    "backward": "All arguments are finite, what the function returns is, and a gradient of it by them is not.",
}
_COMMON = '''

def test_the_failure_is_gone():
    """Fails as long as the function does."""
    ended = subprocess.run([sys.executable, __file__], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def read():
    """The arguments by name."""
    with np.load(HERE / ARRAYS, allow_pickle=False) as archive:
        names = json.loads(bytes(archive["names"]))
        return {name: archive[f"array_{number}"] for number, name in enumerate(names)}


def found():
    """What the names lead to, and what has it."""
    if FOLDER:
        sys.path.insert(0, str((HERE / FOLDER).resolve()))
    owner = value = import_module(PARTS[0])
    for number, part in enumerate(PARTS[1:], 2):
        owner, value = value, getattr(value, part) if hasattr(value, part) else import_module(".".join(PARTS[:number]))
    return owner, value


def called(arguments):
    """What the function returns."""
    owner, function = found()
    if IS_METHOD:
        made = owner(**{name: value for name, value in arguments.items() if name in CONSTRUCTOR})
        function = getattr(made, PARTS[-1])
        arguments = {name: value for name, value in arguments.items() if name not in CONSTRUCTOR}
        if not callable(function):
            return function
    return function(*(arguments[name] for name in POSITIONAL), **{n: v for n, v in arguments.items() if n not in POSITIONAL})


def flat(value):
    """The parts of what a function returns."""
    if hasattr(value, "__dataclass_fields__"):
        value = [getattr(value, name) for name in value.__dataclass_fields__]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [part for item in value for part in flat(item)]
    return [value]


def main():
    """Call the function, and look at what it returns."""
    arrays = read()
    if not all(np.isfinite(array).all() for array in arrays.values()):
        print("an argument is not finite")
        sys.exit(2)
    random.seed(SEED)
    np.random.seed(SEED % 2**32)
    try:
        results, gradients = computed(arrays)
    except Exception as error:
        print(f"the function cannot be called with these arguments: {type(error).__name__}: {error}")
        sys.exit(2)
    for what, values in (("result", results), ("gradient", gradients)):
        for name, array in values.items():
            if not np.isfinite(array).all():
                print(f"the failure is there: {what} {name} is not finite: {np.asarray(array).reshape(-1)[:8]}")
                sys.exit(1)
    print("the function did not fail: all it returns is finite, and so are gradients")
    sys.exit(0)


if __name__ == "__main__":
    main()
'''
_TORCH = '''

def computed(arrays):
    """What the function returns, and the gradients of the sum of that."""
    torch.manual_seed(SEED)
    tensors = {name: torch.from_numpy(array).to(getattr(torch, FORMATS[name])) for name, array in arrays.items()}
    for name in DIFFERENTIATED:
        tensors[name].requires_grad_()
    outputs = [part for part in flat(called({**LITERALS, **tensors})) if isinstance(part, (torch.Tensor, float))]
    known = [part for part in outputs if isinstance(part, torch.Tensor) and part.requires_grad]
    if known:
        torch.autograd.backward(known, [torch.ones_like(part) for part in known])
    results = {str(number): numbers(part) for number, part in enumerate(outputs)}
    return results, {f"by {n}": numbers(t.grad) for n, t in tensors.items() if t.grad is not None}


def numbers(part):
    """A tensor as an array."""
    part = torch.as_tensor(part).detach()
    return (part.to(torch.complex128) if part.is_complex() else part.to(torch.float64)).numpy()
'''
_TENSORFLOW = '''

def computed(arrays):
    """What the function returns, and the gradients of the sum of that."""
    tensorflow.random.set_seed(SEED)
    tensorflow.config.run_functions_eagerly(True)
    tensors = {name: tensorflow.cast(tensorflow.constant(array), FORMATS[name]) for name, array in arrays.items()}
    watched = [tensors[name] for name in DIFFERENTIATED]
    with tensorflow.GradientTape() as tape:
        tape.watch(watched)
        outputs = [part for part in flat(called({**LITERALS, **tensors})) if isinstance(part, (tensorflow.Tensor, float))]
    known = [part for part in outputs if isinstance(part, tensorflow.Tensor) and part.dtype.is_floating]
    gradients = tape.gradient(known, watched) if known else []
    results = {str(number): numbers(part) for number, part in enumerate(outputs)}
    return results, {f"by {name}": numbers(part) for name, part in zip(DIFFERENTIATED, gradients) if part is not None}


def numbers(part):
    """A tensor as an array."""
    part = tensorflow.convert_to_tensor(part)
    return (part if part.dtype.is_complex else tensorflow.cast(part, "float64")).numpy()
'''
_BODIES = {"torch": _TORCH, "tensorflow": _TENSORFLOW}


@dataclass(frozen=True, slots=True)
class Calling:
    """How a function is called, as the event `arranged` tells it."""

    function: str
    framework: str
    parts: tuple[str, ...]
    folder: str
    constructor: tuple[str, ...]
    is_method: bool
    positional: tuple[str, ...]
    literals: Mapping[str, Any]
    formats: Mapping[str, str]
    differentiated: tuple[str, ...]
    guesses: tuple[str, ...]
    words: Mapping[str, str]
    sources: Mapping[str, str]

    @classmethod
    def of(cls, function: str, event: Mapping[str, Any]) -> Calling:
        """What an event tells of a function."""
        literals = {name: ast.literal_eval(value) for name, value in event["literals"].items()}
        lists = {name: tuple(event[name]) for name in ("parts", "constructor", "positional", "differentiated", "guesses")}
        others = {name: event[name] for name in ("framework", "folder", "is_method", "formats", "words", "sources")}
        return cls(function=function, literals=literals, **lists, **others)


def write(calling: Calling, failure: Failure, described: list[str], arrays: bytes, folder: Path) -> Witness:
    """Write the arrays and the script."""
    place = [calling.function, failure.rule, failure.operator, failure.phase, Path(failure.file or "").name, failure.line]
    digest = hashlib.sha256(repr([*place, failure.column]).encode()).hexdigest()[:8]
    slug = re.sub(r"[^A-Za-z0-9]+", "_", calling.function).strip("_")[-40:]
    name = f"{failure.rule}_{slug}_{digest}"
    witness = Witness(str(folder / f"{name}.npz"), str(folder / f"test_{name}.py"))
    write_bytes(witness.arrays, arrays)
    write_text(witness.script, _text(calling, failure, described, name, folder))
    return witness


def _text(calling: Calling, failure: Failure, described: list[str], name: str, folder: Path) -> str:
    rule = all_rules()[failure.rule]
    prefix = "aten." if calling.framework == "torch" else ""
    title = _TITLE.format(
        title=f"{rule.code} {rule.name}: arguments that make a function fail.",
        summary=_plain(rule.summary),
        function=_plain(calling.function),
        line=_plain(f"{Path(failure.file).name}:{failure.line}" if failure.file else "not of Python"),
        operator=_plain(f"{prefix}{failure.operator}"),
        operand=_plain(f"{failure.operand} in {interval(failure.low, failure.high)}"),
        seen=_SEEN[failure.phase],
        arrays=f"{name}.npz",
        values="\n".join(f"    {_plain(line)}" for line in described),
        needs=calling.framework,
        own="" if calling.parts[0] == calling.framework else ", and the function itself",
        script=f"test_{name}.py",
    )
    constants = {
        "PARTS": list(calling.parts),
        "FOLDER": os.path.relpath(calling.folder, folder.resolve()) if calling.folder else "",
        "IS_METHOD": calling.is_method,
        "CONSTRUCTOR": list(calling.constructor),
        "POSITIONAL": list(calling.positional),
        "LITERALS": dict(calling.literals),
        "FORMATS": dict(calling.formats),
        "DIFFERENTIATED": list(calling.differentiated),
        "ARRAYS": f"{name}.npz",
        "SEED": failure.seed,
    }
    assigned = "".join(f"{key} = {value!a}\n" for key, value in constants.items())
    return title + assigned + _BODIES[calling.framework] + _COMMON


def _plain(text: str) -> str:
    """Text inside the docstring of the script: nothing in it can end the docstring."""
    return ascii(text)[1:-1].replace('"', '\\"')
