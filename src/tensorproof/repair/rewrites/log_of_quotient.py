"""log(exp(a) / sum(exp(b))), clipped or not, as a difference of logarithms."""

from __future__ import annotations

import math

from tensorproof.formats import Format
from tensorproof.graph import Node
from tensorproof.repair.editing import Editor, Spot
from tensorproof.repair.proposal import Case, Declined, Proposal
from tensorproof.repair.recognised import Shifted, clip_ends, quotient_of_exponentials, shifted
from tensorproof.repair.rewrites import proposal, rewrite
from tensorproof.repair.stable import cast, put_in_place, widest


@rewrite("Log")
def log_of_quotient(case: Case, node: Node) -> Proposal:
    """log(exp(a) / sum(exp(b))) = (a - m) - log(sum(exp(b - m))) with m = max(b), the exponents of both being different tensors.

    The logarithm grows with its operand: where that is clipped to [low, high] before, the result is clipped to
    [log(low), log(high)] after.
    """
    outer = shifted(case, node.inputs[0])
    clip = case.structure.producer(outer.value, "Clip")
    inner = outer if clip is None else shifted(case, clip.inputs[0])
    found = quotient_of_exponentials(case, inner.value)
    if found is None:
        raise Declined("the operand is no exponential over a sum of exponentials")
    if any(part.offset or part.sign < 0 for part in (outer, inner)):
        raise Declined("a constant is added to the quotient, or it is subtracted from one")
    if clip is None and case.structure.same(found.top, found.bottom):
        raise Declined("the quotient is a softmax")
    low, high = _ends(case, clip)
    format = widest(case, found.top, found.bottom, node.inputs[0])

    def edit(editor: Editor) -> None:
        def written(spot: Spot, a: str, format: Format) -> str:
            b = cast(spot, spot.name(found.bottom), case.format(found.bottom), format)
            maximum = spot.reduce("ReduceMax", b, found.axes or None, keepdims=True)
            exponentials = spot.add("Exp", spot.add("Sub", b, maximum))
            total = spot.reduce("ReduceSum", exponentials, found.axes or None, keepdims=True)
            logarithm = spot.add("Sub", spot.add("Sub", a, maximum), spot.add("Log", total))
            return logarithm if clip is None else spot.clip(logarithm, low, high, format.dtype)

        put_in_place(case, editor, node, found.top, _moves(inner, outer), written, format)

    return proposal(
        case,
        node,
        (*outer.nodes, *(() if clip is None else (clip, *inner.nodes)), *found.nodes),
        name="log-of-quotient",
        summary="Log(Exp(a) / ReduceSum(Exp(b))) becomes a difference of logarithms" + (", clipped" if clip is not None else ""),
        because="log(exp(a) / sum(exp(b))) = (a - m) - log(sum(exp(b - m))) with m = max(b): no exponential overflows",
        edit=edit,
    )


def _moves(inner: Shifted, outer: Shifted) -> tuple[Node, ...]:
    return outer.moves if inner is outer else (*inner.moves, *outer.moves)


def _ends(case: Case, clip: Node | None) -> tuple[float | None, float | None]:
    """The logarithms of the ends of a Clip."""
    ends = (None, None) if clip is None else clip_ends(case, clip)
    if ends is None or any(end is not None and end <= 0.0 for end in ends):
        raise Declined("the quotient is not clipped to positive numbers")
    low, high = (None if end is None else math.log(end) for end in ends)
    return low, high
