"""`make bench`: CPU time of the static analysis against one pass of ONNX Runtime on the same model, one thread, one process."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from rich.console import Console
from rich.table import Table
from tests.torch_models import EXPORTED

from tensorproof.assumptions import Declarations, parse_domain, resolve
from tensorproof.checking import analyse
from tensorproof.confirm.sampling import points
from tensorproof.formats import FLOAT32
from tensorproof.frontends.onnx_file import from_proto
from tensorproof.targets import ONNXRUNTIME_CPU

PASSES = 5


def cpu_seconds(work: Callable[[], Any]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def models() -> dict[str, tuple[onnx.ModelProto, str]]:
    """The light models of the onnx package, and the exported ones of the tests."""
    light = sorted((Path(onnx.__file__).parent / "backend" / "test" / "data" / "light").glob("*.onnx"))
    found = {p.stem: (onnx.ModelProto.FromString(p.read_bytes()), "0:1") for p in light}
    for name, (make, ranges) in EXPORTED.items():
        low, high = next(iter(ranges.values()))
        found[name] = (make(), f"{low}:{high}")
    return found


def measure(proto: onnx.ModelProto, text: str) -> tuple[float, float, int, int, int]:
    """CPU seconds of a pass and of the analysis; checkable, proven and flagged nodes."""
    model = from_proto(proto)
    (assumptions, *_), _ = resolve(model, Declarations({"*": parse_domain(text, "bench")}))
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = ort.InferenceSession(proto.SerializeToString(), options)
    domains = {
        model.name_of(n): (d, assumptions.shapes[n] or (), model.values[n].format or FLOAT32) for n, d in assumptions.inputs.items()
    }
    feeds = next(points(0, domains, 1))
    wanted = {i.name for i in session.get_inputs()}
    feeds = {n: a for n, a in feeds.items() if n in wanted}
    session.run(None, feeds)
    forward = float(np.median([cpu_seconds(lambda: session.run(None, feeds)) for _ in range(PASSES)]))
    started = time.process_time()
    result = analyse(model, assumptions, ONNXRUNTIME_CPU)
    scan = time.process_time() - started
    flagged = len({f.node for f in result.findings if not f.consequence_of})
    return forward, scan, result.coverage.checkable, len(result.proven_safe), flagged


def main() -> None:
    table = Table(title="static analysis against one ONNX Runtime pass (CPU seconds, one thread)")
    for column in ("model", "pass", "analysis", "ratio", "checkable", "proven safe", "flagged"):
        table.add_column(column, justify="left" if column == "model" else "right")
    for name, (proto, text) in models().items():
        forward, scan, checkable, proven, flagged = measure(proto, text)
        ratio = scan / forward if forward else float("inf")
        table.add_row(name, f"{forward:.4f}", f"{scan:.3f}", f"{ratio:.1f}", str(checkable), str(proven), str(flagged))
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
