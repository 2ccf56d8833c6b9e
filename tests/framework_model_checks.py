"""One whole model of a framework in a process of its own: what is proven of it, and whether its values stay inside of their ranges.

    KERAS_BACKEND=tensorflow python -m tests.framework_model_checks NAME [SIZE]

prints one JSON object. Names are those of `benchmarks.framework_models`; `SIZE` is that of the images.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from benchmarks.framework_models import described, given

from tensorproof.assumptions import resolve
from tensorproof.checking import ConstantRanges, input_values
from tensorproof.confirm.sampling import points
from tensorproof.formats import FLOAT32
from tensorproof.preparing import Prepared
from tensorproof.ranges.preparation import prepare
from tensorproof.ranges.propagate import propagate
from tests.soundness.containment import violation

FRAMEWORKS = ("tensorflow", "keras", "jax", "torch", "basic_pitch")


def outside(prepared: Prepared, runs: int) -> dict[str, Any]:
    """How many values of runs in the framework were looked at, and which of them lie outside of their ranges."""
    framework = prepared.framework
    assert framework is not None
    # As it is written: the runner shows no values of a graph that constants were gathered in.
    model = framework.model
    (assumptions, *_), _ = resolve(model, prepared.declared)
    prepare(model)
    inputs, constants = input_values(model, assumptions), ConstantRanges(model, assumptions)
    ranged = propagate(model, inputs, prepared.target, constants=constants, keep_ranges=True, strict=True)
    made = {number for node in model.graph.nodes for number in node.outputs}
    flows = {model.name_of(number): flow.actual for number, flow in ranged.ranges.items() if number in made}
    # Axes that gradients are summed over may be others than TensorFlow's: those of size 1 make no difference.
    flows = {name: value for name, value in flows.items() if "BroadcastGradientArgs" not in name}
    domains = {
        model.name_of(number): (domain, assumptions.shapes[number], model.values[number].format or FLOAT32)
        for number, domain in assumptions.inputs.items()
    }
    found: list[str] = []
    seen = 0
    with framework.runner() as runner:
        shown = [name for name in flows if runner.shows(name)]
        for point in points(0, domains, runs):
            values = runner.values(point, shown)
            seen += len(values)
            found += [f"{name}: {why}" for name, array in values.items() if (why := violation(flows[name], array)) is not None]
    return {"values": len(shown), "seen": seen, "outside": found}


def checked(name: str, size: int | None = None, *, runs: int = 3) -> dict[str, Any]:
    model, options = given(name, size)
    prepared = Prepared.of(model, cache=False, **options)
    report = described(prepared.checked(None))
    loaded = [framework for framework in FRAMEWORKS if framework in sys.modules]
    return {"loaded": loaded, **report, **outside(prepared, runs)}


if __name__ == "__main__":
    print(json.dumps(checked(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else None)))
