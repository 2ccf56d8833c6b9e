"""Cost per node of GraphDefs of up to 200,000 nodes, read without TensorFlow and analysed, one process for each size.

    python -m benchmarks.tensorflow_scale [NODES ...]

Prints CPU seconds of loading and analysis, microseconds per node of the file, and the most memory that the process held. Of the
file's nodes, initialisers of variables, constants and reads become no nodes of ours.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import json
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.large_tensorflow_graph import large_graph

from benchmarks.scale import SIZES, report
from tensorproof.frontends.tensorflow_program import TensorflowModel
from tensorproof.preparing import Prepared


def measure(path: Path) -> dict[str, float]:
    """CPU seconds of loading and of the analysis, the most memory, and what was proven."""
    started = time.process_time()
    prepared = Prepared.of(path, ranges={"*": (-1.0, 1.0)}, cache=False)
    loaded = time.process_time()
    result = prepared.checked(None)
    done = time.process_time()
    assert "tensorflow" not in sys.modules
    assert isinstance(prepared.framework, TensorflowModel)
    return {
        "nodes": len(prepared.framework.graph.nodes),
        "load": loaded - started,
        "analysis": done - loaded,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "checkable": result.coverage.checkable,
        "proven": len(result.proven_safe),
    }


def main(arguments: Sequence[str] = ()) -> None:
    if list(arguments[:1]) == ["--one"]:
        print(json.dumps(measure(Path(arguments[1]))))
        return
    sizes = [int(text) for text in arguments] or SIZES
    title = "cost per node of a GraphDef (CPU, one thread)"
    report(
        title,
        "benchmarks.tensorflow_scale",
        sizes,
        lambda size, path: path.write_bytes(large_graph(size).SerializeToString()),
        ".pb",
    )


if __name__ == "__main__":
    main(sys.argv[1:])
