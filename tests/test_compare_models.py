"""`tensorproof diff`: real models in real runtimes, each in a process of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import onnx
import pytest

import tensorproof as library
from tensorproof.compare.backends.backend import ModelFacts
from tensorproof.compare.diffing.aligning import Pair, align
from tensorproof.compare.diffing.bisecting import CUT_OFF, Probe, localise_defect
from tensorproof.compare.diffing.inputs import input_space
from tensorproof.compare.diffing.reporting import report_of
from tensorproof.compare.diffing.rounding import Tolerance, is_moving, moved, spread
from tensorproof.compare.diffing.side import Side, open_side
from tensorproof.compare.judging import Opinion
from tensorproof.errors import ModelError
from tensorproof.report import find_format
from tests.commands import tensorproof
from tests.diff_models import (
    KERAS_NORM,
    LOGSIGMOID,
    Builder,
    branches,
    cancelling,
    classifier,
    clipped,
    deep,
    low,
    overflowing,
)

pytestmark = pytest.mark.area("compare models")


def replayed(script: str) -> int:
    """The exit code of a saved program, which knows nothing of this package."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return subprocess.run([sys.executable, script], env=environment, capture_output=True, timeout=300).returncode


# -- the six pairs that a deploy check is made for ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A program of PyTorch and its ONNX export, both as a user has them."""
    folder = tmp_path_factory.mktemp("export")
    program = folder / "net.py"
    program.write_text(LOGSIGMOID)
    code = (
        "import sys, warnings; warnings.simplefilter('ignore'); sys.path.insert(0, sys.argv[1]); import net, torch\n"
        "torch.onnx.export(net.Net().eval(), (torch.zeros(4, 8),), sys.argv[1] + '/net.onnx', dynamo=True, verbose=False,"
        " external_data=False)"
    )
    subprocess.run([sys.executable, "-c", code, str(folder)], check=True, capture_output=True)
    return program, folder / "net.onnx"


def test_a_program_and_its_export_part_at_logsigmoid(exported: tuple[Path, Path], tmp_path: Path) -> None:
    """PyTorch's exporter writes Log(Sigmoid(x)), which is -inf where logsigmoid is about x."""
    program, model = exported
    operators = [node.op_type for node in onnx.load(model).graph.node]
    assert operators[-3:-1] == ["Sigmoid", "Log"], "the exporter writes something better now: take another function"
    found = library.diff(f"{program}:Net", model, witnesses=tmp_path)
    assert found.verdict is Opinion.DEFECT
    first = found.first
    assert first is not None
    assert (first.name, first.left_operator, first.right_operator) == ("log_sigmoid", "aten.log_sigmoid.default", "Log")
    line = LOGSIGMOID.splitlines().index("        return F.logsigmoid(self.last(y) * 200) * 0.5") + 1
    assert (first.file, first.line) == (str(program), line)
    judgement = first.divergence.judgement
    assert judgement is not None and judgement.symptom == "nan"
    assert judgement.right == -np.inf and judgement.left < -40
    # Double precision says who is right.
    assert judgement.reference == pytest.approx(judgement.left, rel=1e-5) and judgement.culprit == "right"
    # Its operand agrees, and on that operand alone it differs.
    assert [pair.left for pair in first.divergence.operands] == ["mul"]
    assert first.divergence.alone is not None and first.divergence.alone.is_defect
    assert found.witness is not None and replayed(found.witness.script) == 0


def test_keras_layer_normalisation_over_another_axis(tmp_path: Path) -> None:
    path = tmp_path / "norm.keras"
    environment = dict(os.environ, KERAS_BACKEND="jax", TF_CPP_MIN_LOG_LEVEL="3")
    subprocess.run([sys.executable, "-c", KERAS_NORM, str(path)], env=environment, check=True, capture_output=True)
    found = tensorproof(
        *("diff", path, path, "--left-backend", "keras:jax", "--right-backend", "keras:torch"),
        *("--format", "json", "--out", tmp_path / "saved"),
    )
    assert found.code == 1, found.err
    report = json.loads(found.out)
    assert [entry["rule"] for entry in report["findings"]] == ["CMP104"]
    first = report["assumptions"]["comparison"]["first"]
    assert (first["left"], first["left_operator"]) == ("norm", "LayerNormalization")
    assert "normalized_shape" in first["right_failure"] and not first["left_failure"]
    assert first["operands"] == ["dense"]


def test_a_float16_copy_with_one_overflowing_product(tmp_path: Path) -> None:
    proto = overflowing(tmp_path / "model.onnx")
    copy = low(proto, tmp_path / "half.onnx")
    found = library.diff(tmp_path / "model.onnx", copy, ranges={"x": (-1, 1)}, witnesses=tmp_path)
    assert found.verdict is Opinion.DEFECT and found.formats == ("float32", "float16")
    assert found.first is not None and (found.first.name, found.first.right_operator) == ("h2", "MatMul")
    judgement = found.first.divergence.judgement
    assert judgement is not None and judgement.right == np.inf and 65504 < judgement.left < np.inf
    assert found.first.divergence.alone is not None and found.first.divergence.alone.is_defect
    assert found.witness is not None and replayed(found.witness.script) == 0
    # Inputs that are small enough do not overflow: what is left is rounding, and that fails no build unless asked for.
    small = ("diff", tmp_path / "model.onnx", copy, "--range", "x=-0.1:0.1", "--evaluations", "20")
    quiet = tensorproof(*small)
    assert quiet.code == 0 and "precision  CMP110" in quiet.out
    assert tensorproof(*small, "--fail-on", "precision").code == 1


@pytest.fixture(scope="module")
def quantised(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    from onnxruntime.quantization import CalibrationDataReader, quantize_static

    folder = tmp_path_factory.mktemp("quantised")
    model = classifier(folder / "model.onnx")

    class Reader(CalibrationDataReader):
        def __init__(self) -> None:
            random = np.random.default_rng(0)
            self.batches = iter([{"x": random.uniform(-1, 1, (32, 16)).astype(np.float32)} for _ in range(8)])

        def get_next(self) -> dict[str, np.ndarray] | None:
            return next(self.batches, None)

    quantize_static(model, folder / "int8.onnx", Reader())
    return model, folder / "int8.onnx"


def test_an_int8_copy_loses_precision(quantised: tuple[Path, Path]) -> None:
    found = library.diff(*quantised, ranges={"x": (-1, 1)})
    assert found.verdict is Opinion.PRECISION and found.formats == ("float32", "int8")
    assert found.first is not None and found.first.name == "mm0"
    assert found.first.divergence.pair.right == "mm0_DequantizeLinear_Output"
    assert found.first.divergence.alone is not None and found.first.divergence.alone.opinion is Opinion.PRECISION
    (output,) = found.outputs
    assert output.metric == "top-1 agreement" and 0.8 < output.score <= 1.0
    assert 0 < output.relative < 0.1


def test_an_int8_copy_that_was_calibrated_for_other_data(quantised: tuple[Path, Path], tmp_path: Path) -> None:
    """Inputs ten times as large are cut off at the end of the quantiser's range: that is no rounding."""
    data = tmp_path / "data.npz"
    np.savez(data, x=np.random.default_rng(1).uniform(-10, 10, (4, 2, 16)).astype(np.float32))
    found = library.diff(*quantised, data=data)
    assert found.verdict is Opinion.DEFECT and found.points == 4
    assert found.first is not None and found.first.divergence.alone is not None
    assert found.first.divergence.alone.detail == CUT_OFF


def test_an_identical_pair_is_silent(tmp_path: Path) -> None:
    model = classifier(tmp_path / "model.onnx")
    copy = classifier(tmp_path / "copy.onnx")
    found = tensorproof("diff", model, copy, "--out", tmp_path / "saved")
    assert (found.code, found.out) == (0, "")
    assert "agree: 16 points, 100 evaluations" in found.err
    assert not (tmp_path / "saved").exists()
    assert report_of(library.diff(model, copy, runs=2, evaluations=0)).findings == ()


def peak_memory(side: Side) -> int:
    """The largest resident size that the process of a worker ever had."""
    status = Path(f"/proc/{side.worker.process_id}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of a process is read from /proc")
def test_a_thousand_nodes_in_twice_the_memory_of_the_model(tmp_path: Path) -> None:
    small = classifier(tmp_path / "small.onnx")
    left_path, right_path = deep(tmp_path / "left.onnx"), deep(tmp_path / "right.onnx", change=171)
    assert len(onnx.load(left_path).graph.node) == 1000
    size = left_path.stat().st_size
    assert size > 25e6
    sides: list[Side] = []
    try:
        floors: list[int] = []
        for path in (left_path, right_path):
            # What the runtime needs for any model at all.
            sides.append(open_side(str(small), None, "", {}))
            sides[-1].run({"x": np.zeros((1, 16), np.float32)}, ["y"])
            floors.append(peak_memory(sides[-1]))
            facts = sides[-1].worker.open_model(path)
            sides[-1].model, sides[-1].facts = str(path), facts
        left, right = sides
        alignment = align(left.facts, right.facts)
        space = input_space(left.facts, right.facts, alignment, {}, 2, None)
        point = next(iter(space.draw(0, 1, is_typical=True)))
        tolerance = Tolerance.between(left.facts.precision, right.facts.precision)
        probe = Probe(left, right, space.for_left(point), space.for_right(point), tolerance)
        divergence, is_defect = localise_defect(probe, alignment, alignment.outputs[0])
        assert is_defect and divergence.pair == Pair("m171", "m171")
        for side, floor in zip(sides, floors, strict=True):
            assert peak_memory(side) - floor < 2 * size
        # The values that were held at once are a few, of a thousand.
        assert probe.held < 20 * 2 * 160 * 4
    finally:
        for side in sides:
            side.worker.close()


def test_optimisation_and_other_runtimes_agree(tmp_path: Path) -> None:
    model = classifier(tmp_path / "model.onnx")
    for left, right in (
        ("onnxruntime?optimisation=off", "onnxruntime"),
        ("onnxruntime", "openvino"),
        ("openvino", "onnx-reference"),
    ):
        found = library.diff(model, model, left_backend=left, right_backend=right, runs=11, evaluations=20)
        assert found.verdict is Opinion.AGREE, (left, right)
        assert left in found.left and right in found.right


def test_another_environment_is_named_by_its_interpreter(tmp_path: Path) -> None:
    model = classifier(tmp_path / "model.onnx")
    found = library.diff(model, model, right_python=sys.executable, runs=2, evaluations=0)
    assert found.verdict is Opinion.AGREE and sys.executable in found.right


# -- where they part ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("change", "backend"), [(0, "onnxruntime"), (2, "onnxruntime"), (1, "openvino")])
def test_a_changed_kernel_is_named(tmp_path: Path, change: int, backend: str) -> None:
    left, right = classifier(tmp_path / "left.onnx"), classifier(tmp_path / "right.onnx", change=change)
    found = library.diff(left, right, right_backend=backend, runs=6, evaluations=0)
    assert found.verdict is Opinion.DEFECT
    assert found.first is not None and found.first.name == f"mm{change}"
    assert found.first.divergence.is_own_doing


def test_a_branch_that_does_not_depend_on_the_fault_is_passed_over(tmp_path: Path) -> None:
    """Bisection over the order alone would end in the other branch, which comes later and agrees."""
    left, right = branches(tmp_path / "left.onnx", change=False), branches(tmp_path / "right.onnx", change=True)
    found = library.diff(left, right, runs=4, evaluations=0)
    assert found.first is not None and found.first.name == "one"


def test_rounding_that_grows_is_no_defect(tmp_path: Path) -> None:
    """In float16 the argument of the second sine is off by whole radians: outputs are far apart, and no operator is at fault."""
    proto = cancelling(tmp_path / "model.onnx")
    found = library.diff(tmp_path / "model.onnx", low(proto, tmp_path / "half.onnx"), runs=8, evaluations=20)
    assert found.verdict is Opinion.PRECISION
    (output,) = found.outputs
    assert output.relative > 0.1
    assert found.first is not None and not found.first.divergence.is_own_doing


def test_values_without_common_names_are_matched_by_order(tmp_path: Path) -> None:
    left, right = classifier(tmp_path / "left.onnx"), classifier(tmp_path / "right.onnx", change=1)
    proto = onnx.load(right)
    for node in proto.graph.node:
        node.input[:] = [name if name in ("x",) or name.startswith(("w", "b")) else f"{name}.renamed" for name in node.input]
        node.output[:] = [name if name == "y" else f"{name}.renamed" for name in node.output]
    onnx.save(proto, right)
    found = library.diff(left, right, runs=4, evaluations=0)
    assert found.first is not None and found.first.divergence.pair == Pair("mm1", "mm1.renamed")
    assert any("matched by order" in remark for remark in found.remarks)


def test_shapes_and_kinds_of_outputs(tmp_path: Path) -> None:
    def saved(name: str, operator: str, kind: int, **attributes: object) -> Path:
        net = Builder((2, 6))
        net.node("Tanh", ["x"], "t")
        net.save(tmp_path / name, net.node(operator, ["t"], "y", **attributes), kinds={"y": kind})
        return tmp_path / name

    plain = saved("plain.onnx", "ReduceSum", 1, keepdims=1)
    flat = saved("flat.onnx", "ReduceSum", 1, keepdims=0)
    found = tensorproof("diff", plain, flat, "--runs", "2", "--out", tmp_path)
    assert found.code == 1 and "CMP103 shape-or-type-differs" in found.out and "(1, 1) and ()" in found.out
    whole = saved("whole.onnx", "Cast", 7, to=7)
    same = saved("same.onnx", "Identity", 1)
    found = tensorproof("diff", same, whole, "--runs", "2", "--out", tmp_path)
    assert found.code == 1 and "float32 and int64" in found.out


# -- inputs and search ----------------------------------------------------------------------------------------------------


def test_a_search_finds_what_data_does_not_show(tmp_path: Path) -> None:
    left, right = clipped(tmp_path / "left.onnx", 1.0), clipped(tmp_path / "right.onnx", 0.9)
    data = tmp_path / "data.npz"
    np.savez(data, x=np.full((3, 1, 6), 0.25, np.float32))
    options = {"data": data, "ranges": {"x": (-1, 1)}}
    assert library.diff(left, right, **options, evaluations=0).verdict is Opinion.AGREE
    first, again = (library.diff(left, right, **options, witnesses=tmp_path / "saved") for _ in range(2))
    assert first.verdict is Opinion.DEFECT and first.found_by == "search"
    assert first.first is not None and first.first.name == "cut"
    # A seed looks at the same points in the same order.
    assert first.evaluations == again.evaluations and first.witness == again.witness
    assert first.witness is not None and replayed(first.witness.script) == 0
    with np.load(first.witness.arrays) as archive:
        assert np.abs(archive["array_0"]).max() > 0.9


def test_the_saved_program_says_when_nothing_parts(tmp_path: Path) -> None:
    left, right = clipped(tmp_path / "left.onnx", 1.0), clipped(tmp_path / "right.onnx", 0.9)
    found = library.diff(left, right, ranges={"x": (-1, 1)}, witnesses=tmp_path)
    assert found.witness is not None
    clipped(tmp_path / "right.onnx", 1.0)
    assert replayed(found.witness.script) == 1


# -- reports and errors ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def differing(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("differing")
    return classifier(folder / "left.onnx"), classifier(folder / "right.onnx", change=1)


def test_every_format(differing: tuple[Path, Path], tmp_path: Path) -> None:
    common = ("diff", *differing, "--runs", "2", "--out", tmp_path)
    text = tensorproof(*common)
    assert text.code == 1
    for part in ("verdict    defect  CMP101 outputs-differ", "first      mm1 (MatMul)", "on equal operands it differs", "replay"):
        assert part in text.out
    written = tensorproof(*common, "--format", "json")
    assert written.code == 1
    report = json.loads(written.out)
    (finding,) = report["findings"]
    assert (finding["rule"], finding["node"], finding["op"]) == ("CMP101", "mm1", "MatMul")
    assert finding["replay"].endswith(".py") and report["assumptions"]["comparison"]["verdict"] == "defect"
    found = report_of(library.diff(*differing, runs=2, witnesses=tmp_path))
    (result,) = json.loads(find_format("sarif")([found]))["runs"][0]["results"]
    assert (result["ruleId"], result["level"]) == ("CMP101", "error")
    github = find_format("github")([found])
    assert github.startswith(f"::error file={differing[1]},title=CMP101") and "line=" not in github
    assert "replay with python" in github
    suites = ElementTree.fromstring(find_format("junit")([found]))
    assert suites.get("failures") == "1"


def test_precision_is_a_note_in_every_format(tmp_path: Path) -> None:
    model = classifier(tmp_path / "model.onnx")
    found = report_of(library.diff(model, low(onnx.load(model), tmp_path / "half.onnx"), runs=2, evaluations=0))
    assert find_format("github")([found]).startswith("::notice ")
    assert ElementTree.fromstring(find_format("junit")([found])).get("failures") == "0"
    assert "0 errors, 0 warnings, 1 note in 2 files" in find_format("terminal")([found])
    sarif = json.loads(find_format("sarif")([found]))
    assert [result["level"] for result in sarif["runs"][0]["results"]] == ["note"]


def test_wrong_use_is_told_in_one_line(differing: tuple[Path, Path], tmp_path: Path) -> None:
    model = differing[0]
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"not a model")
    two = tmp_path / "two.onnx"
    net = Builder((2, 6))
    net.node("Tanh", ["x"], "t")
    net.node("Exp", ["t"], "e")
    net.save(two, "t", "e")
    text = tmp_path / "model.txt"
    text.write_text("")
    data = tmp_path / "data.npz"
    np.savez(data, z=np.zeros((2, 16)), u=np.zeros(3))
    wrong = tmp_path / "wrong.npz"
    np.savez(wrong, x=np.zeros((2, 5)))
    cases = {
        ("diff", model, tmp_path / "missing.onnx"): "missing.onnx: no such file",
        ("diff", model, broken): "broken.onnx: not an ONNX file",
        ("diff", model, two): "shape",
        ("diff", classifier(tmp_path / "one.onnx"), text): "compared are ONNX files",
        ("diff", model, model, "--right-backend", "torch"): "torch does not read it",
        ("diff", model, model, "--right-backend", "nothing"): "no backend 'nothing'",
        ("diff", model, model, "--right-python", "/nowhere/python"): "/nowhere/python",
        ("diff", model, model, "--range", "z=0:1"): "no such input; inputs are x",
        ("diff", model, model, "--data", data): "has no array 'x'",
        ("diff", model, model, "--data", wrong): "of shape (2, 5)",
        ("diff", model, model, "--format", "pdf"): "unknown format 'pdf'",
        ("diff", model, model, "--fail-on", "often"): "--fail-on 'often'",
        ("diff", model, model, "--runs", "0"): "--runs 0",
    }
    for arguments, expected in cases.items():
        found = tensorproof(*arguments)
        assert found.code == 2 and found.out == "", arguments
        assert expected in found.err and found.err.count("\n") == 1, (arguments, found.err)


# -- parts ------------------------------------------------------------------------------------------------------------------


def facts(values: dict[str, tuple[str, tuple[str, ...]]], outputs: tuple[str, ...], **places: dict[str, object]) -> ModelFacts:
    operators = {name: operator for name, (operator, _) in values.items()}
    reads = {name: read for name, (_, read) in values.items()}
    return ModelFacts((("x", "float32", (2, 3)),), outputs, tuple(values), operators, reads, places)


def test_values_are_matched_by_the_program_they_were_exported_from() -> None:
    program = facts({"linear": ("aten.linear", ("x",)), "softplus": ("aten.softplus", ("linear",))}, ("softplus",))
    model = facts(
        {"linear": ("Gemm", ("x",)), "tmp": ("Exp", ("linear",)), "tmp_1": ("Log", ("tmp",)), "out": ("Mul", ("tmp_1",))},
        ("out",),
        tmp={"origin": "softplus"},
        tmp_1={"origin": "softplus"},
    )
    alignment = align(program, model)
    assert alignment.pairs == (Pair("linear", "linear"), Pair("softplus", "out"))
    assert alignment.frontier(Pair("softplus", "out")) == (Pair("linear", "linear"),)


def test_equal_names_on_other_lines_are_not_matched() -> None:
    """Exporters number nodes anew after they took operators apart: `mul` here need not be `mul` there."""
    ours = facts({"mul": ("aten.mul", ("x",)), "y": ("aten.add", ("mul",))}, ("y",), mul={"line": 3})
    theirs = facts({"mul": ("Mul", ("x",)), "y": ("Add", ("mul",))}, ("y",), mul={"line": 7})
    assert Pair("mul", "mul") not in align(ours, theirs).pairs[:-1] or not align(ours, theirs).is_by_name


def test_models_with_other_inputs_or_outputs_are_refused() -> None:
    one = facts({"y": ("Tanh", ("x",))}, ("y",))
    two = facts({"y": ("Tanh", ("x",)), "z": ("Exp", ("x",))}, ("y", "z"))
    with pytest.raises(ModelError, match="1 and 2 outputs"):
        align(one, two)
    other = ModelFacts((("x", "float32", (2, 4)),), ("y",), ("y",), {"y": "Tanh"}, {"y": ("x",)})
    with pytest.raises(ModelError, match=r"shape \(2, 3\) in one model and \(2, 4\)"):
        align(one, other)


def test_formats_are_judged_by_the_finer_and_by_the_coarser_one() -> None:
    numbers = np.linspace(1, 2, 64, dtype=np.float32)
    half = Tolerance.between("float32", "float16")
    assert (half.fine, half.coarse) == ("float32", "float16")
    rounded = numbers.astype(np.float16)
    assert half.judge(numbers, numbers.copy()).opinion is Opinion.AGREE
    assert half.judge(numbers, rounded).opinion is Opinion.PRECISION
    assert half.judge(numbers, numbers * 1.1).opinion is Opinion.DEFECT
    # What only moves data is equal after rounding, not close to it.
    assert half.judge(numbers, rounded, is_exact=True).opinion is Opinion.AGREE
    assert half.judge(numbers, np.nextafter(rounded, np.float16(9)), is_exact=True).opinion is Opinion.DEFECT
    single = Tolerance.between("float32", "float32")
    assert single.judge(numbers, rounded.astype(np.float32)).opinion is Opinion.DEFECT
    assert Tolerance.between("int8", "float32").coarse == "int8"


def test_inputs_move_by_one_unit_of_a_format() -> None:
    random = np.random.default_rng(0)
    numbers = np.array([1.0, -2.0, 0.0, 1e-3], np.float32)
    step = np.abs(moved(numbers, "float16", random) - numbers)
    np.testing.assert_allclose(step[:2], [2**-10, 2**-9], rtol=1e-3)
    assert (moved(numbers, "float32", random) != numbers).all()
    assert np.abs(moved(numbers, "int8", random) - numbers) == pytest.approx(2 / 127, rel=1e-4)
    whole = np.arange(3)
    assert moved(whole, "float16", random) is whole
    # An element that happened to stay is taken to move as the others do.
    base = np.zeros(4)
    assert (spread(base, [np.array([1.0, 0.0, 1.0, 1.0])]) > 0.5).all()


def test_operators_that_only_move_data() -> None:
    assert all(map(is_moving, ("Reshape", "aten.view.default", "aten.relu.default", "MaxPooling2D", "MaxPool")))
    assert not any(map(is_moving, ("MatMul", "aten.linear.default", "Dense", "com.microsoft.Gelu", "Cast")))
