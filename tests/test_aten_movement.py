"""Spellings of ATen operators that move, pick, write and make elements, and of torch's control flow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.aten_cases import check_case

pytestmark = pytest.mark.area("aten movement")

Case = tuple[Callable[..., Any], tuple[Any, ...]]


def _numbers(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)))


X = _numbers(2, 3, 4)
M = _numbers(3, 4)
V = _numbers(5)
IMAGE = _numbers(1, 2, 5, 4)
SQUARE = _numbers(4, 4)
INDEX = torch.tensor([2, 0, 1])
PLACES = torch.tensor([[0, 2, 1], [1, 1, 0]])
MASK = torch.tensor([[True, False, True, False], [False, True, True, False], [True, True, False, False]])


def _filled(x: Tensor, change: Callable[[Tensor], Any]) -> Tensor:
    """A copy of a tensor that is changed in place."""
    y = x.clone()
    change(y)
    return y


SHAPES: dict[str, Case] = {
    "view": (lambda x: x.view(6, 4), (X,)),
    "view of the rest": (lambda x: x.view(-1, 2), (X,)),
    "reshape after a transposition": (lambda x: x.transpose(1, 2).reshape(2, 12), (X,)),
    "flatten": (lambda x: (x.flatten(1), x.flatten(), torch.ravel(x)), (X,)),
    "flatten a number": (lambda x: x.sum().flatten(), (X,)),
    "unflatten": (lambda x: x.unflatten(-1, (2, -1)), (X,)),
    "view_as": (lambda x, y: (x.view_as(y), x.reshape_as(y)), (X, _numbers(4, 6))),
    "squeeze": (lambda x: (x[:1].squeeze(), x[:1].squeeze(0), x.squeeze(0), x[:1, :1].squeeze((0, 1))), (X,)),
    "unsqueeze": (lambda x: (x.unsqueeze(0), x.unsqueeze(-1), x[:, None, :, None]), (X,)),
    "expand": (lambda x: (x[:, :, :1].expand(-1, 3, 5), x.expand(2, 2, 3, 4)), (X,)),
    "expand_as": (lambda x, y: (x.expand_as(y), x.broadcast_to(2, 3, 4)), (M, X)),
    "permute": (lambda x: (x.permute(2, 0, 1), x.permute(0, -1, 1), x.permute(0, 1, 2)), (X,)),
    "transpose": (lambda x, m: (x.transpose(0, -1), x.swapaxes(0, 1), x.swapdims(1, 2), m.t(), m.T, x.mT), (X, M)),
    "movedim": (lambda x: (x.movedim(0, 2), x.movedim((0, 1), (2, 0)), x.moveaxis(-1, 0)), (X,)),
    "flip": (lambda x: (x.flip(0), x.flip((1, -1)), x.fliplr(), x.flipud()), (X,)),
    "roll": (lambda x: (x.roll(1, 0), x.roll((1, -2), (1, 2)), x.roll(5), x.roll(7, -1)), (X,)),
    "rot90": (lambda x: (torch.rot90(x), torch.rot90(x, 2, (1, 2)), torch.rot90(x, -1)), (X,)),
    "repeat": (lambda x: (x.repeat(2, 1, 1, 3), x.tile(2), x.tile((2, 1, 1, 1))), (X,)),
    "repeat_interleave": (lambda x: (x.repeat_interleave(2, 1), x.repeat_interleave(3), x.repeat_interleave(2, -1)), (X,)),
    "cat": (lambda x, y: (torch.cat((x, y, x), 1), torch.cat((x, torch.zeros(0))), torch.cat((x, y > 0), -1)), (X, X)),
    "stack": (lambda x, y: (torch.stack((x, y)), torch.stack((x, y), -1)), (X, X)),
    "stacked rows": (lambda x, y: (torch.hstack((x, y)), torch.vstack((x, y)), torch.dstack((x, y))), (M, M)),
    "column_stack": (lambda x, y: torch.column_stack((x, y)), (V, V)),
    "split": (lambda x: (*x.split(2, -1), *x.split((1, 2), 1), *x.split(3, 2), *x.chunk(2, 2), *x.tensor_split(2, 1)), (X,)),
    "split into one": (lambda x: x.split(9, 1), (X,)),
    "unbind": (lambda x: (*x.unbind(1), x[0, 1]), (X,)),
    "slice": (lambda x: (x[:, 1:, ::2], x[..., -2:], x[:, :9], x[:, 3:]), (X,)),
    "select": (lambda x: (x.select(1, -1), x[1], x[..., 0]), (X,)),
    "narrow": (lambda x: (x.narrow(1, 1, 2), x.narrow(2, -2, 2)), (X,)),
    "diagonal": (lambda x, m: (m.diagonal(), m.diagonal(1), x.diagonal(-1, 1, 2), x.diagonal(0, 2, 0), m.diag()), (X, M)),
    "diagonal matrices": (
        lambda v, m: (torch.diag(v), torch.diag_embed(m), torch.diag_embed(m, 1), torch.diag_embed(m, -2, 0, 1), v.diag(-1)),
        (V, M),
    ),
    "triangles": (lambda x: (x.tril(), x.triu(), x.tril(-1), x.triu(2)), (X,)),
    "broadcast_tensors": (lambda x, m: torch.broadcast_tensors(x, m), (X, M)),
    "meshgrid": (
        lambda v, w: (*torch.meshgrid(v, w, indexing="ij"), *torch.meshgrid(v, w, indexing="xy")),
        (V, _numbers(3)),
    ),
    "block_diag": (lambda m, v: torch.block_diag(m, v), (M, V)),
    "unfold": (lambda x: (x.unfold(2, 2, 1), x.unfold(1, 2, 1)), (X,)),
    "pixel_shuffle": (lambda x: (F.pixel_shuffle(x, 2), F.pixel_unshuffle(x, 2)), (_numbers(1, 4, 4, 2),)),
    "channel_shuffle": (lambda x: F.channel_shuffle(x, 2), (_numbers(1, 4, 3, 2),)),
}

PADS: dict[str, Case] = {
    "constant": (lambda x: (F.pad(x, (1, 2)), F.pad(x, (1, 0, 2, 1), value=7.0), F.pad(x, (-1, 1))), (X,)),
    "reflect": (lambda x: (F.pad(x, (1, 2, 2, 1), mode="reflect"), F.pad(x[0], (2, 1), mode="reflect")), (IMAGE,)),
    "replicate": (lambda x: (F.pad(x, (1, 2, 2, 1), mode="replicate"), F.pad(x[0], (5, 1), mode="replicate")), (IMAGE,)),
    "circular": (lambda x: F.pad(x, (1, 2, 2, 1), mode="circular"), (IMAGE,)),
    "windows": (lambda x: (F.unfold(x, (2, 3)), F.unfold(x, 2, 2, 1, 2), F.unfold(x[0], 2)), (IMAGE,)),
    "overlapping windows": (lambda x: F.fold(x, (4, 5), (2, 2), 1, 1, 2), (_numbers(1, 8, 9),)),
}

PICKED: dict[str, Case] = {
    "embedding": (lambda w, i: F.embedding(i, w), (M, INDEX)),
    "embedding with padding": (lambda w, i: F.embedding(i, w, padding_idx=0), (M, PLACES)),
    "index_select": (lambda x, i: (x.index_select(1, i), x.index_select(-2, i[0])), (X, INDEX)),
    "gather": (lambda x, i: (x.gather(0, i), x.gather(1, i)), (SQUARE, PLACES)),
    "take": (lambda x, i: (x.take(i), torch.take_along_dim(x, i[:, None, :1].expand(2, 1, 4), 1)), (X, PLACES)),
    "take_along_dim": (lambda x, i: torch.take_along_dim(x, i, 1), (M, torch.tensor([[1], [0], [2]]))),
    "one index": (lambda x, i: (x[:, i], x[..., i]), (X, INDEX)),
    "two indices": (lambda x, i: (x[i[:2], i[1:]], x[:, i, i], x[i[1:], :, i[1:]]), (_numbers(3, 3, 4), INDEX)),
    "indices that broadcast": (
        lambda x, i, j: (x[i[:, None], j], x[:, i[:, None], j[None]]),
        (_numbers(3, 3, 4), INDEX, PLACES[0]),
    ),
    "negative indices": (lambda x: x[torch.tensor([-1, 0]), torch.tensor([1, -2])], (M,)),
    "mask of constants": (lambda x: (x[:, torch.tensor([True, False, True])], x[torch.tensor([True, False])]), (X,)),
    "one_hot": (lambda i: F.one_hot(i, 4), (PLACES,)),
    "bucketize": (
        lambda x, b: (torch.bucketize(x, b), torch.bucketize(x, b, right=True), torch.searchsorted(b, x, side="right")),
        (X, torch.tensor([-1.0, 0.0, 0.5, 2.0])),
    ),
    "searchsorted in rows": (lambda b, x: torch.searchsorted(b.sort(-1)[0], x), (M, _numbers(3, 2))),
    "isin": (lambda i: torch.isin(i, torch.tensor([0, 2])), (PLACES,)),
}

WRITTEN: dict[str, Case] = {
    "index_put": (lambda x, i: _filled(x, lambda y: y.__setitem__(i, 1.5)), (M, INDEX[:2])),
    "index_put of rows": (
        lambda x, i, v: _filled(x, lambda y: y.__setitem__((slice(None), i), v)),
        (X, INDEX[:2], _numbers(2, 2, 4)),
    ),
    "index_put of pairs": (lambda x, i, v: torch.index_put(x, (i[:2], i[1:]), v), (M, INDEX, _numbers(2))),
    "index_put apart": (
        lambda x, i, v: _filled(x, lambda y: y.__setitem__((i, slice(None), i), v)),
        (_numbers(3, 4, 3), INDEX, _numbers(4)),
    ),
    "index_put that adds": (
        lambda x, i, v: torch.index_put(x, (i,), v, accumulate=True),
        (M, torch.tensor([0, 0, 1]), _numbers(4)),
    ),
    "mask": (lambda x, m: _filled(x, lambda y: y.__setitem__(m, 0.0)), (M, MASK)),
    "mask of rows": (lambda x, v: _filled(x, lambda y: y.__setitem__(v[:3] > 0, 7.0)), (M, V)),
    "index_add": (lambda x, i, v: (x.index_add(0, i, v), x.index_add(0, i, v, alpha=2)), (M, torch.tensor([0, 2]), _numbers(2, 4))),
    "index_copy": (lambda x, i, v: (x.index_copy(0, i, v), x.index_fill(1, i, -1.0)), (M, torch.tensor([0, 2]), _numbers(2, 4))),
    "scatter": (lambda x, i, v: (x.scatter(1, i, v), x.scatter(0, i, 2.0)), (M, PLACES, _numbers(3, 4))),
    "scatter_add": (lambda x, i, v: (x.scatter_add(1, i, v), x.scatter_add(0, i, v)), (M, PLACES, _numbers(2, 3))),
    "scatter_reduce": (
        lambda x, i, v: tuple(
            x.scatter_reduce(1, i, v, kind, include_self=given)
            for kind in ("sum", "amax", "amin", "mean", "prod")
            for given in (True, False)
        ),
        (M, PLACES, _numbers(2, 3)),
    ),
    "slices": (lambda x, v: _filled(x, lambda y: (y[:, 1:3].copy_(v), y[0].fill_(2.0), y[:, -1].mul_(3.0))), (M, _numbers(3, 2))),
    "slices with a step": (lambda x: _filled(x, lambda y: y[:, ::2].zero_()), (M,)),
    "slices added to": (lambda x: _filled(x, lambda y: y[1:].add_(1.0)), (M,)),
    "masked_fill": (lambda x, m: (x.masked_fill(m, -1e4), x.masked_fill(m, torch.tensor(2.0)), x.masked_fill(~m[0], 0)), (M, MASK)),
    "masked_scatter": (lambda x, m, v: x.masked_scatter(m, v), (M, MASK, _numbers(12))),
    "where": (lambda x, y: (torch.where(x > 0, x, y), torch.where(x > 0, x, 0.0), torch.where(x > 0, 1.0, 2.0)), (M, M)),
    "diagonal": (lambda x: _filled(x, lambda y: y.diagonal().fill_(9.0)), (SQUARE,)),
    "fill_diagonal_": (lambda x: _filled(x, lambda y: y.fill_diagonal_(9.0)), (SQUARE,)),
}

MADE: dict[str, Case] = {
    "full": (lambda x: (x + torch.full((2, 3, 4), 1.5) + torch.full_like(x, 2) + x.new_full((1,), 3.0), torch.full((2,), 7)), (X,)),
    "zeros and ones": (
        lambda x: x + torch.zeros(4) + torch.ones(3, 4) + torch.zeros_like(x) + torch.ones_like(x) + x.new_zeros(4) + x.new_ones(1),
        (X,),
    ),
    "filled with a tensor": (lambda x: torch.full_like(x, 0.0).fill_(x.sum()) + x, (X,)),
    "arange": (lambda x: x + torch.arange(4) + torch.arange(1.0, 5.0) + torch.arange(0, 1, 0.25) + torch.arange(8, 0, -2), (X,)),
    "linspace": (lambda x: x * torch.linspace(-1, 1, 4) + torch.logspace(0, 1, 4), (X,)),
    "eye": (lambda x: x * torch.eye(4) + torch.eye(1, 4), (SQUARE,)),
    "indices of a triangle": (lambda x: (x[tuple(torch.triu_indices(3, 4))], x[tuple(torch.tril_indices(3, 4, -1))]), (M,)),
    "window": (lambda x: x * torch.hann_window(4) + torch.hamming_window(4), (X,)),
    "scalar": (lambda x: x * torch.tensor(3.0) + torch.scalar_tensor(1.0), (X,)),
    "empty that is filled": (lambda x: torch.empty(4).fill_(2.0) * x + torch.empty_like(x).copy_(x), (X,)),
    "copies": (lambda x: x.clone() + x.contiguous() + x.detach() + torch.zeros_like(x).copy_(x[0]), (X,)),
    "casts": (
        lambda x, i: (x.to(torch.int64), i.to(x), i.type_as(x), x.bool(), x * i.float()[:, None]),
        (X, INDEX),
    ),
    "numel": (lambda x: x.sum() / x.numel(), (X,)),
}


GROUPS = {"shapes": SHAPES, "pads": PADS, "picked": PICKED, "written": WRITTEN, "made": MADE}
CASES = {f"{group}/{name}": case for group, cases in GROUPS.items() for name, case in cases.items()}


@pytest.mark.parametrize("name", CASES)
def test_spelling(name: str) -> None:
    function, tensors = CASES[name]
    check_case(function, *tensors)


@pytest.mark.filterwarnings("ignore:indexing with dtype torch.uint8")
def test_mask_of_bytes() -> None:
    """Torch still takes bytes for truth values: a 2 would be no position, either."""
    mask = torch.tensor([1, 0, 2], dtype=torch.uint8)
    check_case(lambda x, m, v: (torch.index_put(x, (m,), v), torch.index_put(x, (m,), v, True)), M, mask, _numbers(4))


def _selected(x: Tensor) -> Tensor:
    return torch.cond(x.sum() > 0, lambda y: y + 1.0, lambda y: y * 2.0, (x,))


def _halved(x: Tensor) -> Tensor:
    count = torch.zeros((), dtype=torch.int64)
    return torch.while_loop(lambda n, y: n < 3, lambda n, y: (n + 1, y * 0.5), (count, x))[1]


def _summed(x: Tensor) -> tuple[Tensor, Tensor]:
    from torch._higher_order_ops.scan import scan

    return scan(lambda total, row: (total + row, total * 2.0), x[0], x, dim=0)


def _mapped(x: Tensor, scale: Tensor) -> Tensor:
    from torch._higher_order_ops.map import map as torch_map

    function: Any = torch_map
    return function(lambda row, factor: row * factor + 1.0, x, scale)


@pytest.mark.parametrize(
    ("function", "tensors", "operator"),
    [
        (_selected, (M,), "If"),
        (_halved, (M,), "Loop"),
        (_summed, (M,), "Scan"),
        (_mapped, (M, _numbers(4)), "Scan"),
    ],
    ids=["cond", "while_loop", "scan", "map"],
)
def test_control_flow(function: Callable[..., Any], tensors: tuple[Tensor, ...], operator: str) -> None:
    assert operator in check_case(function, *tensors).operators


def test_bodies_keep_their_lines() -> None:
    case = check_case(_selected, M)
    (branch,) = [node for node in case.exported.model.graph.walk() if node.op == "If"]
    inner = [node for graph in branch.subgraphs() for node in graph.nodes if node.op in ("Add", "Mul")]
    assert {node.source.file for node in inner if node.source is not None} == {__file__}


RANDOM: dict[str, Case] = {
    "uniform": (lambda x: torch.log(1.0 - torch.rand_like(x)) + torch.rand(3, 4), (M,)),
    "normal": (lambda x: torch.randn_like(x) + torch.randn(4) + torch.normal(x, 2.0) + torch.normal(0.0, 1.0, (3, 4)), (M,)),
    "integers": (lambda x: (torch.randint(0, 5, (3,)), torch.randint_like(x, 2, 7), torch.randperm(6)), (M,)),
    "bernoulli": (lambda x: (torch.bernoulli(x.sigmoid()), torch.empty_like(x).bernoulli_(0.3)), (M,)),
    "multinomial": (lambda x: torch.multinomial(x.sigmoid(), 2), (M,)),
    "exponential": (lambda x: -torch.empty_like(x).exponential_().log(), (M,)),
    "in place": (lambda x: torch.empty_like(x).uniform_(-2.0, 3.0) + torch.empty_like(x).normal_(1.0, 0.5), (M,)),
}


@pytest.mark.parametrize("name", RANDOM)
def test_random_numbers(name: str) -> None:
    function, tensors = RANDOM[name]
    case = check_case(function, *tensors, is_random=True)
    assert not case.analysis.findings


def _open_batch(x: Tensor) -> tuple[Tensor, ...]:
    """Operators whose shapes depend on a batch that is not fixed, on a tensor of shape [batch, 3, 4]."""
    batch = x.shape[0]
    first, second = x.split((1, 2), 1)
    filled = x.new_zeros(batch, 3, 4)
    filled[:, 1] = x[:, 0]
    heads = x.view(batch, 3, 2, 2).transpose(1, 2).reshape(batch * 2, 6)
    mask = (torch.ones(batch, batch).tril() + torch.eye(batch)).to(x)
    return (
        torch.cat((first, second), 1).flatten(1),
        heads,
        filled,
        mask @ x[:, 0],
        x.unflatten(2, (2, 2)),
        x[:, None].expand(batch, 5, 3, 4).reshape(-1, 4),
        x.repeat_interleave(2, 0),
        torch.arange(batch)[:, None] * torch.ones_like(x[:, 0]),
        x[torch.arange(batch), 1],
        torch.stack((x, x), 1).sum() / x.numel(),
        x.roll(1, 0).flip(0),
        x.scatter(1, torch.zeros(batch, 1, 4, dtype=torch.int64), 2.0),
        x.index_fill(1, torch.tensor([0]), 3.0),
        F.pad(x, (1, 1)),
        x.diagonal(0, 1, 2),
    )


@pytest.mark.parametrize("size", [2, 5])
def test_open_batch(size: int) -> None:
    """Exported with one batch, run and analysed with another."""
    check_case(_open_batch, _numbers(3, 3, 4), batch=size)
