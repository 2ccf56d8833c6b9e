"""A repair is shown only if its proof holds: what is wrong, changes values or kills derivatives is seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

from tensorproof.confirm.quick import QuickConfirm
from tensorproof.findings import Finding
from tensorproof.formats import FLOAT16, FLOAT32
from tensorproof.preparing import Prepared
from tensorproof.repair.comparison import Comparison
from tensorproof.repair.editing import Editor
from tensorproof.repair.proposal import Proposal
from tensorproof.repair.verify import Refused, Verification, scanned, verified, with_proto
from tests.models import model

pytestmark = pytest.mark.area("repair")

Edit = Callable[[Editor], None]


def logarithm(low: float = -1.0, **scan: Any) -> Prepared:
    proto = model("(float[8] x) => (float[8] y)", "a = Mul(x, x)\nb = Sub(a, x)\ny = Log(b)")
    return Prepared.of(proto, ranges={"x": (low, 4.0)}, **scan)


def node_of(prepared: Prepared, op: str) -> Any:
    (found,) = [node for node in prepared.graph.graph.walk() if node.op == op]
    return found


def proposal(prepared: Prepared, finding: Finding, edit: Edit) -> Proposal:
    return Proposal("operand", "trial", finding, "trial", "trial", True, (finding.node,), edit)


def verify(prepared: Prepared, edit: Edit, runs: int = 100) -> Verification:
    confirming = QuickConfirm(prepared.proto)
    report = prepared.checked(confirming)
    finding = report.roots()[0]
    editor = Editor(prepared.graph, prepared.proto)
    edit(editor)
    patched = with_proto(prepared, editor.finish())
    witness = confirming.failing.get((finding.rule.code, finding.node))
    return verified(prepared, patched, proposal(prepared, finding, edit), scanned(prepared), witness=witness, runs=runs)


def clamp(low: float) -> Callable[[Prepared], Edit]:
    def make(prepared: Prepared) -> Edit:
        node = node_of(prepared, "Log")

        def edit(editor: Editor) -> None:
            spot = editor.before(node, "guard")
            editor.rewire(node, 0, spot.clip(spot.name(node.inputs[0]), low, None, np.float32))

        return edit

    return make


def test_a_clamp_at_the_smallest_normal_number_changes_nothing_that_was_finite() -> None:
    prepared = logarithm()
    seen = verify(prepared, clamp(float(np.finfo(np.float32).tiny))(prepared))
    assert seen.witness_replayed and seen.runs == 100
    assert seen.values.elements > 100 and seen.values.ulp == 0 and seen.outputs.ulp == 0
    assert seen.gradients.kept and seen.gradients.points > 0
    assert seen.keeps_everything and "values unchanged" in seen.describe()


def test_a_large_clamp_is_proven_and_seen_to_change_values() -> None:
    prepared = logarithm()
    seen = verify(prepared, clamp(0.5)(prepared))
    assert seen.values.relative > 0.01 and seen.values.keeps_values is False
    assert not seen.keeps_everything


def test_a_clamp_that_does_not_help_is_refused() -> None:
    prepared = logarithm()
    with pytest.raises(Refused, match="the scan still finds NUM101"):
        verify(prepared, clamp(-0.5)(prepared))


def test_a_repair_that_brings_another_defect_is_refused() -> None:
    prepared = logarithm()
    node = node_of(prepared, "Log")

    def edit(editor: Editor) -> None:
        spot = editor.before(node, "guard")
        root = spot.add("Sqrt", spot.name(node.inputs[0]))
        editor.rewire(node, 0, spot.add("Add", root, spot.constant(1.0, np.float32)))

    with pytest.raises(Refused, match=r"finds NUM\d+ at \S*sqrt, which was not there before"):
        verify(prepared, edit)


def test_a_model_that_the_runtime_does_not_take_is_refused() -> None:
    prepared = logarithm()
    node = node_of(prepared, "Log")

    def edit(editor: Editor) -> None:
        spot = editor.before(node, "guard")
        wide = spot.add("Cast", spot.name(node.inputs[0]), to=onnx.TensorProto.DOUBLE)
        editor.rewire(node, 0, spot.add("Max", wide, spot.constant(1.0, np.float32)))

    with pytest.raises(Refused, match="ONNX Runtime does not run the patched model"):
        verify(prepared, edit)


def test_a_derivative_that_dies_is_seen() -> None:
    """Rounded to a constant and back: the values differ, and no derivative is left."""
    prepared = logarithm(low=-1.0)
    node = node_of(prepared, "Log")

    def edit(editor: Editor) -> None:
        spot = editor.before(node, "guard")
        clamped = spot.clip(spot.name(node.inputs[0]), 1.0, 20.0, np.float32)
        editor.rewire(node, 0, spot.add("Ceil", clamped))

    seen = verify(prepared, edit)
    assert seen.gradients.dead > 0 and seen.gradients.kept is False and not seen.keeps_everything


def test_the_exact_value_decides_where_the_original_is_off() -> None:
    """1 - p rounds: log(1 - sigmoid(x)) is off by far more than -softplus(x), which is the better one."""
    proto = model(
        "(float[64] x) => (float[64] y)", "p = Sigmoid(x)\none = Constant<value = float {1.0}>()\nq = Sub(one, p)\ny = Log(q)"
    )
    prepared = Prepared.of(proto, ranges={"x": (0, 30)})
    node = node_of(prepared, "Log")

    def edit(editor: Editor) -> None:
        spot = editor.before(node, "stable")
        editor.replace(node, spot.add("Neg", spot.add("Softplus", "x")))

    seen = verify(prepared, edit)
    assert seen.values.ulp > 100 and seen.values.excess is not None and seen.values.excess <= 2
    assert seen.keeps_everything


def test_nothing_is_claimed_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    from tensorproof.execute import torch_graph

    def refuse(*_: object, **__: object) -> None:
        raise ImportError("no torch")

    monkeypatch.setattr(torch_graph.TorchGraph, "__init__", refuse)
    prepared = logarithm()
    seen = verify(prepared, clamp(float(np.finfo(np.float32).tiny))(prepared))
    assert seen.gradients.kept is None and "not compared" in seen.describe()


def test_differences_are_measured_in_units_of_the_format() -> None:
    one = np.array([1.0, 2.0, np.inf], np.float16)
    found = Comparison()
    found.add(one, np.array([1.0 + 2.0**-10, 2.0, 5.0], np.float16), one.astype(np.float64), FLOAT16)
    assert (found.elements, found.ulp, found.excess) == (2, 1.0, 1.0)
    found = Comparison()
    found.add(np.array([1.0], np.float32), np.array([np.nan], np.float32), None, FLOAT32)
    assert found.ulp == np.inf and found.keeps_values is None


def test_values_between_two_operators_without_16_bit_kernels_are_rounded() -> None:
    """ONNX Runtime makes a single 16-bit Identity between two such operators a float32 one: 3e5 would pass through float16."""
    from tensorproof.execute.instrument import instrumented, rounded
    from tensorproof.execute.runtime import Runtime

    body = "p = MatMul(x, x)\nwide = Constant<value = float {0.25}>()\nquarter = Cast<to=10>(wide)\ny = Mul(p, quarter)"
    proto = model("(float16[2,2] x) => (float16[2,2] y)", body)
    with Runtime() as runtime:
        session = runtime.session(instrumented(rounded(proto, {"p", "y"}), ["y"]))
        (y,) = session.run({"x": np.full((2, 2), 256.0, np.float16)})
    assert np.isinf(y).all(), "256 * 256 * 2 is 131072, beyond float16; a quarter of it is not"
