"""Seeds of indexing: Gather, Scatter and their relatives, with positions that are known and with intervals of them."""

from __future__ import annotations

import numpy as np

from tests.soundness.seeds.seed import seed

_rng = np.random.default_rng(7002)


def _floats(*shape: int) -> np.ndarray:
    return _rng.standard_normal(shape).astype(np.float32)


def _ints(*values: object) -> np.ndarray:
    return np.array(values, np.int64)


_TABLE = _floats(6, 3)
_MASK = np.where(np.tri(4, dtype=np.bool_), np.float32(0), np.float32(-np.inf))
_INDEX = _ints([0, 2, -1], [1, 1, 3])
_GRID = _floats(3, 4, 2)

SEEDS = [
    # Gather
    seed("Gather", [_TABLE, _ints(0, 5, 5, 2)], opset=7, constants={1: 1}),
    seed("Gather", [_TABLE, _INDEX], {"axis": 0}, opset=11, constants={1: 1}),
    seed("Gather", [_TABLE, _ints([-1, 0], [1, 2])], {"axis": 1}, opset=13, constants={1: 1}),
    seed("Gather", [_TABLE, np.int64(-2)], {"axis": -1}, opset=13, vary=[0], name="Gather-scalar"),
    seed("Gather", [_TABLE, np.zeros((2, 0), np.int64)], opset=13, constants={1: 1}, name="Gather-none"),
    seed("Gather", [_TABLE, _ints(2, 3)], opset=13, vary=[0, 1], name="Gather-vague"),
    seed("Gather", [_TABLE, _ints(1, 2, 0)], opset=13, constants={0: 1}, vary=[1], name="Gather-table"),
    seed("Gather", [_floats(40, 2), np.arange(5, 25)], constants={0: 1}, vary=[1], name="Gather-windows"),
    seed("Gather", [_floats(3, 8), _ints([-4, -3], [-2, -1])], {"axis": 1}, vary=[0, 1], name="Gather-negative"),
    seed("Gather", [_MASK, _ints(0, 3)], {"axis": 1}, vary=[], name="Gather-mask"),
    seed("Gather", [np.arange(5) * 2**40, _ints(3, 1)], vary=[], name="Gather-integers"),
    # GatherElements
    seed("GatherElements", [_TABLE, _ints([0, 5, -1], [1, 1, 3])], {"axis": 0}, opset=11, constants={1: 1}),
    seed(
        "GatherElements",
        [_TABLE, _ints([0], [2], [-1], [1])],
        {"axis": -1},
        opset=13,
        constants={1: 1},
        oracle="runtime",
    ),
    # The reference evaluator wraps an index outside of its axis by adding the size until it fits: it hangs on large ones.
    seed("GatherElements", [_TABLE, _ints([2, 3, 1])], {"axis": 0}, opset=13, vary=[0, 1], oracle="runtime"),
    seed(
        "GatherElements",
        [_TABLE, _ints([2, 3, 1])],
        constants={0: 1},
        vary=[1],
        oracle="runtime",
        name="GatherElements-table",
    ),
    # GatherND
    seed("GatherND", [_GRID, _ints([0, -1], [2, 1])], opset=11, constants={1: 1}),
    seed("GatherND", [_GRID, _ints([[1]], [[-2]], [[0]])], {"batch_dims": 1}, opset=12, constants={1: 1}),
    seed("GatherND", [_GRID, _ints([0, 1, 1], [2, 3, 0])], opset=13, constants={1: 1}),
    seed("GatherND", [_GRID, _ints([1, 2], [1, 1])], opset=13, vary=[0, 1], name="GatherND-vague"),
    seed("GatherND", [_GRID, _ints([1], [2], [3])], {"batch_dims": 1}, opset=13, vary=[0, 1]),
    seed("GatherND", [_GRID, _ints([0, 1], [2, 0])], domain="com.microsoft", constants={1: 1}),
    # Scatter
    seed("Scatter", [_TABLE, _ints([0, 5, 1], [2, 2, 3]), _floats(2, 3)], opset=9, constants={1: 1}, oracle="runtime"),
    seed(
        "Scatter",
        [_TABLE, _ints([0, 2], [1, 0]), _floats(2, 2)],
        {"axis": 1},
        opset=9,
        constants={1: 1},
        oracle="runtime",
    ),
    seed(
        "Scatter",
        [_TABLE, _ints([1, 2, 1]), _floats(1, 3)],
        opset=9,
        vary=[0, 1, 2],
        oracle="runtime",
        name="Scatter-vague",
    ),
    # ScatterElements
    seed("ScatterElements", [_TABLE, _ints([0, -1, 1], [2, 2, 3]), _floats(2, 3)], opset=11, constants={1: 1}),
    seed("ScatterElements", [_TABLE, _ints([0, 2], [1, 0]), _floats(2, 2)], {"axis": -1}, opset=13, constants={1: 1}),
    *(
        seed(
            "ScatterElements",
            [_TABLE, _ints([0, 4, 1], [0, 2, 1], [5, 4, 1], [0, 4, 1]), _floats(4, 3)],
            {"axis": 0, "reduction": reduction},
            opset=16 if reduction in ("add", "mul") else 18,
            constants={1: 1},
            name=f"ScatterElements-{reduction}",
        )
        for reduction in ("add", "mul", "max", "min")
    ),
    *(
        seed(
            "ScatterElements",
            [_TABLE, _ints([2, 3, 1], [3, 2, 1]), _floats(2, 3)],
            {"axis": 0, "reduction": reduction},
            opset=18,
            vary=[0, 1, 2],
            name=f"ScatterElements-vague-{reduction}",
        )
        for reduction in ("none", "add", "mul", "max", "min")
    ),
    seed(
        "ScatterElements",
        [np.arange(6), _ints(1, 1, 4), _ints(7, 8, 9)],
        {"reduction": "add"},
        opset=18,
        vary=[0, 2],
        name="ScatterElements-integers",
    ),
    seed("ScatterElements", [_floats(1, 5), _ints([1, 3]), _floats(1, 2)], {"axis": 1}, vary=[0, 1, 2]),
    seed("ScatterElements", [_MASK, _ints([1, 2, 0, 3]), _floats(1, 4)], vary=[2], name="ScatterElements-mask"),
    # ScatterND
    seed("ScatterND", [_GRID, _ints([0, -1], [2, 1]), _floats(2, 2)], opset=11, constants={1: 1}),
    *(
        seed(
            "ScatterND",
            [_GRID, _ints([0, 1], [2, 3], [0, 1], [0, 1]), _floats(4, 2)],
            {"reduction": reduction},
            opset=16 if reduction in ("add", "mul") else 18,
            constants={1: 1},
            name=f"ScatterND-{reduction}",
        )
        for reduction in ("add", "mul", "max", "min")
    ),
    *(
        seed(
            "ScatterND",
            [_GRID, _ints([1, 1], [2, 2], [1, 2]), _floats(3, 2)],
            {"reduction": reduction},
            opset=18,
            vary=[0, 1, 2],
            name=f"ScatterND-vague-{reduction}",
        )
        for reduction in ("none", "add", "mul", "max", "min")
    ),
    # TensorScatter
    seed("TensorScatter", [_floats(2, 5, 3), _floats(2, 2, 3)]),
    seed("TensorScatter", [_floats(2, 5, 3), _floats(2, 2, 3), _ints(1, 3)], vary=[0, 1, 2], name="TensorScatter-vague"),
    seed(
        "TensorScatter",
        [_floats(2, 2, 5, 3), _floats(2, 2, 4, 3), _ints(3, 0)],
        {"mode": "circular"},
        constants={2: 1},
    ),
    seed(
        "TensorScatter",
        [_floats(2, 5), _floats(2, 3), _ints(3, 1)],
        {"mode": "circular", "axis": 1},
        vary=[0, 1, 2],
        name="TensorScatter-vague-circular",
    ),
]
