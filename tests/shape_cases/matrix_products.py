"""Matrix products."""

from __future__ import annotations

from tests.shape_cases import Draw, cases


def _operands(draw: Draw) -> tuple[str, str]:
    left = draw.shape(1, 4)
    inner = left[-1]
    right = (inner,) if draw.chance(0.2) else (*left[:-2][: draw.integer(0, 2)], inner, draw.integer(1, 5))
    return draw.array(left), draw.array(draw.varied(right))


@cases("torch.matmul", "torch.Tensor.matmul", "torch.linalg.matmul", "torch.__matmul__", "numpy.__matmul__", "jax.__matmul__")
def _(draw: Draw) -> str:
    left, right = _operands(draw)
    if draw.short == "__matmul__":
        return f"{left} @ {right}"
    return f"{left}.matmul({right})" if draw.is_method else f"{draw.name}({left}, {right})"


@cases(*(f"torch.{prefix}{name}" for prefix in ("", "Tensor.") for name in ("mm", "bmm", "mv", "dot")))
def _(draw: Draw) -> str:
    a, b, c, d = (draw.integer(1, 4) for _ in range(4))
    left, right = {"mm": ((a, b), (b, c)), "bmm": ((d, a, b), (d, b, c)), "mv": ((a, b), (b,)), "dot": ((a,), (a,))}[draw.short]
    first, second = draw.array(draw.varied(left, 0.15)), draw.array(draw.varied(right, 0.25))
    return f"{first}.{draw.short}({second})" if draw.is_method else f"{draw.name}({first}, {second})"
