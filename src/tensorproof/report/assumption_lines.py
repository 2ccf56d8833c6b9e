"""What a report assumes, as pairs of a label and a text: inputs, weights, sizes, the target, the precision of the analysis."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from tensorproof.report.plain_text import count, interval, name, one_line

#: Of a list of the same kind, this many are told and the others counted; of inputs twice as many.
SHOWN = 6


def assumption_lines(assumptions: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Every assumption in a line; a label is empty where the one before it goes on."""
    inputs = as_mapping(assumptions.get("inputs"))
    for key, value in list(inputs.items())[: 2 * SHOWN]:
        yield "input", f"{name(key)} {_domain(value)}"
    if len(inputs) > 2 * SHOWN:
        yield "", f"and {count(len(inputs) - 2 * SHOWN, 'more input')}"
    ranges = as_mapping(assumptions.get("weight_ranges"))
    yield "weights", one_line(str(assumptions.get("weights", "fixed")))
    for key, value in list(ranges.items())[:SHOWN]:
        yield "", f"{name(key)} {_domain(value)}"
    if len(ranges) > SHOWN:
        yield "", f"and {count(len(ranges) - SHOWN, 'more weight')} as ranges"
    for key, value in as_mapping(assumptions.get("dimensions")).items():
        yield "dimension", f"{name(key)} = {_sizes(value)}"
    if assumptions.get("target"):
        yield "target", one_line(str(assumptions["target"]))
    stated = as_mapping(assumptions.get("abstraction"))
    if stated:
        yield "precision", one_line(", ".join(f"{key} {value}" for key, value in stated.items()))
    for note in as_sequence(assumptions.get("notes")):
        yield "note", one_line(str(note))


def _domain(value: Any) -> str:
    """`[low, high] (declared)`, with the name of the domain where it is not a box, and the shape."""
    stated = as_mapping(value)
    ends = [float(end) for end in as_sequence(stated.get("range"))]
    text = interval(ends[0], ends[1]) if len(ends) == 2 else one_line(str(value), 200)
    if stated.get("domain", "box") != "box":
        text = f"{one_line(str(stated.get('text', stated['domain'])), 80)} in {text}"
    shape = as_sequence(stated.get("shape"))
    sizes = f", shape {' x '.join(str(size) for size in shape)}" if shape else ""
    return f"{text} ({one_line(str(stated.get('source', 'declared')))}){sizes}"


def _sizes(value: Any) -> str:
    sizes = [str(size) for size in as_sequence(value)] if isinstance(value, Sequence) else [str(value)]
    return ", ".join(sizes) if len(sizes) <= 2 * SHOWN else f"{sizes[0]} to {sizes[-1]} ({len(sizes)} sizes)"


def as_mapping(value: Any) -> Mapping[str, Any]:
    """The value if it is a mapping; else an empty one."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def as_sequence(value: Any) -> Sequence[Any]:
    """The value if it is a sequence, and no text; else an empty one."""
    return cast("Sequence[Any]", value) if isinstance(value, Sequence) and not isinstance(value, str) else ()
