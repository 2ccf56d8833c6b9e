"""What each abstraction is worth (the study of DEBAR, FSE 2020): tensors as one cell, by need or expanded, times values as
intervals or affine forms, with and without what the structure of graphs proves. One pass each, nothing is refined.

Subjects are the safe forms of the tests, each with a near miss that is a real defect, and the networks that PyTorch exports
there. A warning on a safe form or on a network is a false alarm; a near miss without a warning is a missed defect.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import onnx
from rich.console import Console
from rich.table import Table
from tests.safe_models import SAFE
from tests.torch_models import EXPORTED

from tensorproof.assumptions import Declarations, domain_from_json, resolve
from tensorproof.checking import analyse
from tensorproof.frontends.onnx_file import from_proto
from tensorproof.ranges.abstraction import Abstraction, chosen
from tensorproof.targets import ONNXRUNTIME_CPU


@dataclass(slots=True)
class Count:
    """Warnings over some models: all, those that are false, defects without one, and CPU seconds."""

    warnings: int = 0
    false: int = 0
    missed: int = 0
    seconds: float = 0.0


def warned(proto: onnx.ModelProto, ranges: Mapping[str, Any], abstraction: Abstraction, count: Count) -> int:
    """The errors that one pass reports, without their consequences."""
    model = from_proto(proto)
    declared = Declarations({name: domain_from_json(value, name) for name, value in ranges.items()})
    (assumptions, *_), _ = resolve(model, declared)
    started = time.process_time()
    analysis = analyse(model, assumptions, ONNXRUNTIME_CPU, effort=0, abstraction=abstraction)
    count.seconds += time.process_time() - started
    found = [f for f in analysis.findings if f.rule.severity == "error" and not f.consequence_of]
    count.warnings += len(found)
    return len(found)


def measure(abstraction: Abstraction) -> tuple[Count, Count]:
    """The pairs, and the networks."""
    pairs, networks = Count(), Count()
    for case in SAFE.values():
        pairs.false += warned(case.safe, case.ranges, abstraction, pairs)
        pairs.missed += not warned(case.near_miss, case.ranges_of_near_miss, abstraction, pairs)
    for name in EXPORTED:
        networks.false += warned(network(name), EXPORTED[name][1], abstraction, networks)
    return pairs, networks


_exported: dict[str, onnx.ModelProto] = {}


def network(name: str) -> onnx.ModelProto:
    """A network of the tests, exported once."""
    if name not in _exported:
        _exported[name] = EXPORTED[name][0]()
    return _exported[name]


def main() -> None:
    table = Table(title=f"abstractions: {len(SAFE)} pairs of a safe form and a near miss, {len(EXPORTED)} networks; effort 0")
    for heading in ("tensors", "values", "structure", "warnings", "false", "missed", "CPU s", "networks: false", "CPU s"):
        table.add_column(heading, justify="left" if heading in ("tensors", "values", "structure") else "right")
    for structure, tensors, values in product((False, True), ("smash", "partition", "expand"), ("interval", "affine")):
        abstraction = replace(chosen(tensors, values), idioms=structure, norms=structure)
        pairs, networks = measure(abstraction)
        table.add_row(
            tensors,
            values,
            "idioms, norms" if structure else "none",
            str(pairs.warnings),
            str(pairs.false),
            str(pairs.missed),
            f"{pairs.seconds:.1f}",
            str(networks.false),
            f"{networks.seconds:.1f}",
        )
    Console(file=sys.stdout, width=120).print(table)


if __name__ == "__main__":
    main()
