"""Peak anonymous memory of a check against the size of the model's file: `python -m benchmarks.memory`.

Memory is what the kernel calls RssAnon, sampled while the check runs in a process of its own: pages of mapped files are no
part of it, since the kernel takes them back whenever it likes. What the package itself needs before it has seen a model is
shown in a row of its own.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import onnx
from onnx import TensorProto, helper
from rich.console import Console
from rich.table import Table

from benchmarks.networks import NETWORKS, path_of

#: Sampling anonymous memory this often misses nothing that matters: it grows by copies of whole tensors.
INTERVAL = 0.002
MEGABYTE = 1 << 20
#: The largest ratio of peak memory to the size of the file, for files over 100 MB.
TARGET = 1.5
#: What the sparse model may take, whatever its size.
SPARSE_TARGET = 3 << 30

_RUN = """
import sys
from tensorproof import check
if len(sys.argv) > 1:
    path, low, high, effort = sys.argv[1:]
    report = check(path, ranges={"*": (float(low), float(high))}, confirm=False, effort=int(effort), cache=False)
    assert report.coverage.complete
else:
    import tensorproof.checking, tensorproof.frontends.onnx_file, onnx
    from tensorproof.operators.table import find_operator
    find_operator("", "Add")
"""


def peak(arguments: list[str]) -> tuple[int, float]:
    """The largest anonymous memory of a check in bytes, and its CPU seconds."""
    started = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-c", _RUN, *arguments])
    status = Path(f"/proc/{process.pid}/status")
    largest = 0
    while process.poll() is None:
        try:
            lines = status.read_text().splitlines()
        except OSError:
            break
        for line in lines:
            if line.startswith("RssAnon:"):
                largest = max(largest, int(line.split()[1]) << 10)
        time.sleep(INTERVAL)
    if process.wait():
        raise SystemExit(f"the check of {arguments} failed")
    return largest, time.perf_counter() - started


@contextmanager
def sparse_model(layers: int, width: int) -> Generator[Path]:
    """A chain of square float32 matrices in one external file that takes no room on the disk."""
    with tempfile.TemporaryDirectory() as folder:
        size = 4 * width * width
        with (Path(folder) / "weights.bin").open("wb") as file:
            file.truncate(layers * size)
        tensors: list[onnx.TensorProto] = []
        nodes: list[onnx.NodeProto] = []
        for layer in range(layers):
            tensor = TensorProto(name=f"w{layer}", data_type=TensorProto.FLOAT, dims=[width, width])
            tensor.data_location = TensorProto.EXTERNAL
            for key, value in {"location": "weights.bin", "offset": layer * size, "length": size}.items():
                tensor.external_data.add(key=key, value=str(value))
            tensors.append(tensor)
            nodes.append(helper.make_node("MatMul", [f"x{layer}", f"w{layer}"], [f"x{layer + 1}"]))
        first = helper.make_tensor_value_info("x0", TensorProto.FLOAT, [1, width])
        last = helper.make_tensor_value_info(f"x{layers}", TensorProto.FLOAT, [1, width])
        graph = helper.make_graph(nodes, "sparse", [first], [last], tensors)
        path = Path(folder) / "sparse.onnx"
        path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]).SerializeToString())
        yield path


def main(arguments: Sequence[str] = ()) -> bool:
    """Print the table; whether all targets are kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=32, help="layers of the sparse model, of 512 MB each")
    parser.add_argument("--effort", type=int, default=0)
    options = parser.parse_args(arguments)
    table = Table(title=f"peak anonymous memory of a check without confirmation, effort {options.effort}")
    for column in ("model", "file", "peak", "ratio", "seconds"):
        table.add_column(column, justify="left" if column == "model" else "right")
    failed = False

    def measured(name: str, size: int, arguments: list[str], limit: float) -> None:
        nonlocal failed
        largest, seconds = peak(arguments)
        missed = largest > limit
        failed = failed or missed
        ratio = f"{largest / size:.3f}" if size else ""
        cells = (name, f"{size / MEGABYTE:.0f} MB" if size else "", f"{largest / MEGABYTE:.0f} MB", ratio, f"{seconds:.1f}")
        table.add_row(*cells, style="bold red" if missed else None)

    measured("(no model)", 0, [], float("inf"))
    for name in ("resnet50", "bert2", "gpt2"):
        path = path_of(name)
        size = path.stat().st_size
        low, high = next(iter(NETWORKS[name].ranges.values()))
        measured(name, size, [str(path), str(low), str(high), str(options.effort)], TARGET * size)
    width = 11_585
    with sparse_model(options.layers, width) as path:
        measured("sparse", options.layers * 4 * width * width, [str(path), "-1", "1", str(options.effort)], SPARSE_TARGET)
    Console(width=100).print(table)
    return not failed


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1:]) else 1)
