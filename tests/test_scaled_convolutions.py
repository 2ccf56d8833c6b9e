"""Norms of convolutions whose channels are scaled: they hold in real runs, and say more than those of the two steps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import numpy_helper

from tensorproof.assumptions import Declarations, domain_from_json, resolve
from tensorproof.checking import ConstantRanges, input_values
from tensorproof.frontends.onnx_file import from_proto
from tensorproof.ranges.abstraction import FIRST_PASS, PRECISE, Abstraction
from tensorproof.ranges.norms import Norm
from tensorproof.ranges.propagate import propagate
from tensorproof.ranges.range import Range
from tensorproof.targets import ONNXRUNTIME_CPU
from tests.models import model

pytestmark = pytest.mark.area("norms")

CHANNELS, FILTERS = 48, 64
NORMALISED = "BatchNormalization<epsilon=0.001>"
#: How the channels are scaled: behind nothing, behind a bias that is added, in the other layout, and by a normalisation.
FORMS = {
    "product": "c = Conv(x, w, b)\ny = Mul(s, c)",
    "bias added": "c = Conv(x, w)\nd = Add(c, column)\ny = Mul(d, s)",
    "channels last": "c = Conv(x, w)\nt = Transpose<perm=[0,2,3,1]>(c)\nd = Add(t, b)\ny = Mul(d, row)",
    "groups": "c = Conv<group=4>(x, part, b)\ny = Mul(c, s)",
    "normalised": f"c = Conv(x, w, b)\ny = {NORMALISED}(c, scale, b, mean, variance)",
}
SPECTRAL = {"first pass": replace(FIRST_PASS, spectral=True), "exact weights": replace(PRECISE, spectral=True)}


def parameters(seed: int) -> dict[str, np.ndarray[Any, Any]]:
    """Filters of very different sizes, and numbers that bring their results to about one size, as training does."""
    generator = np.random.default_rng(seed)
    sizes = np.exp(generator.normal(0.0, 2.0, FILTERS))
    factors = generator.uniform(-1.5, 1.5, FILTERS) / sizes
    found = {
        "w": generator.normal(0.0, 0.05, (FILTERS, CHANNELS, 3, 3)) * sizes[:, None, None, None],
        "part": generator.normal(0.0, 0.1, (FILTERS, CHANNELS // 4, 3, 3)) * sizes[:, None, None, None],
        "b": generator.normal(0.0, 0.1, FILTERS) * sizes,
        "s": factors[:, None, None],
        "row": factors,
        "scale": generator.uniform(-1.5, 1.5, FILTERS),
        "mean": generator.normal(0.0, 0.1, FILTERS) * sizes,
        "variance": sizes**2,
    }
    found["column"] = found["b"][:, None, None]
    return {name: array.astype(np.float32) for name, array in found.items()}


def made(form: str, seed: int) -> onnx.ModelProto:
    shape = f"1,4,4,{FILTERS}" if form == "channels last" else f"1,{FILTERS},4,4"
    proto = model(f"(float[1,{CHANNELS},6,6] x) => (float[{shape}] y)", FORMS[form])
    used = {name for node in proto.graph.node for name in node.input}
    for name, array in parameters(seed).items():
        if name in used:
            proto.graph.initializer.append(numpy_helper.from_array(array, name))
    return proto


def norm_of(proto: onnx.ModelProto, abstraction: Abstraction) -> Norm:
    graph = from_proto(proto)
    (assumptions, *_), _ = resolve(graph, Declarations({"x": domain_from_json((-3.0, 3.0), "x")}, {}))
    inputs, constants = input_values(graph, assumptions), ConstantRanges(graph, assumptions)
    ranged = propagate(graph, inputs, ONNXRUNTIME_CPU, constants=constants, keep_ranges=True, strict=True, abstraction=abstraction)
    number = graph.find_value("y")
    assert number is not None
    result = ranged.ranges[number].clean
    assert isinstance(result, Range) and result.norm is not None
    return result.norm


def longest_vector(proto: onnx.ModelProto, form: str) -> float:
    """The longest vector of channels in real runs: random points, and the point that the scaled weights stretch most."""
    run = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    generator = np.random.default_rng(1)
    found = 0.0
    arrays = {tensor.name: numpy_helper.to_array(tensor).astype(np.float64) for tensor in proto.graph.initializer}
    factors = arrays["scale"] / np.sqrt(arrays["variance"]) if "scale" in arrays else arrays.get("row", arrays.get("s"))
    assert factors is not None
    points = [generator.uniform(-3.0, 3.0, (1, CHANNELS, 6, 6)) for _ in range(10)]
    if form != "groups":
        scaled = (arrays["w"].reshape(FILTERS, -1) * factors.reshape(-1, 1)).reshape(FILTERS, -1)
        worst = np.linalg.svd(scaled, full_matrices=False)[2][0].reshape(CHANNELS, 3, 3)
        points += [np.tile(3.0 * np.sign(worst), (1, 1, 2, 2)), np.tile(3.0 * worst / np.abs(worst).max(), (1, 1, 2, 2))]
    for point in points:
        (result,) = run.run(["y"], {"x": point.astype(np.float32)})
        found = max(found, float(np.linalg.norm(result.astype(np.float64), axis=3 if form == "channels last" else 1).max()))
    return found


@pytest.mark.parametrize("precision", SPECTRAL)
@pytest.mark.parametrize("form", FORMS)
def test_scaled_weights_bound_the_channels(form: str, precision: str) -> None:
    for seed in range(2):
        proto = made(form, seed)
        norm = norm_of(proto, SPECTRAL[precision])
        assert norm.axis == (3 if form == "channels last" else 1)
        alone = norm_of(proto, replace(SPECTRAL[precision], idioms=False))
        assert longest_vector(proto, form) <= norm.bound < 0.7 * alone.bound


@pytest.mark.parametrize("form", ["product", "normalised"])
def test_the_bound_comes_near(form: str) -> None:
    """A vector that the weights stretch most is at most four times shorter than the bound: the input is known by its box alone."""
    proto = made(form, 0)
    assert norm_of(proto, SPECTRAL["first pass"]).bound <= 4.0 * longest_vector(proto, form)


def test_what_is_scaled_along_another_axis_is_not_meant() -> None:
    """The numbers meet positions, not channels: as many as there are filters, but the weights of none are scaled by one."""
    proto = model(f"(float[1,{CHANNELS},{FILTERS + 2},3] x) => (float[1,{FILTERS},{FILTERS},1] y)", "c = Conv(x, w)\ny = Mul(c, s)")
    known = parameters(0)
    along_positions = known["row"].reshape(FILTERS, 1)
    proto.graph.initializer.extend([numpy_helper.from_array(known["w"], "w"), numpy_helper.from_array(along_positions, "s")])
    norm = norm_of(proto, SPECTRAL["first pass"])
    run = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    point = np.random.default_rng(2).choice([-3.0, 3.0], (1, CHANNELS, FILTERS + 2, 3)).astype(np.float32)
    (computed,) = run.run(["y"], {"x": point})
    longest = np.linalg.norm(computed.astype(np.float64), axis=norm.axis).max()
    assert norm.axis == 1 and longest <= norm.bound
    meant = made("product", 0)
    assert longest > 2.0 * norm_of(meant, SPECTRAL["first pass"]).bound
