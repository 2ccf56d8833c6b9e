"""All pairs whose models are files: importing the modules that hold them enters them."""

from __future__ import annotations

from tests.tensorflow_corpus import classifiers, generative, geometry, modules, networks, probability, sequences, vision
from tests.tensorflow_corpus.pairs import PAIRS

__all__ = ["PAIRS", "classifiers", "generative", "geometry", "modules", "networks", "probability", "sequences", "vision"]
