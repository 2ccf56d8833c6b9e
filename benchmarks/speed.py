"""CPU time of the static analysis against one ONNX Runtime pass on the same model: one process, one thread, loading apart.

Loading is what does not depend on ranges, as the creation of a session is for ONNX Runtime: the file is read, idioms are
looked for, and nodes of constants are folded. What it costs has a column of its own.

    python -m benchmarks.speed [MODEL ...]
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from rich.console import Console
from rich.table import Table

from benchmarks.networks import NETWORKS, load, path_of
from tensorproof.assumptions import Declarations, domain_from_json, resolve
from tensorproof.checking import Analysis, analyse
from tensorproof.confirm.sampling import points
from tensorproof.formats import FLOAT16, FLOAT32
from tensorproof.frontends import onnx_file
from tensorproof.frontends.onnx_file import from_proto
from tensorproof.frontends.onnx_precision import converted
from tensorproof.ranges import weight_cache
from tensorproof.ranges.preparation import prepare
from tensorproof.targets import ONNXRUNTIME_CPU

PASSES = 5
#: Ratios that the first pass is meant to keep, by kind of network, for passes above `SLOW` seconds.
TARGETS = {"transformer": 1.0, "cnn": 1.5, "recurrent": 1.5}
SLOW = 0.020


@dataclass(frozen=True, slots=True)
class Subject:
    """A model to measure, with the ranges of its inputs."""

    name: str
    kind: str
    path: Path
    proto: onnx.ModelProto
    ranges: dict[str, Any]


def subjects(names: Collection[str] = ()) -> Iterator[Subject]:
    """Networks at their real size, then the nine light models of the onnx package: all, or those of these names."""
    for name, network in NETWORKS.items():
        if not name.endswith("_outliers") and (not names or name in names):
            yield Subject(name, network.kind, path_of(name), load(name), dict(network.ranges))
    light = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    for path in sorted(light.glob("*.onnx")):
        if names and path.stem not in names:
            continue
        yield Subject(path.stem, "cnn", path, onnx.ModelProto.FromString(path.read_bytes()), {"*": (0.0, 1.0)})


def cpu_seconds(work: Callable[[], Any]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def forward_seconds(subject: Subject) -> float:
    """The median of some passes, after one to warm up."""
    model = from_proto(subject.proto)
    declared = Declarations({name: domain_from_json(r, name) for name, r in subject.ranges.items()})
    (assumptions, *_), _ = resolve(model, declared)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = ort.InferenceSession(subject.proto.SerializeToString(), options)
    domains = {
        model.name_of(n): (d, assumptions.shapes[n] or (), model.values[n].format or FLOAT32) for n, d in assumptions.inputs.items()
    }
    wanted = {i.name for i in session.get_inputs()}
    feeds = {name: array for name, array in next(points(0, domains, 1)).items() if name in wanted}
    session.run(None, feeds)
    return float(np.median([cpu_seconds(lambda: session.run(None, feeds)) for _ in range(PASSES)]))


def analysed(
    subject: Subject, *, effort: int, mode: str = "fixed", half: bool = False, from_file: bool = False
) -> tuple[float, Analysis]:
    """CPU seconds of the analysis alone, and what it found. Only weights of a file have summaries on disk."""
    proto = converted(subject.proto, FLOAT16)[0] if half else subject.proto
    model = onnx_file.load(subject.path) if from_file else from_proto(proto)
    declared = Declarations({name: domain_from_json(r, name) for name, r in subject.ranges.items()}, weights=mode)
    (assumptions, *_), _ = resolve(model, declared)
    prepare(model)
    started = time.process_time()
    analysis = analyse(model, assumptions, ONNXRUNTIME_CPU, effort=effort)
    return time.process_time() - started, analysis


def loaded(subject: Subject) -> None:
    """All that is done before the first pass."""
    prepare(from_proto(subject.proto))


def flagged(analysis: Analysis) -> int:
    return len({f.node for f in analysis.findings if not f.consequence_of})


def main(names: Collection[str] = ()) -> None:
    """Measure all models, or those of these names."""
    console = Console(width=150)
    table = Table(
        title="analysis over one ONNX Runtime pass (CPU time, one thread, loading apart); nodes flagged at efforts 0, 1, 2"
    )
    columns = (
        "model",
        "pass",
        "load",
        "effort 0",
        "cached",
        "effort 1",
        "effort 2",
        "init",
        "float16",
        "target",
        "checkable",
        "proven",
        "flagged",
    )
    for column in columns:
        table.add_column(column, justify="left" if column == "model" else "right")
    # Operators are loaded on first use: not part of any model's time.
    unknown = set(names)
    for subject in subjects(names):
        unknown.discard(subject.name)
        row, kept = measure(subject)
        table.add_row(*row, style=None if kept else "bold red")
        console.print(f"{subject.name}: done", style="dim", highlight=False)
    console.print(table)
    if unknown:
        raise SystemExit(f"no such model: {', '.join(sorted(unknown))}")


def measure(subject: Subject) -> tuple[list[str], bool]:
    """A row of the table, and whether the first pass keeps its target."""
    forward = forward_seconds(subject)
    load_seconds = float(np.median([cpu_seconds(lambda: loaded(subject)) for _ in range(3)]))
    with tempfile.TemporaryDirectory() as folder:
        weight_cache.use_cache(None)
        analysed(subject, effort=0)
        cold = float(np.median([analysed(subject, effort=0)[0] for _ in range(3)]))
        first = analysed(subject, effort=0)[1]
        weight_cache.use_cache(folder)
        analysed(subject, effort=0, from_file=True)
        weight_cache.save()
        warms: list[float] = []
        for _ in range(3):
            # Nothing is known in memory: what is known of the file comes from the disk.
            weight_cache.use_cache(folder)
            warms.append(analysed(subject, effort=0, from_file=True)[0])
        warm = float(np.median(warms))
        weight_cache.use_cache(None)
        one, second = analysed(subject, effort=1)
        two, third = analysed(subject, effort=2)
        init, _ = analysed(subject, effort=0, mode="init")
        half, _ = analysed(subject, effort=0, half=True)
    target = TARGETS[subject.kind] if forward >= SLOW else None
    ratios = [f"{seconds / forward:.2f}" for seconds in (cold, warm, one, two, init, half)]
    row = [
        subject.name,
        f"{1000 * forward:.1f} ms",
        f"{1000 * load_seconds:.1f} ms",
        *ratios,
        "" if target is None else f"{target:.1f}",
        str(first.coverage.checkable),
        str(len(third.proven_safe)),
        f"{flagged(first)} {flagged(second)} {flagged(third)}",
    ]
    return row, target is None or cold / forward <= target


if __name__ == "__main__":
    main(sys.argv[1:])
