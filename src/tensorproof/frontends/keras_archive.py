"""What a file of Keras holds, looked at before Keras sees it: a file is a list of classes to build, and some classes run code.

Only classes and functions of Keras itself are let through, and none of those that carry code, load other models or read files that
the archive names. Nothing is imported because a file says so: a name has to be one of a package that is loaded already.
"""

from __future__ import annotations

import json
import re
import sys
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from tensorproof.errors import ModelError
from tensorproof.frontends.keras_weights import DAMAGED, first_line, opened, stored_in_hdf5

#: The members of an archive: what Keras writes. Vocabularies of text layers stand in `assets`.
_MEMBER = re.compile(r"metadata\.json|config\.json|model\.weights\.h5|assets/(?:[\w. -]+/)*[\w. -]*")
_WEIGHTS = "model.weights.h5"

#: Keras writes members as they are; one that is larger than this and much larger than what is stored is a bomb.
_LARGEST_JSON = 64 << 20
_SMALLEST_BOMB = 64 << 20
_LARGEST_EXPANSION = 100
_MOST_MEMBERS = 10_000
_DEEPEST = 200

#: Modules whose classes a file may name: the public ones, and those that Keras writes for operations and functional models.
_MODULES = re.compile(
    r"keras(?:\.(?:layers|models|initializers|regularizers|constraints|dtype_policies|losses|metrics|optimizers"
    r"|optimizers\.schedules|quantizers|random|src\.(?:ops|models|layers|random)(?:\.\w+)*))?"
)

#: Modules whose functions a file may name.
_FUNCTIONS = ("keras.activations", "keras.losses", "keras.metrics", "keras.regularizers", "keras.initializers", "keras.ops")

#: What a file may build: subclasses of these alone.
_BASES = (
    "Layer",
    "Operation",
    "Initializer",
    "Regularizer",
    "Loss",
    "Metric",
    "Optimizer",
    "Quantizer",
    "DTypePolicy",
    "constraints.Constraint",
    "optimizers.schedules.LearningRateSchedule",
    "random.SeedGenerator",
    "dtype_policies.DTypePolicyMap",
)

#: Layers that carry code, or load models of other kinds.
_RUN_CODE = frozenset({"Lambda", "TFSMLayer", "TorchModuleWrapper", "JaxLayer", "FlaxLayer"})

#: Values that are written as objects; each is plain data.
_DATA = frozenset({"__keras_tensor__", "__tensor__", "__numpy__", "__bytes__", "__ellipsis__", "__slice__"})

#: What a description of the training says about the loss.
_LOSS = ("loss", "loss_weights")

#: Arguments whose text is the name of a file.
_PATHS = frozenset({"vocabulary", "idf_weights", "filepath", "file_path", "filename", "path", "directory", "origin", "url"})


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """What was seen in a file that may be loaded: how many weights it holds, and the description of its loss.

    `loss` is None where the model was not compiled with one, or where it may not be loaded: `objection` says why.
    """

    weights: int
    loss: Mapping[str, Any] | None = None
    objection: str | None = None


def checked_file(path: Path, *, trust: bool) -> CheckedFile:
    """Refuse a file of Keras that is damaged or, without trust, names anything but classes of Keras; raises `ModelError`.

    How the model was trained is looked at apart: a loss that may not be loaded is left out.
    """
    if not path.is_file():
        raise ModelError(f"{path}: is a folder, not a file of Keras" if path.is_dir() else f"{path}: no such file")
    if path.suffix.lower() != ".keras":
        config, weights = _old(path)
        if not trust:
            _check(path, config, is_old=True)
        return CheckedFile(weights, objection="files before version 3 describe it in words of their own")
    config, weights = _archived(path)
    training = config.pop("compile_config", None)
    loss = {key: training[key] for key in _LOSS if training.get(key) is not None} if isinstance(training, dict) else {}
    if not trust:
        _check(path, config, is_old=False)
        objection = next(_objections(path, loss, is_old=False), None)
        if objection is not None:
            return CheckedFile(weights, objection=f"it {objection}")
    return CheckedFile(weights, loss if "loss" in loss else None)


# -- the file ---------------------------------------------------------------------------------------------------------


def _archived(path: Path) -> tuple[dict[str, Any], int]:
    """The description of the model in an archive, and the number of its weights."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            _check_members(path, members)
            names = {member.filename for member in members}
            for name in ("metadata.json", "config.json", _WEIGHTS):
                if name not in names:
                    raise ModelError(f"{path}: is no model of Keras 3, it has no {name}")
            _check_version(path, _json(path, archive, "metadata.json"))
            config = _json(path, archive, "config.json")
            with archive.open(_WEIGHTS) as member, opened(path, member) as file:
                return config, stored_in_hdf5(path, file)
    except zipfile.BadZipFile as error:
        raise ModelError(f"{path}: is no archive of Keras, or a damaged one ({first_line(error)})") from None
    except (*DAMAGED, EOFError, zlib.error) as error:
        raise ModelError(f"{path}: cannot be read ({first_line(error)})") from None


def _check_members(path: Path, members: list[zipfile.ZipInfo]) -> None:
    if len(members) > _MOST_MEMBERS:
        raise ModelError(f"{path}: holds {len(members)} files, more than a model has")
    seen: set[str] = set()
    for member in members:
        name = member.filename
        if _MEMBER.fullmatch(name) is None or ".." in name.split("/"):
            raise ModelError(f"{path}: holds {name!r}, which is no part of a model")
        if name in seen:
            raise ModelError(f"{path}: holds {name!r} twice")
        seen.add(name)
        if member.file_size > max(_SMALLEST_BOMB, _LARGEST_EXPANSION * member.compress_size):
            raise ModelError(f"{path}: {name!r} would grow from {member.compress_size} to {member.file_size} bytes")
    # Members may share what is stored: all of them together are compared with the file itself.
    size, stored = sum(member.file_size for member in members), path.stat().st_size
    if size > max(_SMALLEST_BOMB, _LARGEST_EXPANSION * stored):
        raise ModelError(f"{path}: would grow from {stored} to {size} bytes")


def _json(path: Path, archive: zipfile.ZipFile, name: str) -> dict[str, Any]:
    if archive.getinfo(name).file_size > _LARGEST_JSON:
        raise ModelError(f"{path}: its {name} is larger than a description of a model is")
    try:
        found = json.loads(archive.read(name))
    except (ValueError, RecursionError):
        raise ModelError(f"{path}: its {name} is no JSON") from None
    if not isinstance(found, dict):
        raise ModelError(f"{path}: its {name} describes nothing")
    return cast("dict[str, Any]", found)


def _check_version(path: Path, metadata: Mapping[str, Any]) -> None:
    version = metadata.get("keras_version")
    if not isinstance(version, str) or not re.match(r"\d+\.", version):
        raise ModelError(f"{path}: does not say which version of Keras wrote it")
    if not version.startswith("3."):
        raise ModelError(f"{path}: was written by Keras {version[:20]}; files of version 3 are read")


def _old(path: Path) -> tuple[dict[str, Any], int]:
    """The same of a file of the format before version 3."""
    with opened(path, str(path)) as file:
        try:
            text: Any = file.attrs.get("model_config")
        except DAMAGED as error:
            raise ModelError(f"{path}: cannot be read ({first_line(error)})") from None
        if text is None:
            raise ModelError(f"{path}: holds weights without a model; save the model itself (model.save)")
        weights = stored_in_hdf5(path, file)
    try:
        found = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        raise ModelError(f"{path}: the description of its model is no JSON") from None
    if not isinstance(found, dict):
        raise ModelError(f"{path}: describes no model")
    return cast("dict[str, Any]", found), weights


# -- what it names ----------------------------------------------------------------------------------------------------


def _check(path: Path, config: Mapping[str, Any], *, is_old: bool) -> None:
    for reason in _objections(path, config, is_old=is_old):
        raise ModelError(f"{path}: {reason}; files that may run code are not loaded (trust allows it)")


def _objections(path: Path, config: Mapping[str, Any], *, is_old: bool) -> Iterator[str]:
    """Why a description is not built."""
    for item in _walk(path, config, 0):
        if isinstance(item, str):
            if "://" in item:
                yield f"names the address {item[:60]!r}"
            continue
        for key in _PATHS & item.keys():
            if isinstance(item[key], str):
                yield f"names a file to read ({key} = {item[key][:60]!r})"
        if "class_name" in item or "registered_name" in item:
            reason = _objection(item, is_old)
            if reason is not None:
                yield reason
        elif "module" in item and "config" in item:
            yield "describes an object without a class"


def _walk(path: Path, item: Any, depth: int) -> Iterator[dict[str, Any] | str]:
    """All dictionaries and texts in a description."""
    if depth > _DEEPEST:
        raise ModelError(f"{path}: its description is nested deeper than a model is")
    if isinstance(item, dict):
        found = cast("dict[str, Any]", item)
        yield found
        for value in found.values():
            yield from _walk(path, value, depth + 1)
    elif isinstance(item, list):
        for value in cast("list[Any]", item):
            yield from _walk(path, value, depth + 1)
    elif isinstance(item, str):
        yield item


def _objection(item: Mapping[str, Any], is_old: bool) -> str | None:
    """Why an object is not built; None if nothing is against it."""
    name, module, registered = item.get("class_name"), item.get("module"), item.get("registered_name")
    if not isinstance(name, str):
        return "names a class that is no text"
    if name in _DATA:
        return None
    if name.startswith("__"):
        return f"holds {name}, which is code"
    if name in _RUN_CODE:
        return f"has a {name} layer, which runs code of its own"
    if name == "function":
        return _objection_to_function(item)
    if registered not in (None, name):
        return f"names the custom object {str(registered)[:60]!r}"
    if module is None and is_old:
        is_known = name == _OLD_MODEL or any(_is_allowed(_public(f"{place}.{name}")) for place in _OLD_PLACES)
        return None if is_known else f"names {name[:60]!r}, no class of Keras"
    if not isinstance(module, str) or _MODULES.fullmatch(module) is None:
        return f"names the class {str(module)[:60]}.{name[:60]}, which is not Keras' own"
    found = vars(sys.modules[module]).get(name) if module in sys.modules and ".src." in module else _public(f"{module}.{name}")
    return None if _is_allowed(found) else f"names {module}.{name[:60]}, no class of Keras that models are built of"


#: What old files call models of layers that are called on one another; Keras builds its own class for it.
_OLD_MODEL = "Functional"

#: Where classes stand whose module an old file does not name.
_OLD_PLACES = ("keras.layers", "keras", "keras.initializers", "keras.regularizers", "keras.constraints", "keras.dtype_policies")


def _objection_to_function(item: Mapping[str, Any]) -> str | None:
    name, module, registered = item.get("config"), item.get("module"), item.get("registered_name")
    if not isinstance(name, str) or not name.isidentifier():
        return "names a function that is no name"
    places = _FUNCTIONS if module == "builtins" else (module,) if module in _FUNCTIONS else ()
    if registered in (None, name, "function") and any(_is_function(_public(f"{place}.{name}")) for place in places):
        return None
    return f"names the function {str(module)[:60]}.{name[:60]}, which is not Keras' own"


def _is_function(found: Any) -> bool:
    return callable(found) and not isinstance(found, type) and str(getattr(found, "__module__", "")).startswith("keras.src.")


def _is_allowed(found: Any) -> bool:
    """Whether a class is one of Keras' own of the kinds that models are built of."""
    if not isinstance(found, type) or not found.__module__.startswith("keras.src.") or found.__name__ in _RUN_CODE:
        return False
    bases = tuple(base for base in (_public(f"keras.{name}") for name in _BASES) if isinstance(base, type))
    return issubclass(found, bases)


def _public(name: str) -> Any:
    """What Keras offers under a name; None if that is nothing."""
    import keras

    found: Any = keras
    for part in name.split(".")[1:]:
        if part.startswith("_"):
            return None
        found = getattr(found, part, None)
    return found
