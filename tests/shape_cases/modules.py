"""Containers of layers."""

from __future__ import annotations

from itertools import pairwise

from tests.shape_cases import Draw, cases


def _layers(draw: Draw) -> tuple[list[str], str]:
    """Dense layers in a row, sometimes of sizes that do not meet, and an input."""
    sizes = [draw.integer(1, 4) for _ in range(draw.integer(2, 4))]
    layers = [f"nn.Linear({draw.integer(1, 4) if draw.chance(0.1) else before}, {after})" for before, after in pairwise(sizes)]
    return layers, draw.array((*draw.shape(0, 2), sizes[0]))


@cases("torch.nn.Sequential")
def _(draw: Draw) -> str:
    layers, input = _layers(draw)
    if draw.chance(0.3):
        return f"nn.Sequential({', '.join(layers)})[:{draw.integer(1, 3)}]({input})"
    return f"nn.Sequential({', '.join(layers)})({input})"


@cases("torch.nn.ModuleList")
def _(draw: Draw) -> str:
    layers, input = _layers(draw)
    return f"nn.ModuleList([{', '.join(layers)}])[{draw.pick([0, 0, -1])}]({input})"


@cases("torch.nn.ParameterList")
def _(draw: Draw) -> str:
    width = draw.integer(1, 4)
    weights = ", ".join(f"nn.Parameter({draw.array(draw.varied((width, 2), 0.3))})" for _ in range(2))
    return f"{draw.array((3, width))} @ nn.ParameterList([{weights}])[{draw.pick([0, 1])}]"


@cases("torch.nn.ModuleDict")
def _(draw: Draw) -> str:
    layers, input = _layers(draw)
    return f"nn.ModuleDict({{'a': {layers[0]}, 'b': {layers[-1]}}})[{draw.pick(['a', 'a', 'b'])!r}]({input})"


@cases("torch.nn.ParameterDict")
def _(draw: Draw) -> str:
    width = draw.integer(1, 4)
    weight = f"nn.Parameter({draw.array(draw.varied((width, 2), 0.4))})"
    return f"{draw.array((3, width))} @ nn.ParameterDict({{'a': {weight}}})['a']"
