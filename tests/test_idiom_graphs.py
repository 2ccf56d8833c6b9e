"""Idioms on graphs that nobody wrote: random ones, full of maxima, sums and repeated operands, run with hostile numbers."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

from tensorproof.formats import FLOAT16, FLOAT32, Format
from tensorproof.frontends.onnx_file import from_proto
from tensorproof.idioms.claims import claims_of
from tensorproof.ranges.abstraction import FIRST_PASS, PRECISE
from tests.test_idioms import in_onnx_runtime, narrowed, outside, ranged

pytestmark = pytest.mark.area("idioms")

BOXES = [(-1e4, 1e4), (0.0, 1.0), (1e-30, 1e30), (-3.0, 3.0), (0.0, 5.0), (-1.0, 0.0), (-1e-38, 1e-38)]
UNARY = ["Relu", "Abs", "Neg", "Identity", "Sigmoid", "Sqrt", "Exp", "Reciprocal", "Tanh"]
BINARY = ["Max", "Min", "Add", "Sub", "Mul"]
SHAPES = [("cube", "column"), ("turned", "row"), ("line", "single")]
REDUCTIONS = ["ReduceMax", "ReduceMin", "ReduceSum", "ReduceL1", "ReduceLogSumExp"]


def graph(seed: int) -> tuple[onnx.ModelProto, dict[str, tuple[float, float]]]:
    """Tensors of shape (3, 4), (3, 1), (1, 4) and (1, 1), which all broadcast against each other."""
    random = np.random.default_rng(seed)
    ranges = {name: BOXES[int(random.integers(len(BOXES)))] for name in ("x", "z")}
    pool = ["x", "z"]
    behind: dict[str, list[str]] = {"x": ["x"], "z": ["z"]}
    nodes: list[onnx.NodeProto] = []

    def pick(near: str | None = None) -> str:
        choices = behind[near] if near is not None and random.random() < 0.7 else pool[-6:] + ["x", "z"]
        return str(random.choice(choices))

    def enter(op: str, operands: list[str], *, hidden: bool = False) -> str:
        name = f"v{len(nodes)}"
        nodes.append(helper.make_node(op, operands, [name], name=name))
        behind[name] = sorted({old for operand in operands for old in behind.get(operand, [])})
        if not hidden:
            pool.append(name)
            behind[name].append(name)
        return name

    for _ in range(int(random.integers(4, 11))):
        kind = random.random()
        a = pick()
        if kind < 0.06:
            # Reduced in another shape: rows that stay together, and rows that do not.
            base, shape, back = str(random.choice(["x", "z"])), *SHAPES[int(random.integers(len(SHAPES)))]
            moved = enter("Reshape", [enter(str(random.choice(["Abs", "Identity", "Relu"])), [base]), shape], hidden=True)
            axes = "last" if shape != "cube" else "both"
            enter("Reshape", [enter(str(random.choice(REDUCTIONS)), [moved, axes], hidden=True), back])
        elif kind < 0.3:
            enter(str(random.choice(UNARY)), [a])
        elif kind < 0.6:
            pair = [a, pick(a)]
            random.shuffle(pair)
            enter(str(random.choice(BINARY)), pair)
        elif kind < 0.7:
            enter("Clip", [a, "zero"] if random.random() < 0.5 else [a, "zero", "one"])
        elif kind < 0.8:
            enter("Add", [a, str(random.choice(["one", "zero", "small"]))])
        elif kind < 0.85:
            enter("Mul", [a, str(random.choice(["half", "small"]))])
        elif kind < 0.9:
            shifted = enter("Sub", [a, enter("ReduceMax", [a, str(random.choice(["first", "last"]))])])
            enter("ReduceSum", [enter("Exp", [shifted]), str(random.choice(["first", "last"]))])
        else:
            enter(str(random.choice(REDUCTIONS)), [a, str(random.choice(["first", "last"]))])
    for op in ("Sub", "Div", "Sub", "Div", "Mul", "Max"):
        a = str(random.choice(pool[2:]))
        pair = [a, pick(a)]
        random.shuffle(pair)
        enter(op, pair)
    constants = [
        *(
            helper.make_tensor(n, TensorProto.FLOAT, [], [v])
            for n, v in (("zero", 0.0), ("one", 1.0), ("half", 0.5), ("small", 1e-6))
        ),
        *(helper.make_tensor(n, TensorProto.INT64, [1], [v]) for n, v in (("first", 0), ("last", -1))),
    ]
    shapes = {
        "cube": [3, 2, 2],
        "turned": [4, 3],
        "line": [1, 12],
        "column": [3, 1],
        "row": [1, 4],
        "single": [1, 1],
        "both": [1, 2],
    }
    constants += [helper.make_tensor(name, TensorProto.INT64, [len(sizes)], sizes) for name, sizes in shapes.items()]
    signature = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 4]) for name in ("x", "z")]
    results = [helper.make_tensor_value_info(pool[-1], TensorProto.FLOAT, None)]
    made = helper.make_graph(nodes, f"random{seed}", signature, results, constants)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), ranges


def claimed(proto: onnx.ModelProto) -> Counter[str]:
    return Counter(claim.idiom for found in claims_of(from_proto(proto)).values() for claim in found)


SEEDS = 100
STEP = 20


@pytest.mark.parametrize("start", range(0, SEEDS, STEP))
@pytest.mark.parametrize("format", [FLOAT32, FLOAT16], ids=str)
def test_random_graphs_stay_in_their_ranges(start: int, format: Format) -> None:
    for seed in range(start, start + STEP):
        proto, ranges = graph(seed)
        if format is not FLOAT32:
            proto, ranges = narrowed(proto, ranges, format)
        run = in_onnx_runtime(proto, ort.GraphOptimizationLevel.ORT_DISABLE_ALL)
        abstraction = PRECISE if format is FLOAT32 else FIRST_PASS
        assert outside(proto, ranged(proto, ranges, abstraction, "onnxruntime-cpu"), run) == [], f"seed {seed}"


def test_random_graphs_hold_every_idiom_of_ordered_tensors() -> None:
    total: Counter[str] = Counter()
    for seed in range(SEEDS):
        total += claimed(graph(seed)[0])
    for name in ("ordered-difference", "ordered-quotient", "square", "function-of-one-tensor", "sum-of-shifted-exponentials"):
        assert total[name] >= 10, (name, total)
