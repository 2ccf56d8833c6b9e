"""Commands and options. Everything heavy is imported inside the commands, so that `--help` answers at once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from tensorproof.cli.output import guarded
from tensorproof.errors import TensorproofError

if TYPE_CHECKING:
    from tensorproof.cli.scanning import ScanArguments
    from tensorproof.expose.settings import Method

app = typer.Typer(
    name="tensorproof",
    help="Finds the inputs that make a neural network return NaN or infinity, and proves it with a failing input.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    # Plain help: drawing boxes would double the time that it takes.
    rich_markup_mode=None,
)

_debug = False

# -- options that several commands have -------------------------------------------------------------------------------

_MODELS = "ONNX, SavedModel, .pb, .pbtxt, .meta, .keras, .pt2, or module.py:name (PyTorch, TensorFlow, Keras, JAX)."
RangeOptions = Annotated[
    list[str] | None,
    typer.Option("--range", metavar="NAME=LOW:HIGH", help="Range of an input (or weight); `*` for all. Repeatable."),
]
RangesFile = Annotated[Path | None, typer.Option("--ranges", metavar="FILE", help='JSON: {"name": [low, high]}.')]
Samples = Annotated[Path | None, typer.Option("--samples", metavar="FILE", help="Ranges learned from the arrays of an .npz file.")]
Dimensions = Annotated[
    list[str] | None,
    typer.Option("--dim", metavar="NAME=SIZE", help="Size of a symbolic dimension, or LOW:HIGH. Repeatable."),
]
Weights = Annotated[str | None, typer.Option(help="fixed (as in the file), init, ranum, debar, or LOW:HIGH.", show_default="fixed")]
Precision = Annotated[str | None, typer.Option(help="What if the model ran in float16, bfloat16, ...?")]
TargetName = Annotated[str | None, typer.Option(help="The runtime whose arithmetic is assumed.", show_default="the model's own")]
PhaseName = Annotated[str | None, typer.Option(help="inference, or training: gradients, too.", show_default="inference")]
InputOptions = Annotated[
    list[str] | None,
    typer.Option("--input", metavar="DECLARATION", help='Input of a program: "x=float32[N,3,32,32] in [0,1]". Repeatable.'),
]
StateFile = Annotated[
    Path | None, typer.Option("--state", metavar="FILE", help="Trained weights of a program (.safetensors, .pt).")
]
SignatureName = Annotated[
    str | None, typer.Option("--signature", help="Signature of a SavedModel.", show_default="serving_default, else the first")
]
Trust = Annotated[bool, typer.Option("--trust", help="Let a model file run code of its own (Lambda layers, Python operators).")]
Effort = Annotated[int | None, typer.Option(metavar="0..3", help="How far to refine what is not proven at once.", show_default="1")]
Select = Annotated[list[str] | None, typer.Option(metavar="CODES", help="Only these rules, e.g. NUM1,NUM203.")]
Ignore = Annotated[list[str] | None, typer.Option(metavar="CODES", help="Not these rules; NUM101[/decoder/*] ignores by node.")]
ReportFormat = Annotated[str, typer.Option("--format", help="terminal, json, sarif, github, junit, gitlab, markdown or html.")]
OutputFile = Annotated[Path | None, typer.Option("--output", metavar="FILE", help="Write the report to a file.")]
FailOn = Annotated[str | None, typer.Option(help="confirmed, possible, incomplete or never.", show_default="confirmed")]
SourceRoot = Annotated[Path | None, typer.Option(metavar="DIR", help="Source excerpts are shown from files under it.")]


@app.callback()
def common(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Options of every command."""
    global _debug
    _debug = debug


@app.command()
def check(
    models: Annotated[list[Path], typer.Argument(metavar="MODEL...", help=_MODELS, show_default=False)],
    ranges: RangeOptions = None,
    ranges_file: RangesFile = None,
    samples: Samples = None,
    dims: Dimensions = None,
    weights: Weights = None,
    precision: Precision = None,
    target: TargetName = None,
    effort: Effort = None,
    phase: PhaseName = None,
    inputs: InputOptions = None,
    state: StateFile = None,
    signature: SignatureName = None,
    trust: Trust = False,
    tensors: Annotated[
        str | None, typer.Option(help="Cells of the first pass: smash, partition or expand.", show_default="partition")
    ] = None,
    values: Annotated[
        str | None, typer.Option(help="Values of the first pass: interval or affine.", show_default="interval")
    ] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Keep no summaries of weights between runs.")] = False,
    stats: Annotated[bool, typer.Option("--stats", help="Show where the time went, on standard error.")] = False,
    format: ReportFormat = "terminal",
    output: OutputFile = None,
    reports: Annotated[
        list[str] | None, typer.Option("--report", metavar="FORMAT=FILE", help="Also write this report. Repeatable.")
    ] = None,
    select: Select = None,
    ignore: Ignore = None,
    fail_on: FailOn = None,
    strict: Annotated[bool, typer.Option("--strict", help="Same as --fail-on incomplete.")] = False,
    baseline: Annotated[Path | None, typer.Option(metavar="FILE", help="Known findings, not reported again.")] = None,
    write_baseline: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the findings as a new baseline.")] = None,
    no_confirm: Annotated[bool, typer.Option("--no-confirm", help="Static analysis alone; nothing is run.")] = False,
    witnesses: Annotated[Path, typer.Option(metavar="DIR", help="Where failing inputs are saved.")] = Path("tensorproof-witnesses"),
    source_root: SourceRoot = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the samples.", show_default="0")] = None,
    budget: Annotated[float | None, typer.Option(metavar="SECONDS", help="Time limit of confirmation.")] = None,
    budget_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Headroom that nodes had; fail where it has shrunk.")
    ] = None,
    write_budget: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the headroom of every node.")] = None,
    budget_bits: Annotated[
        float, typer.Option(metavar="BITS", help="Bits of headroom that a node may lose, and has to keep.")
    ] = 1.0,
) -> None:
    """Report each operator that can produce NaN or infinity, with the range, the trail and a failing input."""
    from tensorproof.cli.check import CheckOptions, run_check

    options = CheckOptions(
        models=tuple(models),
        scan=_scan(ranges, ranges_file, samples, dims, weights, precision, target, effort, phase, inputs, state, signature, trust),
        tensors=tensors,
        values=values,
        cache=not no_cache,
        stats=stats,
        format=format,
        output=output,
        reports=tuple(reports or ()),
        select=_split(select),
        ignore=_split(ignore),
        fail_on="incomplete" if strict else fail_on,
        baseline=baseline,
        write_baseline=write_baseline,
        confirm=not no_confirm,
        witnesses=witnesses,
        source_root=source_root,
        seed=seed,
        budget=budget,
        budget_file=budget_file,
        write_budget=write_budget,
        budget_bits=budget_bits,
    )
    raise typer.Exit(run_check(options))


@app.command()
def confirm(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help=_MODELS, show_default=False)],
    nodes: Annotated[
        list[str] | None, typer.Option("--node", metavar="NAME", help="Only findings at this node (or pattern). Repeatable.")
    ] = None,
    ranges: RangeOptions = None,
    ranges_file: RangesFile = None,
    samples: Samples = None,
    dims: Dimensions = None,
    weights: Weights = None,
    precision: Precision = None,
    target: TargetName = None,
    effort: Effort = None,
    phase: PhaseName = None,
    inputs: InputOptions = None,
    state: StateFile = None,
    signature: SignatureName = None,
    trust: Trust = False,
    method: Annotated[str, typer.Option(help="full, gradient (one descent), random (samples) or uniform.")] = "full",
    evaluations: Annotated[int, typer.Option(metavar="N", help="Evaluations that the search of one finding may take.")] = 600,
    budget: Annotated[float | None, typer.Option(metavar="SECONDS", help="Time limit of all searches.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the search.", show_default="0")] = None,
    no_shrink: Annotated[bool, typer.Option("--no-shrink", help="Keep failing inputs as they were found.")] = False,
    system_test: Annotated[
        bool,
        typer.Option("--system-test", help="Search a training example and an inference input that fails after training on it."),
    ] = False,
    loss: Annotated[str | None, typer.Option(metavar="OUTPUT", help="The output that training makes small.")] = None,
    lr: Annotated[float, typer.Option(help="Learning rate of a training step.")] = 1.0,
    steps: Annotated[int, typer.Option(help="Most training steps on the example; the node is looked at after each.")] = 1,
    batch: Annotated[int | None, typer.Option(help="Samples of the example, where the model leaves that open.")] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where failing inputs and their tests are saved.")] = Path(
        "tensorproof-witnesses"
    ),
    format: ReportFormat = "terminal",
    output: OutputFile = None,
    fail_on: FailOn = None,
    source_root: SourceRoot = None,
) -> None:
    """Search a failing input for every possible finding, and save it as a test that fails in ONNX Runtime."""
    from tensorproof.cli.confirm import ConfirmOptions, run_confirm

    options = ConfirmOptions(
        model=model,
        nodes=tuple(nodes or ()),
        scan=_scan(ranges, ranges_file, samples, dims, weights, precision, target, effort, phase, inputs, state, signature, trust),
        method=method,
        evaluations=evaluations,
        budget=budget,
        seed=seed,
        shrink=not no_shrink,
        system_test=system_test,
        loss=loss,
        rate=lr,
        steps=steps,
        batch=batch,
        out=out,
        format=format,
        output=output,
        fail_on=fail_on,
        source_root=source_root,
    )
    raise typer.Exit(run_confirm(options))


@app.command()
def fix(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help=_MODELS, show_default=False)],
    nodes: Annotated[
        list[str] | None, typer.Option("--node", metavar="NAME", help="Only findings at this node (or pattern). Repeatable.")
    ] = None,
    at: Annotated[
        str, typer.Option(metavar="PLACE", help="operand; or preconditions on inputs, weights, both, or NODE,... by name.")
    ] = "operand",
    apply: Annotated[Path | None, typer.Option(metavar="OUT", help="Write the repaired model, or source file.")] = None,
    in_place: Annotated[bool, typer.Option("--in-place", help="Overwrite the model itself.")] = False,
    unsafe: Annotated[bool, typer.Option("--unsafe", help="Apply repairs that change values, too.")] = False,
    select: Select = None,
    ignore: Ignore = None,
    diff: Annotated[bool, typer.Option("--diff", help="Show the change of the graph and of source lines.")] = False,
    ranges: RangeOptions = None,
    ranges_file: RangesFile = None,
    samples: Samples = None,
    dims: Dimensions = None,
    weights: Weights = None,
    precision: Precision = None,
    target: TargetName = None,
    effort: Effort = None,
    phase: PhaseName = None,
    inputs: InputOptions = None,
    state: StateFile = None,
    signature: SignatureName = None,
    trust: Trust = False,
    seed: Annotated[int | None, typer.Option(help="Seed of the samples.", show_default="0")] = None,
    runs: Annotated[
        int | None,
        typer.Option(metavar="N", help="Points of the box that verify each repair.", show_default="1000; 200 of a program"),
    ] = None,
    witnesses: Annotated[Path, typer.Option(metavar="DIR", help="Where failing inputs are saved.")] = Path("tensorproof-witnesses"),
    format: ReportFormat = "terminal",
    output: OutputFile = None,
    fail_on: FailOn = None,
    source_root: SourceRoot = None,
) -> None:
    """Propose a repair for each finding, with its proof: the patched model scanned again, the failing input replayed."""
    from tensorproof.cli.fix import FixOptions, run_fix

    options = FixOptions(
        model=model,
        nodes=tuple(nodes or ()),
        at=at,
        apply=apply,
        in_place=in_place,
        unsafe=unsafe,
        select=_split(select),
        ignore=_split(ignore),
        diff=diff,
        scan=_scan(ranges, ranges_file, samples, dims, weights, precision, target, effort, phase, inputs, state, signature, trust),
        seed=seed,
        runs=runs,
        witnesses=witnesses,
        format=format,
        output=output,
        fail_on=fail_on,
        source_root=source_root,
    )
    raise typer.Exit(run_fix(options))


@app.command()
def plan(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="An ONNX file in float32.", show_default=False)],
    precision: Annotated[str | None, typer.Option(help="float16 or bfloat16.", show_default=False)] = None,
    guarantee: Annotated[
        str, typer.Option(help="sampled (holds on samples) or proven (for all inputs of the ranges).")
    ] = "sampled",
    apply: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the mixed model.")] = None,
    lists: Annotated[
        str | None, typer.Option(metavar="TOOL", help="Print the nodes for trtexec, onnxconverter, autocast or coreml.")
    ] = None,
    format: Annotated[str, typer.Option("--format", help="terminal or json.")] = "terminal",
    ranges: RangeOptions = None,
    ranges_file: RangesFile = None,
    samples: Samples = None,
    dims: Dimensions = None,
    target: TargetName = None,
    effort: Effort = None,
    runs: Annotated[int, typer.Option(metavar="N", help="Samples of the ranges.")] = 200,
    tolerance: Annotated[
        float, typer.Option(metavar="EPSILONS", help="How far outputs may be from float32, relative to their largest element.")
    ] = 32.0,
    evaluations: Annotated[
        int | None,
        typer.Option(metavar="N", help="Runs (or scans, with proven) that the search may take.", show_default="30000, 100"),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the samples.", show_default="0")] = None,
) -> None:
    """Find the few nodes that have to stay in float32 when the rest of a model is converted to float16 or bfloat16."""
    from tensorproof.cli.plan import PlanOptions, run_plan

    options = PlanOptions(
        model=model,
        precision=precision,
        guarantee=guarantee,
        apply=apply,
        lists=lists,
        format=format,
        ranges=tuple(ranges or ()),
        ranges_file=ranges_file,
        samples=samples,
        dims=tuple(dims or ()),
        target=target,
        effort=effort,
        runs=runs,
        tolerance=tolerance,
        evaluations=evaluations,
        seed=seed,
    )
    raise typer.Exit(run_plan(options))


@app.command()
def diff(
    left: Annotated[str, typer.Argument(metavar="A", help="An ONNX file, a .keras file or module.py:name.", show_default=False)],
    right: Annotated[str, typer.Argument(metavar="B", help="The model that is to compute the same.", show_default=False)],
    left_backend: Annotated[
        str | None, typer.Option(metavar="BACKEND", help="What runs A: onnxruntime?optimisation=off, openvino, keras:jax, ...")
    ] = None,
    right_backend: Annotated[str | None, typer.Option(metavar="BACKEND", help="What runs B.")] = None,
    left_python: Annotated[str, typer.Option(metavar="PATH", help="The Python of another environment, for A.")] = "",
    right_python: Annotated[str, typer.Option(metavar="PATH", help="The Python of another environment, for B.")] = "",
    data: Annotated[Path | None, typer.Option(metavar="FILE", help="Inputs: arrays of an .npz file, by name.")] = None,
    ranges: RangeOptions = None,
    ranges_file: RangesFile = None,
    dims: Dimensions = None,
    inputs: InputOptions = None,
    state: StateFile = None,
    runs: Annotated[int, typer.Option(metavar="N", help="Points of the ranges, where there is no data.")] = 16,
    evaluations: Annotated[int, typer.Option(metavar="N", help="Evaluations of the search for an input that parts them.")] = 100,
    size: Annotated[int, typer.Option(metavar="N", help="Size of dimensions that both models leave open.")] = 2,
    seed: Annotated[int | None, typer.Option(help="Seed of points and search.", show_default="0")] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the input of a defect is saved.")] = Path("tensorproof-witnesses"),
    format: ReportFormat = "terminal",
    output: OutputFile = None,
    fail_on: Annotated[str, typer.Option(help="defect, precision or never.")] = "defect",
    source_root: SourceRoot = None,
) -> None:
    """Compare two models: do they compute the same, is it rounding or a defect, and which operator is the first to part?"""
    from tensorproof.cli.diff import DiffArguments, run_diff
    from tensorproof.compare.diffing.comparing import DiffOptions

    options = DiffOptions(
        left=left,
        right=right,
        left_backend=left_backend,
        right_backend=right_backend,
        left_python=left_python,
        right_python=right_python,
        data=None if data is None else str(data),
        state=None if state is None else str(state),
        runs=runs,
        evaluations=evaluations,
        size=size,
        out=out,
    )
    arguments = DiffArguments(
        options,
        tuple(ranges or ()),
        ranges_file,
        tuple(inputs or ()),
        tuple(dims or ()),
        seed,
        format,
        output,
        fail_on,
        source_root,
    )
    raise typer.Exit(run_diff(arguments))


@app.command(
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []},
    help="Report tensor-shape defects in Python source (PyTorch, Keras, TensorFlow, JAX, NumPy); nothing is run.",
)
def shapes(context: typer.Context) -> None:
    """Hand all arguments to the command's own parser: see `tensorproof.cli.shapes`."""
    from tensorproof.cli.shapes import run_shapes

    raise typer.Exit(run_shapes(context.args))


@app.command()
def fuzz(
    backends: Annotated[
        list[str] | None,
        typer.Option(
            "--backend",
            metavar="NAME",
            help="keras:torch, onnxruntime?optimisation=off, ... Repeatable, or with commas.",
            show_default="all that are installed",
        ),
    ] = None,
    layers: Annotated[
        list[str] | None,
        typer.Option("--layer", metavar="KIND", help="Only these layers or operators. Repeatable, or with commas."),
    ] = None,
    dtypes: Annotated[list[str] | None, typer.Option("--dtype", metavar="TYPE", help="Only float32, ... Repeatable.")] = None,
    phases: Annotated[
        list[str] | None, typer.Option("--phase", metavar="PHASE", help="Only inference, training or gradient. Repeatable.")
    ] = None,
    tests: Annotated[int | None, typer.Option(metavar="N", help="How many tests.", show_default="200, or as many as fit")] = None,
    budget: Annotated[str | None, typer.Option(metavar="TIME", help="Begin no test after this time: 90s, 10m, 1h.")] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same tests.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the campaign in the folder.")] = False,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the journal and the scripts go.")] = Path("tensorproof-fuzz"),
    jobs: Annotated[int | None, typer.Option(metavar="N", help="Tests at a time.", show_default="one per core, at most 8")] = None,
    engine: Annotated[str, typer.Option(help="pool (this machine) or ray (a cluster).")] = "pool",
    known_issues: Annotated[Path | None, typer.Option(metavar="FILE", help="TOML: findings that are counted, not shown.")] = None,
    time_limit: Annotated[float, typer.Option(metavar="SECONDS", help="How long one run of a test may take.")] = 60.0,
    level: Annotated[
        str, typer.Option(help="network (generated tests); or input, weight, both: a search around trained networks.")
    ] = "network",
    networks: Annotated[
        list[str] | None,
        typer.Option("--network", metavar="NAME", help="Trained networks to search around. Repeatable.", show_default="LeNet-5"),
    ] = None,
    goal: Annotated[str, typer.Option(help="What a search looks for: nan, or label (another class on another backend).")] = "nan",
    method: Annotated[str, typer.Option(help="genetic, gradient or coverage.")] = "genetic",
    evaluations: Annotated[int, typer.Option(metavar="N", help="Evaluations of one search.")] = 500,
    format: ReportFormat = "terminal",
    output: OutputFile = None,
) -> None:
    """Run generated networks on several frameworks, and report where these crash, refuse or disagree, each with a script."""
    from tensorproof.cli.fuzz import FuzzOptions, run_fuzz

    if level != "network":
        from tensorproof.cli.search import SearchArguments, run_search

        arguments = SearchArguments(level, _split(networks), goal, method, _split(backends), evaluations, seed, out, format, output)
        raise typer.Exit(run_search(arguments))
    options = FuzzOptions(
        backends=_split(backends),
        layers=_split(layers),
        dtypes=_split(dtypes),
        phases=_split(phases),
        tests=tests,
        budget=budget,
        seed=seed,
        resume=resume,
        out=out,
        jobs=jobs,
        engine=engine,
        known_issues=known_issues,
        time_limit=time_limit,
        format=format,
        output=output,
    )
    raise typer.Exit(run_fuzz(options))


@app.command()
def expose(
    script: Annotated[
        Path | None, typer.Argument(metavar="SCRIPT", help="A program of PyTorch or TensorFlow.", show_default=False)
    ] = None,
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="ARGS", help="Arguments of the script; write -- before them.", show_default=False)
    ] = None,
    function: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="In place of a script: torch.nn.functional.normalize, package.module.f or file.py:f."),
    ] = None,
    args: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=WHAT", help='Argument of it: "x=float32[4,3] in -10:10", "dim=-1". Repeatable, or with `;`.'),
    ] = None,
    ranges: Annotated[
        list[str] | None,
        typer.Option("--range", metavar="NAME=LOW:HIGH", help="Legal range of a value; `*` for all. Repeatable."),
    ] = None,
    method: Annotated[
        str, typer.Option(help="search; no-replacement (all samples are kept); plain (nothing is moved).")
    ] = "search",
    epsilon: Annotated[float, typer.Option(help="Step of inputs, as a part of their legal width.")] = 0.15,
    switch_rate: Annotated[float, typer.Option(help="Part of the samples that is replaced every 100 steps.")] = 0.05,
    seed: Annotated[int | None, typer.Option(help="Seed of the first run.", show_default="0")] = None,
    runs: Annotated[int, typer.Option(metavar="N", help="How often the script is run, at most.")] = 10,
    iterations: Annotated[int, typer.Option(metavar="N", help="Steps of training of one run; 0: as many as it has.")] = 1000,
    evaluations: Annotated[
        int | None,
        typer.Option(metavar="N", help="Gradients that one run may take.", show_default="100000; 5000 for a function"),
    ] = None,
    stop_after: Annotated[int | None, typer.Option(metavar="N", help="End the search after so many findings.")] = None,
    budget: Annotated[
        float, typer.Option(metavar="SECONDS", help="Time limit of all runs; what they found is still replayed.")
    ] = 1800.0,
    sandbox: Annotated[bool, typer.Option("--sandbox", help="Run it in a scratch copy of its folder.")] = False,
    witnesses: Annotated[Path, typer.Option(metavar="DIR", help="Where failing values and their replays are saved.")] = Path(
        "tensorproof-witnesses"
    ),
    log: Annotated[str | None, typer.Option(metavar="FILE", help="What the script prints; `-` is standard error.")] = None,
    format: ReportFormat = "terminal",
    output: OutputFile = None,
    select: Select = None,
    ignore: Ignore = None,
    fail_on: FailOn = None,
    strict: Annotated[bool, typer.Option("--strict", help="Same as --fail-on incomplete.")] = False,
    baseline: Annotated[Path | None, typer.Option(metavar="FILE", help="Known findings, not reported again.")] = None,
    write_baseline: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the findings as a new baseline.")] = None,
) -> None:
    """Run a training script, unmodified, and move what it is fed and draws until an operator fails: line, values, replay.

    With --function, the arguments of one function are moved in the same way.
    """
    from tensorproof.cli.expose import ExposeOptions, run_expose

    options = ExposeOptions(
        script=script,
        arguments=tuple(arguments or ()),
        function=function,
        args=tuple(args or ()),
        ranges=tuple(ranges or ()),
        method=cast("Method", method),
        epsilon=epsilon,
        switch_rate=switch_rate,
        seed=seed,
        runs=runs,
        stop_after=stop_after,
        iterations=iterations,
        evaluations=evaluations,
        budget=budget,
        sandbox=sandbox,
        witnesses=witnesses,
        log=log,
        format=format,
        output=output,
        select=_split(select),
        ignore=_split(ignore),
        fail_on="incomplete" if strict else fail_on,
        baseline=baseline,
        write_baseline=write_baseline,
    )
    raise typer.Exit(run_expose(options))


@app.command()
def explain(
    code: Annotated[str, typer.Argument(help="A rule's code or name; `all` lists them.", show_default=False)],
) -> None:
    """Show the page of a rule."""
    from tensorproof.report.explain import render_rule
    from tensorproof.rules import all_rules, find_rule

    if code == "all":
        for rule in all_rules().values():
            print(f"{rule.code}  {rule.name:34} {rule.summary}")
    else:
        print(render_rule(find_rule(code)))


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder of the project.")] = Path(),
    ci: Annotated[
        list[str] | None, typer.Option("--ci", metavar="NAME", help="Also files for github, gitlab or pre-commit. Repeatable.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace what is there already.")] = False,
) -> None:
    """Write a commented configuration into pyproject.toml, with the inputs of the models that are found."""
    from tensorproof.cli.init import InitOptions, run_init

    raise typer.Exit(run_init(InitOptions(folder, tuple(ci or ()), force)))


@app.command()
def lsp() -> None:
    """Serve an editor: shape defects, shapes and quick fixes while you type (Language Server Protocol)."""
    try:
        from tensorproof.language_server.server import serve
    except ModuleNotFoundError as error:
        if error.name in ("pygls", "lsprotocol"):
            raise TensorproofError("the language server needs an extra: pip install 'tensorproof[lsp]'") from None
        raise
    raise typer.Exit(serve())


@app.command()
def version() -> None:
    """Show the version."""
    from tensorproof import __version__

    print(f"tensorproof {__version__}")


def _scan(
    ranges: list[str] | None,
    ranges_file: Path | None,
    samples: Path | None,
    dims: list[str] | None,
    weights: str | None,
    precision: str | None,
    target: str | None,
    effort: int | None,
    phase: str | None = None,
    inputs: list[str] | None = None,
    state: Path | None = None,
    signature: str | None = None,
    trust: bool = False,
) -> ScanArguments:
    from tensorproof.cli.scanning import ScanArguments

    return ScanArguments(
        tuple(ranges or ()),
        ranges_file,
        samples,
        tuple(dims or ()),
        weights,
        precision,
        target,
        effort,
        phase,
        tuple(inputs or ()),
        state,
        signature,
        trust,
    )


def _split(options: list[str] | None) -> tuple[str, ...]:
    """Codes separated by commas, over all occurrences of the option; commas inside brackets belong to a pattern."""
    found: list[str] = []
    for option in options or ():
        part = ""
        depth = 0
        for character in option:
            depth += (character == "[") - (character == "]")
            if character == "," and depth <= 0:
                found.append(part.strip())
                part = ""
            else:
                part += character
        found.append(part.strip())
    return tuple(part for part in found if part)


def run(arguments: list[str]) -> int:
    """Run the command line and give its exit code; errors are one line on standard error."""

    def command() -> int:
        try:
            result = app(arguments, prog_name="tensorproof", standalone_mode=False)
        except typer.Exit as exit_request:
            return exit_request.exit_code
        return result if isinstance(result, int) else 0

    return guarded(command, debug=_debug or "--debug" in arguments)
