"""Gradients of pools and batches, factorisations and linear systems: elements in boxes of their own, torch as the oracle."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from tensorproof.execute.torch_graph import TorchGraph
from tensorproof.formats import FLOAT64
from tensorproof.graph import Graph, Model, Node, Value
from tensorproof.operators.table import Call, evaluate, find_operator
from tensorproof.ranges.range import Range

pytestmark = pytest.mark.area("own operators")

OWN = "tensorproof"
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Subject:
    """An operator with the shapes of its operands, the results that are compared, and what is added to the first operand."""

    name: str
    shapes: tuple[tuple[int, ...], ...]
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])
    outputs: int = 1
    compared: tuple[int, ...] = (0,)
    diagonal: float = 0.0
    #: How far elements reach around their centres.
    radius: float = 0.5


POOL = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 0, 1]}
SUBJECTS = [
    Subject("MaxPoolGradient", ((2, 3, 3, 5), (2, 3, 6, 5)), POOL),
    Subject("MaxPoolGradient", ((1, 2, 2, 3), (1, 2, 4, 6)), {"kernel_shape": [2, 2], "strides": [2, 2]}),
    Subject("BatchNormalizationGradient", ((2, 3, 4), (2, 3, 4), (3,)), {"epsilon": 1e-3}, 2, (0, 1)),
    Subject("BatchNormalizationGradient", ((5, 3), (5, 3), (3,)), {"epsilon": 1.0}, 2, (0, 1), radius=0.1),
    Subject("Cholesky", ((4, 4),), diagonal=6.0, radius=0.2),
    Subject("LuDecomposition", ((2, 4, 4),), {}, 3, (0, 1, 2)),
    Subject("LuDecomposition", ((5, 3),), {}, 3, (0, 1, 2)),
    Subject("QrDecomposition", ((4, 3),), {}, 2, (0, 1)),
    Subject("QrDecomposition", ((3, 5),), {"full_matrices": 1}, 2, (0, 1)),
    Subject("SingularValues", ((2, 4, 3),), {}, 3, (0, 1, 2)),
    Subject("SymmetricEigenvalues", ((4, 4),), {}, 2, (0, 1)),
    Subject("SymmetricEigenvalues", ((4, 4),), {"lower": 0}, 2, (0, 1)),
    Subject("Inverse", ((4, 4),), diagonal=5.0, radius=0.1),
    Subject("Inverse", ((2, 3, 3),), diagonal=9.0, radius=0.3),
    Subject("Solve", ((4, 4), (4, 2)), diagonal=5.0, radius=0.1),
    *(
        Subject(
            "TriangularSolve",
            ((4, 4), (4, 2)),
            {"lower": lower, "transposed": transposed, "unit_diagonal": unit},
            diagonal=3.0,
        )
        for lower in (0, 1)
        for transposed in (0, 1)
        for unit in (0, 1)
    ),
    Subject("LogDeterminant", ((3, 3),), {}, 2, (0, 1), diagonal=4.0, radius=0.3),
]


def model_of(subject: Subject) -> Model:
    count = len(subject.shapes)
    outputs = tuple(range(count, count + subject.outputs))
    node = Node(0, subject.name, OWN, 1, "node", tuple(range(count)), outputs, dict(subject.attributes))
    values = [Value(f"v{index}", None, None) for index in range(count + subject.outputs)]
    graph = Graph("one", [node], tuple(range(count)), outputs)
    return Model("one", graph, values, {}, frozenset(), {"": 23, OWN: 1})


def boxes(subject: Subject, rng: np.random.Generator) -> list[tuple[Array, Array]]:
    found: list[tuple[Array, Array]] = []
    for index, shape in enumerate(subject.shapes):
        centre, radius = rng.normal(size=shape), subject.radius * rng.random(shape)
        if index == 0 and subject.diagonal:
            centre = centre * 0.5 + subject.diagonal * np.eye(shape[-1])
            if subject.name == "Cholesky":
                centre = centre + np.swapaxes(centre, -1, -2)
        found.append((centre - radius, centre + radius))
    return found


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda s: f"{s.name}-{s.shapes[0]}-{list(s.attributes.values())}")
def test_results_lie_in_their_ranges(subject: Subject) -> None:
    import torch

    rng = np.random.default_rng(5)
    entry = find_operator(OWN, subject.name)
    assert entry is not None
    model = model_of(subject)
    for _ in range(6):
        ends = boxes(subject, rng)
        call = Call(entry, dict(subject.attributes), outputs=subject.outputs)
        ranges = evaluate(call, [Range.elements(FLOAT64, low, high) for low, high in ends])
        ranges = ranges if isinstance(ranges, tuple) else (ranges,)
        reported = any(hazard.gives for hazard in call.hazards)
        for _ in range(12):
            points = [
                np.where(rng.random(low.shape) < 0.5, low, high) if rng.random() < 0.5 else rng.uniform(low, high)
                for low, high in ends
            ]
            tensors = {index: torch.from_numpy(point) for index, point in enumerate(points)}
            results = list(TorchGraph(model).run(tensors, model.graph.outputs).values())
            for index in subject.compared:
                value = results[index].numpy().astype(np.float64)
                low, high, _ = ranges[index].expanded()
                assert value.shape == low.shape
                if not reported:
                    assert (low <= value).all() and (value <= high).all(), (index, value, low, high)
        assert not reported


def test_a_permutation_is_what_the_pivots_exchange() -> None:
    import torch

    model = model_of(Subject("PivotsToPermutation", ((3,),), {"size": 4}))
    (rows,) = TorchGraph(model).run({0: torch.tensor([2, 1, 3], dtype=torch.int32)}, model.graph.outputs).values()
    assert rows.tolist() == [2, 1, 3, 0]


@pytest.mark.parametrize(
    "name, code", [("Cholesky", "NUM102"), ("Inverse", "NUM103"), ("Solve", "NUM103"), ("TriangularSolve", "NUM103")]
)
def test_matrices_that_may_fail_are_reported(name: str, code: str) -> None:
    entry = find_operator(OWN, name)
    assert entry is not None
    call = Call(entry, {})
    matrix = Range.uniform((3, 3), FLOAT64, -1.0, 1.0)
    operands = [matrix] if name in ("Cholesky", "Inverse") else [matrix, matrix]
    evaluate(call, operands)
    assert code in {hazard.rule.code for hazard in call.hazards}
