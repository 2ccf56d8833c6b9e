"""Run scripts of `benchmarks/exposed` for a few steps, all in one process: `python -m tests.exposed_runs FRAMEWORK STEPS FILE...`.

Prints one JSON object for each: what the script printed, its error if it had one, and which operators it builds (TensorFlow) or executes
(PyTorch) at which lines of the folder's files, as `file:line:operator`.
"""

from __future__ import annotations

import contextlib
import io
import json
import runpy
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.exposed.catalogue import FOLDER

Places = set[str]
Watch = Callable[[], contextlib.AbstractContextManager[Places]]


def place(frames: list[traceback.FrameSummary], operator: str) -> str | None:
    """Where an operator is called: the innermost line that is in the folder."""
    inside = [frame for frame in frames if Path(frame.filename).parent == FOLDER]
    return f"{Path(inside[-1].filename).name}:{inside[-1].lineno}:{operator}" if inside else None


@contextlib.contextmanager
def tensorflow_places() -> Iterator[Places]:
    import tensorflow.compat.v1 as tf

    graphs: list[Any] = []
    made = tf.Graph.__init__

    def remembered(self: Any, *arguments: Any, **named: Any) -> None:
        made(self, *arguments, **named)
        self.seed = 0
        graphs.append(self)

    tf.Graph.__init__ = remembered
    found: Places = set()
    try:
        tf.reset_default_graph()
        yield found
        for graph in (*graphs, tf.get_default_graph()):
            found |= {at for op in graph.get_operations() if (at := place(op.traceback, op.type))}
    finally:
        tf.Graph.__init__ = made


@contextlib.contextmanager
def torch_places() -> Iterator[Places]:
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    found: Places = set()

    class Recording(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if at := place(traceback.extract_stack(), str(func)):
                found.add(at)
            return func(*args, **(kwargs or {}))

    torch.manual_seed(0)
    with Recording():
        yield found


def run(path: Path, steps: int, watch: Watch) -> dict[str, Any]:
    sys.argv = [str(path), "--steps", str(steps)]
    printed, error = io.StringIO(), None
    places: Places = set()
    try:
        with contextlib.redirect_stdout(printed), watch() as places:
            runpy.run_path(str(path), run_name="__main__")
    except Exception:
        error = traceback.format_exc()
    return {"file": path.name, "printed": printed.getvalue(), "error": error, "places": sorted(places)}


def main(framework: str, steps: str, *files: str) -> None:
    sys.path.insert(0, str(FOLDER))
    watch = tensorflow_places if framework == "tensorflow" else torch_places
    for file in files:
        print(json.dumps(run(FOLDER / file, int(steps), watch)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
