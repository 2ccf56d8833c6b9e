"""Random trials: ranges grown around a seed, sample points inside them, results compared with an oracle."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from tensorproof.formats import BY_ONNX_CODE, Format, of_dtype
from tensorproof.frontends.onnx_file import from_proto
from tensorproof.graph import Model
from tensorproof.ranges.abstraction import PRECISE, Abstraction
from tensorproof.ranges.containers import Abstract, OptionalOf, SequenceOf
from tensorproof.ranges.flow import Flow
from tensorproof.ranges.grid import largest
from tensorproof.ranges.propagate import propagate
from tensorproof.ranges.range import Range
from tensorproof.ranges.records import RangedGraph
from tensorproof.targets import IEEE, ONNXRUNTIME_CPU, Target
from tests.soundness.containment import violation
from tests.soundness.oracles import is_distrusted
from tests.soundness.seeds.seed import Seed

Oracle = Callable[[Sequence[Any]], list[Any]]


def abstract_point(value: Any, format: Format | None) -> Abstract:
    """Exactly this input."""
    if value is None:
        return OptionalOf(None, True)
    if isinstance(value, list | tuple):
        return SequenceOf.of(tuple(Range.constant(np.asarray(v)) for v in value))
    array = np.asarray(value)
    if array.dtype.kind in "US":
        array = array.astype(object)
    return Range.constant(array, format if format is not None and format.kind != "string" else None)


def analyse(model: Model, inputs: Sequence[Abstract], target: Target = IEEE, abstraction: Abstraction = PRECISE) -> RangedGraph:
    """Propagate abstract inputs, given in the order of the model's own inputs."""
    numbers = model.graph.inputs
    values = {}
    for number, value in zip(numbers, inputs, strict=True):
        if model.values[number].container == "optional" and not isinstance(value, OptionalOf):
            value = OptionalOf(value, False)
        values[number] = value
    return propagate(model, values, target, strict=True, abstraction=abstraction)


def unanalysed(result: RangedGraph) -> list[str]:
    """Reasons why nodes were not analysed."""
    return [f"{r.node.op}: {r.not_analysed}" for r in result.records.values() if r.not_analysed is not None]


def check_outputs(result: RangedGraph, outputs: Sequence[Any]) -> list[str]:
    """Violations of the ranges of the graph's outputs."""
    found: list[str] = []
    for number, computed in zip(result.model.graph.outputs, outputs):
        flow: Flow = result.outputs[number]
        why = violation(flow.actual, computed)
        if why:
            found.append(f"{result.model.name_of(number)}: {why}")
    return found


def retyped(model: onnx.ModelProto, old: int, new: int) -> onnx.ModelProto:
    """The model with every declared tensor of one element type (inputs, outputs, initialisers) in another."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for info in (*copy.graph.input, *copy.graph.output, *copy.graph.value_info):
        if info.type.tensor_type.elem_type == old:
            info.type.tensor_type.elem_type = new
    for tensor in copy.graph.initializer:
        if tensor.data_type == old:
            array = onnx.numpy_helper.to_array(tensor).astype(BY_ONNX_CODE[new].dtype)
            tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
    return copy


def admits(seed: Seed, format: Format) -> bool:
    """Whether the operator's schema admits the format where the seed has float32."""
    if format.name == "float32":
        return True
    opsets = {o.domain: o.version for o in seed.model.opset_import}
    try:
        schema = onnx.defs.get_schema(seed.operator, opsets.get(seed.domain, 1), seed.domain)
    except onnx.defs.SchemaError:
        return format.name in ("float16",)
    name = {"float64": "double", "float16": "float16", "bfloat16": "bfloat16"}.get(format.name, format.name)
    constraints = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    relevant = [c for c in constraints.values() if "tensor(float)" in c]
    return bool(relevant) and all(f"tensor({name})" in c for c in relevant)


def reference_oracle(model: onnx.ModelProto) -> Oracle:
    """The ONNX reference evaluator."""
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(model)
    names = [info.name for info in model.graph.input]

    def run(inputs: Sequence[Any]) -> list[Any]:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return evaluator.run(None, dict(zip(names, inputs)))

    return run


def runtime_oracle(model: onnx.ModelProto) -> Oracle:
    """ONNX Runtime with optimisations off."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [info.name for info in model.graph.input]

    def run(inputs: Sequence[Any]) -> list[Any]:
        return session.run(None, dict(zip(names, inputs)))

    return run


# -- random ranges ---------------------------------------------------------------------------------------------------


def random_cuts(rng: np.random.Generator, size: int) -> np.ndarray[Any, Any] | None:
    """Uneven cells along an axis: one cell, one per element, or random boundaries."""
    kind = rng.integers(4)
    if size <= 1 or kind == 0:
        return np.zeros(1, np.int64) if size == 0 else None
    if kind == 1:
        return np.arange(size + 1, dtype=np.int64)
    inner = rng.choice(np.arange(1, size), size=int(rng.integers(1, size)), replace=False)
    return np.array([0, *sorted(inner), size], np.int64)


def into(values: np.ndarray[Any, Any], format: Format) -> np.ndarray[Any, Any]:
    """Numbers of the format nearest to the given ones, never infinite, as float64."""
    with np.errstate(all="ignore"):
        clipped = np.clip(values, format.low, format.high)
        return clipped.astype(format.dtype).astype(np.float64)


STYLES = ("around", "around", "around", "straddle", "positive", "large", "tiny", "edge")


def random_range(rng: np.random.Generator, array: np.ndarray[Any, Any], format: Format, style: str) -> Range:
    """A range on a random grid. Style `around` holds the array itself; the others are where faults are found."""
    grid = tuple(random_cuts(rng, size) for size in array.shape)
    cells = tuple(1 if c is None else len(c) - 1 for c in grid)
    values = array.astype(np.float64)
    values = np.where(np.isfinite(values), values, 0.0)
    if style == "around":
        low, high = values, values
        for axis, cuts in enumerate(grid):
            starts = np.zeros(1, np.int64) if cuts is None else cuts[:-1]
            if values.size and cells[axis]:
                low = np.minimum.reduceat(low, starts, axis)
                high = np.maximum.reduceat(high, starts, axis)
        low, high = low.reshape(cells), high.reshape(cells)
        spread = rng.choice([0.0, 0.01, 0.5, 3.0], size=cells)
        low, high = low - spread * rng.random(cells), high + spread * rng.random(cells)
        if format.kind == "int":
            low, high = np.floor(low), np.ceil(high)
    else:
        centre = rng.standard_normal(cells)
        radius = np.abs(rng.standard_normal(cells))
        if style == "straddle":
            low, high = -radius, np.abs(centre)
        elif style == "positive":
            low, high = np.abs(centre), np.abs(centre) + radius
        elif style == "large":
            scale = format.high ** rng.uniform(0.3, 1.0, cells)
            low, high = -scale * rng.random(cells), scale
        elif style == "tiny":
            scale = format.smallest_normal * 8.0 if format.is_float else 2.0
            low, high = -scale * rng.random(cells), scale * rng.random(cells)
        else:
            points = np.array([0.0, -1.0, 1.0, 0.5, 2.0])
            low = rng.choice(points, cells)
            high = low + rng.choice([0.0, 1.0, 2.0], cells)
    low, high = into(np.minimum(low, high), format), into(np.maximum(low, high), format)
    return Range(format, array.shape, grid, low, high)


def sample(rng: np.random.Generator, x: Range) -> np.ndarray[Any, Any]:
    """A point of a range, each element where faults are found: ends, their neighbours, 0, +-1, subnormals, ties."""
    low, high, _ = x.expanded()
    dtype = x.format.dtype
    if not x.format.is_float:
        kind = rng.integers(3, size=low.shape)
        inner = np.floor(low + rng.random(low.shape) * (high - low + 1))
        picked = np.select([kind == 0, kind == 1], [low, high], inner)
        return np.clip(picked, low, high).astype(dtype)
    # One tactic for the whole tensor half of the time: all low, all high, all zero give the extremes of sums.
    kind = rng.integers(12, size=low.shape) if rng.random() < 0.6 else np.full(low.shape, rng.integers(12))
    tiny, normal = x.format.smallest_subnormal, x.format.smallest_normal
    with np.errstate(all="ignore"):
        step = x.format.quantum(low), x.format.quantum(high)
        choices = [
            low,
            high,
            low + step[0],
            high - step[1],
            np.zeros_like(low),
            rng.choice([tiny, -tiny, normal, -normal], low.shape),
            rng.choice([1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 1.5, 2.5], low.shape),
            np.rint(low + rng.random(low.shape) * (high - low)),
        ]
        uniform = low + rng.random(low.shape) * (high - low)
        uniform = np.where(np.isfinite(uniform), uniform, low / 2 + high / 2)
        picked = np.select([kind == k for k in range(len(choices))], choices, uniform)
        result = into(np.clip(picked, low, high), x.format)
        result = np.clip(result, low, high).astype(dtype)
    zero = result == 0
    return np.where(zero & (rng.random(low.shape) < 0.5), -result, result).astype(dtype)


# -- one trial -------------------------------------------------------------------------------------------------------


@dataclass
class Outcome:
    """What a trial found: violations, or the reason why it could not be run."""

    violations: list[str]
    skipped: str | None = None
    samples: int = 0
    details: str = ""


class Workbench:
    """A seed in one format, ready for many trials.

    Contrib operators exist in ONNX Runtime alone, so that its own target is assumed for them; others are held to IEEE.
    """

    def __init__(
        self, seed: Seed, format: Format | None = None, target: Target | None = None, abstraction: Abstraction = PRECISE
    ) -> None:
        self.seed = seed
        self.abstraction = abstraction
        self.target = target or (ONNXRUNTIME_CPU if seed.domain == "com.microsoft" else IEEE)
        self.proto = seed.model
        self.inputs = list(seed.inputs)
        float32 = 1
        if format is not None and format.onnx_code != float32:
            self.proto = retyped(seed.model, float32, format.onnx_code)
            self.inputs = [
                x.astype(format.dtype) if isinstance(x, np.ndarray) and x.dtype == np.float32 else x for x in self.inputs
            ]
        self.model = from_proto(self.proto)
        distrusted = is_distrusted(seed, "float32" if format is None else format.name)
        make = runtime_oracle if seed.oracle == "runtime" or distrusted else reference_oracle
        self.oracle = make(self.proto)
        names = [info.name for info in self.proto.graph.input]
        self.varied = [
            isinstance(x, np.ndarray) and (name in seed.vary if seed.vary is not None else of_dtype(x.dtype).is_float)
            for name, x in zip(names, self.inputs)
        ]

    def ranges(self, rng: np.random.Generator) -> list[Abstract]:
        """Random ranges for the varied inputs, points for the others."""
        style = STYLES[rng.integers(len(STYLES))]
        result: list[Abstract] = []
        for value, varied in zip(self.inputs, self.varied):
            if varied:
                result.append(random_range(rng, value, of_dtype(value.dtype), style))
            else:
                result.append(abstract_point(value, None))
        return result

    def draw(self, rng: np.random.Generator, ranges: Sequence[Abstract]) -> list[Any]:
        return [
            sample(rng, r) if varied and isinstance(r, Range) else value
            for r, varied, value in zip(ranges, self.varied, self.inputs)
        ]

    def trial(self, rng: np.random.Generator, samples: int = 12) -> Outcome:
        """Random ranges, one analysis, several points."""
        ranges = self.ranges(rng)
        result = analyse(self.model, ranges, self.target, self.abstraction)
        reasons = unanalysed(result)
        if reasons:
            return Outcome([], skipped=reasons[0])
        if any(_may_be_huge(flow.actual) for flow in result.outputs.values()):
            return Outcome([], skipped="the result may be huge")
        found: list[str] = []
        run = 0
        for _ in range(samples):
            point = self.draw(rng, ranges)
            try:
                outputs = self.oracle(point)
            except Exception as error:  # any oracle may refuse a point: then there is nothing to compare
                return Outcome(found, skipped=f"oracle: {str(error)[:100]}" if not run else None, samples=run)
            run += 1
            bad = check_outputs(result, outputs)
            if bad:
                found.append(f"{bad[0]} | inputs {[_short(p) for p in point]} | ranges {ranges}")
                break
        return Outcome(found, samples=run)


def _may_be_huge(value: Abstract) -> bool:
    """Whether an oracle could be asked for more memory than a test may take."""
    if not isinstance(value, Range) or value.shape is None:
        return False
    count = 1
    for size in value.shape:
        most = largest(size)
        count *= 1 << 40 if most is None else most
    return count > 1 << 22


def _short(value: Any) -> str:
    text = repr(value.tolist() if isinstance(value, np.ndarray) else value)
    return text if len(text) < 300 else text[:300] + "..."
