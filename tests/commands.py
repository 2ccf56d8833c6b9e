"""The command line as a test sees it: exit code, standard output, standard error."""

from __future__ import annotations

import contextlib
import io
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import onnx

from tensorproof.cli.app import run


class Result(NamedTuple):
    code: int
    out: str
    err: str


def tensorproof(*arguments: object) -> Result:
    """Run the command line in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run([str(a) for a in arguments])
    return Result(code, out.getvalue(), err.getvalue())


def interruptible(words: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
    """Start a process that takes interrupts, even where a shell runs the suite in the background and everything below ignores them.

    A handler of ours becomes the default in the process. (A `preexec_fn` would fork, which JAX forbids once it is imported.)
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen(words, **options)
    finally:
        signal.signal(signal.SIGINT, before)


def saved(proto: onnx.ModelProto, folder: Path, name: str = "model.onnx") -> Path:
    path = folder / name
    path.write_bytes(proto.SerializeToString())
    return path
