"""tensorproof finds the inputs that make a neural network return NaN or infinity, and proves it with a failing input.

    import tensorproof

    report = tensorproof.check("model.onnx", ranges={"x": (0, 1)})
    for finding in report.findings:
        print(finding.rule.code, finding.node, finding.verdict)

Importing the package loads no framework; each is imported when it is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import TypeAlias, Unpack

    import onnx
    import torch  # noqa: TID251

    from tensorproof.compare.diffing.comparison import Comparison
    from tensorproof.expose.running import Progress
    from tensorproof.expose.settings import Method
    from tensorproof.findings import Finding, Report, Verdict
    from tensorproof.low_precision.plan import plan_precision as plan
    from tensorproof.observe.watching import watch
    from tensorproof.preparing import ScanOptions
    from tensorproof.repair.fixing import Fixed
    from tensorproof.shapes.problems import Context, Values

    #: What can be checked: a file or `module.py:name`, an ONNX model, a module or function of PyTorch.
    Model: TypeAlias = str | Path | onnx.ModelProto | torch.nn.Module | Callable[..., Any]

__version__ = "0.1.0"

__all__ = [
    "Finding",
    "Report",
    "Verdict",
    "__version__",
    "check",
    "check_shapes",
    "diff",
    "expose",
    "expose_function",
    "find_system_tests",
    "find_witnesses",
    "fix",
    "plan",
    "watch",
]


def __getattr__(name: str) -> Any:
    if name in ("Finding", "Report", "Verdict"):
        from tensorproof import findings

        return getattr(findings, name)
    if name == "plan":
        from tensorproof.low_precision.plan import plan_precision

        return plan_precision
    if name == "watch":
        from tensorproof.observe.watching import watch

        return watch
    raise AttributeError(f"module 'tensorproof' has no attribute {name!r}")


def check(
    model: Model,
    example_inputs: Any = None,
    *,
    confirm: bool = True,
    seed: int = 0,
    runs: int = 33,
    budget: float | None = None,
    witnesses: str | Path | None = None,
    progress: Callable[[str, int], None] | None = None,
    **scan: Unpack[ScanOptions],
) -> Report:
    """Check a model: every operator that can produce NaN or infinity, under the declared ranges.

    The model is an ONNX file or ModelProto; or a program of PyTorch: `module.py:name`, a .pt2 file, an nn.Module or a function,
    with `example_inputs` (a tensor, a tuple of arguments, or a dictionary of them by name) where nothing declares its inputs.

    `ranges`, `dims`, `weights`, `precision`, `phase`, `effort` and the other options of a scan are those of
    `tensorproof.preparing.ScanOptions`. With `confirm`, findings are tried in the model's own runtime (ONNX Runtime, PyTorch)
    on `runs` points of the box, and those that fire are saved in the folder `witnesses`, if one is given.
    """
    from tensorproof.frontends.torch_program import keeping_mode
    from tensorproof.preparing import Prepared

    with keeping_mode(model):
        prepared = Prepared.of(model, example=example_inputs, **scan)
        confirming = None
        if confirm:
            confirming = prepared.quick_confirm(
                seed=seed,
                runs=runs,
                time_limit=budget,
                folder=None if witnesses is None else Path(witnesses),
                progress=None if progress is None else lambda done: progress("confirm", done),
            )
        return prepared.checked(confirming, progress=progress)


def find_witnesses(
    model: Model,
    example_inputs: Any = None,
    *,
    nodes: Sequence[str] = (),
    seed: int = 0,
    evaluations: int = 600,
    method: str = "full",
    budget: float | None = None,
    shrink: bool = True,
    witnesses: str | Path | None = None,
    progress: Callable[[str, int], None] | None = None,
    search_progress: Callable[[str, int, float], None] | None = None,
    **scan: Unpack[ScanOptions],
) -> Report:
    """Check a model, and search a failing input for every possible finding (of `nodes`: names or patterns).

    A finding is confirmed when its node failed in the model's own runtime; its witness is made plain (`shrink`) and saved in
    the folder `witnesses`, if one is given. What the search does not reach is looked at again by the refinements of the highest
    effort.

    `evaluations` bounds the search of each finding, `budget` the seconds of all of them. `method` is `full`, or one of the
    baselines: `gradient` (one descent from one start), `random` (samples alone) and `uniform` (uniform samples alone). Without
    the extra `torch` samples are all.
    """
    from tensorproof.confirm.search import Budget, checked_method
    from tensorproof.frontends.torch_program import keeping_mode
    from tensorproof.preparing import Prepared

    chosen = checked_method(method)
    with keeping_mode(model):
        prepared = Prepared.of(model, example=example_inputs, **scan)
        confirming = prepared.full_confirm(
            budget=Budget(seed, evaluations, chosen),
            runs=33 if chosen == "full" else 0,
            time_limit=budget,
            folder=None if witnesses is None else Path(witnesses),
            progress=None if progress is None else lambda done: progress("confirm", done),
            nodes=tuple(nodes),
            shrink=shrink,
            search_progress=search_progress,
        )
        return prepared.checked(confirming, progress=progress, insist=True)


def find_system_tests(
    model: str | Path | onnx.ModelProto,
    *,
    loss: str,
    lr: float = 1.0,
    steps: int = 1,
    batch: int | None = None,
    nodes: Sequence[str] = (),
    seed: int = 0,
    evaluations: int = 600,
    method: str = "full",
    budget: float | None = None,
    shrink: bool = True,
    witnesses: str | Path | None = None,
    progress: Callable[[str, int], None] | None = None,
    search_progress: Callable[[str, int, float], None] | None = None,
    **scan: Unpack[ScanOptions],
) -> Report:
    """Check an ONNX model, and search for every finding a training example and an inference input that together make it fail.

    From the weights of the file, `steps` steps of gradient descent on the output `loss` with learning rate `lr`, on one example
    (of `batch` samples, where the model leaves that open), lead to weights with which the node fails in ONNX Runtime. The
    weights that are ranges are trained; all of them, if there is none. By default the scan looks at weights that training may
    lead to (`weights="ranum"`): with those of the file alone most nodes are safe. Needs the extra `torch`.
    """
    from tensorproof.confirm.system_test import find_system_tests as search
    from tensorproof.preparing import Prepared

    scan.setdefault("weights", "ranum")
    prepared = Prepared.of(model, **scan)
    return search(
        prepared,
        loss=loss,
        lr=lr,
        steps=steps,
        batch=batch,
        nodes=nodes,
        seed=seed,
        evaluations=evaluations,
        method=method,
        budget=budget,
        shrink=shrink,
        witnesses=witnesses,
        progress=progress,
        search_progress=search_progress,
    )


def check_shapes(
    paths: str | Path | Sequence[str | Path],
    *,
    context: Context = "full",
    values: Values = "full",
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
) -> Report:
    """Check Python source for tensor-shape defects: a file, a notebook, a folder, or several of them. Nothing is run.

    `context` says how calls are told apart, `values` what is kept where paths meet; `select` and `ignore` are codes of rules, as
    on the command line. A file that cannot be read or parsed is one of the report's `errors`; the others are analysed.
    """
    from tensorproof.report.selection import apply_selection, parse_selection
    from tensorproof.shapes.problems import ShapeOptions
    from tensorproof.shapes.reporting import check_sources

    selection = parse_selection(select, ignore)
    listed = [paths] if isinstance(paths, str | Path) else paths
    return apply_selection(check_sources(listed, ShapeOptions(context=context, values=values)).report, selection)


def diff(
    left: str | Path,
    right: str | Path,
    *,
    data: str | Path | None = None,
    ranges: Mapping[str, Any] | None = None,
    left_backend: str | None = None,
    right_backend: str | None = None,
    left_python: str = "",
    right_python: str = "",
    inputs: Mapping[str, str] | None = None,
    state: str | Path | None = None,
    runs: int = 16,
    evaluations: int = 100,
    seed: int = 0,
    size: int = 2,
    witnesses: str | Path | None = None,
    progress: Callable[[str], None] | None = None,
) -> Comparison:
    """Compare two models that are meant to compute the same: ONNX files, .keras files, PyTorch programs (`module.py:name`).

    The result's `verdict` is `agree`, `precision` (rounding) or `defect`; `first` is the first operator at which they part.
    Inputs are those of the .npz file `data`, or `runs` points of `ranges` (as in `check`); where they show no defect, a search of
    `evaluations` looks for an input that does. A backend is `onnxruntime?optimisation=off`, `openvino`, `onnx-reference`, `torch`,
    `keras:jax`, ...; `left_python` and `right_python` are interpreters of other environments. `inputs` and `state` are those of
    programs, `size` is that of dimensions which both models leave open. The input of a defect, and a program that replays it,
    are saved in the folder `witnesses`, if one is given.
    """
    from tensorproof.assumptions import domain_from_json
    from tensorproof.compare.diffing.comparing import DiffOptions, compare

    options = DiffOptions(
        str(left),
        str(right),
        left_backend,
        right_backend,
        left_python,
        right_python,
        None if data is None else str(data),
        {name: domain_from_json(value, name) for name, value in (ranges or {}).items()},
        dict(inputs or {}),
        state=None if state is None else str(state),
        runs=runs,
        evaluations=evaluations,
        seed=seed,
        size=size,
        out=None if witnesses is None else Path(witnesses),
    )
    return compare(options, progress)


def expose(
    script: str | Path,
    arguments: Sequence[str] = (),
    *,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    method: Method = "search",
    epsilon: float = 0.15,
    switch_rate: float = 0.05,
    seed: int = 0,
    runs: int = 10,
    iterations: int = 1000,
    evaluations: int = 100_000,
    stop_after: int | None = None,
    budget: float | None = 1800.0,
    sandbox: bool = False,
    witnesses: str | Path | None = None,
    log: str | Path | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Report:
    """Run a program of PyTorch or TensorFlow under observation, and drive its operators into NaN and infinity.

    The script is run as `__main__`, unmodified, in a process of its own, with `arguments`. What it is fed (batches of loaders,
    tensors, feeds) is moved by steps of `epsilon` of its legal width, and the part `switch_rate` of the samples replaced every
    100 steps of training; random numbers and initial values are moved where that leads on. Legal is what was observed, or what
    `ranges` declares, by the names of values that the report lists (`*` for all). `method` is `search`, or one of the
    baselines: `no-replacement` (all samples are kept) and `plain` (nothing is moved).

    A run ends with its first failure, and the program is run again for other operators, or with the next seed: `runs` times, with
    `iterations` steps of training (0: as many as the program has) and `evaluations` gradients each. The same `seed` gives the
    same result, unless `budget` seconds cut it short. After `stop_after` findings the search is over. With `sandbox`, the program
    is run in a scratch copy of its folder.

    A finding is confirmed when its replay, a script that needs nothing of tensorproof, failed at the same line in a fresh
    process; replays are saved in the folder `witnesses`, if one is given. What the program prints goes to the file `log` (`-` for
    standard error). The report's `errors` say why a program could not be run to an end.
    """
    from tensorproof.expose.running import exposed

    return exposed(
        script,
        arguments,
        ranges=ranges,
        method=method,
        epsilon=epsilon,
        switch_rate=switch_rate,
        seed=seed,
        runs=runs,
        iterations=iterations,
        evaluations=evaluations,
        stop_after=stop_after,
        budget=budget,
        sandbox=sandbox,
        witnesses=witnesses,
        log=log,
        progress=progress,
    )


def expose_function(
    function: str,
    arguments: Mapping[str, Any] | None = None,
    *,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    method: str = "search",
    epsilon: float = 0.15,
    seed: int = 0,
    runs: int = 10,
    evaluations: int = 5000,
    stop_after: int | None = None,
    budget: float | None = 600.0,
    witnesses: str | Path | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Report:
    """Search the arguments of one function for finite ones that make it, or its derivative, NaN or infinite.

    `function` is a name, `torch.nn.functional.normalize`, `tf.math.reduce_std`, `package.module.f` or `file.py:f`. A method is
    named by its class, and arguments that are parameters of the class go to its constructor. Its module is imported in a process
    of its own. `arguments` are declarations of tensors (`"float32[4,3] in -10:10"`; `nograd` at the end: not differentiated) and
    values. Tensors that are not declared are guessed where the signature says enough, and the report lists the guesses. What
    distributions of PyTorch demand of their parameters is kept to; arguments that the function refuses with an exception are no
    findings.

    Special numbers of the ranges are tried, and random ones; then each operator inside that can fail is driven towards it by
    steps of `epsilon` of the range, from `runs` starts (`method` `plain`: random numbers alone). `evaluations` bounds calls
    and gradients together; the same `seed` gives the same result, unless `budget` seconds cut it short. A finding is confirmed
    when a script that needs nothing of tensorproof failed with the same arguments in a fresh process; such scripts are saved in the
    folder `witnesses`, if one is given.
    """
    from tensorproof.expose.functions.running import exposed_function

    return exposed_function(
        function,
        arguments,
        ranges=ranges,
        method=method,
        epsilon=epsilon,
        seed=seed,
        runs=runs,
        evaluations=evaluations,
        stop_after=stop_after,
        budget=budget,
        witnesses=witnesses,
        progress=progress,
    )


def fix(
    model: str | Path | onnx.ModelProto,
    *,
    nodes: Sequence[str] = (),
    at: str | Sequence[str] = "operand",
    unsafe: bool = False,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    seed: int = 0,
    runs: int | None = None,
    witnesses: str | Path | None = None,
    progress: Callable[[str, str], None] | None = None,
    **scan: Unpack[ScanOptions],
) -> Fixed:
    """Check a model, and repair it: an ONNX model, a PyTorch program (`module.py:name`), a graph file or SavedModel of TensorFlow.

    For every finding (of `nodes`: names or patterns) a repair is sought that passes its verification.

    Repairs of an ONNX model are tried in the order stable rewrite, guard of the operand, interval precondition on the inputs;
    `at` asks for preconditions instead: on "inputs", "weights", "both", or on the results of nodes that are named. The model of
    the result (`Fixed.proto`) has all safe repairs, and with `unsafe` those that change values, too. Each was verified by a scan
    of the whole patched model, by the failing input, and by `runs` points of the box (1000) in ONNX Runtime. `select` and
    `ignore` are codes of rules, as on the command line.

    Of a program the source is repaired, at the lines of its findings (`Fixed.source`); points (200) are run in eager PyTorch.
    In files of TensorFlow operands are held in their valid range (`Fixed.graph_file`, which writes the model); points (20) are run
    in TensorFlow. For other models of TensorFlow, Keras and JAX it is said what to clamp, and where (`Fixed.by_hand`).
    """
    from tensorproof.preparing import Prepared
    from tensorproof.repair.fixing import fixed
    from tensorproof.repair.program import fixed_program
    from tensorproof.report.selection import parse_selection

    prepared = Prepared.of(model, **scan)
    repaired = fixed if prepared.program is None else fixed_program
    if prepared.framework is not None:
        from tensorproof.repair.framework import fixed_framework

        repaired = fixed_framework
    return repaired(
        prepared,
        nodes=nodes,
        at=at,
        unsafe=unsafe,
        selection=parse_selection(select, ignore),
        seed=seed,
        runs=runs,
        witnesses=witnesses,
        progress=progress,
    )
