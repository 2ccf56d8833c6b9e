"""Sites: the values that a precondition restricts, each by one interval; and boxes, an interval for every site.

A box is applied by nodes that move numbers beyond an end to it: behind an input, behind a weight, behind the result of a
node. What is searched over and what is saved are the same model: while intervals are searched, their ends are inputs of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from tensorproof.assumptions import Assumptions, Domain
from tensorproof.checking import Analysis
from tensorproof.errors import ConfigurationError
from tensorproof.formats import FLOAT32, Array, Format
from tensorproof.graph import ABSENT, Model, Node
from tensorproof.ranges.weights import extent
from tensorproof.refine.cone import Structure
from tensorproof.repair.editing import Editor, Spot

SiteKind = Literal["input", "weight", "node"]
#: Where intervals are imposed: on all inputs, on all weights that are ranges, on both, or behind the nodes of these names.
Place = Literal["inputs", "weights", "both"]

#: The lower and the upper ends of one site: single numbers, one per channel, or one per element.
Interval = tuple[Array, Array]
Box = tuple[Interval, ...]

#: A single number counts as this share of an interval where shares are multiplied.
SMALLEST_SHARE = 1e-12


@dataclass(frozen=True, slots=True)
class Site:
    """A value that gets an interval, with the one that it has now; `kept` are the ends of its values in the file."""

    kind: SiteKind
    name: str
    number: int
    format: Format
    shape: tuple[int, ...] | None
    whole: Interval
    kept: Interval | None = None

    def inside(self, low: Array, high: Array) -> Interval:
        """An interval rounded inward into the format, inside the whole one; one without numbers becomes the nearest number."""
        low = np.clip(low, *self.whole)
        high = np.clip(high, *self.whole)
        up, down = self.format.round_up(low), self.format.round_down(high)
        nearest = np.clip(self.format.round_nearest(low), *self.whole)
        empty = up > down
        return np.where(empty, nearest, up), np.where(empty, nearest, down)

    def share(self, interval: Interval) -> float:
        """The width of an interval, relative to that of the whole one; the mean, where there are several."""
        (low, high), (first, last) = interval, self.whole
        # Halves: the difference of the two ends of a format overflows.
        width = np.asarray(last / 2 - first / 2)
        ratios = np.where(width > 0, (high / 2 - low / 2) / np.where(width > 0, width, 1.0), 1.0)
        return float(np.mean(ratios))

    def domain(self, interval: Interval, original: Domain) -> Domain:
        """The domain of an input or weight in an interval: one per channel where it had channels, else the hull."""
        low, high = (np.asarray(end, np.float64).reshape(-1) for end in interval)
        if original.kind != "channels" or low.size != len(original.channels):
            return Domain("box", float(low.min()), float(high.max()))
        pairs = tuple(zip(low.tolist(), high.tolist(), strict=True))
        return Domain("channels", float(low.min()), float(high.max()), axis=original.axis, channels=pairs)


def sites_of(
    model: Model, assumptions: Assumptions, analysis: Analysis, nodes: Sequence[Node], at: Place | Sequence[str]
) -> tuple[Site, ...]:
    """What can be restricted before these nodes: floating values with one interval or one per channel; all else stays as it is."""
    structure = Structure(model)
    read = {number for node in structure.behind(structure.at_top(n.number) for n in nodes).nodes for number in _reads(node)}
    found: list[Site] = []
    if at in ("inputs", "both"):
        found += _given(model, "input", {n: (d, assumptions.shapes[n]) for n, d in assumptions.inputs.items()})
    if at in ("weights", "both"):
        found += _given(model, "weight", {n: (d, model.constants[n].shape) for n, d in assumptions.weights.items()})
    if not isinstance(at, str):
        found += [_behind(model, analysis, name) for name in at]
    elif at not in ("inputs", "weights", "both"):
        raise ConfigurationError(f"preconditions at {at!r}: write inputs, weights, both, or names of nodes")
    return tuple(site for site in found if site.number in read)


def _reads(node: Node) -> set[int]:
    found = {number for number in node.inputs if number != ABSENT}
    for graph in node.subgraphs():
        for inner in graph.walk():
            found.update(inner.inputs)
    return found


def _given(model: Model, kind: SiteKind, given: dict[int, tuple[Domain, tuple[int, ...] | None]]) -> Iterable[Site]:
    for number, (domain, shape) in sorted(given.items()):
        value = model.values[number]
        format = value.format or FLOAT32
        if not format.is_float or domain.kind not in ("box", "channels") or value.container != "tensor" or np.isnan(domain.low):
            continue
        low, high = domain.ends(shape or (), format)
        whole = format.round_up(low), format.round_down(high)
        if (whole[0] > whole[1]).any():
            continue
        yield Site(kind, value.name, number, format, shape, whole, _kept(model, number, whole) if kind == "weight" else None)


def _kept(model: Model, number: int, whole: Interval) -> Interval | None:
    """The hull of a weight's values in the file; None if some are not numbers."""
    ends = extent(model.constants[number])
    return None if ends is None else (np.full(whole[0].shape, ends[0]), np.full(whole[1].shape, ends[1]))


def _behind(model: Model, analysis: Analysis, name: str) -> Site:
    """The first result of a node at the top level, with the range that the analysis knows of it."""
    node = next((node for node in model.graph.nodes if node.name == name), None)
    number = None if node is None else next((n for n in node.outputs if n != ABSENT), None)
    summary = None if number is None else analysis.summaries.get(number)
    if number is None or summary is None or not summary.format.is_float:
        raise ConfigurationError(f"no node at the top level of the model is named {name!r} and has a floating result")
    low, high = max(summary.low, summary.format.low), min(summary.high, summary.format.high)
    whole = summary.format.round_down(np.array(low)), summary.format.round_up(np.array(high))
    return Site("node", model.name_of(number), number, summary.format, None, whole)


def per_element(model: Model, site: Site) -> Site:
    """The same site with an interval for each of its elements, where their number is known."""
    if not site.shape:
        return site
    low, high = (np.broadcast_to(end, site.shape).copy() for end in site.whole)
    values = model.constants[site.number].astype(np.float64) if site.kept is not None else None
    return replace(site, whole=(low, high), kept=None if values is None else (values, values))


# -- boxes ------------------------------------------------------------------------------------------------------------


def whole_box(sites: Sequence[Site]) -> Box:
    """The intervals that all sites have now."""
    return tuple(site.whole for site in sites)


def scaled(sites: Sequence[Site], inner: Box, scale: float) -> Box:
    """The boxes between an inner one (scale 0) and the whole one (1): every end moves by that share of its way."""
    return tuple(
        site.inside(_toward(low, site.whole[0], scale), _toward(high, site.whole[1], scale))
        for site, (low, high) in zip(sites, inner, strict=True)
    )


def _toward(start: Array, end: Array, share: float) -> Array:
    return np.asarray(start * (1.0 - share) + end * share)


def typical_share(sites: Sequence[Site], box: Box) -> float:
    """What is left of the intervals, as the geometric mean over all sites: a site that loses nearly all is not outweighed."""
    shares = [site.share(interval) for site, interval in zip(sites, box, strict=True)]
    return float(np.exp(np.mean(np.log(np.maximum(shares, SMALLEST_SHARE)))))


def kept_sites(sites: Sequence[Site], box: Box) -> int:
    """The weights whose values in the file lie in their intervals: imposing these changes nothing in the model as it is."""
    pairs = ((site.kept, interval) for site, interval in zip(sites, box, strict=True))
    return sum(kept is not None and bool((low <= kept[0]).all() and (kept[1] <= high).all()) for kept, (low, high) in pairs)


# -- models -----------------------------------------------------------------------------------------------------------

#: Makes the ends of a site's interval at a place of the model, and gives their names.
Ends = Callable[[Spot, Site], tuple[str, str]]


def impose(editor: Editor, sites: Iterable[Site], ends: Ends) -> None:
    """Put nodes behind every site that hold it within its interval."""
    for site in sites:
        spot = _behind_site(editor, site)
        low, high = ends(spot, site)
        if np.ndim(site.whole[0]) == 0 and editor.opset >= 11:
            held = first = spot.add("Clip", site.name, low, high, result=f"{site.name}.within")
        else:
            first = spot.add("Max", site.name, low, result=f"{site.name}.above")
            held = spot.add("Min", first, high, result=f"{site.name}.within")
        editor.rewire_users(site.name, held, apart_from=(first,))


def _behind_site(editor: Editor, site: Site) -> Spot:
    if site.kind != "node":
        return editor.at_start("precondition")
    nodes = editor.model.graph.nodes
    index = next(i for i, node in enumerate(nodes) if site.number in node.outputs)
    # A site is read by a later node.
    return editor.before(nodes[index + 1], "precondition")


def constant_ends(box: Sequence[Interval], sites: Sequence[Site]) -> Ends:
    """The ends of a found box as constants of the model."""
    intervals = {site.number: interval for site, interval in zip(sites, box, strict=True)}

    def ends(spot: Spot, site: Site) -> tuple[str, str]:
        low, high = intervals[site.number]
        return spot.constant(low, site.format.dtype), spot.constant(high, site.format.dtype)

    return ends
