"""Cost per node: generated graphs of up to 200,000 nodes, loaded and analysed, one process for each size.

    python -m benchmarks.scale [NODES ...]

Prints CPU seconds of loading and analysis, microseconds per node, and the most memory that the process held.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from rich.console import Console
from rich.table import Table

from tensorproof.assumptions import Declarations, parse_domain, resolve
from tensorproof.checking import analyse
from tensorproof.frontends.onnx_file import load
from tensorproof.targets import ONNXRUNTIME_CPU

SIZES = (25_000, 50_000, 100_000, 200_000)
WIDTH = 8
MATRICES = 16

#: One block: a residual path, a product with a small matrix, a normalisation written out, two activations. `x` is the
#: block before, `y` an earlier one; `w`, `b` and `eps` are constants.
BLOCK = (
    ("Add", "x y", "a"),
    ("MatMul", "a w", "m"),
    ("Add", "m b", "n"),
    ("Relu", "n", "r"),
    ("Sub", "r y", "s"),
    ("Mul", "r r", "q"),
    ("Add", "q eps", "t"),
    ("Sqrt", "t", "u"),
    ("Div", "s u", "d"),
    ("Tanh", "d", "g"),
    ("Exp", "g", "e"),
    ("Mul", "g e", "o"),
)


def graph(count: int, seed: int = 0) -> onnx.ModelProto:
    """At least `count` nodes of element-wise arithmetic, activations and small products, with branches."""
    generator = np.random.default_rng(seed)
    weights = [numpy_helper.from_array(np.array(1e-3, np.float32), "eps")]
    for index in range(MATRICES):
        matrix = generator.normal(0.0, WIDTH**-0.5, (WIDTH, WIDTH)).astype(np.float32)
        weights.append(numpy_helper.from_array(matrix, f"w{index}"))
        weights.append(numpy_helper.from_array(generator.normal(0.0, 0.1, WIDTH).astype(np.float32), f"b{index}"))
    nodes: list[onnx.NodeProto] = []
    results = ["x"]
    while len(nodes) < count:
        block, index = len(results), int(generator.integers(MATRICES))
        earlier = results[max(0, block - 1 - int(generator.integers(8)))]
        names = {"x": results[-1], "y": earlier, "w": f"w{index}", "b": f"b{index}", "eps": "eps"}
        for op, operands, result in BLOCK:
            inputs = [names.get(name) or f"{name}{block}" for name in operands.split()]
            nodes.append(helper.make_node(op, inputs, [f"{result}{block}"], name=f"{op}_{len(nodes)}"))
        results.append(f"o{block}")
    shape = [4, WIDTH]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    outputs = [helper.make_tensor_value_info(results[-1], TensorProto.FLOAT, shape)]
    made = helper.make_graph(nodes, "scale", inputs, outputs, weights)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 21)])


def measure(path: Path) -> dict[str, float]:
    """CPU seconds of loading and of the analysis, the most memory, and what was proven."""
    started = time.process_time()
    model = load(path)
    loaded = time.process_time()
    (assumptions, *_), _ = resolve(model, Declarations({"*": parse_domain("-1:1", "benchmark")}))
    result = analyse(model, assumptions, ONNXRUNTIME_CPU)
    done = time.process_time()
    return {
        "nodes": len(model.graph.nodes),
        "load": loaded - started,
        "analysis": done - loaded,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "checkable": result.coverage.checkable,
        "proven": len(result.proven_safe),
    }


def report(title: str, module: str, sizes: Sequence[int], write: Callable[[int, Path], object], suffix: str) -> None:
    """The table of graphs that `write` makes, each measured by `python -m MODULE --one FILE`, which prints what `measure` gives."""
    table = Table(title=title)
    for column in ("nodes", "load s", "analysis s", "total s", "us per node", "peak MB", "checkable", "proven"):
        table.add_column(column, justify="right")
    with tempfile.TemporaryDirectory() as folder:
        for size in sizes:
            path = Path(folder) / f"{size}{suffix}"
            write(size, path)
            command = [sys.executable, "-m", module, "--one", str(path)]
            row = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            total = row["load"] + row["analysis"]
            table.add_row(
                f"{row['nodes']:,}",
                f"{row['load']:.2f}",
                f"{row['analysis']:.2f}",
                f"{total:.2f}",
                f"{1e6 * total / row['nodes']:.0f}",
                f"{row['memory']:.0f}",
                f"{row['checkable']:,}",
                f"{row['proven']:,}",
            )
    Console(width=110).print(table)


def main(arguments: Sequence[str] = ()) -> None:
    if list(arguments[:1]) == ["--one"]:
        print(json.dumps(measure(Path(arguments[1]))))
        return
    sizes = [int(text) for text in arguments] or SIZES
    title = "cost per node (CPU, one thread)"
    report(title, "benchmarks.scale", sizes, lambda size, path: path.write_bytes(graph(size).SerializeToString()), ".onnx")


if __name__ == "__main__":
    main(sys.argv[1:])
