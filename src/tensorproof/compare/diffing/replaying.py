"""The input on which two models part, as a file, and a program that replays it without tensorproof.

Each model runs in a process of its own: two backends of Keras, or two versions of a runtime, do not fit into one. Paths and names
are data from outside: they enter the program as Python literals.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tensorproof.compare.diffing.comparison import FirstOperator
from tensorproof.compare.diffing.inputs import InputSpace
from tensorproof.compare.diffing.side import Side
from tensorproof.compare.drawing import Array
from tensorproof.confirm.sampling import Point
from tensorproof.errors import ConfigurationError
from tensorproof.files import write_bytes, write_text
from tensorproof.findings import Witness

_SCRIPT = '''\
"""Two models part on one input.

{told}

Versions: {versions}
Arrays: {arrays}, in the folder of this file.

    python {file}
        exit code 0: they part again; exit code 1: they do not
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ARRAYS = Path(__file__).resolve().parent / {arrays!a}
#: Model, backend, switches and interpreter of each side; names of its inputs in the file of arrays; types of inputs.
SIDES = {sides}
#: What a type without one in NumPy is stored as.
CARRIED = {{"bfloat16", "float8_e4m3fn", "float8_e5m2"}}


def main():
    if len(sys.argv) == 3:
        np.savez(sys.argv[2], *run(SIDES[sys.argv[1]]))
        return 0
    results = {{}}
    with tempfile.TemporaryDirectory() as folder:
        for name, side in SIDES.items():
            out = Path(folder) / (name + ".npz")
            environment = dict(os.environ, OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="", **side["environment"])
            command = [side["python"] or sys.executable, __file__, name, str(out)]
            ended = subprocess.run(command, env=environment, capture_output=True, text=True)
            if ended.returncode:
                said = [line for line in ended.stderr.splitlines() if re.match(r"[\\w.]*(Error|Exception|Fail)", line)]
                print(name, "fails:", (said or ended.stderr.strip().splitlines() or ["no message"])[-1])
                continue
            with np.load(out) as archive:
                results[name] = [archive["arr_%d" % index] for index in range(len(archive.files))]
    if len(results) < 2:
        return 0 if len(results) == 1 else 1
    parted = False
    for index, (left, right) in enumerate(zip(results["left"], results["right"])):
        parted |= differs(index, left, right)
    return 0 if parted else 1


def differs(index, left, right):
    if left.shape != right.shape:
        print("output", index, "has shape", left.shape, "and", right.shape)
        return True
    a, b = left.astype(np.float64), right.astype(np.float64)
    special = (np.isnan(a) != np.isnan(b)) | ((np.isinf(a) | np.isinf(b)) & (a != b) & ~np.isnan(a) & ~np.isnan(b))
    finite = np.isfinite(a) & np.isfinite(b)
    difference = np.where(finite, np.abs(np.where(finite, a, 0) - np.where(finite, b, 0)), 0.0)
    size = float(np.sqrt(np.mean(np.square(a[finite])))) if finite.any() else 0.0
    share = float(difference.max()) / size if difference.size and size else 0.0
    print("output", index, "- NaN or infinite on one side:", int(special.sum()), "- largest difference, relative:", "%.3g" % share)
    places = np.argwhere(special) if special.any() else [np.unravel_index(int(difference.argmax()), a.shape)] if a.size else []
    for place in places[:1]:
        print("  at", tuple(map(int, place)), "left", a[tuple(place)], "right", b[tuple(place)])
    return bool(special.any()) or share > {share!r}


def feeds(side):
    with np.load(ARRAYS, allow_pickle=False) as archive:
        arrays = {{name: archive["array_%d" % index] for index, name in enumerate(side["inputs"])}}
    return {{name: a if side["types"][name] in CARRIED else a.astype(side["types"][name]) for name, a in arrays.items()}}


def run(side):
    return {{"onnx": run_onnx, "keras": run_keras, "program": run_program}}[side["kind"]](side)


def run_onnx(side):
    if side["backend"] == "onnxruntime":
        import onnxruntime as ort

        options = ort.SessionOptions()
        levels = {{"off": "ORT_DISABLE_ALL", "basic": "ORT_ENABLE_BASIC", "all": "ORT_ENABLE_ALL"}}
        options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, levels[side["toggles"].get("optimisation", "all")])
        options.intra_op_num_threads = 1
        options.log_severity_level = 4
        model, kept = side["model"], None
        if side["toggles"].get("rounding") != "off":
            model, kept = rounded(model), ["EliminateIdentity"]
        session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"], disabled_optimizers=kept)
        return session.run(None, feeds(side))
    if side["backend"] == "openvino":
        import openvino

        compiled = openvino.Core().compile_model(side["model"], "CPU", {{"INFERENCE_PRECISION_HINT": "f32"}})
        results = compiled(feeds(side))
        return [np.array(results[index]) for index in range(len(compiled.outputs))]
    from onnx.reference import ReferenceEvaluator

    return ReferenceEvaluator(side["model"]).run(None, feeds(side))


def rounded(path):
    """16-bit values rounded where the model says so: ONNX Runtime keeps some of them in float32 on a CPU."""
    import onnx

    model = onnx.shape_inference.infer_shapes(onnx.load(path))
    low = {{v.name for v in (*model.graph.value_info, *model.graph.output) if v.type.tensor_type.elem_type in (10, 16)}}
    nodes = []
    for node in model.graph.node:
        nodes.append(node)
        for index, name in enumerate(node.output):
            if name in low:
                node.output[index] = name + ".before"
                nodes.append(onnx.helper.make_node("Identity", [name + ".before"], [name + ".between"]))
                nodes.append(onnx.helper.make_node("Identity", [name + ".between"], [name]))
    if not low:
        return path
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del model.graph.node[:]
    model.graph.node.extend(copies)
    return model.SerializeToString()


def run_keras(side):
    import keras

    model = keras.saving.load_model(side["model"], compile=False)
    arrays = list(feeds(side).values())
    if side["backend"] == "keras:openvino":
        results = model.predict(arrays if len(arrays) > 1 else arrays[0], verbose=0)
    else:
        results = model(arrays if len(arrays) > 1 else arrays[0], training=False)
    several = results if isinstance(results, (list, tuple)) else [results]
    return [np.asarray(keras.ops.convert_to_numpy(part)) for part in several]


def run_program(side):
    import importlib.util
    import inspect

    import torch

    file, _, name = side["model"].rpartition(":")
    sys.path.insert(0, str(Path(file).parent))
    spec = importlib.util.spec_from_file_location("program", file)
    module = importlib.util.module_from_spec(spec)
    sys.modules["program"] = module
    spec.loader.exec_module(module)
    found = module
    for part in name.split("."):
        found = getattr(found, part)
    if inspect.isclass(found) or (not isinstance(found, torch.nn.Module) and not inspect.signature(found).parameters):
        found = found()
    if isinstance(found, torch.nn.Module):
        found.eval()
        if side["state"]:
            found.load_state_dict(torch.load(side["state"], map_location="cpu", weights_only=True))
    if side["toggles"].get("compile") == "on":
        found = torch.compile(found)
    with torch.no_grad():
        results = found(**{{name: torch.from_numpy(array.copy()) for name, array in feeds(side).items()}})
    leaves = torch.utils._pytree.tree_leaves(results)
    return [leaf.float().numpy() if leaf.dtype == torch.bfloat16 else leaf.numpy() for leaf in leaves]


if __name__ == "__main__":
    sys.exit(main())
'''


def save_witness(
    folder: Path,
    left: Side,
    right: Side,
    space: InputSpace,
    point: Point,
    first: FirstOperator | None,
    *,
    share: float,
    state: str | None,
) -> Witness:
    """Write the arrays and the program; `share` is the relative difference from which on outputs part."""
    digest = hashlib.sha256("\0".join((left.described(), right.described(), *space.names)).encode())
    for array in point.values():
        digest.update(np.ascontiguousarray(array).tobytes())
    slug = f"diff_{digest.hexdigest()[:10]}"
    arrays, script = folder / f"{slug}.npz", folder / f"{slug}.py"
    feeds = space.for_left(point)
    content = io.BytesIO()
    stored: dict[str, Any] = {f"array_{index}": _stored(array) for index, array in enumerate(feeds.values())}
    np.savez(content, **stored)
    sides = {
        "left": _side(left, list(feeds), dict(space.left_types), state),
        "right": _side(right, [space.names[name] for name in feeds], dict(space.right_types), state),
    }
    told = "the first operator" if first is None else f"first operator: {first.name} ({first.left_operator})"
    versions = "; ".join(f"{name} {_one_line(side.described())}" for name, side in (("left", left), ("right", right)))
    text = _SCRIPT.format(
        told=_one_line(told),
        versions=versions,
        arrays=arrays.name,
        file=script.name,
        sides=ascii(sides).replace("}, 'right'", "},\n    'right'"),
        share=share,
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_bytes(arrays, content.getvalue())
        write_text(script, text)
    except OSError as error:
        raise ConfigurationError(f"{folder}: the failing input cannot be saved ({error.strerror})") from None
    return Witness(str(arrays), str(script))


def _side(side: Side, inputs: list[str], types: Mapping[str, str], state: str | None) -> dict[str, Any]:
    file, colon, name = side.model.rpartition(":") if side.kind == "program" else (side.model, "", "")
    backend = side.backend.name
    return {
        "kind": side.kind,
        "model": f"{Path(file).resolve()}{colon}{name}",
        "backend": backend,
        "toggles": dict(side.backend.toggles),
        "python": side.backend.python,
        "inputs": inputs,
        "types": dict(types),
        "state": state if side.kind == "program" else None,
        "environment": {"KERAS_BACKEND": backend.removeprefix("keras:")} if side.kind == "keras" else {},
    }


def _stored(array: Array) -> Array:
    return array.astype(np.float32) if array.dtype.kind == "V" or array.dtype.name not in np.sctypeDict else array


def _one_line(text: str) -> str:
    line = " ".join(text.split()).replace("\\", "/").replace('"""', "'''")
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)[:400]
