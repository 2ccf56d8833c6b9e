"""Architectures of the kinds that DEBAR was tried on, rebuilt small: graphs of TensorFlow, and what fails in them."""

from __future__ import annotations

import importlib

from benchmarks.architectures.architecture import UNSAFE_KINDS, Architecture, Fact, Form

__all__ = ["UNSAFE_KINDS", "Architecture", "Fact", "Form", "architecture", "architectures"]

_FAMILIES = (
    "detection",
    "sequences",
    "state_space",
    "estimators",
    "adversarial",
    "autoencoders",
    "likelihoods",
    "reinforcement",
    "memories",
    "metrics",
    "embeddings",
    "images",
    "classifiers",
    "signals",
)


def architectures() -> tuple[Architecture, ...]:
    """All architectures, family by family."""
    modules = [importlib.import_module(f"benchmarks.architectures.families.{name}") for name in _FAMILIES]
    return tuple(entry for module in modules for entry in module.family.entries.values())


def architecture(name: str) -> Architecture:
    """The architecture of this name."""
    (found,) = [entry for entry in architectures() if entry.name == name]
    return found
