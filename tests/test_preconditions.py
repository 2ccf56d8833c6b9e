"""Interval preconditions: the widest ones are known for small models, and nothing is claimed that a run refutes."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import onnx
import pytest
from benchmarks.zoo import program

from tensorproof import check
from tensorproof.assumptions import resolve
from tensorproof.checking import analyse
from tensorproof.confirm.sampling import points
from tensorproof.errors import ConfigurationError
from tensorproof.execute.runtime import Runtime
from tensorproof.formats import FLOAT32
from tensorproof.preparing import Prepared
from tensorproof.repair.editing import Editor
from tensorproof.repair.preconditions import Impossible, Open, Precondition, find_precondition
from tensorproof.repair.preconditions.scanning import Scanner
from tensorproof.repair.preconditions.sites import sites_of
from tests.models import model

pytestmark = pytest.mark.area("repair")

SMALLEST = 2.0**-149
#: The largest float32 whose exponential is finite in float32 (the logarithm of its largest number, rounded down).
LARGEST_EXPONENT = float(np.float32(88.72283))


def sought(
    proto: onnx.ModelProto, node: str, at: Any, ranges: dict[str, Any], scan: dict[str, Any] | None = None, **options: Any
) -> Any:
    """What is found for all findings of one node, as the coarsest scan reports them."""
    prepared = Prepared.of(proto, ranges=ranges, cache=False, **(scan or {}))
    (assumptions, *_), _ = resolve(prepared.graph, prepared.declared)
    analysis = analyse(prepared.graph, assumptions, prepared.target, effort=0, phase=prepared.phase)
    findings = [finding for finding in analysis.findings if finding.node == node]
    assert findings
    return find_precondition(prepared, findings, at, **options)


def ends(found: Precondition, name: str) -> tuple[float, float]:
    low, high = found.intervals[name]
    return float(low), float(high)


def edited(proto: onnx.ModelProto, found: Precondition) -> onnx.ModelProto:
    editor = Editor(Prepared.of(proto, cache=False).graph, proto)
    found.edit(editor)
    patched = editor.finish()
    onnx.checker.check_model(patched)
    return patched


def runs_finite(proto: onnx.ModelProto, ranges: dict[str, Any]) -> bool:
    """Whether all outputs are finite at points and corners of the whole box."""
    prepared = Prepared.of(proto, ranges=ranges, cache=False)
    (assumptions, *_), _ = resolve(prepared.graph, prepared.declared)
    names = prepared.graph.name_of
    domains = {
        names(n): (domain, assumptions.shapes[n] or (), prepared.graph.values[n].format or FLOAT32)
        for n, domain in assumptions.inputs.items()
    }
    with Runtime() as runtime:
        session = runtime.session(proto)
        return all(np.isfinite(out).all() for point in points(0, domains, 200) for out in session.run(point))


def test_intervals_hold_for_derivatives_in_training() -> None:
    """The root of exp(x) has an infinite derivative where exp(x) is flushed to 0: below the logarithm of 2**-126, -87.34."""
    proto = model("(float[4] x) => (float[4] z)", "e = Exp(x)\nz = Sqrt(e)")
    scan = {"phase": "training", "target": "tensorflow-cpu"}
    found = sought(proto, "z", "inputs", {"x": (-100, 1)}, scan)
    assert isinstance(found, Precondition)
    low, high = ends(found, "x")
    assert -87.34 < low < -87.3 and high == 1
    assert check(proto, ranges={"x": (low, high)}, confirm=False, **scan).findings == ()


# -- the widest interval is known -----------------------------------------------------------------------------------


def test_the_logarithm_keeps_every_positive_number() -> None:
    proto = model("(float[3] x) => (float[3] y)", "y = Log(x)")
    found = sought(proto, "y", "inputs", {"x": (-1, 1)})
    assert ends(found, "x") == (SMALLEST, 1.0)
    patched = edited(proto, found)
    assert not check(patched, ranges={"x": (-1, 1)}).findings
    assert runs_finite(patched, {"x": (-1, 1)})


def test_the_exponential_goes_as_far_as_float32() -> None:
    proto = model("(float[2] x) => (float[2] y)\n<float[2] w = {1.0, -1.0}>", "p = Mul(w, x)\ny = Exp(p)")
    ranges = {"x": (-200, 200), "w": (-1, 1)}
    found = sought(proto, "y", "inputs", ranges)
    low, high = ends(found, "x")
    assert high == pytest.approx(LARGEST_EXPONENT, rel=1e-5) and high <= LARGEST_EXPONENT
    assert low == pytest.approx(-LARGEST_EXPONENT, rel=1e-5) and low >= -LARGEST_EXPONENT
    assert runs_finite(edited(proto, found), {"x": (-200, 200)})


def test_a_softmax_below_a_logarithm_keeps_logits_that_do_not_underflow() -> None:
    proto = model("(float[1,4] x) => (float[1,4] y)", "s = Softmax<axis=-1>(x)\ny = Log(s)")
    found = sought(proto, "y", "inputs", {"x": (-100, 100)})
    low, high = ends(found, "x")
    # exp(-103.97...) rounds to the smallest subnormal number; a part of log(4) goes to the sum.
    assert 85.0 < high - low < 103.98
    assert runs_finite(edited(proto, found), {"x": (-100, 100)})


def test_a_quotient_keeps_the_wider_side_of_zero() -> None:
    proto = model("(float[2] x) => (float[2] y)", "one = Constant<value_float=1.0>()\ny = Div(one, x)")
    found = sought(proto, "y", "inputs", {"x": (-1, 2)})
    low, high = ends(found, "x")
    assert high == 2.0
    # The reciprocal of the end is the last one that does not overflow, up to the rounding of the quotient.
    assert low == pytest.approx(1.0 / FLOAT32.high, rel=1e-5)
    assert runs_finite(edited(proto, found), {"x": (-1, 2)})


def test_no_end_can_move_by_one_number() -> None:
    proto = model("(float[3] x) => (float[3] y)", "e = Exp(x)\ny = Log(e)")
    prepared = Prepared.of(proto, ranges={"x": (-300, 300)}, cache=False)
    (assumptions, *_), _ = resolve(prepared.graph, prepared.declared)
    analysis = analyse(prepared.graph, assumptions, prepared.target)
    findings = [finding for finding in analysis.findings if finding.node == "y"]
    found = find_precondition(prepared, findings, "inputs")
    assert isinstance(found, Precondition)
    ((low, high),) = found.box
    nodes = [node for node in prepared.graph.graph.nodes if node.name == "y"]
    sites = sites_of(prepared.graph, assumptions, analysis, nodes, "inputs")
    scanner = Scanner(prepared, sites, nodes, evaluations=100)
    assert scanner.proves(((low, high),))
    below, above = (np.nextafter(end, far, dtype=np.float32).astype(np.float64) for end, far in ((low, -np.inf), (high, np.inf)))
    assert not scanner.proves(((below, high),))
    assert not scanner.proves(((low, above),))


# -- where intervals are put ----------------------------------------------------------------------------------------


def test_behind_a_named_node() -> None:
    proto = model("(float[2] x) => (float[2] y, float[2] s)", "s = Add(x, x)\ny = Exp(s)")
    ranges = {"x": (-100, 100)}
    found = sought(proto, "y", ["s"], ranges)
    low, high = ends(found, "s")
    assert low == -200.0 and high == pytest.approx(LARGEST_EXPONENT, rel=1e-6)
    patched = edited(proto, found)
    assert [node.op_type for node in patched.graph.node if "Clip" in node.op_type] == ["Clip"]
    assert not check(patched, ranges=ranges).findings
    assert runs_finite(patched, ranges)


def test_channels_keep_their_own_intervals() -> None:
    proto = model("(float[1,2,2] x) => (float[1,2,2] y)", "y = Log(x)")
    ranges = {"x": {"channels": [[-1, 1], [2, 3]], "axis": 1}}
    found = sought(proto, "y", "inputs", ranges)
    low, high = found.intervals["x"]
    assert low.ravel().tolist() == [pytest.approx(0.0, abs=1e-2), 2.0] and high.ravel().tolist() == [1.0, 3.0]
    assert low.ravel()[0] > 0
    patched = edited(proto, found)
    assert not check(patched, ranges=ranges).findings
    assert runs_finite(patched, ranges)


def test_rows_lists_and_integers_stay_as_they_are() -> None:
    proto = model(
        "(float[2,3] x, float[2,3] y, float[2,3] m, int64[2,3] k) => (float[2,3] loss)",
        "s = Softmax<axis=-1>(x)\nl = Log(s)\nf = Cast<to=1>(k)\na = Mul(l, y)\nb = Mul(a, m)\nq = Mul(b, f)\nloss = Sqrt(q)",
    )
    ranges = {"x": (-100, 100), "y": "one-hot", "m": "{0,1}", "k": (0, 4)}
    found = sought(proto, "l", "inputs", ranges)
    assert [site.name for site in found.sites] == ["x"]


def test_weights_of_the_file_stay_inside() -> None:
    weights = "<float[3,2] w = {0.5, -0.5, 0.25, 0.125, -0.25, 0.5}>"
    proto = model("(float[1,3] x) => (float[1,2] y)\n" + weights, "p = MatMul(x, w)\ny = Exp(p)")
    ranges = {"x": (-10, 10), "w": (-100, 100)}
    for at in ("weights", "both"):
        found = sought(proto, "y", at, ranges)
        (low, high) = next(interval for site, interval in zip(found.sites, found.box, strict=True) if site.name == "w")
        assert low <= -0.5 and high >= 0.5
    # Three terms of at most 10 |w| each.
    low, high = ends(sought(proto, "y", "weights", ranges), "w")
    assert high == pytest.approx(LARGEST_EXPONENT / 30, rel=1e-3)
    fixed = sought(proto, "y", "both", {"x": (-1000, 1000)})
    assert set(fixed.intervals) == {"x"}


def test_a_node_in_a_body() -> None:
    proto = model(
        "(float[2] x, bool c) => (float[2] y)",
        "y = If(c) <then_branch = a () => (float[2] left) { left = Log(x) }, "
        "else_branch = b () => (float[2] right) { right = Abs(x) }>",
    )
    found = sought(proto, "left", "inputs", {"x": (-1, 1)})
    assert ends(found, "x") == (SMALLEST, 1.0)
    assert not check(edited(proto, found), ranges={"x": (-1, 1)}).findings


def test_names_that_are_not_there() -> None:
    proto = model("(float[2] x) => (float[2] y)", "y = Log(x)")
    with pytest.raises(ConfigurationError, match="no node at the top level"):
        sought(proto, "y", ["nowhere"], {"x": (-1, 1)})
    with pytest.raises(ConfigurationError, match="write inputs, weights, both"):
        sought(proto, "y", "outputs", {"x": (-1, 1)})
    with pytest.raises(ConfigurationError, match="method"):
        sought(proto, "y", "inputs", {"x": (-1, 1)}, method="magic")


# -- what cannot be fixed -------------------------------------------------------------------------------------------


def test_impossible_with_a_witness() -> None:
    proto = model("(float[2] x) => (float[2] y)\n<float[2] w = {1.0, 2.0}>", "s = Add(x, w)\ny = Log(s)")
    ranges = {"x": (-1, 1), "w": (-10, 10)}
    found = sought(proto, "y", "inputs", ranges)
    assert isinstance(found, Impossible)
    witness = found.refutation.witness
    assert (witness["x"] + witness["w"] <= 0).any()
    assert found.refutation.failing_points == found.refutation.random_points > 0
    assert "fails in ONNX Runtime" in found.describe()
    assert isinstance(sought(proto, "y", "weights", ranges), Precondition)


def test_weights_that_fail_are_searched_where_those_that_are_known_do_not() -> None:
    """A perceptron with logarithms of its own softmax: images at which no witness of a centre fails have witnesses of their own."""
    entry = program("11b")
    found = sought(entry.onnx(), "loss/log", "inputs", entry.declarations().domains)
    assert isinstance(found, Impossible)
    assert found.refutation.failing_points == found.refutation.random_points == 100


def test_nothing_before_the_node_can_be_restricted() -> None:
    proto = model("(float[2] x) => (float[2] y)", "y = Log(x)")
    found = sought(proto, "y", "weights", {"x": (-1, 1)})
    assert isinstance(found, Impossible) and "depends on nothing" in found.describe()
    # The square of x - z, plus 0.5: an alarm that no run confirms.
    sound = model(
        "(float[2] x, float[2] z) => (float[2] y)",
        "two = Constant<value_float=2.0>()\nhalf = Constant<value_float=0.5>()\n"
        "a = Mul(x, x)\nb = Mul(z, z)\nc = Mul(x, z)\nd = Mul(two, c)\ne = Add(a, b)\nf = Sub(e, d)\n"
        "g = Add(f, half)\ny = Log(g)",
    )
    assert isinstance(sought(sound, "y", "weights", {"*": (-9, 9)}), Open)


# -- the search -----------------------------------------------------------------------------------------------------

#: Defined on [0.2, 0.4] alone, which no plain centre hits.
HIDDEN = model(
    "(float[2] x) => (float[2] y)",
    """
    centre = Constant<value_float=0.3>()
    radius = Constant<value_float=0.01>()
    d = Sub(x, centre)
    q = Mul(d, d)
    r = Sub(radius, q)
    y = Sqrt(r)
    """,
)


def test_gradients_lead_to_a_centre_that_is_not_plain() -> None:
    found = sought(HIDDEN, "y", "inputs", {"x": (-1, 1)})
    assert isinstance(found, Precondition)
    low, high = ends(found, "x")
    # The edges to a thousandth: the square of x - 0.3 is rounded.
    assert low == pytest.approx(0.2, abs=1e-3) and high == pytest.approx(0.4, abs=1e-3)
    assert runs_finite(edited(HIDDEN, found), {"x": (-1, 1)})


def test_without_torch_plain_centres_are_tried_and_the_rest_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    hidden = sought(HIDDEN, "y", "inputs", {"x": (-1, 1)})
    assert isinstance(hidden, Open) and "`torch`" in hidden.describe()
    plain = model("(float[2] x) => (float[2] y)", "y = Log(x)")
    assert ends(sought(plain, "y", "inputs", {"x": (-1, 1)}), "x") == (SMALLEST, 1.0)


def test_the_same_seed_gives_the_same_result() -> None:
    first, second = (sought(HIDDEN, "y", "inputs", {"x": (-1, 1)}, seed=3) for _ in range(2))
    assert first.scans == second.scans and first.describe() == second.describe()
    assert ends(first, "x") == ends(second, "x")


@pytest.mark.parametrize("evaluations", [0, 1, 5, 12, 40])
def test_budgets_count_scans(evaluations: int) -> None:
    proto = model("(float[3] x) => (float[3] y)", "y = Log(x)")
    found = sought(proto, "y", "inputs", {"x": (-1, 1)}, evaluations=evaluations)
    assert found.scans <= evaluations
    if isinstance(found, Precondition):
        assert ends(found, "x")[0] > 0
    else:
        assert "budget" in found.describe()


def test_more_scans_never_give_less() -> None:
    proto = model("(float[3] x) => (float[3] y)", "y = Log(x)")
    shares = [sought(proto, "y", "inputs", {"x": (-1, 1)}, evaluations=count).share for count in (20, 40, 80, 160)]
    assert shares == sorted(shares)


def test_every_combination_of_sizes_is_proven() -> None:
    proto = model("(float[n] x) => (float y)", "s = ReduceSum<keepdims=0>(x)\ny = Exp(s)")
    prepared = Prepared.of(proto, ranges={"x": (-100, 100)}, dims={"n": (1, 4)}, cache=False)
    combinations, _ = resolve(prepared.graph, prepared.declared)
    analysis = analyse(prepared.graph, combinations[0], prepared.target)
    found = find_precondition(prepared, analysis.findings, "inputs", evaluations=1000)
    assert isinstance(found, Precondition)
    assert ends(found, "x")[1] == pytest.approx(LARGEST_EXPONENT / 4, rel=1e-3)


@pytest.mark.parametrize("method", ["elementwise", "gradient"])
def test_baselines_prove_what_they_find(method: str) -> None:
    proto = model("(float[1,4] x) => (float[1,4] y)", "s = Softmax<axis=-1>(x)\ny = Log(s)")
    ranges = {"x": (-100, 100)}
    found = sought(proto, "y", "inputs", ranges, method=method)
    assert isinstance(found, Precondition)
    low, _ = found.box[0]
    assert low.shape == ((1, 4) if method == "elementwise" else ())
    patched = edited(proto, found)
    assert not check(patched, ranges=ranges, effort=1, tensors="expand").findings
    assert runs_finite(patched, ranges)


def test_the_proposal_is_unsafe_unless_nothing_is_restricted() -> None:
    proto = model("(float[2] x) => (float[2] y)", "y = Log(x)")
    prepared = Prepared.of(proto, ranges={"x": (-1, 1)}, cache=False)
    (assumptions, *_), _ = resolve(prepared.graph, prepared.declared)
    (finding,) = analyse(prepared.graph, assumptions, prepared.target).findings
    found = find_precondition(prepared, [finding])
    assert isinstance(found, Precondition)
    proposal = found.proposal(finding)
    assert proposal.kind == "precondition" and not proposal.safe and "x in [1.4013e-45, 1]" in proposal.summary
    # The coarsest scan alarms, a finer one proves the whole box.
    spurious = model(
        "(float[2] x, float[2] w) => (float[2] y)",
        "t = Constant<value_float=3.0>()\na = Sub(x, w)\nb = Sub(w, x)\nc = Add(a, t)\nz = Add(b, c)\ny = Log(z)",
    )
    whole = sought(spurious, "y", "inputs", {"*": (-9, 9)})
    assert isinstance(whole, Precondition) and whole.is_untouched and whole.share == 1.0
