"""Assignments to parts of arrays against NumPy and PyTorch: what they refuse is refused, and nothing else."""

from __future__ import annotations

import random
from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
import pytest
import torch

from tensorproof.shapes.analysis import analyse_source

pytestmark = pytest.mark.area("shape oracles")

RUNS = 300
INDICES = ("0", ":", "1:", ":2", "::2", "None", "-1", ":, 0", "0, 0", "..., 0", "0:1", ":, None")


def _is_refused(namespace: Mapping[str, Any], statements: str) -> bool:
    try:
        exec(statements, dict(namespace))
    except (ValueError, RuntimeError, IndexError):
        return True
    return False


@pytest.mark.parametrize(
    ("namespace", "header", "zeros"),
    [({"np": np}, "import numpy as np", "np.zeros"), ({"torch": torch}, "import torch", "torch.zeros")],
    ids=["numpy", "torch"],
)
def test_store_agrees_with_the_library(namespace: Mapping[str, Any], header: str, zeros: str) -> None:
    choose = random.Random(zeros)
    outcomes: set[bool] = set()
    for _ in range(RUNS):
        shape, value = (tuple(choose.randint(1, 3) for _ in range(choose.randint(low, 3))) for low in (1, 0))
        index = choose.choice(INDICES)
        if prod(value) == 1 and index.count("0") + index.count("-1") == len(shape):
            # Whether an array of one element can be stored as a number depends on the version of NumPy.
            continue
        statements = f"x = {zeros}({shape})\nx[{index}] = {zeros}({value})\n"
        refused = _is_refused(namespace, statements)
        outcomes.add(refused)
        problems = analyse_source(f"{header}\n{statements}", "case.py").problems
        assert any(problem.certain for problem in problems) == refused, statements
    assert outcomes == {True, False}, "the cases do not try both"
