"""Every stable idiom in the form that every exporter gives it: proven safe, and reported as soon as it is not quite the idiom.

The table at the end of a run says for each cell what proves it: `ranges` alone, or the idioms that fire. Where an exporter
itself makes a safe function unsafe, the cell says so, and the test asks for the finding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from tensorproof.assumptions import Declarations, domain_from_json, resolve
from tensorproof.checking import ConstantRanges, input_values
from tensorproof.findings import Report
from tensorproof.formats import FLOAT16
from tensorproof.frontends.onnx_file import from_proto
from tensorproof.frontends.onnx_precision import converted
from tensorproof.idioms.claims import Claim, claims_of
from tensorproof.operators.table import Call
from tensorproof.ranges.abstraction import Abstraction
from tensorproof.ranges.propagate import propagate
from tensorproof.ranges.range import Range
from tensorproof.targets import ONNXRUNTIME_CPU
from tests.exporters import SOURCES, exported
from tests.exporters.catalogue import CASES, DEFECTIVE, MISSING
from tests.models import static
from tests.test_whole_models import outside

pytestmark = pytest.mark.area("idiom forms")

#: Safe functions that an exporter writes so that they fail: the rule that says so. Both torch exporters write log(sigmoid(x)) for
#: logsigmoid; tf2onnx writes the cross-entropy of sparse labels as the logarithm of a quotient of exponentials.
MADE_BY_THE_EXPORTER = {
    ("logsigmoid", "torch"): "NUM101",
    ("logsigmoid", "torchscript"): "NUM101",
    ("sparse cross-entropy", "tf2onnx"): "NUM101",
}
#: What must have fired where ranges alone prove nothing.
NORMALISATIONS = ("standardise", "LayerNorm", "RMSNorm", "GroupNorm", "InstanceNorm", "batch statistics", "l2-normalise")
BY_OWN_NORM = {"divided-by-own-norm", "normalised-and-shifted-at-once"}


CELLS = [(name, exporter) for name in CASES for exporter in SOURCES if name not in MISSING.get(exporter, ())]


def checked(name: str, proto: onnx.ModelProto) -> Report:
    return static(proto, ranges={n: i.box for n, i in CASES[name].items() if not i.boolean})


def errors(report: Report) -> set[str]:
    return {finding.rule.code for finding in report.findings if finding.rule.severity == "error"}


def hazards(name: str, proto: onnx.ModelProto, claims: Mapping[int, Sequence[Claim]], *, norms: bool) -> bool:
    """Whether one pass with these claims finds something."""
    model = from_proto(proto)
    boxes = {n: domain_from_json(i.box, n) for n, i in CASES[name].items() if not i.boolean}
    (assumptions, *_), _ = resolve(model, Declarations(boxes, {}))
    ranged = propagate(
        model,
        input_values(model, assumptions),
        ONNXRUNTIME_CPU,
        constants=ConstantRanges(model, assumptions),
        abstraction=Abstraction(norms=norms),
        claims=claims,
    )
    return any(hazard.rule.severity == "error" for record in ranged.records.values() for hazard in record.hazards)


def proven_by_ranges(name: str, proto: onnx.ModelProto) -> bool:
    """Whether one pass without idioms and norms finds nothing."""
    return not hazards(name, proto, {}, norms=False)


def fired(name: str, proto: onnx.ModelProto) -> set[str]:
    """The idioms that had something to say."""
    found: set[str] = set()

    def watched(claim: Claim) -> Claim:
        def bound(call: Call, *operands: Range) -> Any:
            result = claim.bound(call, *operands)
            if result is not None:
                found.add(claim.idiom)
            return result

        return replace(claim, bound=bound)

    claims = claims_of(from_proto(proto))
    hazards(name, proto, {node: [watched(claim) for claim in each] for node, each in claims.items()}, norms=True)
    return found


@pytest.mark.parametrize(("name", "exporter"), CELLS)
def test_every_form_is_proven(name: str, exporter: str, record_property: Callable[[str, object], None]) -> None:
    proto = exported(exporter)[name]
    report = checked(name, proto)
    assert not report.coverage.not_analysed
    expected = MADE_BY_THE_EXPORTER.get((name, exporter))
    if expected is not None:
        assert errors(report) == {expected}
        record_property("form", f"{name}|{exporter}|unsafe: {expected}")
        return
    assert errors(report) == set()
    by_ranges, idioms = proven_by_ranges(name, proto), fired(name, proto)
    assert by_ranges or idioms
    assert by_ranges or name not in NORMALISATIONS or not BY_OWN_NORM.isdisjoint(idioms)
    record_property("form", f"{name}|{exporter}|{'ranges' if by_ranges else ', '.join(sorted(idioms))}")


@pytest.mark.parametrize(("name", "exporter"), CELLS)
def test_every_near_miss_is_reported(name: str, exporter: str) -> None:
    assert errors(checked(name, exported(exporter)[name + DEFECTIVE]))


@pytest.mark.parametrize("precision", ["float32", "float16"])
@pytest.mark.parametrize(("name", "exporter"), CELLS)
def test_every_value_of_real_runs_lies_in_its_range(name: str, exporter: str, precision: str) -> None:
    proto = onnx.ModelProto.FromString(exported(exporter)[name].SerializeToString())
    if any(node.op_type == "IsInf" for node in proto.graph.node):
        proto.opset_import[0].version = max(proto.opset_import[0].version, 20)  # IsInf takes 16 bits from version 20 on
    boxes = {n: i.box for n, i in CASES[name].items() if not i.boolean}
    if precision == "float16":
        proto, _ = converted(proto, FLOAT16)
        boxes = {n: (max(low, -60.0), min(high, 60.0)) for n, (low, high) in boxes.items()}
    assert outside(proto, boxes, {}, runs=12) == []


@pytest.mark.parametrize(("name", "exporter"), MADE_BY_THE_EXPORTER)
def test_what_an_exporter_makes_unsafe_fails_in_the_runtime(name: str, exporter: str) -> None:
    proto = exported(exporter)[name]
    session = ort.InferenceSession(proto.SerializeToString())
    x = np.full(CASES[name]["x"].shape, -200.0, np.float32)
    x[:, 2] = 200.0
    (result,) = session.run(None, {"x": x})
    assert not np.isfinite(result).all()


def test_no_form_is_proven_by_accident() -> None:
    """Most cells need an idiom: without one, ranges alone find a hazard."""
    needed = [name for name in CASES if not proven_by_ranges(name, exported("hand")[name])]
    assert len(needed) >= 15
