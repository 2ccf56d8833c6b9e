"""`assert_finite`: a model as the subject of an assertion."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import Unpack

    from tensorproof import Model
    from tensorproof.findings import Report
    from tensorproof.preparing import ScanOptions


def assert_finite(
    model: Model,
    example_inputs: Any = None,
    *,
    precisions: Sequence[str | None] = (None,),
    fail_on: str = "confirmed",
    search: bool = False,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    seed: int = 0,
    budget: float | None = None,
    witnesses: str | Path | None = "tensorproof-witnesses",
    **scan: Unpack[ScanOptions],
) -> tuple[Report, ...]:
    """Fail if the model can return NaN or infinity for inputs inside their `ranges`; else give the reports, one per precision.

    `model`, `example_inputs` and further options (`ranges`, `dims`, ...) are those of `tensorproof.check`: a file, an ONNX model, a
    module or function of PyTorch, a Keras model, a JAX function, with example inputs where nothing else declares them. Each of
    `precisions` is tried: "float16" is the model converted to it, None the model as it is. `fail_on` is what makes the assertion
    fail: `confirmed` (a failing input was run), `possible` (finiteness is not proven) or `incomplete` (some operator was not
    analysed, either). With `search`, failing inputs are searched by gradients, as `tensorproof confirm` does, and not only sampled.

    The AssertionError holds the report as the terminal shows it, and the file of each failing input, which is kept in the folder
    `witnesses` (below it, a folder for each of several precisions). `select` and `ignore` are codes of rules. A mistake in
    the options is a TensorproofError.
    """
    __tracebackhide__ = True
    from tensorproof import check, find_witnesses
    from tensorproof.configuration import FAIL_ON
    from tensorproof.errors import ConfigurationError
    from tensorproof.report.selection import apply_selection, parse_selection

    if "precision" in scan or isinstance(precisions, str) or not precisions:
        raise ConfigurationError("assert_finite: `precisions` is a list of formats, as in ['float32', 'float16']")
    if fail_on not in FAIL_ON:
        raise ConfigurationError(f"assert_finite: fail_on={fail_on!r}; known are {', '.join(FAIL_ON)}")
    selection = parse_selection(select, ignore)
    run = find_witnesses if search else check
    reports: list[Report] = []
    for precision in precisions:
        scan["precision"] = precision
        # The same node may fail in two of them, on different inputs.
        folder = witnesses if witnesses is None or len(precisions) == 1 else Path(witnesses) / (precision or "as-it-is")
        report = run(model, example_inputs, seed=seed, budget=budget, witnesses=folder, **scan)
        reports.append(apply_selection(report, selection))
    failed = [report for report in reports if report.fails(fail_on)]
    if failed:
        raise AssertionError(_told(failed))
    return tuple(reports)


def _told(reports: Sequence[Report]) -> str:
    """The reports, and below them the files of failing inputs, which a report may break over two lines."""
    from tensorproof.report import terminal
    from tensorproof.report.plain_text import name, one_line

    saved = [finding.witness for report in reports for finding in report.findings if finding.witness is not None]
    lines = [f"{name(reports[0].model)} can return values that are not finite", "", terminal.render(reports)]
    lines += [f"failing input: {one_line(witness.arrays)} (replay: {one_line(witness.script)})" for witness in dict.fromkeys(saved)]
    return "\n".join(lines)
