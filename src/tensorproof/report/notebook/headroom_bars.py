"""Headroom per layer: a bar for each module, as long as the bits that are left between its values and the end of their format."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tensorproof.model_map import MappedNode, MappedValue, ModelMap
from tensorproof.report.notebook.drawing import bits_text, element, headroom_class, picture, shortened, text, title
from tensorproof.report.notebook.groups import Group, grouped
from tensorproof.report.plain_text import count, interval, name

#: Bars that are drawn at most; a model with more layers is shown by its outer modules.
MOST_BARS = 40

_LABELS, _AXIS, _VALUES, _HEAD, _ROW, _FOOT = 230, 430, 100, 22, 17, 20
#: Steps of the axis, in bits: the smallest that gives few enough.
_STEPS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_MOST_STEPS = 6


@dataclass(frozen=True, slots=True)
class _Bar:
    """A group, with the node of it that has least bits left, and its value."""

    group: Group
    node: MappedNode
    value: MappedValue
    bits: float


def headroom_bars(mapped: ModelMap) -> str:
    """The plot; empty for a model that computes nothing in floating point."""
    bars = [_bar(mapped, group) for group in grouped(mapped, MOST_BARS, lambda node: node.headroom is not None)]
    if not bars:
        return ""
    longest = max((bar.bits for bar in bars if math.isfinite(bar.bits)), default=1.0)
    step = next((step for step in _STEPS if longest / step <= _MOST_STEPS), _STEPS[-1] * 4)
    most = step * max(math.ceil(longest / step), 1)
    scale = _AXIS / most
    bottom = _HEAD + _ROW * len(bars)
    parts = [_tick(bits, _LABELS + bits * scale, bottom) for bits in range(0, most + 1, step)]
    parts += [_row(bar, _HEAD + place * _ROW, scale) for place, bar in enumerate(bars)]
    formats = {bar.value.format for bar in bars}
    limit = f"largest {next(iter(formats))}" if len(formats) == 1 else "largest number of the format"
    parts.append(element("line", class_="limit", x1=_LABELS, x2=_LABELS, y1=_HEAD - 6, y2=bottom))
    parts.append(text(limit, class_="limit", x=_LABELS - 4, y=_HEAD - 10))
    caption = "Headroom: " + "; ".join(f"{name(bar.group.label)} {bits_text(bar.bits)}" for bar in bars)
    return picture(_LABELS + _AXIS + _VALUES, bottom + _FOOT, caption, "".join(parts))


def _bar(mapped: ModelMap, group: Group) -> _Bar:
    found = [
        (value.headroom, index, value)
        for index in group.nodes
        for value in mapped.nodes[index].outputs
        if value.headroom is not None
    ]
    bits, index, value = min(found, key=lambda entry: entry[:2])
    return _Bar(group, mapped.nodes[index], value, bits)


def _tick(bits: int, x: float, bottom: float) -> str:
    line = element("line", class_="grid", x1=x, x2=x, y1=_HEAD, y2=bottom)
    label = f"{count(bits, 'bit')} left" if bits == 0 else str(bits)
    return line + text(label, class_="quiet", x=x, y=bottom + 14, text_anchor="middle")


def _row(bar: _Bar, y: float, scale: float) -> str:
    length = _AXIS if bar.bits == math.inf else max(bar.bits * scale, 4.0)
    middle = y + _ROW / 2
    told = f"{name(bar.group.label)}: least at {name(bar.node.name)} ({name(bar.node.op)}), {_range(bar.value)}"
    if len(bar.group.nodes) > 1:
        told += f"; {count(len(bar.group.nodes), 'node')} in floating point"
    parts = [
        title(told),
        text(shortened(name(bar.group.label), _LABELS - 14), class_="mono", x=_LABELS - 10, y=middle + 4, text_anchor="end"),
        element("rect", class_=f"fill {headroom_class(bar.bits)}", x=_LABELS, y=y + 3, width=length, height=_ROW - 6, rx=2),
        text(bits_text(bar.bits), class_="value", x=_LABELS + length + 6, y=middle + 4),
    ]
    return element("g", "".join(parts))


def _range(value: MappedValue) -> str:
    known = "" if value.low is None or value.high is None else f"{interval(value.low, value.high)} "
    return f"{known}in {value.format or 'an unknown format'}"
