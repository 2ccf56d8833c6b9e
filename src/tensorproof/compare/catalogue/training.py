"""`train`: weights of a network for digits, learnt in a process of its own and kept in the user's cache."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tensorproof.compare.drawing import Array
from tensorproof.compare.spec import NetworkSpec
from tensorproof.errors import ConfigurationError
from tensorproof.ranges.weight_cache import default_folder

#: Part of the name of a file in the cache: another way of training gives other files.
_VERSION = 1
#: Seconds that the training of one network may take.
_TIME_LIMIT = 900.0


@dataclass(frozen=True)
class Trained:
    """Weights as `LAYER/INDEX`, and the share of digits kept from training that are recognised."""

    weights: dict[str, Array]
    accuracy: float


def train(network: NetworkSpec, epochs: int, seed: int = 0) -> Trained:
    """Weights of a network of Keras layers whose output is a softmax over ten digits, learnt by Keras on PyTorch.

    The cache is asked first, by the content of the network; TENSORPROOF_CACHE says where it is (empty: nowhere).
    """
    request = json.dumps(
        {"network": network.to_json(), "epochs": epochs, "seed": seed, "version": _VERSION}, sort_keys=True, separators=(",", ":")
    )
    folder = default_folder()
    name = f"{hashlib.sha256(request.encode()).hexdigest()[:24]}.npz"
    kept = None if folder is None else folder / "seed-networks" / name
    if kept is not None and kept.is_file():
        return _read(kept)
    with tempfile.TemporaryDirectory() as place:
        made = Path(place) / name
        _run(request, made)
        trained = _read(made)
        if kept is not None:
            try:
                kept.parent.mkdir(parents=True, exist_ok=True)
                # Written beside and renamed: another process sees all of it or nothing.
                beside = kept.with_suffix(f".{os.getpid()}.part")
                beside.write_bytes(made.read_bytes())
                beside.replace(kept)
            except OSError:
                pass
    return trained


def _run(request: str, path: Path) -> None:
    root = str(Path(__file__).resolve().parents[3])
    environment = {
        **os.environ,
        "KERAS_BACKEND": "torch",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep),
    }
    command = [sys.executable, "-m", "tensorproof.compare.backends.keras_training", str(path)]
    done = subprocess.run(command, input=request, text=True, capture_output=True, env=environment, timeout=_TIME_LIMIT, check=False)
    if done.returncode or not path.is_file():
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise ConfigurationError(f"a seed network could not be trained with Keras on PyTorch: {last}")


def _read(path: Path) -> Trained:
    with np.load(path, allow_pickle=False) as data:
        arrays = {name: data[name] for name in data.files}
    accuracy = float(arrays.pop("accuracy"))
    return Trained(arrays, accuracy)
