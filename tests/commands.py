"""The command line as a test sees it: exit code, standard output, standard error."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import NamedTuple

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


def saved(proto: onnx.ModelProto, folder: Path, name: str = "model.onnx") -> Path:
    path = folder / name
    path.write_bytes(proto.SerializeToString())
    return path
