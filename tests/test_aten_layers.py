"""ATen spellings of layers and reductions: each is exported, compared with torch, analysed, and sampled."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tensorproof.execute.torch_graph import TorchGraph
from tests.aten_cases import check_case

pytestmark = pytest.mark.area("aten layers")


def normal(*sizes: int) -> Tensor:
    """An example tensor, the same in every run."""
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(sum(sizes)))


Case = tuple[Callable[..., Any] | nn.Module, tuple[Any, ...]]

#: Axes of two tensors that are summed over together; torch's own annotation knows a number only.
PAIRS: Any = ([1, 0], [0, 2])

PRODUCTS: dict[str, Case] = {
    "mm": (torch.mm, (normal(2, 3), normal(3, 4))),
    "bmm": (torch.bmm, (normal(2, 2, 3), normal(2, 3, 4))),
    "matmul of a vector": (torch.matmul, (normal(2, 3), normal(3))),
    "matmul of a stack": (torch.matmul, (normal(2, 2, 3), normal(3, 4))),
    "mv": (torch.mv, (normal(2, 3), normal(3))),
    "dot": (torch.dot, (normal(3), normal(3))),
    "vdot": (torch.vdot, (normal(3), normal(3))),
    "inner": (torch.inner, (normal(2, 3), normal(4, 3))),
    "inner of a vector": (torch.inner, (normal(3), normal(4, 3))),
    "inner of a stack": (torch.inner, (normal(2, 3), normal(2, 4, 3))),
    "outer": (torch.outer, (normal(3), normal(4))),
    "multi_dot": (lambda a, b, c: torch.linalg.multi_dot([a, b, c]), (normal(2, 3), normal(3, 4), normal(4, 2))),
    "addmm": (lambda c, a, b: torch.addmm(c, a, b, alpha=2.0, beta=0.5), (normal(4), normal(2, 3), normal(3, 4))),
    "addmv": (lambda c, a, b: torch.addmv(c, a, b, alpha=2.0), (normal(2), normal(2, 3), normal(3))),
    "baddbmm": (lambda c, a, b: torch.baddbmm(c, a, b, beta=0.5), (normal(2, 2, 4), normal(2, 2, 3), normal(2, 3, 4))),
    "baddbmm without an addend": (lambda c, a, b: torch.baddbmm(c, a, b, beta=0), (normal(4), normal(2, 2, 3), normal(2, 3, 4))),
    "addbmm": (lambda c, a, b: torch.addbmm(c, a, b, alpha=3.0), (normal(2, 4), normal(2, 2, 3), normal(2, 3, 4))),
    "linear": (nn.Linear(4, 3), (normal(2, 4),)),
    "linear of a stack": (nn.Linear(4, 3, bias=False), (normal(2, 5, 4),)),
    "linear of a vector": (F.linear, (normal(2, 4), normal(4))),
    "einsum": (lambda a, b: torch.einsum("bij, bjk -> bik", a, b), (normal(2, 2, 3), normal(2, 3, 4))),
    "einsum with an ellipsis": (lambda a, b: torch.einsum("...i,ij", a, b), (normal(2, 2, 3), normal(3, 4))),
    "tensordot": (lambda a, b: torch.tensordot(a, b, dims=PAIRS), (normal(2, 3, 4), normal(3, 5, 2))),
    "bilinear": (nn.Bilinear(3, 4, 2), (normal(5, 3), normal(5, 4))),
}


NORMS: dict[str, Case] = {
    "vector_norm": (torch.linalg.vector_norm, (normal(3, 4),)),
    **{
        f"vector_norm of order {order}": (lambda x, p=order: torch.linalg.vector_norm(x, p, dim=1), (normal(3, 4),))
        for order in (0.0, 0.5, 1.0, 3.0, -1.5, math.inf, -math.inf)
    },
    "norm": (lambda x: torch.norm(x, dim=-1, keepdim=True), (normal(3, 4),)),
    "linalg.norm": (torch.linalg.norm, (normal(3, 4),)),
    "matrix_norm": (torch.linalg.matrix_norm, (normal(3, 4),)),
    "normalize": (F.normalize, (normal(3, 4),)),
    "dist": (lambda x, y: torch.dist(x, y, 3.0), (normal(3), normal(3) + 1)),
    "cosine_similarity": (F.cosine_similarity, (normal(3, 4), normal(3, 4) + 1)),
    "pairwise_distance": (lambda x, y: F.pairwise_distance(x, y, keepdim=True), (normal(3, 4), normal(3, 4) + 1)),
    "cdist": (torch.cdist, (normal(3, 4), normal(2, 4))),
    "cdist of order 1": (lambda x, y: torch.cdist(x, y, p=1.0), (normal(2, 3, 4), normal(2, 2, 4))),
    "cdist of many rows": (torch.cdist, (normal(26, 4), normal(2, 4))),
    "pdist": (F.pdist, (normal(4, 3),)),
    "weight_norm": (nn.utils.parametrizations.weight_norm(nn.Linear(3, 4)), (normal(2, 3),)),
}

REDUCTIONS: dict[str, Case] = {
    "sum": (torch.sum, (normal(2, 3),)),
    "sum along an axis": (lambda x: x.sum(-1, keepdim=True), (normal(2, 3),)),
    "sum of truth values": (lambda x: (x > 0).sum(1), (normal(2, 3),)),
    "sum in float64": (lambda x: x.sum(0, dtype=torch.float64), (normal(2, 3),)),
    "sum of a number": (lambda x: x.sum(-1), (torch.tensor(2.0),)),
    "mean": (torch.mean, (normal(2, 3),)),
    "mean along axes": (lambda x: x.mean((0, 2), keepdim=True), (normal(2, 3, 2),)),
    "mean of integers": (lambda x: x.mean(1, dtype=torch.float32), (torch.arange(6).reshape(2, 3),)),
    "prod": (torch.prod, (normal(2, 3),)),
    "prod along an axis": (lambda x: x.prod(1), (normal(2, 3),)),
    "prod of integers": (lambda x: x.prod(1, keepdim=True), (torch.arange(6).reshape(2, 3),)),
    "amax": (lambda x: x.amax((0, 1)), (normal(2, 3),)),
    "amin": (lambda x: x.amin(1, keepdim=True), (normal(2, 3),)),
    "max": (torch.max, (normal(2, 3),)),
    "min": (torch.min, (normal(2, 3),)),
    "max along an axis": (lambda x: tuple(x.max(1)), (normal(2, 3),)),
    "min along an axis": (lambda x: tuple(x.min(-1, keepdim=True)), (normal(2, 3),)),
    "aminmax": (lambda x: tuple(torch.aminmax(x, dim=1)), (normal(2, 3),)),
    "aminmax of all": (lambda x: tuple(torch.aminmax(x)), (normal(2, 3),)),
    "argmax": (torch.argmax, (normal(2, 3),)),
    "argmax of all, axes kept": (lambda x: x.argmax(keepdim=True), (normal(2, 3),)),
    "argmin along an axis": (lambda x: x.argmin(1, keepdim=True), (normal(2, 3),)),
    "any": (torch.any, (normal(2, 3),)),
    "any along an axis": (lambda x: (x > 1).any(1), (normal(2, 3),)),
    "all": (lambda x: (x > -5).all(), (normal(2, 3),)),
    "all along axes": (lambda x: torch.all(x > 0, dim=(0, 1), keepdim=True), (normal(2, 3, 2),)),
    "logsumexp": (lambda x: torch.logsumexp(x, (0, 1)), (normal(2, 3),)),
    "count_nonzero": (torch.count_nonzero, (normal(2, 3),)),
    "count_nonzero along an axis": (lambda x: torch.count_nonzero(x, dim=1), (normal(2, 3),)),
    "nansum": (lambda x: torch.nansum(x, dim=1), (normal(2, 3),)),
    "nanmean": (torch.nanmean, (normal(2, 3),)),
    "cumsum": (lambda x: x.cumsum(1), (normal(2, 3),)),
    "cumsum of integers": (lambda x: x.cumsum(0), (torch.arange(6, dtype=torch.int32).reshape(2, 3),)),
    "cumprod": (lambda x: x.cumprod(-1), (normal(2, 3),)),
    "var": (torch.var, (normal(2, 3),)),
    "var without correction": (lambda x: x.var(1, unbiased=False), (normal(2, 3),)),
    "var of one cell": (lambda x: x.exp().var((0, 2), keepdim=True), (normal(2, 3, 4),)),
    "std": (torch.std, (normal(2, 3),)),
    "std with another correction": (lambda x: x.std(1, correction=2, keepdim=True), (normal(2, 5),)),
    "var_mean": (lambda x: tuple(torch.var_mean(x, 1)), (normal(2, 3),)),
    "std_mean": (lambda x: tuple(torch.std_mean(x, 1, correction=0)), (normal(2, 3),)),
}


CONVOLUTIONS: dict[str, Case] = {
    "conv1d": (nn.Conv1d(2, 3, 3, padding=1), (normal(1, 2, 5),)),
    "conv2d": (nn.Conv2d(2, 4, (3, 2), stride=2, padding=(1, 0), dilation=(1, 2), groups=2), (normal(2, 2, 6, 7),)),
    "conv2d of the same size": (nn.Conv2d(2, 3, (2, 3), padding="same", dilation=(1, 2)), (normal(1, 2, 5, 5),)),
    "conv2d without padding": (nn.Conv2d(2, 3, 3, padding="valid"), (normal(1, 2, 5, 5),)),
    "conv2d of one sample": (nn.Conv2d(2, 3, 3, bias=False), (normal(2, 5, 5),)),
    "conv3d": (nn.Conv3d(1, 2, 2), (normal(1, 1, 3, 3, 3),)),
    "conv_transpose1d": (nn.ConvTranspose1d(2, 3, 3, dilation=2), (normal(1, 2, 3),)),
    "conv_transpose2d": (nn.ConvTranspose2d(2, 4, 3, 2, 1, output_padding=1, groups=2), (normal(1, 2, 3, 3),)),
    "conv_transpose3d": (nn.ConvTranspose3d(1, 2, 2), (normal(1, 2, 2, 2),)),
    "convolution": (lambda x, w: torch.convolution(x, w, None, [1], [2], [1], False, [0], 1), (normal(1, 2, 4), normal(3, 2, 3))),
    "fold": (nn.Fold((4, 4), (2, 2)), (normal(1, 8, 9),)),
    "fold of one sample": (nn.Fold((5, 4), (2, 2), padding=1, stride=2), (normal(8, 9),)),
}

POOLS: dict[str, Case] = {
    "max_pool1d": (nn.MaxPool1d(2), (normal(1, 2, 6),)),
    "max_pool2d": (nn.MaxPool2d(3, 2, 1, ceil_mode=True), (normal(1, 2, 6, 6),)),
    "max_pool2d, dilated, of one sample": (nn.MaxPool2d((2, 3), 1, dilation=2), (normal(2, 6, 6),)),
    "max_pool2d with indices": (nn.MaxPool2d(2, return_indices=True), (normal(2, 2, 6, 6),)),
    "max_pool3d": (nn.MaxPool3d(2), (normal(1, 1, 4, 4, 4),)),
    "avg_pool1d": (nn.AvgPool1d(3, padding=1), (normal(1, 2, 6),)),
    "avg_pool2d without padding": (nn.AvgPool2d(3, 2, 1, count_include_pad=False, ceil_mode=True), (normal(1, 2, 6, 6),)),
    "avg_pool2d with padding": (nn.AvgPool2d(3, 2, 1, ceil_mode=True), (normal(1, 2, 6, 6),)),
    "avg_pool2d with a divisor": (nn.AvgPool2d(3, 2, 1, divisor_override=5), (normal(1, 2, 6, 6),)),
    "avg_pool3d": (nn.AvgPool3d(2), (normal(1, 4, 4, 4),)),
    "adaptive_avg_pool1d": (nn.AdaptiveAvgPool1d(3), (normal(1, 2, 7),)),
    "adaptive_avg_pool2d to a point": (nn.AdaptiveAvgPool2d(1), (normal(1, 2, 6, 6),)),
    "adaptive_avg_pool2d": (nn.AdaptiveAvgPool2d((3, None)), (normal(1, 2, 6, 6),)),
    "adaptive_avg_pool2d, shared": (nn.AdaptiveAvgPool2d((4, 3)), (normal(2, 6, 7),)),
    "adaptive_avg_pool3d": (nn.AdaptiveAvgPool3d(2), (normal(1, 1, 4, 4, 4),)),
    "adaptive_max_pool1d": (nn.AdaptiveMaxPool1d(2), (normal(1, 2, 6),)),
    "adaptive_max_pool2d": (nn.AdaptiveMaxPool2d(2, return_indices=True), (normal(1, 2, 6, 6),)),
    "adaptive_max_pool2d, shared": (nn.AdaptiveMaxPool2d((4, 3)), (normal(1, 2, 6, 7),)),
}


def scaled(module: nn.Module) -> nn.Module:
    """A module whose parameters and running statistics are not those that it begins with."""
    generator = torch.Generator().manual_seed(7)
    for tensor in (*module.parameters(), *(buffer for buffer in module.buffers() if buffer.is_floating_point())):
        tensor.data.uniform_(0.5, 2.0, generator=generator)
    return module


NORMALISATIONS: dict[str, Case] = {
    "layer_norm": (scaled(nn.LayerNorm(4)), (normal(2, 4),)),
    "layer_norm over two axes": (scaled(nn.LayerNorm([3, 4], bias=False)), (normal(2, 3, 4),)),
    "layer_norm without parameters": (nn.LayerNorm(4, elementwise_affine=False, eps=1e-3), (normal(2, 3, 4),)),
    "native_layer_norm": (lambda x: torch.native_layer_norm(x, [4], None, None, 1e-5), (normal(2, 4),)),
    "group_norm": (scaled(nn.GroupNorm(2, 4)), (normal(2, 4, 3),)),
    "group_norm without parameters": (nn.GroupNorm(2, 4, affine=False), (normal(2, 4, 3, 3),)),
    "instance_norm": (scaled(nn.InstanceNorm2d(3, affine=True)), (normal(2, 3, 4, 4),)),
    "instance_norm by running statistics": (scaled(nn.InstanceNorm1d(3, track_running_stats=True)).eval(), (normal(2, 3, 4),)),
    "batch_norm": (scaled(nn.BatchNorm2d(3)).eval(), (normal(2, 3, 4, 4),)),
    "batch_norm in training": (scaled(nn.BatchNorm2d(3)), (normal(2, 3, 4, 4),)),
    "batch_norm of vectors in training": (scaled(nn.BatchNorm1d(3, affine=False)), (normal(4, 3),)),
    "batch_norm without running statistics": (scaled(nn.BatchNorm1d(3, track_running_stats=False)).eval(), (normal(4, 3, 2),)),
    "rms_norm": (scaled(nn.RMSNorm(4)), (normal(2, 4),)),
    "rms_norm over two axes": (nn.RMSNorm([3, 4], eps=1e-6, elementwise_affine=False), (normal(2, 3, 4),)),
    "local_response_norm": (nn.LocalResponseNorm(3), (normal(2, 5, 4, 4),)),
}


class WithStates(nn.Module):
    """A recurrent layer whose two states are inputs of their own."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor, hidden: Tensor, memory: Tensor) -> Any:
        return self.layer(x, (hidden, memory))


class _Renormed(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.renorm(x, 2, 0, 1.0)


RECURRENT: dict[str, Case] = {
    "lstm": (nn.LSTM(3, 4, num_layers=2, batch_first=True, bidirectional=True), (normal(2, 5, 3),)),
    "lstm with states": (WithStates(nn.LSTM(3, 4, 2, bias=False)), (normal(5, 2, 3), normal(2, 2, 4), normal(2, 2, 4) + 1)),
    "lstm of one sample": (nn.LSTM(3, 4), (normal(5, 3),)),
    "gru": (nn.GRU(3, 4, bidirectional=True), (normal(5, 2, 3), normal(2, 2, 4))),
    "rnn with tanh": (nn.RNN(3, 4, num_layers=2, batch_first=True), (normal(2, 5, 3),)),
    "rnn with relu": (nn.RNN(3, 4, nonlinearity="relu"), (normal(5, 2, 3),)),
    "lstm_cell": (WithStates(nn.LSTMCell(3, 4)), (normal(2, 3), normal(2, 4), normal(2, 4) + 1)),
    "gru_cell": (nn.GRUCell(3, 4), (normal(2, 3), normal(2, 4))),
    "rnn_cell": (nn.RNNCell(3, 4, bias=False, nonlinearity="relu"), (normal(2, 3), normal(2, 4))),
}

QUERIES = normal(2, 4, 3, 5), normal(2, 4, 6, 5) + 1, normal(2, 4, 6, 5)

ATTENTION: dict[str, Case] = {
    "attention": (F.scaled_dot_product_attention, QUERIES),
    "causal attention": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3), QUERIES),
    "attention without heads": (F.scaled_dot_product_attention, (normal(2, 3, 5), normal(2, 6, 5), normal(2, 6, 5))),
    "attention without a batch": (F.scaled_dot_product_attention, (normal(3, 5), normal(6, 5), normal(6, 4))),
    "attention with a bias": (F.scaled_dot_product_attention, (*QUERIES, normal(3, 6))),
    "attention with a bias for each head": (F.scaled_dot_product_attention, (*QUERIES, normal(4, 3, 6))),
    "attention with a mask": (F.scaled_dot_product_attention, (*QUERIES, normal(2, 1, 3, 6) > 0)),
    "attention without heads, with a mask": (
        F.scaled_dot_product_attention,
        (normal(2, 3, 5), normal(2, 6, 5), normal(2, 6, 5), normal(2, 3, 6) > 0),
    ),
    "attention of groups": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
        (normal(2, 4, 3, 5), normal(2, 2, 6, 5), normal(2, 2, 6, 5)),
    ),
    "multi-head attention": (nn.MultiheadAttention(4, 2, batch_first=True), (normal(2, 3, 4),) * 3),
    "transformer layer": (nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True), (normal(2, 3, 4),)),
}


ORDER: dict[str, Case] = {
    "sort": (lambda x: tuple(torch.sort(x, 1)), (normal(2, 5),)),
    "sort, stable": (lambda x: tuple(torch.sort(x, stable=True, dim=0, descending=True)), (normal(4, 3),)),
    "argsort": (lambda x: torch.argsort(x, 1, descending=True), (normal(2, 5),)),
    "msort": (torch.msort, (normal(4, 3),)),
    "topk": (lambda x: tuple(torch.topk(x, 2)), (normal(2, 5),)),
    "topk of the smallest": (lambda x: tuple(torch.topk(x, 2, dim=0, largest=False)), (normal(4, 3),)),
    "kthvalue": (lambda x: tuple(torch.kthvalue(x, 2, keepdim=True)), (normal(2, 5),)),
    "median": (torch.median, (normal(2, 3),)),
    "median of integers": (torch.median, (torch.arange(6).reshape(2, 3),)),
    "median along an axis": (lambda x: tuple(x.median(0)), (normal(4, 3),)),
    "nanmedian": (lambda x: tuple(x.nanmedian(1)), (normal(2, 5),)),
    "quantile": (lambda x: torch.quantile(x, 0.3, dim=1), (normal(2, 5),)),
    "quantile of all": (lambda x: torch.quantile(x, 0.9, keepdim=True), (normal(2, 5),)),
    "quantiles": (lambda x: torch.quantile(x.exp(), torch.tensor([0.0, 0.25, 1.0], dtype=x.dtype), dim=0), (normal(4, 3),)),
    **{
        f"quantile, {name}": (lambda x, name=name: torch.quantile(x, 0.5, dim=1, interpolation=name), (normal(2, 6),))
        for name in ("lower", "higher", "nearest", "midpoint")
    },
    "cummax": (lambda x: tuple(x.cummax(1)), (normal(2, 5),)),
    "cummin": (lambda x: tuple(x.cummin(0)), (normal(4, 3),)),
    "logcumsumexp": (lambda x: x.logcumsumexp(1), (normal(2, 5),)),
    "diff": (torch.diff, (normal(2, 5),)),
    "det": (torch.det, (normal(3, 3),)),
}

IMAGES: dict[str, Case] = {
    "upsample_nearest": (lambda x: F.interpolate(x, scale_factor=2), (normal(1, 2, 3, 3),)),
    "upsample_nearest by a fraction": (lambda x: F.interpolate(x, scale_factor=1.7), (normal(1, 2, 5),)),
    "upsample_nearest to a size": (lambda x: F.interpolate(x, size=(4, 5)), (normal(1, 2, 3, 3),)),
    "upsample_nearest_exact": (lambda x: F.interpolate(x, size=(4, 2), mode="nearest-exact"), (normal(1, 2, 3, 3),)),
    "upsample_linear": (lambda x: F.interpolate(x, scale_factor=2, mode="linear"), (normal(1, 2, 3),)),
    "upsample_bilinear": (lambda x: F.interpolate(x, scale_factor=(1.5, 0.6), mode="bilinear"), (normal(1, 2, 4, 5),)),
    "upsample_bilinear with aligned corners": (
        lambda x: F.interpolate(x, size=(5, 5), mode="bilinear", align_corners=True),
        (normal(1, 2, 3, 3),),
    ),
    "upsample_bilinear, smooth": (lambda x: F.interpolate(x, size=(2, 3), mode="bilinear", antialias=True), (normal(1, 2, 5, 5),)),
    "upsample_bicubic": (lambda x: F.interpolate(x, size=(5, 5), mode="bicubic"), (normal(1, 2, 3, 3),)),
    "upsample_bicubic, smooth": (lambda x: F.interpolate(x, size=(2, 3), mode="bicubic", antialias=True), (normal(1, 2, 5, 5),)),
    "upsample_trilinear": (lambda x: F.interpolate(x, scale_factor=2, mode="trilinear"), (normal(1, 1, 2, 2, 2),)),
    "interpolate by area": (lambda x: F.interpolate(x, size=(2, 2), mode="area"), (normal(1, 2, 5, 4),)),
    "grid_sample": (lambda x, g: F.grid_sample(x, g, align_corners=False), (normal(1, 2, 3, 3), normal(1, 2, 2, 2))),
    "grid_sample of the nearest": (
        lambda x, g: F.grid_sample(x, g, "nearest", "border", align_corners=True),
        (normal(1, 2, 3, 3), normal(1, 2, 2, 2)),
    ),
    "affine_grid": (lambda t: F.affine_grid(t, [1, 2, 3, 3], align_corners=False), (normal(1, 2, 3),)),
    "pixel_shuffle": (nn.PixelShuffle(2), (normal(1, 4, 3, 3),)),
    "pixel_unshuffle": (nn.PixelUnshuffle(2), (normal(1, 1, 4, 4),)),
    "channel_shuffle": (nn.ChannelShuffle(2), (normal(1, 4, 2, 2),)),
}


TABLE = normal(5, 3)
INDICES = torch.tensor([0, 3, 1, 4, 2, 2])

BAGS: dict[str, Case] = {
    **{f"embedding_bag, {mode}": (nn.EmbeddingBag(5, 3, mode=mode), (INDICES.reshape(2, 3),)) for mode in ("sum", "mean", "max")},
    "embedding_bag with offsets": (
        lambda i: F.embedding_bag(i, TABLE, torch.tensor([0, 2, 2]), mode="mean", padding_idx=2),
        (INDICES,),
    ),
    "embedding_bag with weights": (
        lambda i, w, t: F.embedding_bag(i, t, mode="sum", per_sample_weights=w),
        (INDICES.reshape(2, 3), normal(2, 3), normal(5, 3)),
    ),
}


def cases(*tables: dict[str, Case]) -> list[Any]:
    return [pytest.param(*case, id=name) for table in tables for name, case in table.items()]


@pytest.mark.parametrize(
    ("subject", "arguments"),
    cases(PRODUCTS, NORMS, REDUCTIONS, CONVOLUTIONS, POOLS, NORMALISATIONS, RECURRENT, ATTENTION, ORDER, IMAGES, BAGS),
)
def test_a_spelling_means_and_is_bounded_as_torch_computes_it(subject: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    check_case(subject, *arguments)


RANDOM: dict[str, Case] = {
    "dropout": (nn.Dropout(0.3), (normal(2, 3),)),
    "feature_dropout": (nn.Dropout2d(0.3), (normal(2, 3, 4, 4),)),
    "alpha_dropout": (nn.AlphaDropout(0.3), (normal(2, 3),)),
    "feature_alpha_dropout": (nn.FeatureAlphaDropout(0.3), (normal(2, 3, 4),)),
    "lstm with dropout": (nn.LSTM(3, 4, 2, dropout=0.5), (normal(5, 2, 3),)),
    "attention with dropout": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, dropout_p=0.2), QUERIES),
    "attention of groups with dropout": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, dropout_p=0.2, is_causal=True, enable_gqa=True),
        (normal(2, 4, 3, 5), normal(2, 2, 6, 5), normal(2, 2, 6, 5)),
    ),
    "transformer layer in training": (nn.TransformerEncoderLayer(4, 2, 8, dropout=0.1, batch_first=True), (normal(2, 3, 4),)),
}


@pytest.mark.parametrize(("subject", "arguments"), cases(RANDOM))
def test_what_is_drawn_at_random_is_bounded(subject: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    case = check_case(subject, *arguments, is_random=True)
    model = case.exported.model
    feeds = {number: example.double() for number, example in zip(model.graph.inputs, arguments)}
    ours = TorchGraph(model).run(feeds, model.graph.outputs)
    for number, bounds in zip(model.graph.outputs, case.outputs):
        assert bounds.low <= float(ours[number].min()) and float(ours[number].max()) <= bounds.high


#: What is taken apart by torch into operators that are spelled.
TAKEN_APART: dict[str, Case] = {
    "kron": (torch.kron, (normal(2, 2), normal(2, 2))),
    "renorm": (lambda x: torch.renorm(x, 2, 0, 1.0), (normal(2, 3),)),
    "addr": (torch.addr, (normal(3, 4), normal(3), normal(4))),
    "trace": (torch.trace, (normal(3, 3),)),
    "trapezoid": (torch.trapezoid, (normal(2, 3),)),
    "nanquantile": (lambda x: torch.nanquantile(x, 0.3, dim=1), (normal(2, 5),)),
    "cross": (torch.linalg.cross, (normal(2, 3), normal(2, 3) + 1)),
    "lp_pool2d": (nn.LPPool2d(2, 2), (normal(1, 2, 4, 4),)),
    "unfold": (nn.Unfold(2), (normal(1, 2, 4, 4),)),
    "max_unpool2d": (lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), [2, 2]), (normal(1, 2, 4, 4),)),
    "conv2d with reflection": (nn.Conv2d(2, 3, 3, padding=1, padding_mode="reflect"), (normal(1, 2, 5, 5),)),
    "conv2d in a circle": (nn.Conv2d(2, 3, 3, padding=1, padding_mode="circular"), (normal(1, 2, 5, 5),)),
    "spectral_norm": (nn.utils.parametrizations.spectral_norm(nn.Linear(3, 4)), (normal(2, 3),)),
    "batch_norm in training, renormed": (
        nn.Sequential(nn.BatchNorm2d(3), nn.Flatten(), _Renormed()),
        (normal(2, 3, 4, 4),),
    ),
}


@pytest.mark.parametrize(("subject", "arguments"), cases(TAKEN_APART))
def test_what_torch_takes_apart_is_analysed(subject: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    check_case(subject, *arguments)


@pytest.mark.parametrize(
    ("subject", "arguments", "reason"),
    [
        pytest.param(torch.inverse, (normal(3, 3),), "inverse", id="inverse"),
        pytest.param(torch.linalg.solve, (normal(3, 3), normal(3, 2)), "linalg_solve", id="solve"),
        pytest.param(lambda x: torch.linalg.svdvals(x), (normal(3, 3),), "linalg_svdvals", id="svdvals"),
        pytest.param(lambda x: torch.fft.rfft(x).abs(), (normal(2, 4),), "_fft_r2c", id="fft"),
        pytest.param(nn.LSTM(3, 4, proj_size=2), (normal(5, 2, 3),), "projection", id="lstm with a projection"),
    ],
)
def test_what_is_not_analysed_says_so(subject: Callable[..., Any], arguments: tuple[Any, ...], reason: str) -> None:
    with pytest.raises(AssertionError, match=f"not spelled: .*{reason}"):
        check_case(subject, *arguments)


# -- bounds that are no accident --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("subject", "sizes", "low", "high"),
    [
        pytest.param(nn.LayerNorm(16), (2, 16), -4.0, 4.0, id="layer_norm"),
        pytest.param(nn.GroupNorm(1, 16), (2, 16), -4.0, 4.0, id="group_norm"),
        pytest.param(nn.InstanceNorm1d(2), (2, 2, 16), -4.0, 4.0, id="instance_norm"),
        pytest.param(nn.BatchNorm1d(4), (16, 4), -4.0, 4.0, id="batch_norm in training"),
        pytest.param(nn.RMSNorm(16), (2, 16), -4.01, 4.01, id="rms_norm"),
        pytest.param(lambda x: x.var(1), (2, 16), 0.0, 9.61, id="var"),
        pytest.param(lambda x: x.std(1, correction=0), (2, 16), 0.0, 3.01, id="std"),
        pytest.param(lambda x: torch.linalg.vector_norm(x, 3.0, dim=1), (2, 8), 0.0, 6.01, id="vector_norm"),
        pytest.param(lambda x: torch.quantile(x, 0.4, dim=1), (2, 8), -3.01, 3.01, id="quantile"),
        pytest.param(lambda x: F.cosine_similarity(x, x.flip(0)), (2, 8), -1.01, 1.01, id="cosine_similarity"),
        pytest.param(lambda x: F.scaled_dot_product_attention(x, x, x), (2, 8, 4), -3.01, 3.01, id="attention"),
        pytest.param(lambda x: F.interpolate(x, scale_factor=2, mode="linear"), (1, 2, 4), -3.01, 3.01, id="upsample_linear"),
        pytest.param(nn.AdaptiveAvgPool1d(3), (1, 2, 7), -3.01, 3.01, id="adaptive_avg_pool"),
        pytest.param(lambda x: x.logcumsumexp(1), (2, 8), -3.0, 5.09, id="logcumsumexp"),
    ],
)
def test_bounds_are_those_of_the_operator(subject: Callable[..., Any], sizes: tuple[int, ...], low: float, high: float) -> None:
    """Of elements in [-3, 3]."""
    case = check_case(subject, normal(*sizes))
    assert low <= case.outputs[0].low and case.outputs[0].high <= high
    assert not case.analysis.findings


#: Boxes far from zero, around it, of one point, of numbers whose squares underflow, and of ones whose squares overflow.
BOXES = ((1e4, 1e4 + 1), (-3.0, 1e-3), (5.0, 5.0), (0.0, 0.0), (-1e-30, 1e-22), (-1e-40, 1e-40), (-1e25, 1e25))

STATISTICS: dict[str, Callable[..., Any] | nn.Module] = {
    "var": lambda x: x.var(1),
    "std": lambda x: x.std(1, correction=0),
    "vector_norm of order 3": lambda x: torch.linalg.vector_norm(x, 3.0, dim=1),
    "vector_norm of order -1.5": lambda x: torch.linalg.vector_norm(x, -1.5, dim=1),
    "cosine_similarity": lambda x: F.cosine_similarity(x, x.flip(0)),
    "logcumsumexp": lambda x: x.logcumsumexp(1),
    "cummax": lambda x: x.cummax(1).values,
    "cummin": lambda x: x.cummin(1).values,
    "quantile": lambda x: torch.quantile(x, 0.3, dim=1),
    "layer_norm": nn.LayerNorm(6),
    "group_norm": nn.GroupNorm(2, 6),
    "instance_norm": nn.Sequential(nn.Unflatten(1, (2, 3)), nn.InstanceNorm1d(2)),
    "batch_norm in training": nn.BatchNorm1d(6),
}


@pytest.mark.parametrize("box", BOXES, ids=str)
@pytest.mark.parametrize("subject", STATISTICS.values(), ids=list(STATISTICS))
def test_statistics_are_bounded_in_boxes_of_all_sizes(subject: Callable[..., Any], box: tuple[float, float]) -> None:
    check_case(subject, normal(4, 6), ranges={0: box}, is_random=True)


@pytest.mark.parametrize("size", [5, 64, 768])
@pytest.mark.parametrize("layer", [nn.LayerNorm, lambda size: nn.GroupNorm(1, size)])
def test_a_row_of_almost_equal_elements_may_lose_its_variance(layer: Callable[[int], nn.Module], size: int) -> None:
    """PyTorch updates mean and variance element by element: with 768 elements around 1e8 it reaches 90 times sqrt(n)."""
    case = check_case(layer(size), normal(4, size) + 1e3, ranges={0: (1e8 - 3, 1e8 + 3)})
    module, (bounds,) = layer(size), case.outputs
    for seed in range(4):
        rows = torch.randn(200, size, generator=torch.Generator().manual_seed(seed)).clamp(-3, 3) + 1e8
        with torch.no_grad():
            results = module(rows)
        assert bounds.low <= float(results.min()) and float(results.max()) <= bounds.high


@pytest.mark.parametrize(
    ("subject", "arguments", "box", "rule"),
    [
        pytest.param(lambda x: x.var(1), (normal(3, 1),), 3.0, "NUM110", id="variance of one element"),
        pytest.param(lambda x: x.std(0, correction=2), (normal(2, 3),), 3.0, "NUM110", id="deviation without degrees of freedom"),
        pytest.param(nn.LayerNorm(4, eps=0.0), (normal(2, 4),), 3.0, "NUM110", id="layer_norm without epsilon"),
        pytest.param(lambda x: x.var(1), (normal(3, 4),), 1e20, "NUM203", id="variance beyond float32"),
        pytest.param(lambda x: torch.linalg.vector_norm(x), (normal(3, 4),), 1e20, "NUM203", id="norm beyond float32"),
        pytest.param(lambda x: torch.linalg.vector_norm(x, 3.0), (normal(3, 4),), 1e15, "NUM203", id="norm of order 3"),
        pytest.param(lambda x: torch.quantile(x, 0.3), (normal(5),), 3e38, "NUM202", id="quantile of distant neighbours"),
    ],
)
def test_what_fails_is_found(
    subject: Callable[..., Any], arguments: tuple[Any, ...], box: float, rule: str, recwarn: pytest.WarningsRecorder
) -> None:
    case = check_case(subject, *arguments, ranges={0: (-box, box)}, is_random=True)
    assert rule in case.rules
    del recwarn


def test_a_standard_deviation_is_finite_where_its_square_is_not() -> None:
    """PyTorch takes both in float64 and rounds at the end."""
    case = check_case(lambda x: x.std(1), normal(3, 4), ranges={0: (-1e30, 1e30)}, is_random=True)
    assert not case.rules


def test_attention_of_a_row_that_is_masked_entirely_is_zero() -> None:
    mask = torch.tensor([[True, False], [False, False]])
    case = check_case(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, mask), *(normal(1, 2, 3) + i for i in range(3)))
    assert not case.rules
