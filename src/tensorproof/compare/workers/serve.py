"""The program of a worker process: `python -m tensorproof.compare.workers.serve BACKEND`. It answers until its input ends."""

from __future__ import annotations

import os
import sys
import threading
import time
import warnings
from importlib import import_module
from runpy import run_path
from typing import Any, cast

from tensorproof.compare.backends.backend import Backend, Unavailable
from tensorproof.compare.drawing import Array
from tensorproof.compare.spec import TestSpec
from tensorproof.compare.workers import protocol
from tensorproof.compare.workers.backend_id import BACKENDS, BackendId


def main() -> None:
    """Answer requests until the parent closes the pipe."""
    # Whatever a framework prints must not mix with the answers: keep the pipe, point standard output elsewhere.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    requests = sys.stdin.buffer
    warnings.simplefilter("ignore")
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    backend: Backend | None = None
    backend_id = BackendId.parse(sys.argv[1])
    while True:
        try:
            request, arrays = protocol.receive(requests)
        except EOFError:
            return
        results: dict[str, Array] = {}
        try:
            if backend is None:
                _import_first(backend_id.toggle("with"))
                module = import_module(f"tensorproof.compare.backends.{BACKENDS[backend_id.name]}")
                backend = cast("Backend", module.open_backend(backend_id))
            answer, results = _answer(backend, request, arrays)
        except Unavailable as error:
            answer = {"unavailable": str(error)}
        except Exception as error:  # whatever a framework raises is an answer
            answer = {"error": {"kind": type(error).__name__, "message": str(error)[:4000]}}
        protocol.send(answers, answer, results)


def _end_with(parent: int) -> None:
    """End this process when the one that started it is gone, even in the middle of a test."""
    while os.getppid() == parent:
        time.sleep(2.0)
    os._exit(0)


def _import_first(modules: str) -> None:
    """What the toggle `with` names: modules by name, or files that end in `.py`, separated by commas."""
    for name in filter(None, modules.split(",")):
        if name.endswith(".py"):
            run_path(name)
        else:
            import_module(name)


def _answer(backend: Backend, request: dict[str, Any], arrays: dict[str, Array]) -> tuple[dict[str, Any], dict[str, Array]]:
    verb = request["verb"]
    if verb == "versions":
        return {"versions": backend.versions()}, {}
    if verb == "network":
        started = time.process_time()
        run = backend.run_network(TestSpec.from_json(request["test"]), arrays, request["keep"], request["mode"])
        answer: dict[str, Any] = {
            "static_shapes": {name: list(shape) for name, shape in run.static_shapes.items()},
            "failure": None if run.failure is None else run.failure.to_json(),
            "seconds": time.process_time() - started,
        }
        return answer, dict(run.arrays)
    if verb == "open":
        return backend.open_model(request["path"], request["options"]).to_json(), {}
    if verb == "model":
        return {}, backend.run_model(request["path"], arrays, request["keep"])
    raise ValueError(f"no such request: {verb}")


if __name__ == "__main__":
    main()
