"""What a campaign asks of the processes that execute it: tasks and results are plain JSON, so that any executor can carry them.

`versions`  the versions of a backend, or why it cannot run
`examine`   a test on all backends
`explain`   where a discrepancy of a test comes from, and the smallest test that shows it
`verify`    the script of an explanation, run in a fresh process
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import cast

from tensorproof.compare.backends.backend import Unavailable
from tensorproof.compare.drawing import Arrays
from tensorproof.compare.fuzzing.discrepancy import Discrepancy, backend_of
from tensorproof.compare.fuzzing.finding import Explanation, array_from_json
from tensorproof.compare.fuzzing.localising import localise
from tensorproof.compare.fuzzing.oracles import Examination, examination, recheck
from tensorproof.compare.fuzzing.reducing import BUDGET
from tensorproof.compare.fuzzing.scripts import script_of, verify_script
from tensorproof.compare.spec import Json, TestSpec
from tensorproof.compare.workers.backend_id import BackendId
from tensorproof.compare.workers.fleet import Fleet
from tensorproof.compare.workers.process import WorkerFailed

#: Runs that may be spent on reducing a test that ends its process: each takes the import of a framework.
_DEATHS = 4


def perform(fleet: Fleet, task: Mapping[str, Json]) -> dict[str, Json]:
    """The result of a task. A mistake of tensorproof itself is a result, too: one test must not end a campaign."""
    before = fleet.deaths
    try:
        result = _VERBS[cast("str", task["verb"])](fleet, task)
    except Exception as error:
        result = {"error": f"{type(error).__name__}: {' '.join(str(error).split())[:400]}"}
    return {**result, "deaths": fleet.deaths - before}


def _versions(fleet: Fleet, task: Mapping[str, Json]) -> dict[str, Json]:
    try:
        return {"versions": fleet.worker(backend_of(task["backend"])).versions()}
    except (Unavailable, WorkerFailed) as error:
        return {"unavailable": str(error)}


def _examine(fleet: Fleet, task: Mapping[str, Json]) -> dict[str, Json]:
    return examination_to_json(examination(fleet, TestSpec.from_json(task["test"]), _backends(task), _arrays(task)))


def examination_to_json(found: Examination) -> dict[str, Json]:
    """As it stands in the journal."""
    return {
        "discrepancies": [dict(entry.to_json()) for entry in found.discrepancies],
        "runs": dict(found.runs),
        "seconds": {name: round(seconds, 4) for name, seconds in found.seconds.items()},
        "unavailable": dict(found.unavailable),
    }


def _explain(fleet: Fleet, task: Mapping[str, Json]) -> dict[str, Json]:
    test, entry = TestSpec.from_json(task["test"]), Discrepancy.from_json(task["discrepancy"])
    backends, arrays = _backends(task), _arrays(task)
    return explain(fleet, test, entry, backends, arrays).to_json()


def explain(
    fleet: Fleet, test: TestSpec, entry: Discrepancy, backends: list[BackendId], arrays: Arrays | None = None
) -> Explanation:
    """Localise and reduce. If the reduced test does not show the same symptom after all, the test stays as it was."""
    trail: tuple[str, ...] = ()
    try:
        found = localise(fleet, test, entry, backends, arrays=arrays, budget=_DEATHS if entry.oracle == "death" else BUDGET)
        trail = found.trail
        shown = found.discrepancy or entry
        again = None if found.layer is None else recheck(fleet, found.test, shown, backends, found.arrays)
        if again is not None:
            smallest = found.test
            if smallest.phase != "inference":
                # What also shows without training or gradients is one finding with what others see there.
                plain = replace(smallest, phase="inference")
                forward = recheck(fleet, plain, shown, backends, found.arrays)
                smallest, again = (smallest, again) if forward is None else (plain, forward)
            return Explanation(again, found.kind, found.parameters, smallest, found.arrays, _numbers(again), trail)
        trail += ("the reduced test does not show it",)
    except Exception as error:
        trail += (f"not localised: {type(error).__name__}: {' '.join(str(error).split())[:200]}",)
    layer = next((layer for layer in test.layers if layer.name == entry.layer), test.layers[-1])
    again = recheck(fleet, test, entry, backends, arrays) or entry
    return Explanation(again, layer.kind, tuple(layer.parameters), test, arrays or {}, _numbers(again), trail)


def _numbers(entry: Discrepancy) -> dict[str, Json]:
    found = entry.judgement
    if found is None:
        return {}
    if found.symptom == "shape":
        return {"expected_shape": [int(size) for size in re.findall(r"\d+", found.detail.partition(" and ")[2])]}
    numbers = {"left": found.left, "right": found.right, "reference": found.reference, "largest": found.largest}
    return {"position": list(found.position), **{name: repr(value) for name, value in numbers.items()}}


def _verify(fleet: Fleet, task: Mapping[str, Json]) -> dict[str, Json]:
    """The script runs in processes of its own; the fleet waits meanwhile."""
    text = script_of(Explanation.from_json(task["explanation"]), task["versions"], task["title"])
    shows, output = verify_script(text)
    return {"script": text, "reproduced": shows, "output": output}


_VERBS = {"versions": _versions, "examine": _examine, "explain": _explain, "verify": _verify}


def _backends(task: Mapping[str, Json]) -> list[BackendId]:
    return [backend_of(text) for text in task["backends"]]


def _arrays(task: Mapping[str, Json]) -> Arrays | None:
    return {name: array_from_json(data) for name, data in task.get("arrays", {}).items()} or None
