"""Files of Keras that are hostile, damaged or of another kind, each given to the command line in one process.

    KERAS_BACKEND=jax python -m tests.keras_files FOLDER

prints one JSON object: exit code, output and traces of what ran for each file by its name. Everything that such a file could make
run writes a marker; each file has its own.
"""

from __future__ import annotations

import copy
import io
import json
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import keras
import numpy as np
from keras import layers

from tests.commands import tensorproof

#: What a file names, by the name of the case: an object in the place of a layer, or of an activation.
Config = dict[str, Any]

WEIGHTS = "model.weights.h5"


def saved(model: Any, path: Path) -> Path:
    with warnings.catch_warnings():
        # Keras warns about the old format.
        warnings.simplefilter("ignore")
        model.save(path)
    return path


class Files:
    """The files of the cases, made of one good model, in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        model = keras.Sequential([keras.Input([3], name="x"), layers.Dense(2, "relu", name="dense"), layers.BatchNormalization()])
        self.archive, self.old = saved(model, folder / "good.keras"), saved(model, folder / "good.h5")
        with zipfile.ZipFile(self.archive) as archive:
            self.members = {name: archive.read(name) for name in archive.namelist()}
        self.config: Config = json.loads(self.members["config.json"])

    def marker(self, name: str) -> Path:
        """What the payload of a file would write."""
        return self.folder / "markers" / name

    def packed(self, name: str, members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> Path:
        path = self.folder / f"{name}.keras"
        with zipfile.ZipFile(path, "w", compression) as archive:
            for member, data in members.items():
                archive.writestr(member, data)
        return path

    def changed(self, name: str, **members: bytes | None) -> Path:
        """The good model with other members, by the beginnings of their names; None leaves one out."""
        found = dict(self.members)
        for start, data in members.items():
            full = next((member for member in found if member.startswith(start)), start)
            found.pop(full, None)
            if data is not None:
                found[full] = data
        return self.packed(name, found)

    def with_layer(self, name: str, layer: Any) -> Path:
        """The good model with another object in the place of its dense layer."""
        config = copy.deepcopy(self.config)
        config["config"]["layers"][1] = layer
        return self.changed(name, config=json.dumps(config).encode())

    def with_activation(self, name: str, activation: Any) -> Path:
        config = copy.deepcopy(self.config)
        config["config"]["layers"][1]["config"]["activation"] = activation
        return self.changed(name, config=json.dumps(config).encode())

    def with_weights(self, name: str, change: Callable[[h5py.File], None]) -> Path:
        """The good model after a change of the file of its weights."""
        stored = io.BytesIO(self.members[WEIGHTS])
        with h5py.File(stored, "r+") as file:
            change(file)
        return self.changed(name, model=stored.getvalue())

    def old_with(self, name: str, config: Any) -> Path:
        """The good model in the old format with another description."""
        path = self.folder / f"{name}.h5"
        path.write_bytes(self.old.read_bytes())
        with h5py.File(path, "r+") as file:
            file.attrs["model_config"] = config if isinstance(config, str) else json.dumps(config)
        return path


def good_files(files: Files) -> Iterator[Path]:
    """What must be read: both formats, models of both kinds, and names as files before version 3 have them."""
    yield files.archive
    yield files.old
    x = keras.Input([3], name="x")
    inner = keras.Sequential([keras.Input([4]), layers.Dense(4, kernel_regularizer="l2")], name="inner")
    joined = keras.Model(x, layers.Add()([inner(layers.Dense(4)(x)), layers.Dense(4, kernel_constraint="max_norm")(x)]))
    joined.compile("adam", "mse")
    yield saved(joined, files.folder / "joined.keras")
    yield saved(joined, files.folder / "joined.h5")
    path = saved(joined, files.folder / "plain_names.h5")
    with h5py.File(path, "r+") as file:
        file.attrs["model_config"] = json.dumps(_plain(json.loads(file.attrs["model_config"])))
    yield path


def _plain(item: Any) -> Any:
    """A description without the modules of classes."""
    if isinstance(item, dict):
        return {key: _plain(value) for key, value in item.items() if key not in ("module", "registered_name")}
    return [_plain(value) for value in item] if isinstance(item, list) else item


# -- files that would run code -----------------------------------------------------------------------------------------


def layer_of(kind: str, module: Any, registered: str | None = None, **config: Any) -> Config:
    return {"module": module, "class_name": kind, "config": {"name": "dense", **config}, "registered_name": registered}


def function_of(name: Any, module: str) -> Config:
    return {"module": module, "class_name": "function", "config": name, "registered_name": "function"}


def lambda_layer(marker: Path) -> Any:
    """A layer whose code writes a marker; of a lambda, Keras stores the code itself."""
    code: Any = eval(f"lambda x: (open({str(marker)!r}, 'w').close(), 1.0 / x)[1]")
    return layers.Lambda(code, name="code")


def lambda_files(files: Files) -> Iterator[Path]:
    for name in ("lambda", "lambda_within", "lambda_around", "lambda_old"):
        made = lambda_layer(files.marker(name))
        x = keras.Input([3, 2], name="x")
        if name == "lambda_within":
            inner = keras.Input([3, 2])
            y = keras.Model(inner, made(inner), name="inner")(x)
        else:
            y = layers.TimeDistributed(made)(x) if name == "lambda_around" else made(x)
        path = saved(keras.Model(x, layers.ReLU()(y)), files.folder / f"{name}.{'h5' if name == 'lambda_old' else 'keras'}")
        # Building the model ran its code; loading it must not.
        files.marker(name).unlink()
        yield path


def code_files(files: Files) -> Iterator[Path]:
    """Classes and functions that are no part of Keras' models."""

    def command(name: str) -> str:
        return f"touch {files.marker(name)}"

    # A module that leaves its marker where a file makes Python import it.
    module = files.folder / "modules" / "payload_of_a_file.py"
    module.parent.mkdir(exist_ok=True)
    module.write_text(f"from pathlib import Path\nPath({str(files.marker('module_class'))!r}).touch()\nclass Evil: ...\n")
    sys.path.append(str(module.parent))
    yield files.with_layer("module_class", layer_of("Evil", module.stem, "Evil"))
    yield files.with_layer(
        "module_function", {**layer_of("Dense", "keras.layers", units=2), "module": "os", "class_name": "system"}
    )
    yield files.with_layer("os_system", {"module": "os", "class_name": "system", "config": {"command": command("os_system")}})
    yield files.with_layer("popen", layer_of("Popen", "subprocess", args=command("popen"), shell=True))
    yield files.with_layer("tfsm", layer_of("TFSMLayer", "keras.layers", filepath="saved"))
    yield files.with_layer("torch_module", layer_of("TorchModuleWrapper", "keras.layers"))
    yield files.with_layer("jax_layer", layer_of("JaxLayer", "keras.layers"))
    yield files.with_layer("flax_layer", layer_of("FlaxLayer", "keras.layers"))
    yield files.with_layer("dotted", layer_of("utils.get_file", "keras", fname="x", origin="x"))
    yield files.with_layer("private_module", layer_of("Lambda", "keras.src.layers.core.lambda_layer"))
    yield files.with_layer("private_class", layer_of("DiskIOStore", "keras.src.saving.saving_lib"))
    yield files.with_layer("other_class", layer_of("Progbar", "keras.utils"))
    yield files.with_layer("registered", layer_of("Dense", "keras.layers", "package>Evil", units=2))
    yield files.with_layer("no_module", layer_of("Dense", None, units=2))
    yield files.with_layer("no_text", {**layer_of("Dense", "keras.layers"), "class_name": ["Dense"]})
    yield files.with_layer("no_class", {"module": "os", "config": {"name": "dense"}})
    yield files.with_layer("unknown", layer_of("NoSuchLayer", "keras.layers"))
    yield files.with_activation("eval", function_of("eval", "builtins"))
    yield files.with_activation("exec", {**function_of("exec", "builtins"), "registered_name": "exec"})
    yield files.with_activation("system", function_of("system", "os"))
    yield files.with_activation("get_file", function_of("get_file", "keras.utils"))
    yield files.with_activation("load_model", function_of("load_model", "keras.saving"))
    yield files.with_activation("no_name", function_of(["relu"], "builtins"))
    yield files.with_activation("marshalled", {"class_name": "__lambda__", "config": {"code": "4wEAAAA=", "defaults": None}})
    yield files.with_activation("type_spec", {"class_name": "__typespec__", "module": "os", "spec_name": "system", "config": []})
    for name, kind in (("lookup", "StringLookup"), ("vectors", "TextVectorization"), ("numbers", "IntegerLookup")):
        yield files.with_layer(f"path_{name}", layer_of(kind, "keras.layers", vocabulary="/etc/hostname"))
    yield files.with_layer("address", layer_of("StringLookup", "keras.layers", mask_token="https://example.org/words"))
    dense = copy.deepcopy(json.loads(h5py.File(files.old).attrs["model_config"]))
    for name, layer in (("old_class", layer_of("Evil", module.stem)), ("old_unknown", {"class_name": "Evil", "config": {}})):
        dense["config"]["layers"][1] = layer
        yield files.old_with(name, dense)


def training_files(files: Files) -> Iterator[Path]:
    """Losses that may not be loaded, and an optimiser that needs not be: the model itself may be."""
    for name, loss in (
        ("loss_class", layer_of("Evil", "payload_of_a_file", "Evil")),
        ("loss_function", function_of("system", "os")),
    ):
        training = {"optimizer": "adam", "loss": loss, "metrics": None}
        yield files.changed(name, config=json.dumps({**files.config, "compile_config": training}).encode())
    training = {"optimizer": layer_of("Evil", "payload_of_a_file", "Evil"), "loss": "mean_squared_error"}
    yield files.changed("optimizer_class", config=json.dumps({**files.config, "compile_config": training}).encode())


# -- archives and weights that are no model's --------------------------------------------------------------------------


def archive_files(files: Files) -> Iterator[Path]:
    escape = f"../{files.marker('escape').name}"
    for name, member in (
        ("escape", escape),
        ("absolute", str(files.marker("absolute"))),
        ("assets_escape", "assets/../../markers/assets_escape"),
        ("drive", "C:\\markers\\drive"),
        ("stranger", "run.py"),
        ("pickled", "model.weights.npz"),
    ):
        yield files.packed(name, {**files.members, member: b"x"})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = files.packed("twice", files.members)
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr("config.json", b"{}")
    yield path
    zeros = bytes(200 << 20)
    yield files.packed("bomb", {**files.members, "assets/bomb": zeros}, zipfile.ZIP_DEFLATED)
    yield files.packed("bomb_metadata", {**files.members, "metadata.json": zeros}, zipfile.ZIP_DEFLATED)
    some = {f"assets/{number}": zeros[: 1 << 20] for number in range(200)}
    yield files.packed("bombs", {**files.members, **some}, zipfile.ZIP_DEFLATED)
    yield files.packed("crowd", {**files.members, **{f"assets/{number}": b"" for number in range(10_001)}})
    yield files.changed("deep", config=b"[" * 100_000 + b"]" * 100_000)
    nested: Any = {}
    for _ in range(400):
        nested = {"config": nested}
    yield files.with_layer("nested", layer_of("Dense", "keras.layers", units=2, kernel_initializer=nested))
    yield files.with_layer("huge", layer_of("Dense", "keras.layers", units=10**10))
    yield files.with_layer("huge_table", layer_of("Embedding", "keras.layers", input_dim=10**9, output_dim=1000))


def weight_files(files: Files) -> Iterator[Path]:
    where = "layers/dense/vars/0"

    def elsewhere(link: Any) -> Callable[[h5py.File], None]:
        def change(file: h5py.File) -> None:
            del file[where]
            file[where] = link

        return change

    def external(file: h5py.File) -> None:
        del file[where]
        file.create_dataset(where, (3, 2), "f4", external=[("/etc/hostname", 0, h5py.h5f.UNLIMITED)])

    def virtual(file: h5py.File) -> None:
        del file[where]
        layout = h5py.VirtualLayout((3, 2), "f4")
        layout[:] = h5py.VirtualSource("/etc/hostname", "x", (3, 2))
        file.create_virtual_dataset(where, layout)

    def enormous(file: h5py.File) -> None:
        del file[where]
        file.create_dataset(where, (1 << 20, 1 << 20), "f4", chunks=(1024, 1024))

    def deep(file: h5py.File) -> None:
        group: Any = file
        for _ in range(150):
            group = group.create_group("g")

    def of_another_shape(file: h5py.File) -> None:
        del file[where]
        file[where] = np.zeros((4, 2), np.float32)

    def missing(file: h5py.File) -> None:
        del file["layers/dense"]

    def of_text(file: h5py.File) -> None:
        del file[where]
        file[where] = np.array([[b"a", b"b"]] * 3)

    yield files.with_weights("linked", elsewhere(h5py.ExternalLink("/etc/hostname", "/x")))
    yield files.with_weights("soft_link", elsewhere(h5py.SoftLink("/layers/dense/vars/1")))
    for change in (external, virtual, enormous, deep, of_another_shape, missing, of_text):
        yield files.with_weights(change.__name__, change)
    yield files.with_weights("empty_weights", lambda file: file.clear())
    old = files.folder / "old_linked.h5"
    old.write_bytes(files.old.read_bytes())
    with h5py.File(old, "r+") as file:
        file["model_weights/other"] = h5py.ExternalLink("/etc/hostname", "/x")
    yield old


# -- files that are damaged, or of another kind ------------------------------------------------------------------------


def damaged_files(files: Files) -> Iterator[Path]:
    for suffix, source in (("keras", files.archive), ("h5", files.old)):
        data = source.read_bytes()
        for index, size in enumerate(np.linspace(0, len(data) - 1, 40).astype(int)):
            yield _written(files, f"cut_{index}.{suffix}", data[:size])
        generator = np.random.default_rng(0)
        for index in range(30):
            changed = np.frombuffer(data, np.uint8).copy()
            changed[generator.integers(len(data), size=3)] = generator.integers(256, size=3)
            yield _written(files, f"changed_{index}.{suffix}", changed.tobytes())
        yield _written(files, f"text.{suffix}", b"hello, I am a text file\n" * 50)
        yield _written(files, f"noise.{suffix}", np.random.default_rng(0).bytes(5000))
    yield _written(files, "archive.h5", files.archive.read_bytes())
    yield _written(files, "old.keras", files.old.read_bytes())
    folder = files.folder / "folder.keras"
    folder.mkdir()
    yield folder
    yield files.folder / "nowhere.keras"
    yield files.folder / "nowhere.h5"
    for name, version in (("none", None), ("number", 3), ("two", "2.15.0"), ("word", "newest"), ("four", "4.0.0")):
        yield files.changed(f"version_{name}", metadata=json.dumps({"keras_version": version}).encode())
    yield files.changed("version_missing", metadata=b"{}")
    for member in files.members:
        yield files.changed(f"without_{member.partition('.')[0]}", **{member: None})
    for name, text in (("list", b"[]"), ("null", b"null"), ("object", b"{}"), ("words", b"words"), ("bytes", b"\xff\xfe\x00")):
        yield files.changed(f"config_{name}", config=text)
        yield files.old_with(f"old_config_{name}", text.decode("latin-1").replace("\0", ""))
    yield files.with_layer("layer_is_text", "Dense")
    yield files.with_layer("layer_is_none", None)
    yield files.with_layer("no_units", layer_of("Dense", "keras.layers"))
    yield files.with_layer("bad_units", layer_of("Dense", "keras.layers", units=-2))
    yield files.with_layer("bad_argument", layer_of("Dense", "keras.layers", units=2, colour="red"))
    yield files.with_layer("no_layer", layer_of("Zeros", "keras.initializers"))
    yield files.changed("no_model", config=json.dumps(files.config["config"]["layers"][1]).encode())
    weights = files.folder / "only.weights.h5"
    keras.saving.load_model(files.archive).save_weights(weights)
    yield weights


def _written(files: Files, name: str, data: bytes) -> Path:
    path = files.folder / name
    path.write_bytes(data)
    return path


# -- what the command line says ----------------------------------------------------------------------------------------


def outcome(path: Path, files: Files, *options: str) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = tensorproof("check", path, "--range", "*=-1:1", "--no-confirm", *options)
    return {"code": result.code, "out": result.out, "err": result.err, "marker": files.marker(path.stem).exists()}


def main(folder: Path) -> None:
    files = Files(folder)
    files.marker("x").parent.mkdir()
    found: dict[str, dict[str, Any]] = {}
    for group in (good_files, lambda_files, code_files, archive_files, weight_files, damaged_files):
        found[group.__name__] = {path.name: outcome(path, files) for path in group(files)}
    found["training_files"] = {path.name: outcome(path, files, "--phase", "training") for path in training_files(files)}
    for group, names in (
        ("trusted_lambdas", found["lambda_files"]),
        ("trusted", ("unknown.keras", "bad_units.keras", "missing.keras")),
    ):
        found[group] = {name: outcome(folder / name, files, "--trust") for name in names}
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
