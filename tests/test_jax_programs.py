"""Programs of JAX: each known defect is found at its line and column, repaired twins are silent; lines, names, phases, dispatch."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import tensorproof
from tensorproof.errors import AssumptionError, ConfigurationError, ModelError
from tensorproof.findings import Report, Verdict
from tensorproof.frontends.framework_model import ReadingOptions
from tensorproof.frontends.input_declarations import parse_declaration
from tensorproof.frontends.jax_jaxpr import JaxArgument, translated
from tensorproof.frontends.jax_program import JaxProgram, read_jax
from tensorproof.frontends.user_program import UserProgram, find_program, framework_of
from tensorproof.graph import NOT_ANALYSED, Node
from tests.jax_cases import check_case

pytestmark = pytest.mark.area("jax programs")

CORPUS = Path(__file__).parent / "jax_corpus"
PROGRAMS = sorted(path.stem for path in CORPUS.glob("*.py"))
#: Programs that are run, too: each way in which a finding is confirmed, and gradients of every kind.
RUN = ("angle_gradient", "attention", "branches", "custom_rule", "masked_log_gradient", "newton", "norm_gradient", "recurrent")

_MARK = re.compile(r"# defect: (?P<rule>NUM\d*) (?P<text>.*?)(?P<backward> backward)?$")


@dataclass(frozen=True)
class Defect:
    """A marked line: the rule (or the beginning of its code), the place, and the pass that fails."""

    rule: str
    line: int
    column: int
    phase: str


def defects_of(name: str) -> list[Defect]:
    found: list[Defect] = []
    for number, line in enumerate((CORPUS / f"{name}.py").read_text().splitlines(), start=1):
        mark = _MARK.search(line)
        if mark is not None:
            column = line.index(mark["text"]) + 1
            found.append(Defect(mark["rule"], number, column, "backward" if mark["backward"] else "forward"))
    return found


def phase_of(name: str) -> str:
    return "training" if "# phase: training" in (CORPUS / f"{name}.py").read_text() else "inference"


def checked(name: str, function: str, **options: Any) -> Report:
    return tensorproof.check(f"{CORPUS / name}.py:{function}", phase=phase_of(name), cache=False, **options)


def assert_reported(report: Report, defect: Defect) -> Any:
    at_place = [
        finding
        for finding in report.findings
        if finding.location is not None
        and Path(str(finding.location.file)).parent == CORPUS
        and (finding.location.line, finding.location.column) == (defect.line, defect.column)
        and finding.rule.code.startswith(defect.rule)
        and finding.phase == defect.phase
        and not finding.consequence_of
    ]
    assert at_place, [(f.rule.code, f.phase, f.location) for f in report.findings]
    return at_place[0]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_defect_is_found_where_it_is_and_its_twin_is_silent(name: str) -> None:
    runs = name in RUN
    # Gradients that no table of derivatives speaks of are reported when a run shows them, or with more effort.
    report = checked(name, "defective", confirm=runs, effort=1 if runs else 2)
    defects = defects_of(name)
    assert defects
    for defect in defects:
        finding = assert_reported(report, defect)
        assert not runs or finding.verdict is Verdict.CONFIRMED
        assert not runs or finding.reaches == ("gradient" if defect.phase == "backward" else "output")
    assert not report.coverage.not_analysed
    twin = checked(name, "safe", confirm=False, effort=2)
    assert not twin.findings, [(f.rule.code, f.location, f.message) for f in twin.findings]
    assert not twin.coverage.not_analysed


def test_a_witness_fails_until_the_program_is_repaired(tmp_path: Path) -> None:
    """The script of a witness, run by itself: exit code 1, and 0 once the line is repaired."""
    program = tmp_path / "program.py"
    program.write_text((CORPUS / "entropy.py").read_text())
    report = tensorproof.check(f"{program}:defective", witnesses=tmp_path / "witnesses", cache=False)
    (finding,) = report.findings
    assert finding.verdict is Verdict.CONFIRMED and finding.witness is not None

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, finding.witness.script], capture_output=True, text=True, check=False)

    broken = run()
    assert broken.returncode == 1, broken.stderr
    assert "log made something that is not finite" in broken.stdout
    program.write_text(program.read_text().replace("p * jnp.log(p)", "p * jnp.log(p + 1e-6)"))
    assert run().returncode == 0


# -- the transformer --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "phase"), [("loss", "inference"), ("loss", "training"), ("train_step", "inference")])
def test_a_transformer_is_analysed_without_a_false_alarm(name: str, phase: str) -> None:
    path = Path(__file__).parent / "jax_transformer.py"
    report = tensorproof.check(f"{path}:{name}", phase=phase, confirm=False, cache=False)
    assert report.coverage.checked >= 0.99 * report.coverage.checkable
    assert report.coverage.checkable > 100
    assert not report.findings, [(f.rule.code, f.location, f.message) for f in report.findings]


# -- translation ------------------------------------------------------------------------------------------------------


def nodes_of(function: Callable[..., Any], *arrays: Any) -> list[Node]:
    closed = jax.make_jaxpr(function)(*arrays)
    made = translated(closed, [JaxArgument(f"x{index}") for index in range(len(arrays))], name="case")
    return list(made.model.graph.walk())


ONES = np.ones((3, 4), np.float32)


def test_a_scan_forwards_backwards_and_without_arrays() -> None:
    def cell(carry: Any, step: Any) -> Any:
        return carry * 0.5 + step, (carry, jnp.exp(step))

    check_case(lambda x: lax.scan(cell, x[0], x), ONES)
    check_case(lambda x: lax.scan(cell, x[0], x, reverse=True), np.arange(12, dtype=np.float32).reshape(3, 4) / 6)
    check_case(lambda x: lax.scan(lambda carry, _: (carry * 0.5, carry), x, None, length=5), ONES[0])


def test_a_condition_and_a_switch() -> None:
    check_case(lambda x: lax.cond(x.sum() > 0, jnp.exp, lambda v: v * 2, x), ONES)
    branches = (lambda v: v, lambda v: v * 2, lambda v: -v)
    for index in range(4):
        check_case(lambda i, x: lax.switch(i, branches, x), np.int32(index), ONES)


def test_a_loop_with_constants_of_its_own() -> None:
    def function(x: Any, most: Any) -> Any:
        return lax.while_loop(lambda state: state[1] < most, lambda state: (state[0] * 0.5 + x, state[1] + 1), (x, 0))

    case = check_case(function, ONES, np.int32(4))
    assert "Loop" in case.operators


def test_functions_stand_in_the_graph_under_their_names() -> None:
    @jax.jit
    def inner(x: Any) -> Any:
        return jnp.log(x)

    names = [node.name for node in nodes_of(lambda x: inner(x) + inner(x * 2), ONES)]
    assert "inner/log" in names and "inner_1/log" in names
    assert [node.name for node in nodes_of(lambda x: jax.checkpoint(lambda v: jnp.sin(v))(x), ONES)][-1].endswith("sin")


def test_what_no_result_needs_is_left_out_and_numbers_are_computed() -> None:
    def function(x: Any) -> Any:
        jnp.log(x)
        jax.debug.print("x is {}", x)
        return jnp.where(jnp.arange(4) - 1 > 5, jnp.log(x), x) * (jnp.float32(3) - 1)

    assert [node.op for node in nodes_of(function, ONES)] == ["Mul"]


def test_a_primitive_that_nobody_spells_is_visible() -> None:
    shape = jax.ShapeDtypeStruct((3, 4), np.float32)
    (node,) = nodes_of(lambda x: jax.pure_callback(np.sin, shape, x), ONES)
    assert node.domain == "jax" and node.op == "pure_callback"
    assert "pure_callback" in node.attributes[NOT_ANALYSED]


def test_keys_are_moved_as_arrays_are() -> None:
    def function(key: Any, x: Any) -> Any:
        first, second = jax.random.split(key)
        return x + jax.random.uniform(first, (4,)) * jax.random.bernoulli(second, 0.5, (4,))

    program = read_jax(function, "function", None, ReadingOptions(example=(jax.random.key(0), ONES)))
    assert not [node for node in program.model.graph.walk() if NOT_ANALYSED in node.attributes]
    (key, x) = (program.model.values[number] for number in program.model.graph.inputs)
    assert (key.name, key.format.name, key.shape) == ("key", "uint32", ())  # type: ignore[union-attr]
    with program.runner() as runner:
        (drawn,) = runner.replayed({"x": ONES}, None).values()
    assert drawn.shape == (3, 4)
    assert x.name == "x"


# -- lines ------------------------------------------------------------------------------------------------------------


def test_library_lines_are_those_of_the_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A function of an installed package, plain and compiled, has no lines of its own."""
    package = tmp_path / "site-packages" / "tensorproof_test_layers.py"
    package.parent.mkdir()
    package.write_text(
        "import jax\nimport jax.numpy as jnp\n\ndef plain(x):\n    return jnp.sqrt(x)\n\n"
        "@jax.jit\ndef compiled(x):\n    return jnp.exp(x)\n"
    )
    monkeypatch.syspath_prepend(str(package.parent))
    import tensorproof_test_layers as layers  # type: ignore[import-not-found]

    def function(x: Any) -> Any:
        a = layers.plain(x)
        return a + layers.compiled(x)

    lines = {node.op: node.source for node in nodes_of(function, ONES)}
    start = function.__code__.co_firstlineno
    for op, line in (("Sqrt", start + 1), ("Exp", start + 2)):
        source = lines[op]
        assert source is not None and (source.file, source.line) == (__file__, line)
    assert lines["Sqrt"].column == 13  # type: ignore[union-attr]


def test_the_derivative_of_a_step_belongs_to_the_gradient() -> None:
    """JAX marks neither `0.5 / sqrt(x)` nor the square root itself: the loss needs one of them."""

    def function(x: Any) -> Any:
        return jnp.sum(jnp.sqrt(x) * 3)

    def phases(chosen: Any) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for node in nodes_of(chosen, ONES):
            found.setdefault(node.op, set()).add(node.phase)
        return found

    both = phases(jax.value_and_grad(function))
    assert both["Sqrt"] == {"forward"} and both["Div"] == {"backward"}
    compiled = phases(jax.jit(jax.value_and_grad(jax.jit(function))))
    assert compiled["Sqrt"] == {"forward"} and compiled["Div"] == {"backward"}
    assert phases(function)["Sqrt"] == {"forward"}


# -- arguments --------------------------------------------------------------------------------------------------------


def test_arguments_are_named_by_their_place_and_weights_by_their_argument() -> None:
    def function(params: Any, batch: Any, temperature: float = 1.0, *, steps: int = 2) -> Any:
        return [batch["x"] @ layer["w"] / temperature for layer in params["layers"]] * steps

    params = {"layers": [{"w": np.ones((4, 2), np.float32)}, {"w": np.ones((4, 3), np.float32)}]}
    program = read_jax(function, "function", None, ReadingOptions(example=(params, {"x": ONES}, 0.5)))
    model = program.model
    assert [model.name_of(number) for number in model.graph.inputs] == ["batch['x']", "temperature"]
    assert sorted(model.name_of(number) for number in model.weights) == ["params['layers'][0]['w']", "params['layers'][1]['w']"]
    assert program.trainable == model.weights


def test_inputs_are_declared_or_missing() -> None:
    def function(x: Any, scale: Any) -> Any:
        return x * scale

    declared = [parse_declaration("x = float32[N,4] in [0,1]", "test"), parse_declaration("scale = float16[] in [2,3]", "test")]
    program = read_jax(function, "function", None, ReadingOptions(inputs=declared, dims={"N": (5, 5)}))
    assert [program.model.values[number].shape for number in program.model.graph.inputs] == [(5, 4), ()]
    assert (program.domains["scale"].low, program.domains["scale"].high) == (2.0, 3.0)
    with pytest.raises(AssumptionError, match="nothing is known about its input 'scale'"):
        read_jax(function, "function", None, ReadingOptions(inputs=declared[:1]))
    with pytest.raises(AssumptionError, match="no input is named 'y'"):
        read_jax(function, "function", None, ReadingOptions(example=(ONES, 2.0), inputs=[parse_declaration("y in [0,1]", "test")]))


def test_what_cannot_be_traced_is_one_message_with_the_users_line() -> None:
    def function(x: Any) -> Any:
        return x if x.sum() > 0 else -x

    with pytest.raises(ModelError, match=rf"test_jax_programs.py:{function.__code__.co_firstlineno + 1}: .*JAX cannot trace it"):
        read_jax(function, "function", None, ReadingOptions(example=ONES))
    with pytest.raises(ConfigurationError, match="weights among its arguments"):
        read_jax(function, "function", None, ReadingOptions(example=ONES, state="weights.npz"))


def test_a_precision_converts_weights_and_inputs() -> None:
    def function(params: Any, x: Any) -> Any:
        return x * params

    example = (np.float32(1e6), ONES)
    program = read_jax(function, "function", None, ReadingOptions(example=example, precision="float16"))
    assert {program.model.values[number].format.name for number in program.model.graph.inputs} == {"float16"}  # type: ignore[union-attr]
    assert list(program.model.conversions.values()) == ["overflow"]


# -- running ----------------------------------------------------------------------------------------------------------


def test_values_of_a_run_are_those_of_jax() -> None:
    def function(x: Any) -> Any:
        carry, steps = lax.scan(lambda c, t: (c + t, jnp.log(c)), jnp.float32(1.0), x[0])
        return jnp.sqrt(carry), jnp.sum(steps), lax.cond(carry > 0, jnp.exp, jnp.sin, carry)

    program: JaxProgram = read_jax(function, "function", None, ReadingOptions(example=ONES))
    point = {"x": np.array([[1.0, -2.0, 5.0, 1.0]] * 3, np.float32)}
    with program.runner() as runner:
        names = [node.name for node in program.model.graph.walk() if runner.shows(node.name)]
        seen, outputs = runner.values(point, names), runner.replayed(point, "scan.body.log")
    np.testing.assert_allclose(seen["sqrt"], np.sqrt(6.0), rtol=1e-6)
    # The first iteration that fails is shown: the logarithm of 0.
    assert seen["scan.body.log"] == -np.inf and seen["scan.body.add"] == 5.0
    np.testing.assert_allclose(seen["cond.branch_1.exp"], np.exp(6.0), rtol=1e-6)
    assert "cond.branch_0.sin" not in seen
    assert [np.isfinite(array).all() for array in outputs.values()] == [True, False, True]


# -- dispatch ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("imports", "framework"),
    [
        ("import jax.numpy as jnp\nf = lambda x: jnp.sin(x)", "jax"),
        ("import numpy as np\nf = lambda x: x + 1", "torch"),
        ("import jax, torch\ndef f(x):\n    return torch.sin(x)", "torch"),
        ("import jax, torch\ndef f(x):\n    return jax.numpy.sin(x)", "jax"),
        ("import functools, jax\nf = functools.partial(jax.jit(lambda a, b: a + b), 1)", "jax"),
        ("from torch import nn\nclass f(nn.Module):\n    pass", "torch"),
    ],
)
def test_whose_a_program_is(tmp_path: Path, imports: str, framework: str) -> None:
    path = tmp_path / "program.py"
    path.write_text(imports)
    assert framework_of(find_program(f"{path}:f")) == framework


def test_an_example_tells_whose_a_function_is() -> None:
    assert framework_of(UserProgram(lambda x: x + 1, "f", example=(jnp.ones(3),))) == "jax"


def test_no_framework_is_imported_to_find_out(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text("def f(x):\n    return x\n")
    code = (
        "import sys; from tensorproof.frontends.user_program import find_program, framework_of;"
        f"print(framework_of(find_program({str(path)!r} + ':f')));"
        "print(sorted({'torch', 'jax', 'tensorflow', 'keras'} & set(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.split("\n")[:2] == ["torch", "[]"]
