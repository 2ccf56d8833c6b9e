"""No false alarms: networks of real size and trained models, in model mode and in architecture mode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
from benchmarks.networks import NETWORKS, path_of

import tensorproof
from tensorproof.findings import Report
from tensorproof.report.selection import Selection, apply_selection
from tests.test_whole_models import LIGHT, WHEELS

pytestmark = pytest.mark.area("precision")

MODES = ["fixed", "init"]
REAL = ["resnet50", "vit_tiny", "bert2", "gpt2", "lstm"]

#: Findings of trained models that stand: the beginning of the node's name, and why.
EXPLAINED: dict[str, dict[str, str]] = {
    "basic_pitch-nmp": {
        "model_1/normalized_log_1/div_no_nan": "true: silence gives 0 / 0, which the Where behind it hides from the outputs",
    },
    "rapidocr_onnxruntime-ch_PP-OCRv4_rec_infer": {
        # Squares of a layer normalisation written out leave float32 above 1.8e19; real runs reach 168. The bound grows to
        # 1e27 over some forty convolutions with gates, each of which the norms of its operands overestimate a little.
        "p2o.Pow.": "not ruled out: worst-case growth over forty convolutions",
        "p2o.ReduceMean.": "not ruled out: the mean of those squares",
    },
}


def alarms(report: Report) -> list[str]:
    """Findings that a user would be shown as defects, under the default selection of rules, as text."""
    found = [f for f in apply_selection(report, Selection()).findings if not f.is_note]
    return [f"{f.rule.code} {f.node}: {f.message}" for f in found]


@pytest.mark.parametrize("weights", MODES)
@pytest.mark.parametrize("name", REAL)
def test_networks_of_real_size_are_proven_safe(name: str, weights: str) -> None:
    report = tensorproof.check(path_of(name), ranges=dict(NETWORKS[name].ranges), weights=weights, confirm=False)
    assert alarms(report) == []
    assert report.coverage.complete
    assert len(report.proven_safe) >= 5


@pytest.mark.parametrize("weights", MODES)
@pytest.mark.parametrize("path", LIGHT, ids=lambda p: p.stem)
def test_light_models_are_proven_safe(path: Path, weights: str) -> None:
    report = tensorproof.check(onnx.load(path), ranges={"*": (0.0, 1.0)}, weights=weights, confirm=False)
    assert alarms(report) == []
    assert report.coverage.complete
    assert len(report.proven_safe) > 10


@pytest.mark.parametrize("weights", MODES)
@pytest.mark.parametrize("name, path, ranges, dims", WHEELS, ids=[w[0] for w in WHEELS])
def test_every_finding_in_trained_models_is_explained(
    name: str, path: Path, ranges: dict[str, Any], dims: dict[str, int], weights: str
) -> None:
    report = tensorproof.check(path, ranges=ranges, dims=dims, weights=weights, confirm=False)
    explained = EXPLAINED.get(name, {})
    unexplained = [text for text in alarms(report) if not any(text.split(" ", 1)[1].startswith(node) for node in explained)]
    assert unexplained == []
    assert report.coverage.complete
