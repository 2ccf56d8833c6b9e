"""The meanings of operators on torch, against the node cases of the standard and the seeds of the suite."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx

from tensorproof.errors import ModelError
from tensorproof.execute.meaning import NotExecutable
from tensorproof.execute.torch_graph import TorchGraph
from tensorproof.formats import FLOAT32, FLOAT64, Format, of_dtype
from tensorproof.frontends.onnx_file import from_proto
from tensorproof.operators.table import find_operator
from tests.soundness.seeds.seed import Seed
from tests.soundness.trials import reference_oracle, retyped, runtime_oracle

#: Operators whose results are random, or text: no value to compare.
NOT_COMPARED = {
    "Bernoulli",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
}

#: Cases of operators that are random in this use only.
RANDOM_CASES = {f"test_training_dropout{rest}" for rest in ("", "_mask", "_default", "_default_mask")}

#: Cases with a mean so far from zero that sums in float32 differ by their order: they are compared in float64.
IN_FLOAT64 = (
    "batch-mean-6e4",
    "group-mean-50",
    "instance-mean-60000",
    "layer-mean-10000",
    "layer-mean-1e+06",
    "mvn-mean-50",
)

#: The same for operators that ONNX Runtime has in float32 alone: what its sums are off by.
ROUNDED_SUMS = {"skip-far": 2e-3}

#: Cases of the standard whose expected values are written with four digits.
FOUR_DIGITS = {
    "test_averagepool_2d_ceil_last_window_starts_on_pad",
    "test_gridsample_bicubic",
    "test_roialign_aligned_false",
    "test_roialign_aligned_true",
}

#: Cases that the standard's evaluator computes otherwise than ONNX Runtime, which meanings follow.
AS_IN_RUNTIME = {
    "grid_sample_cubic_border_0",
    "grid_sample_cubic_border_1",
    "resize_cubic_align_corners_0.6_reference",
    "resize_cubic_tf_crop_and_resize_0.6_reference",
    "resize_linear_align_corners_0.6_reference",
    "resize_linear_tf_crop_and_resize_0.6_reference",
    "test_maxunpool_export_with_output_shape",
    "test_resize_downsample_scales_cubic_align_corners",
    "test_resize_downsample_scales_linear_align_corners",
}


def run_meaning(case: Seed, *, precision: Format | None = None, search: bool = False) -> tuple[str, str]:
    """`passed`, `wrong` or `missing` (no meaning, or not for this use), with the detail."""
    import torch

    if case.name.startswith(IN_FLOAT64):
        case = _in_float64(case)
    try:
        model = from_proto(case.model)
    except ModelError as reason:  # older than what is read
        return "missing", str(reason)
    missing = [n.label for n in model.graph.walk() if (e := find_operator(n.domain, n.op)) is None or e.concrete is None]
    if missing:
        return "missing", f"no meaning of {missing[0]}"
    expected = _computed(case) if case.name in AS_IN_RUNTIME else case.outputs or _computed(case)
    if expected is None:
        return "missing", "no oracle computes this case"
    graph = TorchGraph(model, precision=precision, search=search)
    try:
        feeds = {n: _fed(graph, x, model.values[n].format) for n, x in zip(model.graph.inputs, case.inputs)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            values = graph.run(feeds, model.graph.outputs)
    except NotExecutable as reason:
        return "missing", str(reason)
    except Exception as error:
        return "wrong", f"{type(error).__name__}: {str(error)[:300]}"
    for number, wanted in zip(model.graph.outputs, expected):
        if model.values[number].container == "optional" and isinstance(values[number], torch.Tensor):
            # onnx.reference wraps the value of an Optional node into a list of one.
            wanted = wanted[0] if isinstance(wanted, list) and len(wanted) == 1 else wanted
        problem = _difference(values[number], wanted, case, precision)
        if problem:
            return "wrong", f"{model.name_of(number)}: {problem}"
    return "passed", ""


def _in_float64(case: Seed) -> Seed:
    """The case with float64 tensors, and what the formula of the standard gives in float64."""
    inputs = tuple(x.astype(np.float64) if isinstance(x, np.ndarray) and x.dtype == np.float32 else x for x in case.inputs)
    return replace(case, model=retyped(case.model, FLOAT32.onnx_code, FLOAT64.onnx_code), inputs=inputs, outputs=(_formula(case),))


def _formula(case: Seed) -> np.ndarray[Any, Any]:
    """A normalisation in float64, from the definitions of the standard."""
    (node,) = case.model.graph.node
    given = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    fixed = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in case.model.graph.initializer}
    fixed |= dict(zip([info.name for info in case.model.graph.input], case.inputs))
    x, *others = [fixed[name].astype(np.float64) for name in node.input]
    channels = (1, -1, *(1,) * (x.ndim - 2))
    epsilon = given.get("epsilon", 1e-5)
    match node.op_type:
        case "BatchNormalization":
            scale, bias, mean, variance = (part.reshape(channels) for part in others)
            return scale * (x - mean) / np.sqrt(variance + epsilon) + bias
        case "MeanVarianceNormalization":
            axes = tuple(given.get("axes", (0, 2, 3)))
            return (x - x.mean(axes, keepdims=True)) / (x.std(axes, keepdims=True) + 1e-9)
        case "GroupNormalization":
            grouped = x.reshape(x.shape[0], given["num_groups"], -1)
            y = (grouped - grouped.mean(-1, keepdims=True)) / np.sqrt(grouped.var(-1, keepdims=True) + epsilon)
            return y.reshape(x.shape) * others[0].reshape(channels) + others[1].reshape(channels)
        case _:
            layer = node.op_type == "LayerNormalization"
            axes = tuple(range(given.get("axis", -1) % x.ndim, x.ndim)) if layer else tuple(range(2, x.ndim))
            y = (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)
            scale, bias = (part if layer else part.reshape(channels) for part in (*others, np.zeros(1))[:2])
            return y * scale + bias


def _fed(graph: TorchGraph, value: Any, format: Format | None) -> Any:
    if isinstance(value, (list, tuple)):
        return [_fed(graph, v, format) for v in value]
    return None if value is None else graph.tensor(np.asarray(value), format)


def _computed(case: Seed) -> Sequence[Any] | None:
    oracle = runtime_oracle if case.oracle == "runtime" or case.name in AS_IN_RUNTIME else reference_oracle
    try:
        return oracle(case.model)(case.inputs)
    except Exception:  # the oracle does not know the operator
        return None


def _difference(found: Any, wanted: Any, case: Seed, precision: Format | None) -> str | None:
    import torch

    if isinstance(wanted, (list, tuple)):
        if not isinstance(found, (list, tuple)) or len(found) != len(wanted):
            return f"a sequence of {len(wanted)} expected"
        return next((p for a, b in zip(found, wanted) if (p := _difference(a, b, case, precision))), None)
    if wanted is None:
        return None if found is None else "nothing expected"
    wanted = np.asarray(wanted)
    if not isinstance(found, torch.Tensor):
        return f"no tensor but {type(found).__name__}"
    if tuple(found.shape) != wanted.shape:
        return f"shape {tuple(found.shape)}, expected {wanted.shape}"
    if case.name in RANDOM_CASES or any(node.op_type in NOT_COMPARED for node in case.model.graph.node):
        return None
    digits = of_dtype(wanted.dtype).digits if wanted.dtype.kind != "c" else 24
    if wanted.dtype.kind == "c":
        numbers = found.detach().resolve_conj().numpy()
    else:
        numbers = found.detach().to(torch.float64).numpy()
        wanted = wanted.astype(np.float64)
    narrow = min((of_dtype(np.asarray(x).dtype).digits or 53 for x in case.inputs if _is_floating(x)), default=24)
    own = 5e-4 if case.name in FOUR_DIGITS else ROUNDED_SUMS.get(case.name, 2e-5)
    tolerance = max(2.0 ** -(min(digits or 24, narrow) - 4), own)
    scale = np.abs(wanted[np.isfinite(wanted)]).max(initial=1e-3)
    if np.allclose(numbers, wanted, rtol=tolerance, atol=tolerance * min(float(scale), 1.0), equal_nan=True):
        return None
    worst = np.nanmax(np.abs(numbers - wanted)) if numbers.size else 0.0
    return f"off by {worst:g}: {numbers.reshape(-1)[:4]} expected {wanted.reshape(-1)[:4]}"


def _is_floating(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind in "fV" and of_dtype(value.dtype).is_float
