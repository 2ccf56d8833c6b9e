"""States of loops that grow, exponentials inside loops, and what follows recurrent operators of files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.operator_cases.pairs import Family, Program, onnx_file

if TYPE_CHECKING:
    import onnx

LOOPS = Family("loop")


@LOOPS.file("NUM202", "Mul", "grown", start=(0, 10))
def compounding_loop(fixed: bool) -> onnx.ModelProto:
    """A Loop over 200 periods in which a state doubles; the repaired one is bounded in each of them."""
    bound = "limit = Constant<value_float=1e6>()\nnext = Min(grown, limit)" if fixed else "next = Identity(grown)"
    return onnx_file(
        "(float[2] start) => (float[2] y)",
        f"""
        trips = Constant<value_int=200>()
        go = Constant<value = bool {{1}}>()
        y = Loop(trips, go, start) <body = step (int64 i, bool c, float[2] state) => (bool on, float[2] next) {{
            on = Identity(c)
            rate = Constant<value_float=2.0>()
            grown = Mul(state, rate)
            {bound}
        }}>
        """,
    )


@LOOPS.file("NUM203", "RNN", "states", x=(0, 1))
def rectified_recurrence(fixed: bool) -> onnx.ModelProto:
    """A recurrent layer with ReLU and recurrent weights of 2, over 160 steps; with tanh its state is bounded."""
    activation = "Tanh" if fixed else "Relu"
    return onnx_file(
        "(float[160,1,2] x) => (float[160,1,1,2] states, float[1,1,2] last)"
        "<float[1,2,2] w = {1,0,0,1}, float[1,2,2] r = {2,0,0,2}>",
        f'states, last = RNN<hidden_size=2, activations=["{activation}"]>(x, w, r)',
    )


@LOOPS.file("NUM102", "Sqrt", "deviation", x=(-1, 1))
def lstm_deviation_head(fixed: bool) -> onnx.ModelProto:
    """The square root of an LSTM's state as a deviation: states lie between -1 and 1."""
    positive = "Softplus" if fixed else "Identity"
    return onnx_file(
        "(float[6,1,2] x) => (float[1,1,2] deviation)"
        "<float[1,8,2] w = {1,0,0,1,1,0,0,1,1,0,0,1,1,0,0,1}, float[1,8,2] r = {1,0,0,1,1,0,0,1,1,0,0,1,1,0,0,1}>",
        f"states, last = LSTM<hidden_size=2>(x, w, r)\nvariance = {positive}(last)\ndeviation = Sqrt(variance)",
    )


@LOOPS.program("NUM201", "Exp", forget=(-60, 60), enter=(-60, 60), value=(-1, 1))
def exponential_gates(fixed: bool) -> Program:
    """A recurrent cell with exponential gates, without and with the running maximum that keeps them small."""
    import torch

    def mixed(forget: torch.Tensor, enter: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        total = weight = torch.zeros(2)
        level = torch.full((2,), -60.0)
        for step in range(4):
            top = torch.maximum(forget[step] + level, enter[step]) if fixed else level
            keep, new = torch.exp(forget[step] + level - top), torch.exp(enter[step] - top)  # defect
            total, weight, level = keep * total + new * value[step], keep * weight + new, top
        return total / weight.clamp(min=1e-6)

    return Program(mixed, {"forget": torch.rand(4, 2), "enter": torch.rand(4, 2), "value": torch.rand(4, 2)})


@LOOPS.program("NUM103", "Reciprocal", cost=(0, 1))
def sinkhorn(fixed: bool) -> Program:
    """Optimal transport by scaling rows and columns in turn: with little regularisation the kernel underflows to 0."""
    import torch

    def plan(cost: torch.Tensor) -> torch.Tensor:
        kernel = torch.exp(-cost / (0.1 if fixed else 0.005))
        column = torch.ones(4)
        for _ in range(3):
            row = 0.25 / (kernel @ column)  # defect
            column = 0.25 / (kernel.T @ row)
        return row[:, None] * kernel * column[None, :]

    return Program(plan, {"cost": torch.rand(4, 4)})


@LOOPS.program("NUM103", "Div", matrix=(-1, 1))
def power_iteration(fixed: bool) -> Program:
    """The largest singular direction by repeated products, divided by a norm that is 0 for a matrix of zeros."""
    import torch

    def direction(matrix: torch.Tensor) -> torch.Tensor:
        vector = torch.ones(4)
        for _ in range(3):
            vector = matrix @ vector
            length = vector.norm()
            if fixed:
                length = length + 1e-6
            vector = vector / length  # defect
        return vector

    return Program(direction, {"matrix": torch.rand(4, 4)})


@LOOPS.program("NUM202", "Add", precision="float16", reward=(0, 5000))
def discounted_return(fixed: bool) -> Program:
    """Returns of an episode summed from its end, in float16, with a discount of 0.999 over 24 steps."""
    import torch

    def returns(reward: torch.Tensor) -> torch.Tensor:
        total = torch.zeros(2, dtype=reward.dtype)
        for step in range(24):
            total = reward[step] + (0.9 if fixed else 0.999) * total  # defect
        return total

    return Program(returns, {"reward": torch.rand(24, 2)})
