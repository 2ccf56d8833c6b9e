"""The same functions written in PyTorch, TensorFlow, JAX and ONNX itself, as ONNX files.

Each exporter runs in its own process (importing TensorFlow takes many seconds and must not happen inside the tests); its
files are kept in `.cache/forms` until its source changes.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import onnx

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
CACHE = ROOT / ".cache" / "forms"
#: Each exporter's module, and what else its files are made from.
SOURCES = {
    "torch": ("torch_forms.py", "catalogue.py"),
    "torchscript": ("torch_forms.py", "catalogue.py"),
    "tf2onnx": ("tensorflow_forms.py", "catalogue.py"),
    "jax": ("jax_forms.py", "jaxpr_to_onnx.py", "catalogue.py"),
    "hand": ("hand_forms.py", "catalogue.py", "../models.py"),
}
#: The versions of the exporters themselves.
VERSIONS = ROOT / "constraints.txt"


@cache
def exported(exporter: str) -> dict[str, onnx.ModelProto]:
    """Models by file name without its end: the idiom, or the idiom and `.defective`."""
    sources = [VERSIONS, *(HERE / name for name in SOURCES[exporter])]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    folder = CACHE / f"{exporter}-{digest}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{exporter}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            for old in CACHE.glob(f"{exporter}-*"):
                shutil.rmtree(old)
            _run(exporter, folder)
    return {path.name.removesuffix(".onnx"): onnx.load(path) for path in sorted(folder.glob("*.onnx"))}


def _run(exporter: str, folder: Path) -> None:
    unfinished = folder.with_name(f"unfinished-{exporter}")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    module = f"tests.exporters.{SOURCES[exporter][0].removesuffix('.py')}"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]), "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-m", module, str(unfinished), exporter]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    unfinished.rename(folder)
