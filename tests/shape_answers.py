"""Shapes that libraries compute, for the rules of the shape analysis to be compared with.

TensorFlow is asked in a process of its own: with oneDNN on, which it is by default, some sizes that TensorFlow ought to refuse end the
process, and it is on or off from the first import.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

IMPORTS = {
    "torch": "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n",
    "numpy": "import numpy as np\n",
    "jax": "import jax\nimport jax.numpy as jnp\n",
    "tf": "import tensorflow as tf\n",
    "keras": "import keras\n",
    "scipy": "import numpy as np\nimport scipy.special\n",
}
#: Libraries that run on TensorFlow.
_ON_TENSORFLOW = ("tf", "keras")


def imports(library: str) -> str:
    """What an expression of a library needs; those of Python itself are compared through arrays of PyTorch."""
    return IMPORTS.get(library, f"import {library}\nimport torch\n")


def answers(library: str, setup: str, expressions: Sequence[str]) -> list[str]:
    """The shape that the library computes for each expression, or `refused`."""
    if library not in _ON_TENSORFLOW:
        return [_answer(library, setup, expression) for expression in expressions]
    child = _child()
    assert child.stdin is not None and child.stdout is not None
    child.stdin.write(json.dumps([library, setup, list(expressions)]) + "\n")
    child.stdin.flush()
    line = child.stdout.readline()
    if not line:
        _child.cache_clear()
        raise AssertionError(f"the process of TensorFlow ended with {child.wait()}")
    return json.loads(line)


@cache
def _child() -> subprocess.Popen[str]:
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0", "CUDA_VISIBLE_DEVICES": ""}
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.shape_answers"],
        env={**os.environ, **quiet},
        cwd=Path(__file__).parents[1],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    atexit.register(child.kill)
    return child


@cache
def _namespace(library: str) -> Mapping[str, Any]:
    namespace: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(imports(library), namespace)
    return namespace


def _answer(library: str, setup: str, expression: str) -> str:
    namespace = dict(_namespace(library))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(setup, namespace)
        try:
            if library == "jax":
                # Abstract evaluation: the same checks without compiling each of them.
                return _shape_of(namespace["jax"].eval_shape(lambda: eval(expression, namespace)))
            return _shape_of(eval(expression, namespace))
        except Exception:
            return "refused"


def _shape_of(value: Any) -> str:
    """Shapes as the analysis writes them; tuples of tensors element by element."""
    if isinstance(value, list | tuple) and not hasattr(value, "numel"):
        return "(" + ", ".join(_shape_of(part) for part in value) + ")"
    if hasattr(value, "shape"):
        return "[" + ", ".join(str(int(size)) for size in value.shape) + "]"
    return type(value).__name__ if not isinstance(value, int) else str(value)


def main() -> None:
    """One line of JSON with the shapes for each line of JSON that asks. What the libraries print goes elsewhere."""
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        library, setup, expressions = json.loads(line)
        output.write(json.dumps([_answer(library, setup, expression) for expression in expressions]) + "\n")
        output.flush()


if __name__ == "__main__":
    main()
