"""Replay bundles: one failing step in a folder, to be run again elsewhere. Nothing in it is pickled.

    state.safetensors   parameters and buffers as they were before the step
    batch.safetensors   the tensors among the arguments, the gradients of the outputs, the states of the random generators
    bundle.json         everything else: how the tensors are nested, settings, versions, findings
    replay.py           runs the step again, given the module as `module.py:name`

`bundle.json` is written last: a folder that has it is complete. A bundle holds the last call of the module in the step, and the
gradients that its outputs were given. The loss is not in it: a failure there is named in `bundle.json`, but is not repeated.
"""

from __future__ import annotations

import importlib.util
import json
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import tensorproof
from tensorproof.errors import ModelError, TensorproofError
from tensorproof.files import write_bytes, write_text
from tensorproof.findings import Finding
from tensorproof.observe.eager import Observation
from tensorproof.observe.matching import node_name
from tensorproof.observe.places import Mark
from tensorproof.observe.tape import ModuleCall, Setting, Tape

if TYPE_CHECKING:
    import torch

BUNDLE_VERSION = 1

_SCRIPT = '''\
"""Runs a failing training step again, and says which operator fails.

    python replay.py module.py:name

`name` is the torch.nn.Module, or a class or function that makes it when it is called without arguments. Its parameters and buffers
are replaced by those of the bundle. Exit code 0: the failure happened again; 1: it did not; 2: the bundle or the module is wrong.
Needs tensorproof with the extra `torch`.
"""

import sys
from pathlib import Path

from tensorproof.observe.bundle import main

sys.exit(main(Path(__file__).resolve().parent, sys.argv[1:]))
'''


def save(
    folder: Path, root: torch.nn.Module, call: ModuleCall, findings: Sequence[Finding], *, step: int, seed: int | None
) -> bool:
    """Write a bundle; whether its replay shows one of the findings, which it does not if they are outside of the module.

    Raises TensorproofError if the arguments hold something that is neither a tensor nor plain data.
    """
    import torch

    tensors: dict[str, torch.Tensor] = {f"random/{device}": state for device, state in call.random.items()}
    tensors.update({f"gradient/{number}": gradient for number, gradient in call.gradients.items()})
    prefix = f"{call.path}." if call.path else ""
    before = {prefix + name: buffer for name, buffer in call.buffers.items()}
    state: dict[str, torch.Tensor] = {**dict(root.named_parameters()), **dict(root.named_buffers()), **before}
    described: dict[str, Any] = {
        "bundle_version": BUNDLE_VERSION,
        "versions": {"tensorproof": tensorproof.__version__, "torch": str(torch.__version__), "python": platform.python_version()},
        "module": type(root).__qualname__,
        "called": call.path,
        "step": step,
        "seed": seed,
        "training": [name for name, part in root.named_modules() if part.training],
        "differentiates": call.setting.differentiates,
        "autocast": {kind: str(dtype).removeprefix("torch.") for kind, dtype in call.setting.autocast.items()},
        "args": _encoded(call.args, tensors),
        "kwargs": _encoded(call.kwargs, tensors),
        "findings": [finding.to_json() for finding in findings],
    }
    described["is_repeated"] = _is_among(described["findings"], Tape([call]).replay(root))
    write_bytes(folder / "state.safetensors", _safetensors(state))
    write_bytes(folder / "batch.safetensors", _safetensors(tensors))
    write_text(folder / "replay.py", _SCRIPT)
    write_text(folder / "bundle.json", json.dumps(described, indent=2) + "\n")
    return described["is_repeated"]


def load(folder: Path, root: torch.nn.Module) -> tuple[ModuleCall, list[dict[str, Any]]]:
    """Put the state of a bundle into the module; the call to replay, and the findings that it led to."""
    import torch

    described, tensors = _read(folder), _read_tensors(folder / "batch.safetensors")
    _load_state(root, _read_tensors(folder / "state.safetensors"))
    try:
        training = set(described["training"])
        for name, part in root.named_modules():
            part.training = name in training
        module = root.get_submodule(described["called"])
        gradients = {int(n.partition("/")[2]): t for n, t in tensors.items() if n.startswith("gradient/")}
        call = ModuleCall(
            module,
            described["called"],
            _decoded(described["args"], tensors),
            _decoded(described["kwargs"], tensors),
            {name: buffer.detach().clone() for name, buffer in module.named_buffers()},
            {name.partition("/")[2]: state for name, state in tensors.items() if name.startswith("random/")},
            Setting(described["differentiates"], {kind: getattr(torch, name) for kind, name in described["autocast"].items()}),
            Mark(None, 0, None),
            gradients=gradients,
        )
        return call, described["findings"]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelError(f"{folder}: this is no complete bundle: {error}") from None


def replay(folder: str | Path, module: torch.nn.Module) -> tuple[Observation, bool]:
    """Run the step of a bundle again: what was observed, and whether an operator of its findings failed again."""
    call, findings = load(Path(folder), module)
    observation = Tape([call]).replay(module)
    return observation, _is_among(findings, observation)


def _is_among(findings: Sequence[dict[str, Any]], observation: Observation) -> bool:
    """Whether the operator of a finding failed."""
    seen = {(failure.phase, node_name(failure)) for failure in (*observation.forward, *observation.backward)}
    return any((finding["phase"], finding["node"]) in seen for finding in findings)


def main(folder: Path, arguments: Sequence[str]) -> int:
    """The program of `replay.py`: exit code 0 if the failure happened again, 1 if not, 2 if something is wrong."""
    try:
        if len(arguments) != 1:
            raise ModelError("name the module: python replay.py module.py:name")
        observation, happened = replay(folder, load_module(arguments[0]))
    except TensorproofError as error:
        print(f"replay: {error}", file=sys.stderr)
        return 2
    for failure in (*observation.forward, *observation.backward):
        place = failure.place
        print(f"{failure.phase}: {node_name(failure)} at {place.file}:{place.line}")
    print("the failure happened again" if happened else "the failure did NOT happen again")
    return 0 if happened else 1


def load_module(reference: str) -> torch.nn.Module:
    """The module that `file.py:name` names, or that the class or function of that name makes."""
    import torch

    file, _, name = reference.rpartition(":")
    path = Path(file)
    spec = importlib.util.spec_from_file_location(path.stem, path) if path.is_file() else None
    if spec is None or spec.loader is None or not name:
        raise ModelError(f"{reference}: give a Python file and the name of the module in it, as module.py:name")
    source = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(source)
        found = getattr(source, name)
        made = found if isinstance(found, torch.nn.Module) else found()
    except Exception as error:  # the user's code: it can raise anything
        raise ModelError(f"{reference}: {type(error).__name__}: {error}") from None
    if not isinstance(made, torch.nn.Module):
        raise ModelError(f"{reference}: this is no torch.nn.Module but {type(made).__name__}")
    return made


def _load_state(root: torch.nn.Module, state: dict[str, torch.Tensor]) -> None:
    import torch

    own = {**dict(root.named_parameters()), **dict(root.named_buffers())}
    if own.keys() != state.keys():
        different = sorted(own.keys() ^ state.keys())
        raise ModelError(f"the module is not the one of the bundle: {len(different)} names differ, such as {different[0]!r}")
    with torch.no_grad():
        for name, tensor in own.items():
            if tensor.shape != state[name].shape or tensor.dtype != state[name].dtype:
                raise ModelError(f"the module is not the one of the bundle: {name!r} has another shape or type")
            tensor.copy_(state[name])


def _encoded(value: Any, tensors: dict[str, torch.Tensor]) -> Any:
    """A value as JSON: every container is an object that says what it is, tensors go to their own file."""
    import torch

    if isinstance(value, torch.Tensor):
        name = f"tensor/{len(tensors)}"
        tensors[name] = value
        return {"tensor": name, "requires_grad": value.requires_grad}
    if isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [_encoded(item, tensors) for item in cast("Sequence[Any]", value)]}
    if isinstance(value, dict) and all(isinstance(key, str) for key in cast("dict[Any, Any]", value)):
        return {"dict": {key: _encoded(item, tensors) for key, item in cast("dict[str, Any]", value).items()}}
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return {"float": value.hex()}
    raise ModelError(
        f"an argument is a {type(value).__name__}: only tensors, numbers, text, tuples, lists and dictionaries are kept"
    )


def _decoded(value: Any, tensors: dict[str, torch.Tensor]) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, content), *rest) = cast("dict[str, Any]", value).items()
    if kind == "tensor":
        tensor = tensors[content]
        return tensor.requires_grad_() if rest and rest[0][1] else tensor
    if kind == "float":
        return float.fromhex(content)
    if kind == "dict":
        return {key: _decoded(item, tensors) for key, item in content.items()}
    items = [_decoded(item, tensors) for item in content]
    return tuple(items) if kind == "tuple" else items


def _safetensors(tensors: dict[str, torch.Tensor]) -> bytes:
    """The file format of the `safetensors` package, which shares no memory between names and keeps no views."""
    from safetensors.torch import save as to_bytes

    try:
        return to_bytes({name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()})
    except (KeyError, ValueError, RuntimeError, NotImplementedError) as error:
        raise ModelError(f"a tensor cannot be kept: {error}") from None


def _read_tensors(path: Path) -> dict[str, torch.Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load as from_bytes

    try:
        return from_bytes(path.read_bytes())
    except (OSError, SafetensorError, ValueError) as error:
        raise ModelError(f"{path}: this file cannot be read: {error}") from None


def _read(folder: Path) -> dict[str, Any]:
    path = folder / "bundle.json"
    try:
        described = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: this file cannot be read: {error}") from None
    if not isinstance(described, dict) or described.get("bundle_version") != BUNDLE_VERSION:
        raise ModelError(f"{path}: this is no bundle of version {BUNDLE_VERSION}")
    return cast("dict[str, Any]", described)
