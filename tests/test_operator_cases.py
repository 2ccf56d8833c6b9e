"""The own benchmark cases: every defect is real, found at its place and replayed; every twin is finite, and nothing is said of it."""

from __future__ import annotations

import inspect
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from benchmarks.operator_cases.catalogue import FAMILIES, PAIRS
from benchmarks.operator_cases.judging import judged
from benchmarks.operator_cases.pairs import Pair
from benchmarks.operator_cases.running import failures, running
from benchmarks.paper.tables import operators

import tensorproof
from tensorproof.findings import Verdict
from tensorproof.rules import model_rules

pytestmark = pytest.mark.area("operator cases")

#: Points of its box at which each twin is run.
POINTS = 100

#: Defects that are found and not confirmed, with a point by hand that fails all the same.
NOT_REACHED = {
    "angular_margin": "only some vectors that are parallel to a centre round above 1: the search gets near them and tries too few",
    "pitch_of_quaternion": "only some quaternions at the pole round above 1: the search gets to 1 and tries too few around it",
}
#: Twins that are safe, and not proven to be.
FALSE_ALARMS = {
    "sinkhorn": "rows and columns are scaled in turn, which keeps their products bounded; intervals grow with each turn",
    "contrastive_temperature": "a diagonal over sums of rows is at most 1: only p / sum(p) of the same elements is recognised",
}


def each(known: dict[str, str]) -> pytest.MarkDecorator:
    """A test for every pair; those of `known` have to fail, for the reason given."""
    marked = [pytest.param(pair, marks=_expected_failure(known.get(name)), id=name) for name, pair in PAIRS.items()]
    return pytest.mark.parametrize("pair", marked)


def _expected_failure(reason: str | None) -> tuple[pytest.MarkDecorator, ...]:
    return () if reason is None else (pytest.mark.xfail(strict=True, reason=reason, raises=AssertionError),)


def test_the_catalogue():
    assert len(PAIRS) == sum(len(family.pairs) for family in FAMILIES) >= 30
    assert all(len(family.pairs) >= 3 for family in FAMILIES)
    assert {*NOT_REACHED, *FALSE_ALARMS} <= PAIRS.keys()
    for pair in PAIRS.values():
        assert pair.rule in model_rules() and pair.summary.endswith("."), pair.name
        assert pair.is_file or Path(pair.place[0]).name == Path(inspect.getfile(pair.build)).name


@each(NOT_REACHED)
def test_a_defect_is_found_and_confirmed(pair: Pair, tmp_path: Path):
    best = judged(pair, False, tmp_path).best
    assert best is not None, "not found"
    if pair.not_replayed:
        assert best.reached is not None and best.reached[0] == 0.0, "no run came to the value that fails"
        return
    assert best.verdict is Verdict.CONFIRMED and best.witness is not None, best.reached
    assert best.reaches == ("nowhere" if pair.silent else "gradient" if pair.phase == "training" else "output")
    replay = runpy.run_path(best.witness.script)["replay"]
    happened, account = replay(in_own_process=False) if pair.is_file else replay()
    assert happened, account


def _parallel(shares: np.ndarray) -> dict[str, np.ndarray]:
    """Embeddings that are parallel to the first centre of the classifier, as long as the box allows."""
    program = PAIRS["angular_margin"].built(False)
    centre = program.run.centres[0].detach().numpy()
    return {"embedding": np.clip(shares[:, None] * centre[None], 0.1, 1).astype(np.float32)}


@pytest.mark.parametrize("name", NOT_REACHED)
def test_a_defect_that_is_not_reached_is_real(name: str):
    shares = np.random.default_rng(0).uniform(0.6, 1.0, (40, 3)).astype(np.float32)
    run = running(PAIRS[name], False)
    if name == "angular_margin":
        tried = [_parallel(share) for share in shares]
    else:
        tried = [{"q": np.tile([a, b, a, -b], (8, 1)).astype(np.float32)} for a, b, _ in shares]
    for point in tried:
        for key, (domain, shape, _) in run.inputs.items():
            assert point[key].shape == shape and point[key].min() >= domain.low and point[key].max() <= domain.high
    assert not all(run.is_finite(point) for point in tried)


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_a_twin_is_finite(pair: Pair):
    assert failures(pair, True, POINTS) == []


@each(FALSE_ALARMS)
def test_nothing_is_said_of_a_twin(pair: Pair):
    assert judged(pair, True).alarms == ()


def test_the_table():
    names = ["gamma_correction", "sinkhorn", "computed_scale"]
    assert set(operators.cases("full")) == set(PAIRS) and 8 <= len(operators.cases("quick")) <= 15
    results: dict[str, Any] = {name: operators.measured(name, "quick") for name in names}
    section = operators.section(results, "quick")
    figures = section.figures
    assert [figures[key] for key in ("cases", "pairs", "found", "confirmed", "false alarms")] == [6, 3, 3, 2, 1]
    assert figures["twins that fail"] == 0 and 0 < float(figures["seconds"]) < 5
    by_case = {row[0]: dict(zip(section.columns, row)) for row in section.rows}
    assert by_case["gamma_correction"]["found"] == "NUM104" and by_case["gamma_correction"]["alarms on the twin"] == "-"
    assert "NUM103" in by_case["sinkhorn"]["alarms on the twin"] and by_case["computed_scale"]["verdict"] == "possible"


def test_a_witness_that_no_output_shows_gives_way_to_one_that_does():
    def mixed(p: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(torch.logit(p).mean(0))

    for find in (tensorproof.check, tensorproof.find_witnesses):
        (finding,) = find(mixed, {"p": torch.rand(3, 5)}, ranges={"p": (0, 1)}).findings
        assert finding.verdict is Verdict.CONFIRMED and finding.reaches == "output"


def test_a_harmless_infinity_stays_a_note_beside_a_defect():
    def loss(p: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        surprise = -torch.log(p)
        capped = surprise.clamp(max=100.0)
        return capped / scale

    example = {"p": torch.rand(3), "scale": torch.ones(3)}
    # At the low corner the logarithm fails alone; at the next points both operators fail.
    report = tensorproof.check(loss, example, ranges={"p": (0, 1), "scale": (-1, 1)})
    reached = {finding.op: finding.reaches for finding in report.confirmed}
    assert reached == {"Log": "nowhere", "Div": "output"}
