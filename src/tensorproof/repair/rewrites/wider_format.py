"""Sums and products of a 16-bit format, computed in float32 and brought back at its ends."""

from __future__ import annotations

from tensorproof.formats import FLOAT32
from tensorproof.graph import ABSENT, Node
from tensorproof.repair.editing import Editor
from tensorproof.repair.matching import result
from tensorproof.repair.proposal import Case, Declined, Proposal
from tensorproof.repair.rewrites import rewrite

#: What can overflow without any single operand being at fault, and has kernels in float32.
_OPERATORS = (
    "Add",
    "Sub",
    "Mul",
    "Sum",
    "MatMul",
    "Gemm",
    "Conv",
    "ConvTranspose",
    "Einsum",
    "CumSum",
    "ReduceSum",
    "ReduceMean",
    "ReduceSumSquare",
    "ReduceL1",
    "ReduceL2",
)


@rewrite(*_OPERATORS)
def wider_format(case: Case, node: Node) -> Proposal:
    """y = f(x) becomes narrow(clip(f(wide(x)), -max, max)), where max is the largest number of the 16-bit format.

    float32 holds every number of both 16-bit formats, and rounding is monotone: a result that was finite is the one that float32
    rounds to the narrow format, which is at least as near to the exact one as any sequence of roundings in it. A result beyond
    the format becomes its largest number instead of an infinity.
    """
    if case.finding.node != node.name or not case.finding.rule.code.startswith("NUM2"):
        raise Declined("the node itself does not overflow")
    narrow = case.format(result(node))
    if narrow is None or not narrow.is_float or narrow.bits != 16:
        raise Declined("only results of 16 bits are computed in a wider format")

    def edit(editor: Editor) -> None:
        spot = editor.before(node, "wide")

        def widened(value: int) -> str:
            if value == ABSENT or case.format(value) != narrow:
                return "" if value == ABSENT else spot.name(value)
            return spot.add("Cast", spot.name(value), to=FLOAT32.onnx_code)

        operands = [widened(value) for value in node.inputs]
        wide = spot.add(node.op, *operands, **node.attributes)
        editor.replace(node, spot.add("Cast", spot.clip(wide, narrow.low, narrow.high, FLOAT32.dtype), to=narrow.onnx_code))

    return Proposal(
        kind="rewrite",
        name="wider-format",
        finding=case.finding,
        summary=f"{node.op} is computed in float32; what leaves {narrow} becomes its largest number",
        because="float32 holds every operand; results that were finite are rounded once and stay",
        safe=True,
        replaces=(node.name,),
        edit=edit,
    )
