"""Targets and number formats, from the tables that the analysis uses."""

from __future__ import annotations

from collections.abc import Iterator

from docs.generators.markdown import code, page, table
from tensorproof.formats import FORMATS, Format
from tensorproof.targets import TARGETS, FunctionError, Target

_TARGETS = """\
# Targets

A target is the runtime whose arithmetic is assumed: `--target NAME`. Every verdict names its target; by default it is
that of the model's own kind. What is not stated here is as [the evaluation model](../explanation.md) has it."""

_FORMATS = """\
# Number formats

What `--precision` converts to, and what tensors of a model may hold. Epsilon is the distance from 1 to the next number; a
result below half of the smallest subnormal number rounds to zero."""

#: What each flag of a target means, in a column of the table.
_FLAGS = {
    "flushes_results": "flushes subnormal results",
    "flushes_operands": "flushes subnormal operands",
    "accumulates_wide": "16-bit sums in float32",
    "keeps_chains_wide": "16-bit chains may stay in float32",
    "fuses_products": "products enter sums unrounded",
    "reassociates": "constants are gathered",
}


def pages() -> dict[str, str]:
    return {"targets.md": page(_TARGETS, "", *_targets()), "formats.md": page(_FORMATS, "", *_formats())}


def _targets() -> Iterator[str]:
    rows = ((words, *("yes" if getattr(target, flag) else "no" for target in TARGETS.values())) for flag, words in _FLAGS.items())
    yield from table(("", *map(code, TARGETS)), rows)
    for target in TARGETS.values():
        yield from ("", f"## {target.name}", "", target.description)
        if target.evaluates_in_float32:
            yield from ("", f"In float32, whatever the format: {', '.join(sorted(target.evaluates_in_float32))}.")
        rows = list(_errors(target))
        if rows:
            yield from ("", "Less exact than the block of the operator says, by so much more:", "")
            yield from table(
                ("operator", "formats", "units in the last place", "absolute", "beyond the bounds", "infinite from"), rows
            )


def _errors(target: Target) -> Iterator[tuple[str, ...]]:
    for operator, stated in sorted(target.function_errors.items()):
        for error in stated if isinstance(stated, tuple) else (stated,):
            assert isinstance(error, FunctionError)
            formats = ", ".join(sorted(error.formats)) or "all"
            sizes = (f"{size:.4g}" if size else "" for size in (error.ulps, error.absolute, error.overshoot))
            yield operator, formats, *sizes, "" if error.headroom == 1.0 else f"the largest number / {error.headroom:.4g}"


def _formats() -> Iterator[str]:
    columns = ("format", "bits", "largest", "smallest normal", "smallest subnormal", "epsilon", "infinity", "NaN")
    yield from ("## Floating formats", "", *table(columns, (_floating(f) for f in FORMATS if f.is_float)))
    rows = ((code(f.name), str(f.bits), f"{f.low:.0f}", str(2 ** (f.bits - (f.low < 0)) - 1)) for f in FORMATS if f.is_integer)
    yield from ("", "## Integers", "", *table(("format", "bits", "smallest", "largest"), rows))
    others = ", ".join(code(f.name) for f in FORMATS if not f.is_float and not f.is_integer)
    yield from ("", "## Others", "", f"{others}: read and moved; complex numbers and strings are shown as not analysed.")


def _floating(fmt: Format) -> tuple[str, ...]:
    subnormal = f"{fmt.smallest_subnormal:.4g}" if fmt.has_subnormals else "none"
    sizes = (f"{fmt.high:.6g}", f"{fmt.smallest_normal:.4g}", subnormal, f"{2 * fmt.unit_roundoff:.4g}")
    return code(fmt.name), str(fmt.bits), *sizes, *("yes" if has else "no" for has in (fmt.has_infinity, fmt.has_nan))
