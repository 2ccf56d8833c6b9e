"""tensorproof finds the inputs that make a neural network return NaN or infinity, and proves it with a failing input.

    import tensorproof

    report = tensorproof.check("model.onnx", ranges={"x": (0, 1)})
    for finding in report.findings:
        print(finding.rule.code, finding.node, finding.verdict)

Importing the package loads no framework; each is imported when it is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import onnx

    from tensorproof.findings import Finding, Report, Verdict

__version__ = "0.1.0"

__all__ = ["Finding", "Report", "Verdict", "__version__", "check"]


def __getattr__(name: str) -> Any:
    if name in ("Finding", "Report", "Verdict"):
        from tensorproof import findings

        return getattr(findings, name)
    raise AttributeError(f"module 'tensorproof' has no attribute {name!r}")


def check(
    model: str | Path | onnx.ModelProto,
    *,
    ranges: Mapping[str, Any] | None = None,
    dims: Mapping[str, int | tuple[int, int]] | None = None,
    weights: str = "fixed",
    samples: str | None = None,
    target: str = "onnxruntime-cpu",
    precision: str | None = None,
    effort: int = 1,
    tensors: str | None = None,
    values: str | None = None,
    cache: bool = True,
    confirm: bool = True,
    seed: int = 0,
    runs: int = 33,
    budget: float | None = None,
    witnesses: str | Path | None = None,
    progress: Callable[[str, int], None] | None = None,
) -> Report:
    """Check an ONNX model: every operator that can produce NaN or infinity, under the declared ranges.

    `ranges` maps names of inputs (and of weights) to (low, high) or to a domain such as "one-hot"; `*` stands for all.
    `dims` gives symbolic dimensions a size or a range of sizes. With `confirm`, findings are tried in ONNX Runtime on
    `runs` points of the box, and those that fire are saved in the folder `witnesses`, if one is given.

    `effort` (0 to 3) says how far the analysis looks again at what its first pass cannot prove; `tensors` (smash, partition,
    expand) and `values` (interval, affine) choose what that first pass keeps. Without `cache`, summaries of weights are
    neither read from nor written to the user's cache folder.
    """
    from tensorproof.assumptions import Declarations, domain_from_json
    from tensorproof.checking import check as check_model
    from tensorproof.confirm.quick import QuickConfirm
    from tensorproof.frontends.onnx_file import from_proto
    from tensorproof.frontends.onnx_precision import converted, find_precision
    from tensorproof.frontends.reading import read_onnx
    from tensorproof.ranges import weight_cache
    from tensorproof.ranges.abstraction import chosen
    from tensorproof.refine.driver import checked_effort
    from tensorproof.targets import find_target

    runtime = find_target(target)
    abstraction = chosen(tensors, values)
    checked_effort(effort)
    weight_cache.use_cache(weight_cache.default_folder() if cache else None)
    path = str(model) if isinstance(model, str | Path) else None
    proto = read_onnx(model) if isinstance(model, str | Path) else model
    changes: dict[str, str] = {}
    if precision is not None:
        proto, changes = converted(proto, find_precision(precision), path=path)
    graph = from_proto(proto, path=path)
    for number, value in enumerate(graph.values):
        if value.name in changes and number in graph.constants:
            graph.conversions[number] = changes[value.name]
    declared = Declarations(
        {name: domain_from_json(value, name) for name, value in (ranges or {}).items()},
        {name: (size, size) if isinstance(size, int) else size for name, size in (dims or {}).items()},
        weights,
        samples,
    )
    confirming = None
    if confirm:
        confirming = QuickConfirm(
            proto,
            seed=seed,
            runs=runs,
            time_limit=budget,
            folder=None if witnesses is None else Path(witnesses),
            data_folder=None if path is None else str(Path(path).resolve().parent),
            progress=None if progress is None else lambda done: progress("confirm", done),
        )
    report = check_model(
        graph,
        declared,
        runtime,
        precision=precision,
        effort=effort,
        abstraction=abstraction,
        confirm=confirming,
        progress=progress,
    )
    weight_cache.save()
    if confirming is not None and confirming.notes:
        report.assumptions["confirm"] = sorted(set(confirming.notes))
    return report
