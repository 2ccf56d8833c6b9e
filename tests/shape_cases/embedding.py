"""Lookups in tables."""

from __future__ import annotations

from tests.shape_cases import Draw, cases


def _indices(shape: tuple[int, ...]) -> str:
    return f"torch.zeros({shape}, dtype=torch.int64)"


@cases("torch.nn.Embedding", "torch.nn.functional.embedding", "torch.nn.Embedding.from_pretrained")
def _(draw: Draw) -> str:
    indices = _indices(draw.shape(0, 3))
    if draw.short == "Embedding":
        return f"nn.Embedding({draw.integer(1, 5)}, {draw.integer(1, 5)})({indices})"
    table = draw.array(draw.varied((draw.integer(1, 5), draw.integer(1, 5))))
    if draw.short == "embedding":
        return f"F.embedding({indices}, {table})"
    return f"nn.Embedding.from_pretrained({table})({indices})"


@cases("torch.nn.EmbeddingBag", "torch.nn.functional.embedding_bag", "torch.nn.EmbeddingBag.from_pretrained")
def _(draw: Draw) -> str:
    shape = draw.shape(1, 2) if draw.chance(0.85) else draw.shape(0, 3)
    arguments = _indices(shape)
    if (len(shape) == 1) == draw.chance(0.85):
        offsets = _indices((draw.integer(1, 3),) if draw.chance(0.85) else (1, 2))
        arguments += f", offsets={offsets}"
    if draw.short == "embedding_bag":
        first, _, rest = arguments.partition(", offsets")
        table = draw.array(draw.varied((draw.integer(1, 5), draw.integer(1, 5)), 0.1))
        return f"F.embedding_bag({first}, {table}{', offsets' + rest if rest else ''})"
    if draw.short == "from_pretrained":
        table = draw.array((draw.integer(1, 5), draw.integer(1, 5)))
        return f"nn.EmbeddingBag.from_pretrained({table}, mode='sum')({arguments})"
    weights = f", per_sample_weights={draw.array(draw.varied(shape, 0.2))}" if draw.chance(0.3) else ""
    return f"nn.EmbeddingBag({draw.integer(1, 5)}, {draw.integer(1, 5)}, mode='sum')({arguments}{weights})"
