"""The graph of a model folded into few modules, from left to right, as a drawing that needs no script."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from tensorproof.model_map import ModelMap, NodeVerdict
from tensorproof.report.notebook.drawing import bits_text, element, headroom_class, picture, shortened, text, title
from tensorproof.report.notebook.groups import Group, grouped
from tensorproof.report.plain_text import count, name

#: Modules that are drawn at most.
MOST_BOXES = 16

_WIDTH, _HEIGHT, _ACROSS, _DOWN, _EDGE = 128, 38, 30, 12, 6
_WORST = (NodeVerdict.CONFIRMED, NodeVerdict.POSSIBLE, NodeVerdict.NOT_ANALYSED)


def module_graph(mapped: ModelMap) -> str:
    """Boxes and arrows; empty where everything is one box."""
    groups = grouped(mapped, MOST_BOXES)
    if len(groups) < 2:
        return ""
    edges = _edges(mapped, groups)
    places = _places(len(groups), edges)
    height = max(y for _, y in places) + _HEIGHT + _EDGE
    width = max(x for x, _ in places) + _WIDTH + _EDGE
    drawn = [_arrow(places[source], places[target]) for source, targets in edges.items() for target in targets]
    drawn += [_box(mapped, group, *place) for group, place in zip(groups, places)]
    return picture(width, height, f"Graph of {count(len(groups), 'module')}", "".join(drawn))


def _edges(mapped: ModelMap, groups: Sequence[Group]) -> dict[int, list[int]]:
    """From each group to those that read it. An edge back, of modules that take turns, is left out: boxes stand in their order."""
    owners = {index: place for place, group in enumerate(groups) for index in group.nodes}
    found: dict[int, set[int]] = defaultdict(set)
    for index, node in enumerate(mapped.nodes):
        for source in node.sources:
            if owners[source] < owners[index]:
                found[owners[source]].add(owners[index])
    return {source: sorted(found[source]) for source in sorted(found)}


def _places(amount: int, edges: Mapping[int, Sequence[int]]) -> list[tuple[float, float]]:
    """The left upper corner of every box: a column after those that it reads, and in it near their middle."""
    columns = [0] * amount
    sources: dict[int, list[int]] = defaultdict(list)
    for source, targets in sorted(edges.items()):
        for target in targets:
            columns[target] = max(columns[target], columns[source] + 1)
            sources[target].append(source)
    rows: dict[int, float] = {}
    tallest = max(columns.count(column) for column in set(columns))
    for column in range(max(columns) + 1):
        members = [place for place in range(amount) if columns[place] == column]
        members.sort(key=lambda place: (_mean([rows[source] for source in sources[place]]), place))
        first = (tallest - len(members)) / 2
        rows |= {place: first + row for row, place in enumerate(members)}
    return [(_EDGE + columns[place] * (_WIDTH + _ACROSS), _EDGE + rows[place] * (_HEIGHT + _DOWN)) for place in range(amount)]


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers) if numbers else 0.0


def _arrow(source: tuple[float, float], target: tuple[float, float]) -> str:
    x1, y1 = source[0] + _WIDTH, source[1] + _HEIGHT / 2
    x2, y2 = target[0] - 2, target[1] + _HEIGHT / 2
    bend = (x2 - x1) / 2
    curve = f"M{x1:.1f} {y1:.1f}C{x1 + bend:.1f} {y1:.1f} {x2 - bend:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"
    return element("path", class_="edge", d=curve) + element("path", class_="tip", d=f"M{x2:.1f} {y2:.1f}l-6 -3.5v7z")


def _box(mapped: ModelMap, group: Group, x: float, y: float) -> str:
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
        text(shortened(name(group.label), _WIDTH - 18), class_="strong", x=x + 12, y=y + 16),
        text(f"{below}, {worst}" if worst else below, class_="quiet", x=x + 12, y=y + 30),
    ]
    return element("g", "".join(parts))
