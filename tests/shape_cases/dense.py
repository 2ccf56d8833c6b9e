"""Dense layers of PyTorch."""

from __future__ import annotations

from tests.shape_cases import Draw, cases


@cases("torch.nn.Linear", "torch.nn.LazyLinear")
def _(draw: Draw) -> str:
    features, units = draw.integer(1, 5), draw.integer(1, 5)
    input = draw.array(draw.varied((*draw.shape(0, 3), features)))
    return f"nn.{draw.short}({'' if 'Lazy' in draw.name else f'{features}, '}{units}, bias={draw.chance(0.5)})({input})"


@cases("torch.nn.functional.linear")
def _(draw: Draw) -> str:
    features, units = draw.integer(1, 5), draw.integer(1, 5)
    weight = draw.array(draw.varied((units, features), 0.2))
    input = draw.array(draw.varied((*draw.shape(0, 3), features), 0.2))
    return f"F.linear({input}, {weight})"


@cases("torch.nn.Bilinear", "torch.nn.functional.bilinear", "torch.bilinear")
def _(draw: Draw) -> str:
    first, second, units = (draw.integer(1, 4) for _ in range(3))
    front = draw.shape(0, 2)
    inputs = f"{draw.array(draw.varied((*front, first), 0.2))}, {draw.array(draw.varied((*front, second), 0.2))}"
    if draw.short == "Bilinear":
        return f"nn.Bilinear({first}, {second}, {units})({inputs})"
    return f"{draw.name}({inputs}, {draw.array((units, first, second))})"


@cases("torch.nn.Parameter", "torch.nn.parameter.Parameter", "torch.nn.Buffer", "torch.nn.parameter.Buffer")
def _(draw: Draw) -> str:
    shape = draw.shape()
    return f"{draw.name}({draw.array(shape)}).reshape({draw.elements(shape)})"
