"""Shapes as inlay hints: `: f32[N, 16, 14, 14]` after the name that a tensor is bound to."""

from __future__ import annotations

from lsprotocol.types import InlayHint, InlayHintKind, Range

from tensorproof.language_server.snapshot import Snapshot


def inlay_hints(snapshot: Snapshot, visible: Range) -> list[InlayHint]:
    """The hints on the lines of a range."""
    return [
        InlayHint(
            position=snapshot.source.position(hint.place.end_line, hint.place.end_column),
            label=f": {hint.shape}",
            kind=InlayHintKind.Type,
        )
        for hint in snapshot.hints
        if visible.start.line < hint.place.end_line <= visible.end.line + 1
    ]
