"""The meanings of operators on torch, against the node cases of the standard and the seeds of the suite."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from tensorproof.errors import ModelError
from tensorproof.execute.meaning import NotExecutable
from tensorproof.execute.torch_graph import TorchGraph
from tensorproof.formats import Format, of_dtype
from tensorproof.frontends.onnx_file import from_proto
from tensorproof.operators.table import find_operator
from tests.soundness.seeds.seed import Seed
from tests.soundness.trials import reference_oracle, runtime_oracle

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

#: Cases with a mean so far from zero that sums differ visibly by their order, and by how much.
ROUNDING = {
    "layer-mean-10000": 5e-3,
    "layer-mean-1e+06": 0.5,
    "instance-mean-60000": 0.05,
    "group-mean-50": 1e-3,
    "batch-mean-6e4": 5e-3,
    "mvn-mean-50": 1e-3,
}

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
    if case.operator in NOT_COMPARED or case.name in RANDOM_CASES:
        return None
    digits = of_dtype(wanted.dtype).digits if wanted.dtype.kind != "c" else 24
    if wanted.dtype.kind == "c":
        numbers = found.detach().resolve_conj().numpy()
    else:
        numbers = found.detach().to(torch.float64).numpy()
        wanted = wanted.astype(np.float64)
    narrow = min((of_dtype(np.asarray(x).dtype).digits or 53 for x in case.inputs if _is_floating(x)), default=24)
    own = next((error for name, error in ROUNDING.items() if case.name.startswith(name)), 2e-5)
    own = 5e-4 if case.name in FOUR_DIGITS else own
    tolerance = max(2.0 ** -(min(digits or 24, narrow) - 4), own)
    scale = np.abs(wanted[np.isfinite(wanted)]).max(initial=1e-3)
    if np.allclose(numbers, wanted, rtol=tolerance, atol=tolerance * min(float(scale), 1.0), equal_nan=True):
        return None
    worst = np.nanmax(np.abs(numbers - wanted)) if numbers.size else 0.0
    return f"off by {worst:g}: {numbers.reshape(-1)[:4]} expected {wanted.reshape(-1)[:4]}"


def _is_floating(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind in "fV" and of_dtype(value.dtype).is_float
