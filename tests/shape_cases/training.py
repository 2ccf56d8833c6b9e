"""Gradients and initialisation."""

from __future__ import annotations

from tensorproof.shapes.families.training import IN_PLACE
from tests.shape_cases import Draw, cases

_VALUES = {"constant_": ", 0.5", "constant": ", 0.5", "sparse_": ", 0.1"}


@cases(*(f"torch.nn.init.{name}" for name in IN_PLACE.split()))
def _(draw: Draw) -> str:
    shape = (3, draw.integer(1, 4), draw.integer(1, 3)) if "dirac" in draw.short else (draw.integer(1, 4), draw.integer(1, 4))
    # What follows is refused if the number of elements changed.
    return f"{draw.name}({draw.array(shape)}{_VALUES.get(draw.short, '')}).reshape({draw.elements(shape)})"


@cases("torch.Tensor.backward")
def _(draw: Draw) -> str:
    shape = draw.shape(0, 2, 2)
    made = f"torch.zeros({shape}, requires_grad=True)"
    given = f", {draw.array(shape)}" if draw.chance(0.3) else ""
    return f"(torch.Tensor.backward({made}{given}), {draw.array(shape)})[1]"


@cases("torch.autograd.grad")
def _(draw: Draw) -> str:
    shape = draw.shape(0, 3)
    return f"(lambda x: torch.autograd.grad((x * 2).sum(), x))(torch.zeros({shape}, requires_grad=True))[0].reshape({draw.elements(shape)})"


@cases("torch.amp.GradScaler", "torch.cuda.amp.GradScaler", "torch.GradScaler")
def _(draw: Draw) -> str:
    shape = draw.shape(0, 2, 2)
    return f"{draw.name}(enabled=False).scale({draw.array(shape)}).reshape({draw.elements(shape)})"


@cases("torch.nn.utils.clip_grad_norm_")
def _(draw: Draw) -> str:
    return f"nn.utils.clip_grad_norm_([torch.zeros({draw.shape(0, 2)})], 1.0).reshape({draw.shape(1, 1, 2)})"


@cases(
    *(f"torch.nn.utils.{name}" for name in ("weight_norm", "spectral_norm")),
    *(f"torch.nn.utils.parametrizations.{name}" for name in ("weight_norm", "spectral_norm", "orthogonal")),
    "torch.jit.script",
    "torch.nn.DataParallel",
)
def _(draw: Draw) -> str:
    features = draw.integer(1, 4)
    return f"{draw.name}(nn.Linear({features}, {draw.integer(1, 4)}))({draw.array(draw.varied((2, features)))})"


@cases("torch.nn.utils.remove_weight_norm", "torch.nn.utils.remove_spectral_norm")
def _(draw: Draw) -> str:
    features = draw.integer(1, 4)
    added = f"nn.utils.{draw.short.removeprefix('remove_')}(nn.Linear({features}, {draw.integer(1, 4)}))"
    return f"{draw.name}({added})({draw.array(draw.varied((2, features)))})"
