"""The graph of a model folded into few modules, as a drawing that needs no script.

Columns go from left to right; where they do not fit beside each other, they go on in a line below, like words. All lines share
their columns, so that what leads from one line to another runs between columns and between lines, and crosses no box.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tensorproof.model_map import ModelMap, NodeVerdict
from tensorproof.report.notebook.drawing import bits_text, element, headroom_class, picture, shortened, text, title
from tensorproof.report.notebook.groups import Group, grouped
from tensorproof.report.plain_text import count, name

#: Modules that are drawn at most.
MOST_BOXES = 16

_WIDTH, _HEIGHT, _ACROSS, _DOWN, _EDGE = 128, 38, 30, 12, 16
#: Columns of a line: as many as the report is wide.
COLUMNS = 6
#: Between two lines, how far edges there are apart, and how far from a box an edge turns.
_BETWEEN, _APART, _TURN = 34, 6, 12
#: Names are bold, and bold letters wider than others.
_BOLD = 1.15
_WORST = (NodeVerdict.CONFIRMED, NodeVerdict.POSSIBLE, NodeVerdict.NOT_ANALYSED)


def module_graph(mapped: ModelMap) -> str:
    """Boxes and arrows; empty where everything is one box."""
    groups = grouped(mapped, MOST_BOXES)
    if len(groups) < 2:
        return ""
    edges = _edges(mapped, groups)
    places = _places(len(groups), edges)
    height = max(place.y for place in places) + _HEIGHT + _EDGE
    width = max(place.x for place in places) + _WIDTH + _EDGE
    drawn = _arrows([(places[source], places[target]) for source, targets in edges.items() for target in targets])
    drawn += [_box(mapped, group, place) for group, place in zip(groups, places)]
    return picture(width, height, f"Graph of {count(len(groups), 'module')}", "".join(drawn))


@dataclass(frozen=True, slots=True)
class _Place:
    """The left upper corner of a box; its line, and where that begins."""

    x: float
    y: float
    line: int
    top: float


def _edges(mapped: ModelMap, groups: Sequence[Group]) -> dict[int, list[int]]:
    """From each group to those that read it. An edge back, of modules that take turns, is left out: boxes stand in their order."""
    owners = {index: place for place, group in enumerate(groups) for index in group.nodes}
    found: dict[int, set[int]] = defaultdict(set)
    for index, node in enumerate(mapped.nodes):
        for source in node.sources:
            if owners[source] < owners[index]:
                found[owners[source]].add(owners[index])
    return {source: sorted(found[source]) for source in sorted(found)}


def _places(amount: int, edges: Mapping[int, Sequence[int]]) -> list[_Place]:
    """A place for every box: in a column after those that it reads, and there near their middle."""
    columns = [0] * amount
    sources: dict[int, list[int]] = defaultdict(list)
    for source, targets in sorted(edges.items()):
        for target in targets:
            columns[target] = max(columns[target], columns[source] + 1)
            sources[target].append(source)
    members = [[place for place in range(amount) if columns[place] == column] for column in range(max(columns) + 1)]
    rows: dict[int, float] = {}
    found: dict[int, _Place] = {}
    top = float(_EDGE)
    for line, first in enumerate(range(0, len(members), COLUMNS)):
        shown = members[first : first + COLUMNS]
        tallest = max(map(len, shown))
        for column, boxes in enumerate(shown):
            boxes.sort(key=lambda box: (_mean([rows[source] for source in sources[box]]), box))
            highest = (tallest - len(boxes)) / 2
            rows |= {box: highest + row for row, box in enumerate(boxes)}
            for box in boxes:
                y = top + rows[box] * (_HEIGHT + _DOWN)
                found[box] = _Place(_EDGE + column * (_WIDTH + _ACROSS), y, line, top)
        top += tallest * (_HEIGHT + _DOWN) - _DOWN + _BETWEEN
    return [found[box] for box in range(amount)]


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers) if numbers else 0.0


def _arrows(edges: Sequence[tuple[_Place, _Place]]) -> list[str]:
    """Those that lead to a line from others lie side by side above it, as far as there is room, and else on one another."""
    lanes = int((_BETWEEN - _HEIGHT / 4) / _APART)
    led = Counter[int]()
    drawn: list[str] = []
    for source, target in edges:
        if source.line != target.line:
            led[target.line] += 1
        lane = led[target.line] % lanes
        drawn.append(_arrow(source, target, target.top - _BETWEEN / 2 + (lane - (lanes - 1) / 2) * _APART))
    return drawn


def _arrow(source: _Place, target: _Place, between: float) -> str:
    x1, y1 = source.x + _WIDTH, source.y + _HEIGHT / 2
    x2, y2 = target.x - 2, target.y + _HEIGHT / 2
    if source.line == target.line:
        bend = (x2 - x1) / 2
        path = f"M{x1:.1f} {y1:.1f}C{x1 + bend:.1f} {y1:.1f} {x2 - bend:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"
    else:
        path = f"M{x1:.1f} {y1:.1f}h{_TURN}V{between:.1f}H{x2 - _TURN:.1f}V{y2:.1f}H{x2:.1f}"
    return element("path", class_="edge", d=path) + element("path", class_="tip", d=f"M{x2:.1f} {y2:.1f}l-6 -3.5v7z")


def _box(mapped: ModelMap, group: Group, place: _Place) -> str:
    x, y = place.x, place.y
    nodes = [mapped.nodes[index] for index in group.nodes]
    bits = min((node.headroom for node in nodes if node.headroom is not None), default=None)
    verdicts = {node.verdict for node in nodes}
    worst = next((str(verdict) for verdict in _WORST if verdict in verdicts), "")
    kind = headroom_class(bits)
    told = ", ".join(part for part in (count(len(nodes), "node"), bits_text(bits), worst) if part)
    below = bits_text(bits) or count(len(nodes), "node")
    parts = [
        title(f"{name(group.label)}: {told}"),
        element("rect", class_=f"box {kind}", x=x, y=y, width=_WIDTH, height=_HEIGHT, rx=6),
        element("rect", class_=f"fill {kind}", x=x, y=y + 4, width=5, height=_HEIGHT - 8, rx=2),
        text(shortened(name(group.label), (_WIDTH - 18) / _BOLD), class_="strong", x=x + 12, y=y + 16),
        text(f"{below}, {worst}" if worst else below, class_="quiet", x=x + 12, y=y + 30),
    ]
    return element("g", "".join(parts))
