"""The end of a differentiable path: a value that the backward pass takes for a constant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorproof.operators.table import Call, operator
from tensorproof.ranges.containers import Abstract

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor
    from tensorproof.frontends.aten import AtenCall
    from tensorproof.frontends.tensorflow_call import TensorflowCall


@operator("StopGradient", domain="tensorproof", hands_on=True, elementwise=True)
def stop_gradient(op: Call, x: Abstract) -> Abstract:
    """The operand itself; no gradient flows back through it (`Tensor.detach`)."""
    return x


@stop_gradient.meaning
def _(run: Run, x: Tensor) -> Tensor:
    # A search follows values, whatever is trained.
    return x if run.search else x.detach()


@stop_gradient.aten("detach", "detach_copy")
def _(call: AtenCall) -> int:
    return call.own("StopGradient", call.tensor("self"), formats=(call.result.format,))


stop_gradient.tensorflow("StopGradient")
stop_gradient.jax("stop_gradient")


@stop_gradient.tensorflow("CheckNumerics", "CheckNumericsV2")
def _(call: TensorflowCall) -> int:
    """The operand, through which gradients flow: a run ends here if it is not finite, and what made it so is found before."""
    return call.emit("Identity", call.operand(0), formats=(call.arithmetic_format(),))
