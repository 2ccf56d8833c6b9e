"""Generated tests on backends with a planted fault, which has to be found, and on a noisy one, which must not be called wrong.

The first tests of a plan are what a campaign runs; what Keras on PyTorch does wrong by itself does not count.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tensorproof.compare.catalogue import Plan, PlanOptions
from tensorproof.compare.fuzzing.discrepancy import Discrepancy
from tensorproof.compare.fuzzing.oracles import examine
from tensorproof.compare.reference import units_of
from tensorproof.compare.spec import TestSpec
from tensorproof.compare.workers.backend_id import BackendId
from tensorproof.compare.workers.fleet import Fleet
from tests.planted_faults.every_fault import NAMES

pytestmark = [pytest.mark.area("compare campaign"), pytest.mark.long]

PLAIN = BackendId("keras:torch")
WITHIN = 500
#: Faults that need a value of a parameter, or a pair of them, which the plan comes to later: pairs of all values take 3,000 tests.
RARE = {"causal_padding": 1500, "softmax_axis": 1500}
#: Planted for kernels of five elements alone, which the catalogue does not have.
OUT_OF_REACH = {"stride_phase"}
CONTROLS = 1000


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    with Fleet() as fleet:
        yield fleet


def plan() -> Plan:
    return Plan(0, PlanOptions(dialects=("keras",)))


def own_faults(fleet: Fleet, test: TestSpec, backend: BackendId) -> list[Discrepancy]:
    """Discrepancies of a backend that the plain one does not have, too."""
    if not (found := examine(fleet, test, [backend])):
        return []
    usual = {entry.signature for entry in examine(fleet, test, [PLAIN])}
    return [entry for entry in found if entry.signature not in usual]


@pytest.mark.parametrize("name", [name for name in NAMES if name not in OUT_OF_REACH])
def test_a_planted_fault_is_found(fleet: Fleet, name: str) -> None:
    backend = BackendId.parse(f"keras:torch?with=tests.planted_faults.{name}")
    tests = plan()
    first = next((number for number in range(RARE.get(name, WITHIN)) if own_faults(fleet, tests[number], backend)), None)
    fleet.worker(backend).close()
    print(f"{name}: found by test {first}")
    assert first is not None


def test_noise_of_two_units_is_never_called_wrong(fleet: Fleet) -> None:
    """That two runs differ is noticed, rightly, and so are counts and choices that are not exact; no other value is called wrong."""
    backend = BackendId.parse("keras:torch?with=tests.planted_faults.noise")
    tests = plan()
    wrong = [
        (number, entry.to_json())
        for number in range(CONTROLS)
        for entry in own_faults(fleet, tests[number], backend)
        if entry.oracle != "repeat" and (entry.layer is None or units_of(tests[number], entry.layer))
    ]
    print(f"{CONTROLS} tests, {len(wrong)} called wrong")
    assert wrong == []
