"""Handwritten digits, 8 by 8: 1,797 images that ship with scikit-learn, whose file is read without importing it."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from tensorproof.compare.drawing import Array, generator
from tensorproof.errors import ConfigurationError

#: Images that are kept from training.
_HELD_OUT = 297


@dataclass(frozen=True)
class Digits:
    """Images with numbers from 0 to 1, and which digit each shows; those that networks are trained on, and others."""

    images: Array
    labels: Array
    held_out_images: Array
    held_out_labels: Array


@cache
def load_digits() -> Digits:
    """The images in an order that is always the same, as (count, 8, 8, 1)."""
    found = find_spec("sklearn")
    places = list(found.submodule_search_locations or ()) if found is not None else []
    files = [Path(place) / "datasets" / "data" / "digits.csv.gz" for place in places]
    path = next((file for file in files if file.is_file()), None)
    if path is None:
        raise ConfigurationError("seed networks are trained on the digits of the package scikit-learn: pip install scikit-learn")
    with gzip.open(path, "rt") as lines:
        table = np.loadtxt(lines, delimiter=",")
    order = generator("digits").permutation(len(table))
    # Pixels are from 0 to 16.
    images = (table[order, :-1] / 16.0).reshape(-1, 8, 8, 1).astype(np.float32)
    labels = table[order, -1].astype(np.int32)
    return Digits(images[_HELD_OUT:], labels[_HELD_OUT:], images[:_HELD_OUT], labels[:_HELD_OUT])
