"""Attention and transformers."""

from __future__ import annotations

from tests.shape_cases import Draw, cases


def _sequence(draw: Draw, batch: int | None, steps: int, width: int, first: bool) -> str:
    front = () if batch is None else (batch, steps) if first else (steps, batch)
    return draw.array((*(front or (steps,)), draw.integer(1, 6) if draw.chance(0.08) else width))


def _batch(draw: Draw) -> int | None:
    return draw.integer(1, 3) if draw.chance(0.8) else None


@cases("torch.nn.MultiheadAttention")
def _(draw: Draw) -> str:
    heads = draw.integer(1, 3)
    width = heads * draw.integer(1, 2) if draw.chance(0.9) else draw.integer(1, 6)
    first, batch = draw.chance(0.5), _batch(draw)
    steps, others = draw.integer(1, 4), draw.integer(1, 4)
    other_batch = draw.integer(1, 3) if batch is not None and draw.chance(0.1) else batch
    query = _sequence(draw, batch, steps, width, first)
    keys = [_sequence(draw, other_batch, draw.integer(1, 4) if draw.chance(0.08) else others, width, first) for _ in range(2)]
    options: list[str] = []
    if draw.chance(0.3):
        padding = ((batch,) if batch is not None else ()) + (others,)
        options.append(f"key_padding_mask=torch.zeros({draw.varied(padding, 0.2)}, dtype=torch.bool)")
    if draw.chance(0.3):
        rows = heads * (1 if batch is None else batch)
        mask = draw.pick([(steps, others), (rows, steps, others)])
        options.append(f"attn_mask={draw.array(draw.varied(mask, 0.2))}")
    if draw.chance(0.2):
        options.append("average_attn_weights=False")
    made = f"nn.MultiheadAttention({width}, {heads}, batch_first={first})"
    return f"{made}({', '.join([query, *keys, *options])})"


@cases("torch.nn.functional.scaled_dot_product_attention")
def _(draw: Draw) -> str:
    front = draw.shape(0, 2, 3)
    steps, others, width, values = (draw.integer(1, 4) for _ in range(4))
    query, key = draw.varied((*front, steps, width), 0.1), draw.varied((*front, others, width), 0.1)
    value = draw.varied((*front, others, values), 0.1)
    # Whether a mask of one axis is taken depends on the implementation.
    sizes = (draw.integer(1, 4) if draw.chance(0.3) else steps, others)
    mask = f", {draw.array(sizes)}" if draw.chance(0.3) else ""
    return f"F.scaled_dot_product_attention({draw.array(query)}, {draw.array(key)}, {draw.array(value)}{mask})"


@cases("torch.nn.TransformerEncoderLayer", "torch.nn.TransformerEncoder")
def _(draw: Draw) -> str:
    heads = draw.integer(1, 2)
    width = heads * draw.integer(1, 3) if draw.chance(0.9) else draw.integer(1, 6)
    first, batch, steps = draw.chance(0.5), _batch(draw), draw.integer(1, 4)
    layer = f"nn.TransformerEncoderLayer({width}, {heads}, dim_feedforward=4, batch_first={first})"
    if draw.short == "TransformerEncoder":
        layer = f"nn.TransformerEncoder({layer}, 1)"
    mask = f", {draw.array(draw.varied((steps, steps), 0.3))}" if draw.chance(0.3) else ""
    return f"{layer}({_sequence(draw, batch, steps, width, first)}{mask})"


@cases("torch.nn.TransformerDecoderLayer", "torch.nn.TransformerDecoder", "torch.nn.Transformer")
def _(draw: Draw) -> str:
    heads = draw.integer(1, 2)
    width = heads * draw.integer(1, 3)
    first, batch = draw.chance(0.5), _batch(draw)
    other_batch = draw.integer(1, 3) if batch is not None and draw.chance(0.15) else batch
    one = _sequence(draw, batch, draw.integer(1, 4), width, first)
    other = _sequence(draw, other_batch, draw.integer(1, 4), width, first)
    if draw.short == "Transformer":
        return f"nn.Transformer({width}, {heads}, 1, 1, 4, batch_first={first})({one}, {other})"
    layer = f"nn.TransformerDecoderLayer({width}, {heads}, dim_feedforward=4, batch_first={first})"
    return (
        f"nn.TransformerDecoder({layer}, 1)({one}, {other})" if draw.short == "TransformerDecoder" else f"{layer}({one}, {other})"
    )


@cases("torch.nn.Transformer.generate_square_subsequent_mask")
def _(draw: Draw) -> str:
    return f"nn.Transformer.generate_square_subsequent_mask({draw.integer(1, 5)})"
