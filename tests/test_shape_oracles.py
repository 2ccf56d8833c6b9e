"""Every rule of the shape analysis against the library itself: the same shape, or both refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tensorproof.shapes.families import load_rules
from tensorproof.shapes.rule_table import CLASSES, PROPERTIES, RULES
from tests.shape_answers import answers, imports
from tests.shape_cases import Case, Draw, all_cases
from tests.shape_cases.exempt import EXEMPT

pytestmark = pytest.mark.area("shape oracles")

#: Random expressions per rule, shared out among its names.
RUNS = 200
#: Libraries that are slow to ask get fewer in `make test`; `make test-long` asks them as often as the others.
FEWER_RUNS = {"jax": 50, "keras": 50}
#: Every name gets at least this many.
LEAST = 6


def _claims(library: str, case: Case, expressions: list[str]) -> list[str]:
    """What the analysis says of each: the shape, or `refused`, or `unknown`."""
    lines = [f"y{number} = {expression}" for number, expression in enumerate(expressions)]
    # Names of the assigned values are asked for their shapes by text, so that tuples and numbers are seen, too.
    before = imports(library) + case.setup + "\n"
    first = before.count("\n") + 1
    analysis, values = analyse_with_values(before + "\n".join(lines), len(lines))
    assert not analysis.statistics.rule_errors
    failed = {problem.place.line - first for problem in analysis.problems if problem.certain}
    return ["refused" if number in failed else values.get(f"y{number}", "unknown") for number in range(len(lines))]


def analyse_with_values(text: str, count: int) -> tuple[Any, dict[str, str]]:
    """The analysis, and what each of the names y0, y1, ... holds at the end."""
    from tensorproof.shapes import analysis as module

    analysis, frame = module.analyse_with_frame(text, "case.py")
    return analysis, {f"y{number}": _describe(frame.slots.get(f"y{number}")) for number in range(count)}


def _describe(value: Any) -> str:
    from tensorproof.shapes.values import Tensor

    if isinstance(value, Tensor):
        return str(value.shape) if value.shape.is_precise else "unknown"
    items = getattr(value, "items", None) if not isinstance(value, tuple) else value
    if isinstance(items, tuple):
        parts = [_describe(part) for part in items]
        return "unknown" if "unknown" in parts else "(" + ", ".join(parts) + ")"
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else "unknown"


load_rules()
NAMES = sorted({*RULES, *PROPERTIES, *CLASSES})


def _share(name: str, runs: int) -> int:
    """How many of a rule's random expressions fall to one of its names."""
    names = (RULES.get(name) or PROPERTIES.get(name) or CLASSES[name]).names
    return max(LEAST, -(-runs // sum(other in all_cases() for other in names)))


def _library(name: str) -> str:
    return name.partition(".")[0]


@pytest.mark.parametrize("name", sorted(all_cases()))
def test_rule_agrees_with_its_library(name: str) -> None:
    compare(name, _share(name, FEWER_RUNS.get(_library(name), RUNS)))


@pytest.mark.parametrize("name", sorted(name for name in all_cases() if _library(name) in FEWER_RUNS))
@pytest.mark.long
def test_rule_of_a_slow_library_agrees_with_it(name: str) -> None:
    compare(name, _share(name, RUNS))


def compare(name: str, runs: int) -> None:
    """Compare the analysis with the library on random uses of one name."""
    case = all_cases()[name]
    library = _library(name)
    expressions = [case.generate(Draw(name, seed)) for seed in range(runs)]
    claims = _claims(library, case, expressions)
    real = answers(library, case.setup, expressions)
    wrong = [
        f"{expression}: {library} says {truth}, the analysis {claim}"
        for expression, truth, claim in zip(expressions, real, claims, strict=True)
        if claim != truth and not (case.imprecise and claim == "unknown")
    ]
    assert not wrong, f"{len(wrong)} of {runs}:\n" + "\n".join(wrong[:12])
    assert len(set(real) - {"refused"}) > 0, "the library refused every case: the generator is wrong"


def test_every_name_is_compared_with_its_library(record_property: Callable[[str, object], None]) -> None:
    rules = {id(RULES.get(name) or PROPERTIES.get(name) or CLASSES[name]) for name in NAMES}
    record_property(
        "shape rules",
        f"{len(rules)} rules for {len(NAMES)} names; {len(all_cases())} names are compared with their library on at least {LEAST} "
        f"random uses each ({RUNS} per rule; {FEWER_RUNS['jax']} for JAX and Keras), {len(EXEMPT)} are exempt, with the reason",
    )
    missing = [name for name in NAMES if name not in all_cases() and name not in EXEMPT]
    assert not missing, f"{len(missing)} names have no random cases: {missing}; write some, or a reason in exempt.py"
    stale = [name for name in EXEMPT if name not in NAMES or name in all_cases()]
    assert not stale, f"exempt, but unknown or covered: {stale}"
    unknown = [name for name in all_cases() if name not in NAMES]
    assert not unknown, f"random cases of names that no rule has: {unknown}"
