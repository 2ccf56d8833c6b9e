"""The graph for the page: tables of values and nodes, and the tree of modules that it folds by.

Inputs and outputs of the model are nodes, too. Where many nodes stand side by side in one module, or in none, they are gathered
into parts, in the order in which they are computed: a graph without modules can be folded, too.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import Any

from tensorproof.findings import Location
from tensorproof.model_map import MappedNode, MappedValue, ModelMap, NodeVerdict
from tensorproof.report.plain_text import name, one_line

#: Nodes side by side in one module, above which they are gathered into parts; and how many make a part.
CROWD = 300
PART = 100

VERDICTS = tuple(map(str, NodeVerdict))
INPUT, OUTPUT = "input", "output"
#: What the name of a body begins with, as a module.
BODY = "body of "


def graph_data(mapped: ModelMap) -> dict[str, Any]:
    """Columns, one entry per node: inputs first, then the nodes, then outputs. Texts that repeat are indices into tables."""
    values = _Values()
    table = _Table()
    places = _Table()
    paths = _paths(mapped)
    rows: list[list[Any]] = []
    for value in mapped.inputs:
        rows.append([name(value.name), table[INPUT], "", -1, -1, [], [values.add(value)], []])
    offset = len(mapped.inputs)
    makers: dict[str, int] = {value.name: index for index, value in enumerate(mapped.inputs)}
    entering = set(makers)
    for index, node in enumerate(mapped.nodes):
        sources = [source + offset for source in node.sources]
        sources += [makers[read] for read in dict.fromkeys(node.reads) if read in entering]
        rows.append(
            [
                name(node.name),
                table[name(node.op)],
                paths[index],
                VERDICTS.index(str(node.verdict)),
                places[_place(node.location)],
                sources,
                [values.add(value) for value in node.outputs],
                [values.named(read) for read in node.reads],
            ]
        )
        if node.inside is None:
            makers |= {value.name: index + offset for value in node.outputs}
    for output in mapped.outputs:
        source = [makers[output]] if output in makers else []
        rows.append([name(output), table[OUTPUT], "", -1, -1, source, [], [values.named(output)]])
    scopes = _Table()
    for row in rows:
        row[2] = scopes[row[2]]
    return {"nodes": rows, "ops": table.texts, "scopes": scopes.texts, "places": places.texts, "values": values.rows}


class _Table(dict[str, int]):
    """Texts, each with its index."""

    def __missing__(self, text: str) -> int:
        self[text] = len(self)
        return self[text]

    @property
    def texts(self) -> list[str]:
        return list(self)


class _Values:
    """All values, each once: name, format, shape, low, high, bits, whether NaN is legal; of weights the name alone."""

    def __init__(self) -> None:
        self.rows: list[list[Any]] = []
        self._indices: dict[str, int] = {}

    def add(self, value: MappedValue) -> int:
        """A value with what is known of it."""
        shape = "" if value.shape is None else " x ".join(one_line(str(size), 40) for size in value.shape) or "scalar"
        bits = None if value.headroom is None else _short(value.headroom)
        row = [name(value.name), value.format or "", shape, _short(value.low), _short(value.high), bits, int(value.may_be_nan)]
        self._indices[value.name] = len(self.rows)
        self.rows.append(row)
        return len(self.rows) - 1

    def named(self, text: str) -> int:
        """The last value of that name; names are unique within a scope, and inner ones hide outer ones."""
        if text not in self._indices:
            self._indices[text] = len(self.rows)
            self.rows.append([name(text)])
        return self._indices[text]


def _short(value: float | None) -> float | None:
    """Six digits: the page is read by people."""
    return value if value is None or not math.isfinite(value) else float(f"{value:.6g}")


def _place(location: Location | None) -> str:
    if location is None or not location.file:
        return ""
    line = "" if location.line is None else f":{location.line}"
    return f"{name(location.file)}{line}"


def module_paths(mapped: ModelMap) -> list[str]:
    """The path of modules of every node. The body of a loop or a branch is a module of its own, named after its node."""
    paths: list[str] = []
    for node in mapped.nodes:
        own = _clean(node.scope)
        if node.inside is not None:
            body = _body(mapped.nodes[node.inside], paths[node.inside])
            own = f"{body}/{own}" if own else body
        paths.append(own)
    return _without_single(paths)


def _paths(mapped: ModelMap) -> list[str]:
    """`module_paths`, with the parts that crowds are gathered into."""
    paths = module_paths(mapped)
    members: dict[str, list[int]] = defaultdict(list)
    for index, path in enumerate(paths):
        members[path].append(index)
    for path, indices in members.items():
        if len(indices) > CROWD:
            parts = -(-len(indices) // PART)
            for position, index in enumerate(indices):
                part = f"part {position // PART + 1} of {parts}"
                paths[index] = f"{path}/{part}" if path else part
    return paths


def _without_single(paths: list[str]) -> list[str]:
    """The paths without modules that hold one node alone: exporters name many nodes as if each were a module."""
    held: Counter[str] = Counter()
    for path in paths:
        parts = path.split("/")
        held.update("/".join(parts[:length]) for length in range(1, len(parts) + 1))

    def lifted(path: str) -> str:
        while path and held[path] == 1:
            path = path.rpartition("/")[0]
        return path

    return [lifted(path) for path in paths]


def _body(node: MappedNode, path: str) -> str:
    own = _clean(node.name.rstrip("/").rsplit("/", 1)[-1]) or _clean(node.op)
    return f"{path}/{BODY}{own}" if path else f"{BODY}{own}"


def _clean(path: str) -> str:
    return "/".join(name(part) for part in path.split("/") if part)
