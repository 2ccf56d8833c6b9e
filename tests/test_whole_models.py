"""Containment on whole models: every intermediate tensor of real runs lies in its range, in float32 and in float16."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import onnx
import onnxruntime as ort
import pytest

from tensorproof.assumptions import Declarations, domain_from_json, resolve
from tensorproof.checking import ConstantRanges, input_values
from tensorproof.confirm.sampling import points
from tensorproof.execute.instrument import instrumented
from tensorproof.formats import FLOAT16, FLOAT32
from tensorproof.frontends.onnx_file import from_proto
from tensorproof.frontends.onnx_precision import converted
from tensorproof.ranges.abstraction import PRECISE, Abstraction
from tensorproof.ranges.propagate import propagate
from tensorproof.refine.driver import refine
from tensorproof.targets import ONNXRUNTIME_CPU
from tests.soundness.containment import violation
from tests.torch_models import EXPORTED

pytestmark = pytest.mark.area("containment")

RUNS = 20
#: Values fetched from one session at a time, so that large models stay within memory.
SLICE = 120


def observable(proto: onnx.ModelProto) -> list[str]:
    return [name for node in proto.graph.node for name in node.output if name]


def outside(
    proto: onnx.ModelProto,
    ranges: dict[str, Any],
    dims: dict[str, int],
    runs: int = RUNS,
    abstraction: Abstraction = PRECISE,
    effort: int = 0,
) -> list[str]:
    """Values of real runs that lie outside of their computed range, refined with some effort, as text."""
    model = from_proto(proto)
    declared = Declarations({n: domain_from_json(r, n) for n, r in ranges.items()}, {n: (s, s) for n, s in dims.items()})
    (assumptions, *_), _ = resolve(model, declared)
    ranged = propagate(
        model,
        input_values(model, assumptions),
        ONNXRUNTIME_CPU,
        constants=ConstantRanges(model, assumptions),
        keep_ranges=True,
        strict=True,
        abstraction=abstraction,
    )
    if effort:
        constants, inputs = ConstantRanges(model, assumptions), input_values(model, assumptions)
        refinement = refine(ranged, inputs, constants, abstraction, effort)
        ranged = propagate(
            model,
            inputs,
            ONNXRUNTIME_CPU,
            constants=constants,
            keep_ranges=True,
            strict=True,
            abstraction=abstraction,
            known=refinement.known,
        )
    flows = {model.name_of(n): flow for n, flow in ranged.ranges.items()}
    domains = {
        model.name_of(n): (d, assumptions.shapes[n], model.values[n].format or FLOAT32) for n, d in assumptions.inputs.items()
    }
    found: list[str] = []
    names = [n for n in observable(proto) if n in flows]
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    for start in range(0, len(names), SLICE):
        chosen = names[start : start + SLICE]
        session = ort.InferenceSession(instrumented(proto, chosen).SerializeToString(), options)
        wanted = {i.name for i in session.get_inputs()}
        for point in points(0, domains, runs):
            results = session.run(chosen, {n: a for n, a in point.items() if n in wanted})
            for name, result in zip(chosen, results):
                why = violation(flows[name].actual, result)
                if why is not None:
                    found.append(f"{name}: {why}")
            if found:
                return found
    assert names
    return found


LIGHT = sorted((Path(onnx.__file__).parent / "backend" / "test" / "data" / "light").glob("*.onnx"))


def test_there_are_nine_light_models() -> None:
    assert len(LIGHT) == 9


@pytest.mark.parametrize("path", LIGHT, ids=lambda p: p.stem)
@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_light_models(path: Path, precision: str) -> None:
    proto = onnx.ModelProto.FromString(path.read_bytes())
    if precision == "float16":
        proto, _ = converted(proto, FLOAT16)
    assert outside(proto, {"*": (0.0, 1.0)}, {}) == []


@cache
def exported(name: str) -> onnx.ModelProto:
    return EXPORTED[name][0]()


@pytest.mark.parametrize("name", EXPORTED)
def test_models_exported_by_torch(name: str) -> None:
    assert outside(exported(name), EXPORTED[name][1], {}) == []


@pytest.mark.parametrize("name", EXPORTED)
def test_models_exported_by_torch_in_float16(name: str) -> None:
    proto, _ = converted(exported(name), FLOAT16)
    assert outside(proto, EXPORTED[name][1], {}) == []


def wheel_models() -> Iterator[tuple[str, Path, dict[str, Any], dict[str, int]]]:
    """Trained models inside wheels that are installed for the tests, with input ranges and sizes."""
    catalogue: list[tuple[str, str, dict[str, Any], dict[str, int]]] = [
        (
            "silero_vad",
            "data/silero_vad_16k_op15.onnx",
            {"input": (-1, 1), "state": (-1, 1), "sr": (16000, 16000)},
            {"sequence": 576},
        ),
        ("magika", "models/standard_v3_3/model.onnx", {"bytes": (0, 256)}, {}),
        ("rapidocr_onnxruntime", "models/ch_ppocr_mobile_v2.0_cls_infer.onnx", {"*": (-1, 1)}, {"?": 48}),
        ("rapidocr_onnxruntime", "models/ch_PP-OCRv4_rec_infer.onnx", {"*": (-1, 1)}, {"?": 48, "p2o.DynamicDimension.1": 64}),
        (
            "rapidocr_onnxruntime",
            "models/ch_PP-OCRv4_det_infer.onnx",
            {"*": (-3, 3)},
            {"p2o.DynamicDimension.1": 64, "p2o.DynamicDimension.2": 64},
        ),
        ("basic_pitch", "saved_models/icassp_2022/nmp.onnx", {"*": (-1, 1)}, {}),
    ]
    for package, inside, ranges, dims in catalogue:
        spec = importlib.util.find_spec(package)
        if spec is not None and spec.submodule_search_locations:
            yield f"{package}-{Path(inside).stem}", Path(spec.submodule_search_locations[0]) / inside, ranges, dims


WHEELS = list(wheel_models())


def test_the_wheels_with_trained_models_are_installed() -> None:
    assert len(WHEELS) == 6
    assert all(path.is_file() for _, path, _, _ in WHEELS)


@pytest.mark.parametrize("path, ranges, dims", [w[1:] for w in WHEELS], ids=[w[0] for w in WHEELS])
@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_trained_models_from_wheels(path: Path, ranges: dict[str, Any], dims: dict[str, int], precision: str) -> None:
    proto = onnx.ModelProto.FromString(path.read_bytes())
    if precision == "float16":
        proto, _ = converted(proto, FLOAT16)
    assert outside(proto, ranges, dims) == []
