"""A comparison as a report: findings for every format, and the text of the terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator

from tensorproof.compare.diffing.comparison import Comparison, FirstOperator, OutputComparison
from tensorproof.compare.judging import Judgement, Opinion
from tensorproof.findings import Coverage, Finding, Location, RelatedLocation, Report, Verdict
from tensorproof.report.plain_text import name as plain
from tensorproof.report.plain_text import one_line
from tensorproof.rules.compare.fails_in_one import FAILS_IN_ONE
from tensorproof.rules.compare.not_finite_in_one import NOT_FINITE_IN_ONE
from tensorproof.rules.compare.outputs_differ import OUTPUTS_DIFFER
from tensorproof.rules.compare.precision_lost import PRECISION_LOST
from tensorproof.rules.compare.shape_differs import SHAPE_DIFFERS
from tensorproof.rules.rule import Rule

_RULES = {"nan": NOT_FINITE_IN_ONE, "shape": SHAPE_DIFFERS, "dtype": SHAPE_DIFFERS, "value": OUTPUTS_DIFFER}
_LABEL = 11


def report_of(comparison: Comparison) -> Report:
    """The comparison as every format shows it; what only a comparison has stands under `comparison` in the assumptions."""
    findings = () if comparison.verdict is Opinion.AGREE else (_finding(comparison),)
    return Report(
        model=comparison.right_model,
        target=f"{comparison.left} / {comparison.right}",
        precision=" / ".join(comparison.formats),
        assumptions={"inputs": dict(comparison.inputs), "comparison": comparison.to_json()},
        coverage=Coverage(comparison.values, comparison.values, comparison.aligned, (), comparison.remarks),
        findings=findings,
        proven_safe=(),
        proven_safe_if={},
        times=dict(comparison.seconds),
        files=tuple(dict.fromkeys((_file(comparison.left_model), _file(comparison.right_model)))),
    )


def _file(model: str) -> str:
    file, colon, _ = model.rpartition(":")
    return file if colon and file.endswith(".py") else model


def _finding(comparison: Comparison) -> Finding:
    first = comparison.first
    location = Location(_file(comparison.right_model))
    if first is not None:
        known = first.file is not None and _file(comparison.left_model).endswith(".py")
        location = Location(
            first.file if known else _file(comparison.right_model),
            first.line if known else None,
            first.module or None,
        )
    related: tuple[RelatedLocation, ...] = ()
    if first is not None:
        related = (RelatedLocation(Location(_file(comparison.right_model)), f"node {first.node} ({first.right_operator})"),)
    return Finding(
        rule=_rule(comparison),
        node=comparison.outputs[0].right if first is None else first.divergence.pair.right,
        op="" if first is None else first.right_operator,
        operand="" if first is None else ", ".join(entry.right for entry in first.divergence.operands),
        low=None,
        high=None,
        message=message(comparison),
        target=comparison.right,
        format=comparison.formats[1],
        verdict=Verdict.CONFIRMED,
        reaches="output",
        location=location,
        witness=comparison.witness,
        related=related,
    )


def _rule(comparison: Comparison) -> Rule:
    if comparison.verdict is Opinion.PRECISION:
        return PRECISION_LOST
    if any(comparison.failure):
        return FAILS_IN_ONE
    judged = [entry.judgement for entry in comparison.outputs if entry.judgement.opinion is Opinion.DEFECT]
    if comparison.first is not None and comparison.first.divergence.judgement is not None:
        judged.insert(0, comparison.first.divergence.judgement)
    return _RULES.get(judged[0].symptom if judged else "value", OUTPUTS_DIFFER)


def message(comparison: Comparison) -> str:
    """What happens, where, and how that is known: one sentence after the other."""
    parts = [_headline(comparison)]
    first = comparison.first
    if first is not None:
        parts.append(f"first at {place_of(first)}")
        parts.extend(evidence(first))
    return "; ".join(parts)


def _headline(comparison: Comparison) -> str:
    left, right = comparison.failure
    if left or right:
        side = comparison.left if left else comparison.right
        return f"{side} fails where the other model computes: {left or right}"
    worst = max(comparison.outputs, key=lambda entry: (list(Opinion).index(entry.judgement.opinion), entry.judgement.units))
    if comparison.verdict is Opinion.PRECISION:
        return f"output {worst.left} differs by rounding: {_amount(worst)}, {worst.metric} {worst.score:.4g}"
    return f"output {worst.left} differs: {_amount(worst)}"


def _amount(entry: OutputComparison) -> str:
    found = entry.judgement
    if found.symptom in ("shape", "dtype"):
        return f"{found.symptom} {found.detail}"
    if found.symptom == "nan":
        return f"{_number(found.left)} against {_number(found.right)} at {list(found.position)}, {found.detail}"
    return f"{found.largest:.3g} at most, {found.units:.3g} units, relative {entry.relative:.2g}"


def place_of(first: FirstOperator) -> str:
    """The operator by its names on both sides, its module and its line."""
    pair = first.divergence.pair
    text = f"{plain(pair.left)} ({first.left_operator})"
    if (pair.right, first.right_operator) != (pair.left, first.left_operator):
        text += f", {plain(pair.right)} ({first.right_operator}) on the right"
    if first.module and first.module != pair.left:
        text += f", module {plain(first.module)}"
    if first.file is not None:
        text += f", {first.file}:{first.line}"
    return text


def evidence(first: FirstOperator) -> Iterator[str]:
    """Why it is this operator, and what its worst element is."""
    found = first.divergence
    if found.left_failure or found.right_failure:
        if found.operands:
            yield "all that it is computed from can be had on both sides"
        return
    judgement = found.judgement
    if judgement is not None:
        yield worst_element(judgement)
    if found.alone is None:
        yield "it could not be run alone"
    elif found.alone.opinion is Opinion.DEFECT:
        yield "on equal operands it differs, too" + (f" ({found.alone.detail})" if found.alone.detail else "")
    elif found.alone.opinion is Opinion.PRECISION:
        cut = f"; {found.alone.detail}" if found.alone.detail else ""
        yield f"on equal operands it differs by rounding ({found.alone.units:.3g} units{cut})"
    else:
        yield "on equal operands it agrees: the difference grew until here"


def worst_element(judgement: Judgement) -> str:
    """`-100 against -inf at [0, 2], float64 -100: the right one is wrong`."""
    if judgement.symptom in ("shape", "dtype"):
        return f"{judgement.symptom} {judgement.detail}"
    text = f"{_number(judgement.left)} against {_number(judgement.right)} at {list(judgement.position)}"
    if not math.isnan(judgement.reference):
        text += f", {_number(judgement.reference)} in float64"
    if judgement.culprit in ("left", "right") and judgement.opinion is Opinion.DEFECT:
        text += f" (the {judgement.culprit} one is off)"
    return text


def lines(comparison: Comparison) -> Iterator[str]:
    """The text of the terminal."""
    yield f"left       {one_line(comparison.left, 300)}"
    yield f"right      {one_line(comparison.right, 300)}"
    code = "" if comparison.verdict is Opinion.AGREE else f"  {_rule(comparison).code} {_rule(comparison).name}"
    yield f"verdict    {comparison.verdict}{code}"
    left, right = comparison.failure
    if left or right:
        yield f"failure    the {'left' if left else 'right'} model: {one_line(left or right, 300)}"
    else:
        for entry in comparison.outputs:
            yield _output(entry)
    first = comparison.first
    if first is not None:
        yield f"first      {one_line(place_of(first), 400)}"
        for text in evidence(first):
            yield f"{'':{_LABEL}}{one_line(text, 300)}"
    evaluations = f", then {comparison.evaluations} evaluations of a search" if comparison.evaluations else ""
    found = f"; found by {comparison.found_by}" if comparison.found_by else ""
    yield f"inputs     {comparison.points} points{evaluations}{found}"
    for key, domain in comparison.inputs.items():
        yield f"{'':{_LABEL}}{plain(key)} {one_line(str(domain['text']))} ({domain['source']}), shape {domain['shape']}"
    yield f"aligned    {comparison.aligned} of {comparison.values} values"
    for remark in comparison.remarks:
        yield f"remark     {one_line(remark, 300)}"
    if comparison.witness is not None:
        yield f"witness    {comparison.witness.arrays}"
        yield f"replay     python {comparison.witness.script}"


def _output(entry: OutputComparison) -> str:
    label = plain(entry.left) + ("" if entry.formats[0] == entry.formats[1] else f" ({entry.formats[0]} and {entry.formats[1]})")
    if entry.judgement.symptom in ("nan", "shape", "dtype"):
        return f"output     {label}: {_amount(entry)}"
    typical = f"typically {entry.typical:.2g} units"
    return f"output     {label}: {entry.judgement.opinion}, {_amount(entry)}, {typical}, {entry.metric} {entry.score:.6g}"


def _number(value: float) -> str:
    return f"{value:.6g}"
