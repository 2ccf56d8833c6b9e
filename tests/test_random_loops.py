"""Random loops, run by ONNX Runtime: every result and every scan output lies in its range, however little the analysis may spend."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest

from tensorproof.frontends.onnx_file import from_proto
from tensorproof.ranges.abstraction import FIRST_PASS, PRECISE
from tensorproof.ranges.propagate import propagate
from tensorproof.ranges.range import Range
from tensorproof.targets import ONNXRUNTIME_CPU
from tests.models import model, static
from tests.soundness.containment import violation

pytestmark = pytest.mark.area("control flow")

#: Iterations one by one (few, many), evaluations of nodes, and the abstraction: from nothing but the fixpoint to all there is.
BUDGETS = {
    "fixpoint at once": (0, 0, 0, PRECISE),
    "two iterations": (2, 2, 40, PRECISE),
    "first pass": (16, 512, 2_000, FIRST_PASS),
    "all": (16, 512, 8_000, PRECISE),
    "affine forms": (16, 512, 8_000, replace(PRECISE, values="affine", spectral=True)),
    "affine forms, fixpoint at once": (0, 0, 0, replace(PRECISE, values="affine", spectral=True)),
}

#: Loops in each group of a test.
LOOPS = 8


class Writer:
    """A random body: statements, and the names of floating values that may be read."""

    def __init__(self, rng: np.random.Generator, values: list[str], prefix: str = "v", *, fails: bool = False) -> None:
        self.rng = rng
        #: Whether operators that are not defined everywhere may occur.
        self.fails = fails
        self.values = values
        self.lines: list[str] = []
        self.prefix = prefix
        self.compared: list[str] = []

    def fresh(self, text: str) -> str:
        name = f"{self.prefix}{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return name

    def pick(self) -> str:
        return str(self.rng.choice(self.values))

    def constant(self) -> str:
        value = self.rng.choice([-2.0, -1.0, -0.5, 0.0, 0.25, 0.5, 0.9, 1.0, 1.125, 3.0])
        return self.fresh(f"Constant<value_float={value}>()")

    def operand(self) -> str:
        return self.constant() if self.rng.random() < 0.3 else self.pick()

    def statement(self) -> str:
        if self.fails and self.rng.random() < 0.3:
            op = self.rng.choice(["Div", "Log", "Exp", "Sqrt", "Reciprocal"])
            name = self.fresh(f"{op}({self.operand()}, {self.pick()})" if op == "Div" else f"{op}({self.pick()})")
            self.values.append(name)
            return name
        op = self.rng.choice(["Add", "Sub", "Mul", "Max", "Min", "Tanh", "Neg", "Abs", "Clip", "Where", "If", "If", "If"])
        if op in ("Add", "Sub", "Mul", "Max", "Min"):
            name = self.fresh(f"{op}({self.operand()}, {self.operand()})")
        elif op == "Clip":
            low = float(self.rng.choice([-2.0, -1.0, 0.0]))
            least, most = self.fresh(f"Constant<value_float={low}>()"), self.fresh(f"Constant<value_float={low + 2.0}>()")
            name = self.fresh(f"Clip({self.pick()}, {least}, {most})")
        elif op == "Where":
            name = self.fresh(f"Where({self.comparison()}, {self.operand()}, {self.operand()})")
        elif op == "If":
            name = self.branch()
        else:
            name = self.fresh(f"{op}({self.pick()})")
        self.values.append(name)
        return name

    def comparison(self) -> str:
        op = self.rng.choice(["Less", "Greater", "LessOrEqual", "GreaterOrEqual"])
        self.compared = [self.pick(), self.operand()]
        name = self.fresh(f"{op}({', '.join(self.compared)})")
        wrapped = self.rng.random()
        if wrapped < 0.2:
            name = self.fresh(f"Not({name})")
        elif wrapped < 0.4:
            name = self.fresh(f"{self.rng.choice(['And', 'Or'])}({name}, {self.comparison()})")
        return name

    def branch(self) -> str:
        condition = self.comparison()
        name = f"{self.prefix}{len(self.lines)}"
        compared = self.compared
        branches: list[str] = []
        for side in ("then", "else"):
            inner = Writer(self.rng, [*self.values], f"{name}{side[0]}", fails=self.fails)
            for _ in range(int(self.rng.integers(1, 3))):
                last = inner.statement()
            result = f"{name}{side}"
            # Mostly a value that the condition is about: there a wrong guard shows.
            made = f"Identity({self.rng.choice(compared)})" if self.rng.random() < 0.7 else f"Mul({last}, {self.pick()})"
            inner.lines.append(f"{result} = {made}")
            branches.append(f"{side}_branch = {side}{name} () => (float {result}) {{ {' '.join(inner.lines)} }}")
        return self.fresh(f"If({condition}) <{', '.join(branches)}>")


def random_loop(rng: np.random.Generator, *, fails: bool = False) -> tuple[onnx.ModelProto, dict[str, tuple[float, float]]]:
    """A Loop with one to three floating states, a counter and a scan output, and the ranges of its inputs."""
    states = int(rng.integers(1, 4))
    writer = Writer(rng, ["x", "z", *(f"s{i}" for i in range(states))], fails=fails)
    writer.values.append(writer.fresh("Cast<to=1>(i)"))
    for _ in range(int(rng.integers(1, 6))):
        writer.statement()
    step, start = int(rng.choice([1, 1, 2, 3])), int(rng.choice([0, 1, -4]))
    lines = [*writer.lines, f"g = Constant<value_int={step}>()", "next = Add(j, g)"]
    outs: list[str] = []
    for index in range(states):
        form = rng.random()
        made = str(rng.choice(writer.values))
        if form < 0.2:
            lines.append(f"out{index} = Add(s{index}, {made if made != f's{index}' else 'z'})")
        elif form < 0.35:
            lines.append(
                f"f{index} = Constant<value_float={rng.choice([0.5, 0.9, 1.0625, -0.75])}>() out{index} = Mul(s{index}, f{index})"
            )
        elif form < 0.5:
            lines.append(
                f"f{index} = Constant<value_float={rng.choice([0.25, -0.5, 0.9])}>() "
                f"p{index} = Mul(s{index}, f{index}) t{index} = Tanh({made}) out{index} = Add(p{index}, t{index})"
            )
        else:
            lines.append(f"out{index} = Identity({made})")
        outs.append(f"out{index}")
    condition = rng.choice(["keep", "counter", "late", "state", "both"])
    if condition == "keep":
        lines.append("k = Identity(c)")
    elif condition == "counter":
        lines.append("k = Less(next, m)")
    elif condition == "late":
        lines.append("k = LessOrEqual(j, m)")
    else:
        lines.append(
            f"lim = Constant<value_float={rng.choice([-1.0, 0.5, 2.0, 10.0])}>() ks = {rng.choice(['Less', 'Greater'])}(out0, lim)"
        )
        lines.append("k = Identity(ks)" if condition == "state" else "kc = Less(next, m) k = And(ks, kc)")
    count = "n"
    if condition in ("counter", "late", "both") and rng.random() < 0.5:
        count = '""'
    elif rng.random() < 0.5:
        count = "m"
    most = int(rng.choice([1, 3, 12, 40]))
    initial = ["x" if index == 0 else str(rng.choice(["x", "z"])) for index in range(states)]
    inputs = ", ".join(f"float s{i}" for i in range(states))
    proto = model(
        f"(float x, float z, int64 m) => ({', '.join(f'float y{i}' for i in range(states))}, int64 last, float[N] all)",
        f"""
        t = Constant<value = bool {{1}}>() j0 = Constant<value_int={start}>() n = Constant<value_int={most}>()
        {", ".join(f"y{i}" for i in range(states))}, last, all = Loop({count}, t, {", ".join(initial)}, j0) <
            body = step (int64 i, bool c, {inputs}, int64 j) => (bool k, {", ".join(f"float {o}" for o in outs)}, int64 next, float o) {{
            {" ".join(lines)}
            o = Identity({rng.choice(writer.values)})
        }}>
        """,
    )
    low = float(rng.integers(-3, 2))
    other = float(rng.integers(-3, 2))
    fewest = int(rng.integers(0, most + 1))
    return proto, {
        "x": (low, low + float(rng.choice([0.0, 0.5, 3.0]))),
        "z": (other, other + float(rng.choice([0.0, 1.0, 4.0]))),
        "m": (fewest, int(rng.choice([fewest, most]))),
    }


def computed(
    proto: onnx.ModelProto, bounds: dict[str, tuple[float, float]], rng: np.random.Generator, count: int
) -> list[list[np.ndarray]]:
    """The results of ONNX Runtime on some points of the declared ranges."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    results: list[list[np.ndarray]] = []
    for _ in range(count):
        point: dict[str, np.ndarray] = {}
        for name in ("x", "z"):
            point[name] = np.asarray(rng.choice([*bounds[name], rng.uniform(*bounds[name])]), np.float32)
        point["m"] = np.asarray(rng.integers(int(bounds["m"][0]), int(bounds["m"][1]) + 1), np.int64)
        results.append([np.asarray(y) for y in session.run(None, point)])
    return results


@pytest.mark.parametrize("group", range(8))
def test_results_of_random_loops_lie_inside_their_ranges(group: int, monkeypatch: pytest.MonkeyPatch) -> None:
    compared = 0
    for seed in range(LOOPS * group, LOOPS * group + LOOPS):
        rng = np.random.default_rng([2026, seed])
        proto, bounds = random_loop(rng)
        onnx.checker.check_model(proto)
        results = computed(proto, bounds, rng, 8)
        for name, (few, many, budget, abstraction) in BUDGETS.items():
            monkeypatch.setattr("tensorproof.ranges.iteration.FEW", few)
            monkeypatch.setattr("tensorproof.ranges.iteration.MANY", many)
            monkeypatch.setattr("tensorproof.ranges.iteration.NODE_BUDGET", budget)
            graph = from_proto(proto)
            ranges = {
                number: Range.uniform((), graph.values[number].format, *bounds[graph.values[number].name])  # type: ignore[arg-type]
                for number in graph.graph.inputs
            }
            analysis = propagate(graph, ranges, ONNXRUNTIME_CPU, abstraction=abstraction, strict=True)
            assert not any(record.not_analysed for record in analysis.records.values()), f"seed {seed}, {name}"
            for result in results:
                for flow, array in zip(analysis.outputs.values(), result, strict=True):
                    is_finite = all(bool(np.isfinite(y).all()) for y in result)
                    value = flow.clean if is_finite else flow.actual
                    assert isinstance(value, Range)
                    assert violation(value, np.asarray(array)) is None, f"seed {seed}, {name}: {value} {array}"
                    compared += 1
    assert compared > LOOPS * 8 * len(BUDGETS)


def test_more_to_spend_never_gives_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over many loops, exact iterations are at least as narrow as the fixpoint, on the whole."""
    widths: dict[str, list[float]] = {"fixpoint at once": [], "all": []}
    for seed in range(30):
        proto, bounds = random_loop(np.random.default_rng([2026, seed]))
        graph = from_proto(proto)
        ranges = {
            number: Range.uniform((), graph.values[number].format, *bounds[graph.values[number].name])  # type: ignore[arg-type]
            for number in graph.graph.inputs
        }
        for name, found in widths.items():
            few, many, budget, abstraction = BUDGETS[name]
            monkeypatch.setattr("tensorproof.ranges.iteration.FEW", few)
            monkeypatch.setattr("tensorproof.ranges.iteration.MANY", many)
            monkeypatch.setattr("tensorproof.ranges.iteration.NODE_BUDGET", budget)
            value = next(iter(propagate(graph, ranges, ONNXRUNTIME_CPU, abstraction=abstraction).outputs.values())).clean
            assert isinstance(value, Range)
            low, high = value.hull()
            found.append(math.log1p(high - low))
    assert sum(widths["all"]) < sum(widths["fixpoint at once"])


def test_a_loop_without_findings_gives_numbers() -> None:
    """Logarithms, quotients and exponentials inside: where nothing is found, nothing that is run fails."""
    clean = flagged = 0
    for seed in range(40):
        rng = np.random.default_rng([77, seed])
        proto, bounds = random_loop(rng, fails=True)
        report = static(proto, ranges=bounds, effort=1)
        if report.roots() or report.coverage.not_analysed:
            flagged += 1
            continue
        clean += 1
        for result in computed(proto, bounds, rng, 12):
            assert all(bool(np.isfinite(y).all()) for y in result if y.dtype.kind == "f"), f"seed {seed}"
    assert clean >= 10 and flagged >= 10
