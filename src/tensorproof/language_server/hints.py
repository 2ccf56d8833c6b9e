"""Shapes as inlay hints: `: f32[N, 16, 14, 14]` after the name that a tensor is bound to."""

from __future__ import annotations

from lsprotocol.types import InlayHint, InlayHintKind, Range

from tensorproof.language_server.snapshot import Snapshot
from tensorproof.shapes.problems import Place


def inlay_hints(snapshot: Snapshot, visible: Range) -> list[InlayHint]:
    """The hints on the lines of a range. A name that has several shapes at one place, one per call, shows all of them."""
    shapes: dict[Place, dict[str, None]] = {}
    for hint in snapshot.analysis.hints:
        inside = hint.place.file == snapshot.analysis.path
        if inside and visible.start.line < hint.place.end_line <= visible.end.line + 1:
            shapes.setdefault(hint.place, {})[hint.shape] = None
    return [
        InlayHint(
            position=snapshot.source.position(place.end_line, place.end_column),
            label=f": {' | '.join(distinct)}",
            kind=InlayHintKind.Type,
        )
        for place, distinct in shapes.items()
    ]
