"""Known defects, each reported at the right node, and confirmed in ONNX Runtime where a sample of the box can show it."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx
import pytest

from tensorproof import check
from tests.models import found, model, static, with_bodies

pytestmark = pytest.mark.area("defects")


@dataclass
class Defect:
    """A model, the ranges of its inputs, and the rule and node that must be reported."""

    name: str
    proto: onnx.ModelProto
    ranges: dict[str, Any]
    rule: str
    node: str
    options: dict[str, Any] = field(default_factory=dict)
    confirmed: bool = True


def _unrolled_power() -> str:
    lines = ["p1 = Mul(x, x)"]
    lines += [f"p{i + 1} = Mul(p{i}, p{i})" for i in range(1, 7)]
    return "\n".join([*lines, "y = Identity(p7)"])


DEFECTS = [
    Defect(
        "log(softmax)",
        model("(float[2,4] x) => (float[2,4] y)", "p = Softmax<axis=-1>(x)\ny = Log(p)"),
        {"x": (-80, 80)},
        "NUM101",
        "y",
    ),
    Defect("log(sigmoid)", model("(float[4] x) => (float[4] y)", "p = Sigmoid(x)\ny = Log(p)"), {"x": (-100, 100)}, "NUM101", "y"),
    Defect(
        "log(1-sigmoid)",
        model("(float[4] x) => (float[4] y)", "one = Constant<value_float=1.0>()\np = Sigmoid(x)\nq = Sub(one, p)\ny = Log(q)"),
        {"x": (-20, 20)},
        "NUM101",
        "y",
    ),
    Defect(
        "1e-10+1-p",
        model(
            "(float[4] p) => (float[4] y)",
            "eps = Constant<value_float=1e-10>()\none = Constant<value_float=1.0>()\na = Add(eps, one)\nq = Sub(a, p)\ny = Log(q)",
        ),
        {"p": (0, 1)},
        "NUM101",
        "y",
    ),
    Defect(
        "x/std",
        model(
            "(float[2,4] x) => (float[2,4] y)",
            """
            ax = Constant<value_ints=[1]>()
            m = ReduceMean(x, ax)
            d = Sub(x, m)
            s = Mul(d, d)
            v = ReduceMean(s, ax)
            r = Sqrt(v)
            y = Div(d, r)
            """,
        ),
        {"x": (-1, 1)},
        "NUM103",
        "y",
    ),
    Defect(
        "h/norm(h)",
        model("(float[2,4] h) => (float[2,4] y)", "ax = Constant<value_ints=[1]>()\nn = ReduceL2(h, ax)\ny = Div(h, n)"),
        {"h": (-1, 1)},
        "NUM103",
        "y",
    ),
    Defect("acos", model("(float[4] x) => (float[4] y)", "y = Acos(x)"), {"x": (-1.1, 1.1)}, "NUM105", "y"),
    Defect(
        "sqrt(E[x^2]-E[x]^2)",
        model(
            "(float[2,64] x) => (float[2,1] y)",
            """
            ax = Constant<value_ints=[1]>()
            xx = Mul(x, x)
            m2 = ReduceMean(xx, ax)
            m = ReduceMean(x, ax)
            mm = Mul(m, m)
            v = Sub(m2, mm)
            y = Sqrt(v)
            """,
        ),
        {"x": (0, 1000)},
        "NUM102",
        "y",
    ),
    Defect("exp", model("(float[4] x) => (float[4] y)", "y = Exp(x)"), {"x": (0, 100)}, "NUM201", "y"),
    Defect("exp(20) in float16", model("(float16[4] x) => (float16[4] y)", "y = Exp(x)"), {"x": (0, 20)}, "NUM201", "y"),
    Defect("x^128 by Mul", model("(float[4] x) => (float[4] y)", _unrolled_power()), {"x": (0, 3)}, "NUM202", "p7"),
    Defect(
        "MatMul over 65504 in float16",
        model("(float16[2,64] a, float16[64,2] b) => (float16[2,2] y)", "y = MatMul(a, b)"),
        {"a": (-40, 40), "b": (-40, 40)},
        "NUM203",
        "y",
    ),
    Defect(
        "-1e9 cast to float16",
        model("(float16[4] x) => (float16[4] y)", "c = Constant<value_float=-1e9>()\nh = Cast<to=10>(c)\ny = Add(x, h)"),
        {"x": (0, 1)},
        "NUM204",
        "h",
    ),
    Defect(
        "an initialiser out of range",
        model("(float[4] x) => (float[4] y) <float w = {1e6}>", "y = Mul(x, w)"),
        {"x": (0, 1)},
        "NUM205",
        "w",
        {"precision": "float16"},
        confirmed=False,
    ),
    Defect(
        "eps 1e-12 in float16",
        model("(float[4] n) => (float[4] y) <float eps = {1e-12}, float one = {1.0}>", "g = Add(n, eps)\ny = Div(one, g)"),
        {"n": (0, 1)},
        "NUM301",
        "eps",
        {"precision": "float16"},
        confirmed=False,
    ),
    Defect(
        "division by a vanished eps in float16",
        model("(float[4] n) => (float[4] y) <float eps = {1e-12}, float one = {1.0}>", "g = Add(n, eps)\ny = Div(one, g)"),
        {"n": (0, 1)},
        "NUM103",
        "y",
        {"precision": "float16"},
    ),
    Defect(
        "integer division by an input",
        model("(int64[4] a, int64[4] b) => (int64[4] y)", "y = Div(a, b)"),
        {"a": (1, 9), "b": (0, 3)},
        "NUM107",
        "y",
    ),
    Defect(
        "inside a Loop body",
        with_bodies()[0],
        {"x": (0, 100)},
        "NUM202",
        "out",
    ),
    Defect(
        "inside an If branch",
        with_bodies()[1],
        {"x": (-1, 1)},
        "NUM101",
        "left",
    ),
]


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda d: d.name)
def test_a_defect_is_reported_at_its_node(defect: Defect) -> None:
    report = static(defect.proto, ranges=defect.ranges, **defect.options)
    assert (defect.rule, defect.node) in found(report), report.findings
    assert defect.node not in report.proven_safe
    assert report.coverage.complete


@pytest.mark.parametrize("defect", [d for d in DEFECTS if d.confirmed], ids=lambda d: d.name)
def test_a_sample_of_the_box_confirms_it_and_its_script_replays_it(defect: Defect, tmp_path: Path) -> None:
    report = check(defect.proto, ranges=defect.ranges, witnesses=tmp_path, **defect.options)
    verdicts = {(f.rule.code, f.node): f for f in report.findings}
    finding = verdicts[defect.rule, defect.node]
    assert finding.verdict == "confirmed", (finding, report.assumptions)
    assert finding.reaches == "output"
    assert finding.witness is not None
    replayed = subprocess.run([sys.executable, finding.witness.script], capture_output=True, text=True)
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr


NEAR_MISSES = [
    (
        "log of a guarded value",
        "(float[4] x) => (float[4] y)",
        "lo = Constant<value_float=1e-6>()\nc = Max(x, lo)\ny = Log(c)",
        {"x": (-1, 1)},
    ),
    ("exp below its limit", "(float[4] x) => (float[4] y)", "y = Exp(x)", {"x": (-88, 88)}),
    ("acos inside its domain", "(float[4] x) => (float[4] y)", "y = Acos(x)", {"x": (-1, 1)}),
    ("division by a positive number", "(float[4] x) => (float[4] y)", "y = Reciprocal(x)", {"x": (0.5, 1)}),
    ("log_softmax", "(float[2,4] x) => (float[2,4] y)", "y = LogSoftmax<axis=-1>(x)", {"x": (-1000, 1000)}),
    (
        "1-p+1e-7",
        "(float[4] p) => (float[4] y)",
        "e = Constant<value_float=1e-7>()\no = Constant<value_float=1.0>()\nq = Sub(o, p)\ng = Add(q, e)\ny = Log(g)",
        {"p": (0, 1)},
    ),
]


@pytest.mark.parametrize("name, signature, body, ranges", NEAR_MISSES, ids=[n[0] for n in NEAR_MISSES])
def test_a_near_miss_is_proven_safe(name: str, signature: str, body: str, ranges: dict[str, Any]) -> None:
    report = static(model(signature, body), ranges=ranges)
    assert not report.findings
    assert "y" in report.proven_safe
