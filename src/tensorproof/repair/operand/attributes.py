"""Attributes that are guards themselves: the epsilon of a normalisation, raised to a size that does its work."""

from __future__ import annotations

from collections.abc import Iterator

from tensorproof.formats import FLOAT32
from tensorproof.repair.editing import Editor
from tensorproof.repair.operand.block import Block
from tensorproof.repair.operand.numbers import least, smallest_kept
from tensorproof.repair.operand.search import Wanted
from tensorproof.repair.proposal import Proposal

#: What is tried in place of each attribute before the least number that is enough is looked for.
_ENOUGH = 1.0


def raised_epsilon(block: Block) -> Iterator[Proposal]:
    """The least epsilon (LRN: bias) with which the value under the root stays positive. Attributes are float32 numbers."""
    if block.case.finding.rule.code != "NUM110":
        return
    name = "bias" if block.node.op == "LRN" else "epsilon"
    # Other findings of the node may be no matter of this attribute.
    for wanted in (block.codes(strict=True), block.codes(strict=False)):
        epsilon = _least(block, name, wanted)
        if epsilon is not None:
            yield _raised(block, name, epsilon)
            return


def _least(block: Block, name: str, wanted: Wanted) -> float | None:
    def silent(value: float) -> bool:
        return block.is_silent({}, wanted, {name: value})

    return least(FLOAT32, smallest_kept(FLOAT32, block.case.target), _ENOUGH, silent) if silent(_ENOUGH) else None


def _raised(block: Block, name: str, epsilon: float) -> Proposal:
    def edit(editor: Editor) -> None:
        editor.set_attribute(block.node, name, epsilon)

    return Proposal(
        kind="operand",
        name="raised-epsilon",
        finding=block.case.finding,
        summary=f"{name} of {block.node.label} becomes {epsilon:.9g}, the least that survives in its arithmetic",
        because="results differ by as much as the larger one does, most where the variance is small",
        safe=False,
        replaces=(block.node.name,),
        edit=edit,
    )
