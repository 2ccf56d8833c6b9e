"""What is proven inside float16: networks converted as `.half()` does, by which domain, and how near the bounds are to real runs.

Only nodes that can leave their format count: sums, products, normalisations, not what moves or squashes numbers. *Reached* is
the largest absolute value of a node's result in a few runs of ONNX Runtime; a node is *confirmed* where such a run makes
its result infinite or NaN from finite operands. Columns further right profit from what those before them remembered about
the weights (sums, singular values), as a second check of the same file does.
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from rich.console import Console
from rich.table import Table

from benchmarks.networks import NETWORKS, load
from tensorproof.assumptions import Assumptions, Declarations, domain_from_json, resolve
from tensorproof.checking import Analysis, analyse
from tensorproof.confirm.sampling import points
from tensorproof.execute.instrument import instrumented
from tensorproof.formats import FLOAT16
from tensorproof.frontends.onnx_file import from_proto
from tensorproof.frontends.onnx_precision import converted
from tensorproof.graph import Model, Node
from tensorproof.operators.table import find_operator
from tensorproof.ranges.abstraction import FIRST_PASS, Abstraction
from tensorproof.targets import ONNXRUNTIME_CPU

SUBJECTS = ("bert2_outliers", "gpt2_outliers", "vit_tiny", "resnet50")
RUNS = 4

#: Effort and first pass of each column.
COLUMNS: dict[str, tuple[int, Abstraction]] = {
    "intervals": (0, Abstraction(norms=False, idioms=False)),
    "+ idioms": (0, Abstraction(norms=False)),
    "+ norms": (0, Abstraction()),
    "first pass": (0, FIRST_PASS),
    "+ refinement": (1, FIRST_PASS),
}


@dataclass(frozen=True, slots=True)
class Verdicts:
    """How many arithmetic nodes are proven inside float16, possible and confirmed, and the median of bound / reached."""

    nodes: int
    proven: int
    possible: int
    confirmed: int
    ratio: float
    seconds: float


def arithmetic_nodes(model: Model) -> list[Node]:
    """The nodes whose floating result can leave its format."""
    found: list[Node] = []
    for node in model.graph.nodes:
        entry = find_operator(node.domain, node.op)
        format = model.values[node.outputs[0]].format
        if entry is not None and entry.overflow is not None and (format is None or format.is_float):
            found.append(node)
    return found


def reached_values(proto: onnx.ModelProto, model: Model, assumptions: Assumptions, nodes: Sequence[Node]) -> dict[int, float]:
    """The largest absolute result of each node over some real runs, by its number; NaN counts as infinite."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    names = [model.name_of(node.outputs[0]) for node in nodes]
    session = ort.InferenceSession(instrumented(proto, names).SerializeToString(), options)
    domains: dict[str, Any] = {
        model.name_of(n): (d, assumptions.shapes[n], model.values[n].format) for n, d in assumptions.inputs.items()
    }
    wanted = {i.name for i in session.get_inputs()}
    reached = dict.fromkeys((node.number for node in nodes), 0.0)
    for point in points(0, domains, RUNS):
        results = session.run(names, {n: a for n, a in point.items() if n in wanted})
        for node, result in zip(nodes, results):
            with np.errstate(all="ignore"):
                largest = float(np.abs(np.asarray(result, np.float32)).max())
            reached[node.number] = max(reached[node.number], math.inf if math.isnan(largest) else largest)
    return reached


def failing(model: Model, nodes: Sequence[Node], reached: dict[int, float]) -> set[int]:
    """Nodes that made an infinity or NaN out of finite operands."""
    tainted: set[int] = set()
    fails: set[int] = set()
    for node in model.graph.nodes:
        infinite = not math.isfinite(reached.get(node.number, 0.0))
        if infinite and tainted.isdisjoint(node.inputs):
            fails.add(node.number)
        if infinite or not tainted.isdisjoint(node.inputs):
            tainted.update(node.outputs)
    return fails & {node.number for node in nodes}


def judged(model: Model, nodes: Sequence[Node], analysis: Analysis, reached: dict[int, float], seconds: float) -> Verdicts:
    """The verdicts on the arithmetic nodes, from one analysis."""
    # What holds only if another node stays inside float16 is not proven.
    proven = set(analysis.proven_safe)
    open_nodes = [node for node in nodes if node.name not in proven]
    ratios: list[float] = []
    for node in nodes:
        summary = analysis.summaries[node.outputs[0]]
        if 0.0 < reached[node.number] < math.inf:
            ratios.append(max(abs(summary.low), abs(summary.high)) / reached[node.number])
    confirmed = failing(model, nodes, reached) & {node.number for node in open_nodes}
    return Verdicts(
        len(nodes),
        len(nodes) - len(open_nodes),
        len(open_nodes) - len(confirmed),
        len(confirmed),
        statistics.median(ratios) if ratios else math.nan,
        seconds,
    )


def verdicts(name: str) -> dict[str, Verdicts]:
    """One network, all columns."""
    proto, _ = converted(load(name), FLOAT16)
    model = from_proto(proto)
    declared = Declarations({n: domain_from_json(r, n) for n, r in NETWORKS[name].ranges.items()}, {})
    (assumptions, *_), _ = resolve(model, declared)
    nodes = arithmetic_nodes(model)
    reached = reached_values(proto, model, assumptions, nodes)
    found: dict[str, Verdicts] = {}
    for column, (effort, abstraction) in COLUMNS.items():
        started = time.process_time()
        analysis = analyse(model, assumptions, ONNXRUNTIME_CPU, effort=effort, abstraction=abstraction)
        found[column] = judged(model, nodes, analysis, reached, time.process_time() - started)
    return found


def main(names: Sequence[str] = SUBJECTS) -> None:
    """Print the table."""
    console = Console(width=150)
    table = Table(title="Arithmetic nodes proven inside float16 (possible, confirmed; median bound / reached; CPU seconds)")
    table.add_column("network")
    table.add_column("nodes", justify="right")
    for column in COLUMNS:
        table.add_column(column, justify="right")
    for name in names:
        found = verdicts(name)
        cells = [f"{v.proven} ({v.possible}, {v.confirmed}; {v.ratio:.3g}; {v.seconds:.2f} s)" for v in found.values()]
        table.add_row(name, str(next(iter(found.values())).nodes), *cells)
    console.print(table)


if __name__ == "__main__":
    main(sys.argv[1:] or SUBJECTS)
