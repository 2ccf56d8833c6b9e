"""Attention with masks: rows without a key, masks that the format cannot hold, and sums of masks and scores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.operator_cases.pairs import Family, Program, onnx_file

if TYPE_CHECKING:
    import onnx

ATTENTION = Family("masked attention")

MASK = {"values": [0, 1]}


@ATTENTION.program("NUM108", "Softmax", q=(-3, 3), k=(-3, 3), v=(-1, 1), mask=MASK)
def masked_whole(fixed: bool) -> Program:
    """Masked scores are minus infinity: a sentence of padding alone has no key, and its softmax is NaN."""
    import torch

    def attended(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        scores = q @ k.transpose(-2, -1) / 8**0.5
        hidden = torch.finfo(scores.dtype).min if fixed else -torch.inf
        scores = scores.masked_fill(mask[:, None, :] == 0, hidden)
        return torch.softmax(scores, dim=-1) @ v  # defect

    tensors = {name: torch.rand(2, 4, 8) for name in "qkv"}
    return Program(attended, {**tensors, "mask": torch.ones(2, 4)})


@ATTENTION.program("NUM108", "Softmax", scores=(-5, 5), padding=MASK)
def causal_and_padded(fixed: bool) -> Program:
    """Sentences are padded on the left and the mask is causal: the first rows see padding alone, unless each sees itself."""
    import torch

    def weights(scores: torch.Tensor, padding: torch.Tensor) -> torch.Tensor:
        seen = torch.ones(4, 4, dtype=torch.bool).tril() & (padding[:, None, :] > 0)
        if fixed:
            seen = seen | torch.eye(4, dtype=torch.bool)
        return torch.softmax(torch.where(seen, scores, -torch.inf), dim=-1)  # defect

    return Program(weights, {"scores": torch.rand(2, 4, 4), "padding": torch.ones(2, 4)})


@ATTENTION.program("NUM204", "Cast", precision="float16", scores=(-10, 10), mask=MASK)
def billion_in_half(fixed: bool) -> Program:
    """A mask of -1e9, added to scores in float16: minus infinity there."""
    import torch

    def weights(scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        bias = (1 - mask) * (-1e4 if fixed else -1e9)  # defect
        return torch.softmax(scores + bias, dim=-1)

    return Program(weights, {"scores": torch.rand(2, 6), "mask": torch.ones(2, 6)})


@ATTENTION.program("NUM202", "Add", precision="float16", scores=(-40, 40), mask=MASK)
def smallest_number_plus_score(fixed: bool) -> Program:
    """The smallest number of float16 is added to scores: with one below -16 the sum is minus infinity."""
    import torch

    def weights(scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        lowest = torch.finfo(torch.float16).min
        masked = torch.where(mask > 0, scores, lowest) if fixed else scores + (1 - mask) * lowest  # defect
        return torch.softmax(masked, dim=-1)

    return Program(weights, {"scores": torch.rand(2, 6), "mask": torch.ones(2, 6)})


@ATTENTION.program("NUM101", "Log", scores=(-5, 5), gate=(0, 1))
def logarithm_of_gate(fixed: bool) -> Program:
    """A gate between 0 and 1 enters the scores as its logarithm; where all gates are shut, nothing is left."""
    import torch

    def weights(scores: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
        if fixed:
            gate = gate.clamp(min=1e-6)
        biased = scores + torch.log(gate)  # defect
        return torch.softmax(biased, dim=-1)

    return Program(weights, {"scores": torch.rand(2, 5), "gate": torch.rand(2, 5)})


@ATTENTION.program("NUM103", "Div", q=(-30, 0), k=(-30, 0), v=(-1, 1))
def linear_attention(fixed: bool) -> Program:
    """Linear attention with features elu(x) + 1, which round to 0 below -17: nothing is attended to."""
    import torch
    from torch.nn.functional import elu

    def attended(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        least = 1e-3 if fixed else 0.0
        queries, keys = elu(q) + 1 + least, elu(k) + 1 + least
        mixed = queries @ (keys.transpose(-2, -1) @ v)
        return mixed / (queries @ keys.sum(-2, keepdim=True).transpose(-2, -1))  # defect

    return Program(attended, {name: torch.rand(2, 3, 4) for name in "qkv"})


@ATTENTION.file("NUM108", "Softmax", "weights", scores=(-5, 5), mask=(0, 1))
def masked_file(fixed: bool) -> onnx.ModelProto:
    """A file that hides keys with Where and minus infinity."""
    hidden = "value_float=-1e9" if fixed else "value = float {-inf}"
    return onnx_file(
        "(float[2,4] scores, bool[2,4] mask) => (float[2,4] weights)",
        f"hidden = Constant<{hidden}>()\nmasked = Where(mask, scores, hidden)\nweights = Softmax<axis=-1>(masked)",
    )
