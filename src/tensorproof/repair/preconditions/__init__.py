"""Interval preconditions: intervals for inputs, for weights, for both or for results of nodes, under which nodes cannot fail.

RANUM (ICSE 2023, algorithm 1) finds them by descent on abstract bounds. Here the scan itself is the judge: it is monotone in
the box, so that around a centre that it proves the widest box is found by bisection. Only where no plain centre is proven do
steps of a gradient look for another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from tensorproof.assumptions import Assumptions, resolve
from tensorproof.checking import Analysis, analyse
from tensorproof.confirm.objective import Objective
from tensorproof.confirm.observing import Scene
from tensorproof.errors import ConfigurationError
from tensorproof.execute.meaning import NotExecutable
from tensorproof.findings import Finding
from tensorproof.graph import Node
from tensorproof.preparing import Prepared
from tensorproof.ranges.abstraction import chosen
from tensorproof.repair.editing import Editor
from tensorproof.repair.preconditions.centres import climbing_centres, middle_of, plain_centres
from tensorproof.repair.preconditions.refuting import Refutation, pinned, refute
from tensorproof.repair.preconditions.scanning import Scanner, Spent
from tensorproof.repair.preconditions.sites import (
    Box,
    Interval,
    Place,
    Site,
    constant_ends,
    impose,
    kept_sites,
    per_element,
    scaled,
    sites_of,
    typical_share,
    whole_box,
)
from tensorproof.repair.preconditions.widening import polished, widest_scale
from tensorproof.repair.proposal import Declined, Proposal

__all__ = ["Impossible", "Method", "Open", "Place", "Precondition", "Result", "checked_method", "find_precondition"]

#: The whole search; an interval for each element (RANUM-E); steps of the plain gradient with a box of one size, neither
#: shrunk nor widened.
Method = Literal["full", "elementwise", "gradient"]

#: Scans that a search may make.
EVALUATIONS = 200
#: Proven centres that are compared by the widest box around them.
COMPARED = 5
#: The size of the box of the baseline `gradient`, relative to the whole one.
FIXED_SCALE = 0.01


@dataclass(frozen=True, slots=True)
class Precondition:
    """Intervals for sites, under which the scan of the edited model proves that the nodes of the findings do not fail.

    `share` is what is left of the intervals that were declared: the geometric mean of the ratios of widths.
    """

    sites: tuple[Site, ...]
    box: Box
    share: float
    scans: int

    @property
    def intervals(self) -> Mapping[str, Interval]:
        """The ends by the names of the sites, those that were restricted only."""
        pairs = zip(self.sites, self.box, strict=True)
        return {site.name: interval for site, interval in pairs if not _is_same(interval, site.whole)}

    @property
    def is_untouched(self) -> bool:
        """Whether nothing had to be restricted: the scan proves the whole box."""
        return not self.intervals

    def assumptions(self, assumptions: Assumptions) -> Assumptions:
        """Assumptions with the inputs and weights restricted as the edited model restricts them."""
        return pinned(assumptions, self.sites, self.box)

    def edit(self, editor: Editor) -> None:
        """Put the nodes into a model that hold the sites within their intervals."""
        restricted = [site for site in self.sites if site.name in self.intervals]
        impose(editor, restricted, constant_ends([self.intervals[site.name] for site in restricted], restricted))

    def describe(self) -> str:
        """The intervals in one line."""
        return ", ".join(f"{name} in {_text(interval)}" for name, interval in self.intervals.items()) or "nothing to restrict"

    def proposal(self, finding: Finding) -> Proposal:
        return Proposal(
            kind="precondition",
            name="precondition",
            finding=finding,
            summary=f"restrict {self.describe()}",
            because=f"within these intervals ({self.share:.3g} of the declared ones) no node up to {finding.node} can fail",
            safe=self.is_untouched,
            replaces=(),
            edit=self.edit,
        )


@dataclass(frozen=True, slots=True)
class Impossible:
    """Every centre that was tried, and every random value, fails in ONNX Runtime for some value of what is not restricted.

    That is as much as runs can show: no interval holds any of these values.
    """

    refutation: Refutation
    sites: tuple[Site, ...]
    scans: int

    def describe(self) -> str:
        found = self.refutation
        if not self.sites:
            return f"{found.node} depends on nothing that could be restricted here, and fails in ONNX Runtime"
        return (
            f"{found.node} fails in ONNX Runtime at each of {found.centres} centres that were tried, "
            f"and at {found.failing_points} of {found.random_points} random values"
        )


@dataclass(frozen=True, slots=True)
class Open:
    """Neither intervals nor a refutation were found."""

    reason: str
    scans: int

    def describe(self) -> str:
        return self.reason


Result = Precondition | Impossible | Open


def checked_method(name: str) -> Method:
    """The method of that name."""
    for method in get_args(Method):
        if method == name:
            return method
    raise ConfigurationError(f"method {name!r}: write {', '.join(get_args(Method))}")


def find_precondition(
    prepared: Prepared,
    findings: Sequence[Finding],
    at: Place | Sequence[str] = "inputs",
    *,
    method: Method = "full",
    seed: int = 0,
    evaluations: int = EVALUATIONS,
    progress: Callable[[int], None] | None = None,
) -> Result:
    """Intervals as wide as possible under which no node of the findings, and none before them, can fail.

    `evaluations` bounds the scans; `progress` is called with their number. Weights are restricted where the declarations make
    them ranges: those that are fixed stay what they are.
    """
    checked_method(method)
    names = {finding.node for finding in findings}
    nodes = [node for node in prepared.graph.graph.walk() if node.name in names and node.outputs]
    if not nodes or len({node.name for node in nodes}) < len(names):
        return Open("a finding is about no node that has a result", 0)
    combinations, _ = resolve(prepared.graph, prepared.declared)
    assumptions = combinations[0]
    analysis = analyse(prepared.graph, assumptions, prepared.target, effort=0, phase=prepared.phase, trainable=prepared.trainable)
    outer = {tensor.name for tensor in prepared.proto.graph.initializer}
    sites = sites_of(prepared.graph, assumptions, analysis, nodes, at)
    # Nodes are put into the outermost graph, which does not see the weights of bodies.
    sites = tuple(site for site in sites if site.kind != "weight" or site.name in outer)
    if method == "elementwise":
        if len(combinations) > 1:
            return Open("an interval for each element needs one size of every dimension", 0)
        sites = tuple(per_element(prepared.graph, site) for site in sites)
        prepared = replace(prepared, abstraction=chosen("expand"))
    try:
        search = _Search(prepared, assumptions, analysis, findings, nodes, sites, seed, evaluations, progress)
        return search.run(method) if sites else search.without_sites()
    except Declined as reason:
        return Open(str(reason), 0)


class _Search:
    """The search for one set of findings at one place."""

    def __init__(
        self,
        prepared: Prepared,
        assumptions: Assumptions,
        analysis: Analysis,
        findings: Sequence[Finding],
        nodes: Sequence[Node],
        sites: tuple[Site, ...],
        seed: int,
        evaluations: int,
        progress: Callable[[int], None] | None,
    ) -> None:
        self._prepared = prepared
        self._assumptions = assumptions
        self._analysis = analysis
        self._findings = findings
        self._nodes = nodes
        self._sites = sites
        self._seed = seed
        self._progress = progress
        self._scanner = Scanner(prepared, sites, nodes, evaluations)
        self._notes: list[str] = []

    def run(self, method: Method) -> Result:
        """The first of these that succeeds: plain centres, a refutation of all of them, centres that gradients lead to."""
        whole = whole_box(self._sites)
        if self._scanner.left and self._scanner.proves(whole):
            return Precondition(self._sites, whole, 1.0, self._scanner.scans)
        tried: list[Box] = []
        # The coarsest scan first: where it proves a centre, it mostly proves as wide a box as others would.
        for effort in sorted({0, self._prepared.effort}):
            self._scanner.effort = effort
            centres = self._fixed_boxes() if method == "gradient" else self._noted(tried)
            found = self._attempt(centres, method)
            if found is not None:
                return found
        if method == "gradient" or not self._scanner.left:
            return self._open()
        refutation = self._refutation(tried) if method == "full" else None
        if refutation is not None and refutation.failing_points == refutation.random_points:
            return Impossible(refutation, self._sites, self._scanner.scans)
        return self._attempt(self._climbing(signs=True), method) or self._open()

    def without_sites(self) -> Result:
        """Where nothing can be restricted: whether the node fails at all."""
        refutation = self._refutation([()])
        if refutation is None:
            return Open("no value that could be restricted lies before the node", 0)
        return Impossible(refutation, (), 0)

    def _open(self) -> Open:
        return Open("; ".join(("no box that was tried is proven", *dict.fromkeys(self._notes))), self._scanner.scans)

    def _refutation(self, centres: Sequence[Box]) -> Refutation | None:
        distinct = list({_key(box): box for box in (middle_of(self._sites, box) for box in centres)}.values())
        names = [node.name for node in self._nodes]
        return refute(self._prepared, self._assumptions, names, self._sites, distinct, self._seed)

    # -- proofs -------------------------------------------------------------------------------------------------------

    def _attempt(self, centres: Iterable[Box], method: Method) -> Precondition | None:
        """The widest box around one of the centres, if the model that holds the sites in it is proven as well."""
        try:
            box = self._widest(centres, method)
        except Spent:
            self._notes.append(f"the budget of {self._scanner.evaluations} scans is used up")
            return None
        if box is None or not self._scanner.proves_edited(box):
            return None
        return Precondition(self._sites, box, typical_share(self._sites, box), self._scanner.scans)

    def _widest(self, centres: Iterable[Box], method: Method) -> Box | None:
        if method == "gradient":
            return next((box for box in centres if self._scanner.proves(box)), None)
        inner = self._inner(centres)
        if inner is None or method == "elementwise":
            return inner
        return polished(self._scanner, self._sites, inner, self._progress)

    def _inner(self, centres: Iterable[Box]) -> Box | None:
        """The best of the boxes around the first centres that are proven."""
        sites, best, proven = self._sites, None, 0
        try:
            for centre in centres:
                if not self._scanner.proves(centre):
                    continue
                proven += 1
                if best is None or kept_sites(sites, centre) >= kept_sites(sites, best):
                    box = scaled(sites, centre, widest_scale(self._scanner, sites, centre))
                    if best is None or self._is_better(box, best):
                        best = box
                if self._progress is not None:
                    self._progress(self._scanner.scans)
                if proven == COMPARED:
                    break
        except Spent:
            if best is None:
                raise
        return best

    def _is_better(self, box: Box, other: Box) -> bool:
        """Weights that stay as they are in the file count more than wide intervals."""
        kept, share = (function(self._sites, box) for function in (kept_sites, typical_share))
        return (kept, share) > (kept_sites(self._sites, other), typical_share(self._sites, other))

    # -- centres ------------------------------------------------------------------------------------------------------

    def _noted(self, tried: list[Box]) -> Iterator[Box]:
        for centre in plain_centres(self._sites):
            tried.append(centre)
            yield centre

    def _fixed_boxes(self) -> Iterator[Box]:
        for centre in self._climbing(signs=False):
            yield scaled(self._sites, centre, FIXED_SCALE)

    def _climbing(self, *, signs: bool) -> Iterator[Box]:
        """The middle of the box, and centres that gradients lead to from there."""
        start = middle_of(self._sites, whole_box(self._sites))
        yield start
        scene = Scene.of(self._prepared.graph, self._analysis)
        formats = {number: summary.format for number, summary in self._analysis.summaries.items()}
        finding = self._findings[0]
        node = next(node for node in self._nodes if node.name == finding.node)
        if finding.rule.sought is None or any(site.shape is None for site in self._sites):
            return
        try:
            objective = Objective(self._prepared.graph, finding, node, list(scene.domains), formats)
            yield from climbing_centres(objective, self._sites, scene.domains, start, self._seed, signs=signs)
        except ImportError:
            self._notes.append("steps of gradients need the extra `torch`")
        except NotExecutable as reason:
            self._notes.append(f"no steps of gradients: {reason}")


def _key(box: Box) -> bytes:
    return b"".join(end.tobytes() for interval in box for end in interval)


def _is_same(a: Interval, b: Interval) -> bool:
    return bool(np.array_equal(a[0], b[0]) and np.array_equal(a[1], b[1]))


def _text(interval: Interval) -> str:
    low, high = interval
    if low.size == 1:
        return f"[{float(low.item()):.6g}, {float(high.item()):.6g}]"
    return f"[{float(low.min()):.6g}, {float(high.max()):.6g}] ({low.size} intervals)"
