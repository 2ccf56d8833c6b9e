"""Plots of the results, as SVG: bars, and points on logarithmic axes. They are read on light and on dark pages."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

_WIDTH, _ROW, _LEFT, _TOP = 720, 22, 230, 46
_STYLE = """
  text { font: 12px sans-serif; fill: #57606a } .title { font-size: 14px; font-weight: bold }
  .a { fill: #0969da } .b { fill: #bf8700 } .c { fill: #8250df } line { stroke: #57606a; stroke-opacity: 0.4 }
  @media (prefers-color-scheme: dark) { text { fill: #adbac7 } .a { fill: #539bf5 } .b { fill: #daaa3f } .c { fill: #b083f0 } }
"""
_CLASSES = "abc"


def bars(title: str, values: Mapping[str, Mapping[str, float]], *, most: float, unit: str = "") -> str:
    """For every name one bar per series, from 0 to `most`, with its number behind it."""
    series = list(next(iter(values.values())))
    step = _ROW * len(series) + 8
    height = _TOP + step * len(values) + 30
    parts: list[str] = []
    scale = (_WIDTH - _LEFT - 90) / most
    for row, (name, numbers) in enumerate(values.items()):
        top = _TOP + row * step
        parts.append(f'<text x="{_LEFT - 8}" y="{top + step / 2 + 2:.0f}" text-anchor="end">{escape(name)}</text>')
        for index, key in enumerate(series):
            y, width = top + index * _ROW, numbers[key] * scale
            parts.append(f'<rect class="{_CLASSES[index]}" x="{_LEFT}" y="{y}" width="{width:.1f}" height="{_ROW - 5}" rx="2"/>')
            parts.append(f'<text x="{_LEFT + width + 6:.1f}" y="{y + 13}">{numbers[key]:g}{escape(unit)}</text>')
    return _page(title, height, [*parts, *_legend(series, height - 12)])


def spread(title: str, series: Mapping[str, Sequence[float]], *, axis: str) -> str:
    """Numbers from the smallest to the largest, on a logarithmic axis: one curve per series, by share of the cases."""
    numbers = [max(value, 1e-3) for values in series.values() for value in values]
    low, high = math.floor(math.log10(min(numbers))), math.ceil(math.log10(max(numbers)))
    height, left, right, bottom = 320, 60, _WIDTH - 20, 250
    across = (right - left) / max(high - low, 1)
    parts: list[str] = []
    for power in range(low, high + 1):
        x = left + (power - low) * across
        parts.append(f'<line x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{bottom}"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{10.0**power:g}</text>')
    for share in (0, 25, 50, 75, 100):
        y = bottom - share / 100 * (bottom - _TOP)
        parts.append(f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{share} %</text>')
    parts.append(f'<text x="{(left + right) / 2:.0f}" y="{bottom + 34}" text-anchor="middle">{escape(axis)}</text>')
    for index, values in enumerate(series.values()):
        ordered = sorted(max(value, 1e-3) for value in values)
        for place, value in enumerate(ordered, 1):
            x = left + (math.log10(value) - low) * across
            y = bottom - place / len(ordered) * (bottom - _TOP)
            parts.append(f'<circle class="{_CLASSES[index]}" cx="{x:.1f}" cy="{y:.1f}" r="2.5"/>')
    return _page(title, height, [*parts, *_legend(list(series), height - 12)])


def _legend(names: Sequence[str], y: float) -> list[str]:
    parts: list[str] = []
    for index, name in enumerate(names):
        x = 60 + index * 200
        parts.append(f'<rect class="{_CLASSES[index]}" x="{x}" y="{y - 10}" width="12" height="12" rx="2"/>')
        parts.append(f'<text x="{x + 18}" y="{y}">{escape(name)}</text>')
    return parts


def _page(title: str, height: float, parts: Sequence[str]) -> str:
    opened = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:.0f}" role="img">'
    named = f'<title>{escape(title)}</title><style>{_STYLE}</style><text class="title" x="12" y="24">{escape(title)}</text>'
    return "\n".join([opened, named, *parts, "</svg>", ""])
