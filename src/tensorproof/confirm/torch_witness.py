"""A witness of a PyTorch program: the failing arrays, and a standalone script that runs the user's program on them.

The script needs torch and numpy alone. It imports the user's file, as the check did, gives the module the weights that it had
then, and says which operator is the first to make something that is not finite, or which gradients are not finite.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from tensorproof.confirm.witness import SEEN_AT, npz_bytes, slug
from tensorproof.files import write_bytes, write_text
from tensorproof.findings import Finding, Witness
from tensorproof.frontends.aten import array_of

if TYPE_CHECKING:
    from tensorproof.frontends.torch_program import TorchProgram

#: Weights of a module are kept with a witness if they take no more than this many bytes.
LARGEST_STATE = 256 << 20

_SCRIPT = '''\
"""{title}

{summary}.

    program   {program_name}
    line      {line}
    node      {node_name}
    operator  {op}
    operand   {operand}

{seen}

The arrays are in {arrays}: inputs of the program, and the weights that it had.
This file needs torch and numpy, and the program itself. Run it either way:

    python {file_name}
        exit code 0: the failure happened again; exit code 1: it did not
    python -m pytest {file_name}
        passes if the failure happens again
"""

import importlib.util
import inspect
import json
import sys
import warnings
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

HERE = Path(__file__).resolve().parent
PROGRAM = {program!a}
NAME = {name!a}
ARRAYS = {arrays!a}
INPUTS = {inputs!a}
#: What the program is called with: arguments by position and by name, each an input, a number or a container of them.
CALL = {call!a}
TRAINING = {training!a}
DTYPE = {dtype!a}
#: "forward": an operator fails. "backward": the outputs are finite, gradients are not.
PHASE = {phase!a}
RULE = {rule!a}
#: Whether the failure is that the program stops: torch does not divide integers by zero.
STOPS = {stops!a}


def test_{test_name}_happens_again():
    happened, account = replay()
    assert happened, account


def replay():
    """Whether the failure happened again, and what was seen, in words."""
    module, arrays = load(), read()
    module.load_state_dict({{**module.state_dict(), **arrays["state"]}})
    inputs = arrays["inputs"]
    leaves = [p for p in module.parameters() if p.requires_grad]
    if PHASE == "backward" and not leaves:
        leaves = [x.requires_grad_() for x in inputs.values() if x.is_floating_point()]
    torch.manual_seed(0)
    args, kwargs = (built(part, inputs) for part in CALL)
    with torch.set_grad_enabled(PHASE == "backward"), FirstFailure() as first:
        try:
            with mock.patch.object(torch, "cond", chosen_branch):
                outputs = module(*args, **kwargs)
        except (RuntimeError, ZeroDivisionError) as error:
            stopped = "ZeroDivisionError" in "%s: %s" % (type(error).__name__, error)
            return STOPS and stopped, "%s: the program stops: %s" % (RULE, error)
    floating = [x for x in torch.utils._pytree.tree_leaves(outputs) if isinstance(x, torch.Tensor) and x.is_floating_point()]
    finite = all(bool(torch.isfinite(x).all()) for x in floating)
    if PHASE == "forward":
        return first.found is not None, "%s: %s" % (RULE, first.found or "every operator gave finite results")
    if not finite:
        return False, "%s: the outputs are not finite" % RULE
    gradients = torch.autograd.grad([x.sum() for x in floating if x.requires_grad], leaves, allow_unused=True)
    bad = sum(1 for g in gradients if g is not None and not bool(torch.isfinite(g).all()))
    return bad > 0, "%s: the outputs are finite; of %d gradients %d are not" % (RULE, len(gradients), bad)


def load():
    """The module, as the check loaded it."""
    path = (HERE / PROGRAM).resolve()
    if path.suffix == ".pt2":
        return torch.export.load(str(path)).module()
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location("program", path)
    program = importlib.util.module_from_spec(spec)
    sys.modules["program"] = program
    spec.loader.exec_module(program)
    found = program
    for part in NAME.split("."):
        found = getattr(found, part)
    if inspect.isclass(found) or (not isinstance(found, torch.nn.Module) and not inspect.signature(found).parameters):
        found = found()
    if not isinstance(found, torch.nn.Module):
        found = Function(found)
    found = found.train(TRAINING)
    return found if DTYPE is None else found.to(getattr(torch, DTYPE))


class Function(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args, **kwargs):
        return self.function(*args, **kwargs)


def built(part, inputs):
    """An argument from its description: a kind, and what it holds."""
    kind, held = part
    if kind == "input":
        return inputs[held]
    if kind == "dict":
        return {{key: built(item, inputs) for key, item in held.items()}}
    if kind in ("list", "tuple"):
        return (list if kind == "list" else tuple)(built(item, inputs) for item in held)
    return held


def read():
    """Tensors by name. bfloat16, which numpy does not have, is stored as its bits."""
    with np.load(HERE / ARRAYS, allow_pickle=False) as archive:
        names = json.loads(bytes(archive["names"]))
        stored = {{name: torch.from_numpy(archive["array_%d" % i]) for i, name in enumerate(names)}}
    tensors = {{"inputs": {{}}, "state": {{}}}}
    for name, dtype in INPUTS.items():
        tensor = stored.pop("input " + name)
        tensors["inputs"][name] = tensor.view(torch.bfloat16) if dtype == "bfloat16" else tensor
    for name, tensor in stored.items():
        key = name.removeprefix("state ")
        tensors["state"][key] = tensor.view(torch.bfloat16) if tensor.dtype == torch.uint16 else tensor
    return tensors


def chosen_branch(pred, true_fn, false_fn, operands=()):
    """`torch.cond` as Python runs it: torch would compile both branches, where no operator is seen."""
    return (true_fn if bool(pred) else false_fn)(*operands)


class FirstFailure(TorchDispatchMode):
    """The first operator that makes an infinity of finite operands, or NaN of operands without NaN (a mask may be -inf)."""

    found = None

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {{}}))
        given, made = tensors_of((args, kwargs)), tensors_of(result)
        is_infinite = not all(map(finite, made)) and all(map(finite, given))
        is_nan = any(map(has_nan, made)) and not any(map(has_nan, given))
        if self.found is None and (is_infinite or is_nan):
            if not str(function).startswith(("aten.full", "aten.masked_fill", "aten.new_full", "aten.empty")):
                self.found = "%s made something that is not finite" % function
        return result


def tensors_of(tree):
    return [x for x in torch.utils._pytree.tree_leaves(tree) if isinstance(x, torch.Tensor)]


def finite(tensor):
    return not tensor.is_floating_point() or bool(torch.isfinite(tensor.detach()).all())


def has_nan(tensor):
    return tensor.is_floating_point() and bool(torch.isnan(tensor.detach()).any())


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    happened, account = replay()
    print(("happened again: " if happened else "did NOT happen again: ") + account)
    sys.exit(0 if happened else 1)
'''

_SEEN = {
    "forward": "On the arrays beside this file, the operands of the operator are finite and its result is not.",
    "backward": "On the arrays beside this file, the outputs of the program are finite and gradients are not.",
}


def save(folder: Path, finding: Finding, point: Mapping[str, npt.NDArray[Any]], program: TorchProgram, notes: list[str]) -> Witness:
    """Write the files of a witness."""
    traced = program.traced
    name = slug(finding, traced.model.name)
    arrays, script = folder / f"{name}.npz", folder / f"test_{name}.py"
    inputs = {traced.model.name_of(n): traced.model.values[n].format for n in traced.model.graph.inputs}
    stored = {f"input {key}": point[key] for key in inputs if key in point}
    state = {key: array_of(tensor) for key, tensor in traced.module.state_dict().items()}
    state |= {key: array for key, array in point.items() if key in state}
    if sum(array.nbytes for array in state.values()) <= LARGEST_STATE:
        stored |= {f"state {key}": array for key, array in state.items()}
    else:
        notes.append(f"{finding.node}: the weights are too large to be kept with the witness")
    write_bytes(arrays, npz_bytes(stored))
    where = finding.location
    text = _SCRIPT.format(
        title=f"{finding.rule.code} {finding.rule.name}: an input that makes a PyTorch program fail.",
        summary=_plain(finding.rule.summary),
        program_name=_plain(traced.model.name),
        line="unknown" if where is None or where.line is None else f"{_plain(str(where.file))}:{where.line}",
        node_name=_plain(finding.node),
        op=_plain(finding.op),
        operand=f"{_plain(finding.operand)}, within [{finding.low:g}, {finding.high:g}] by the analysis",
        seen=_SEEN[finding.phase],
        program=_program_file(folder, name, program),
        name=program.name,
        arrays=arrays.name,
        inputs={key: "" if format is None else format.name for key, format in inputs.items()},
        call=_described_call(program),
        training=traced.module.training,
        dtype=program.precision,
        phase=finding.phase,
        stops=SEEN_AT.get(finding.rule.code) == "stop",
        rule=f"{finding.rule.code} {finding.rule.name}",
        file_name=script.name,
        test_name=re.sub(r"\W", "_", finding.rule.name),
    )
    write_text(script, text)
    return Witness(str(arrays), str(script))


def _program_file(folder: Path, name: str, program: TorchProgram) -> str:
    """The program as the script finds it: the user's file, relative to the script; a module that has none is exported."""
    import torch

    if program.path is not None:
        return os.path.relpath(Path(program.path).resolve(), folder.resolve())
    file = folder / f"{name}.pt2"
    temporary = file.with_name(f".{file.name}.pt2")
    folder.mkdir(parents=True, exist_ok=True)
    torch.export.save(program.traced.program, temporary)
    temporary.replace(file)
    return file.name


def _described_call(program: TorchProgram) -> tuple[Any, Any]:
    """The arguments of the program as a literal of Python: inputs by their names, containers and numbers as they are."""
    names = {id(tensor): name for name, tensor in program.traced.example.items()}

    def described(item: Any) -> tuple[str, Any]:
        if id(item) in names:
            return "input", names[id(item)]
        if isinstance(item, dict):
            return "dict", {key: described(value) for key, value in item.items()}
        if isinstance(item, list | tuple):
            return "list" if isinstance(item, list) else "tuple", [described(value) for value in item]
        return "value", item if isinstance(item, bool | int | float | str | None) else None

    args, kwargs = program.traced.call({})
    return described(args), described(kwargs)


def _plain(text: str) -> str:
    """Text inside the docstring of the script: nothing in it can end the docstring."""
    return ascii(text)[1:-1].replace('"', '\\"')
