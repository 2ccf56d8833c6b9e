"""Indices of arrays, and what is stored into them."""

from __future__ import annotations

from tests.shape_cases import Draw, cases


def _index(draw: Draw, rank: int) -> str:
    library = draw.name.partition(".")[0]
    parts: list[str] = []
    simple = ["0", ":", "1:", ":2", "::2", "None", "-1", "1", ":-1", "...", "2", "-2:"]
    if library in ("numpy", "jax", "tf"):
        simple.append("::-1")
    arrays = {"numpy": ["[0, 0]", "[0]", "[0, 0, 0]", "np.zeros((2, 1), dtype=np.int64)"], "torch": ["[0, 0]", "torch.zeros((2, 1), dtype=torch.int64)"], "jax": ["jnp.zeros((2,), dtype=jnp.int32)", "jnp.zeros((3, 1), dtype=jnp.int32)"]}  # fmt: skip
    for _ in range(draw.integer(1, rank + (1 if draw.chance(0.2) else 0))):
        parts.append(draw.pick(arrays[library]) if library in arrays and draw.chance(0.25) else draw.pick(simple))
    if parts.count("...") > 1:
        parts = [part for part in parts if part != "..."] or ["..."]
    return ", ".join(parts)


@cases("torch.__getitem__", "numpy.__getitem__", "tf.__getitem__", "keras.__getitem__", "jax.__getitem__")
def _(draw: Draw) -> str:
    shape = draw.shape(1, 4)
    return f"{draw.array(shape)}[{_index(draw, len(shape))}]"
