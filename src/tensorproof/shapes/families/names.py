"""How libraries spell one function: `torch.exp` and `torch.Tensor.exp`."""

from __future__ import annotations


def spelled(prefixes: str, names: str) -> tuple[str, ...]:
    """Every name behind every prefix; both are lists of words."""
    return tuple(f"{prefix}.{name}" for prefix in prefixes.split() for name in names.split())


def words(text: str) -> frozenset[str]:
    """A set of names, written as a list of words."""
    return frozenset(text.split())


def short_name(name: str) -> str:
    """The last part of a name, without the mark of an operation in place: `add` for `torch.Tensor.add_`."""
    last = name.rpartition(".")[2]
    return last if last.startswith("__") else last.removesuffix("_")


def is_in_place(name: str) -> bool:
    """Whether a method of PyTorch changes its receiver: `add_`."""
    return name.startswith("torch.Tensor.") and name.endswith("_") and not name.endswith("__")
