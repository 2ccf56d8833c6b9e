"""Repairs in Python source: each on several spellings, run before and after; near misses; and sources of any kind."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorproof.repair.source import Declined, SourceRepair, propose
from tensorproof.repair.source.proposing import REPAIRS

pytestmark = pytest.mark.area("repair")

Tensors = tuple[torch.Tensor, ...]

#: Ends the line that a finding names.
MARK = "  #!"


def torch_source(body: str, head: str = "import torch") -> str:
    """A file with a function f of the given head and body; the marked line, or else the last one, is the one of the finding."""
    return f"{head}\n\n\ndef f{textwrap.dedent(body).strip()}\n"


def marked(source: str) -> tuple[str, int]:
    """The source without the mark, and the line that has it."""
    lines = source.split("\n")
    line = next((index for index, text in enumerate(lines, 1) if text.endswith(MARK)), len(source.rstrip("\n").split("\n")))
    return source.replace(MARK, ""), line


def repaired(source: str, rule: str, **options: Any) -> SourceRepair:
    text, line = marked(source)
    proposal = propose(text, line, rule, **options)
    assert isinstance(proposal, SourceRepair), proposal
    return proposal


def declined(source: str, rule: str, **options: Any) -> str:
    text, line = marked(source)
    proposal = propose(text, line, rule, **options)
    assert isinstance(proposal, Declined), proposal.diff("f.py")
    return proposal.reason


def run(source: str, inputs: Tensors) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """The result of f, and the gradients of its finite sum with respect to the floating inputs."""
    space: dict[str, Any] = {}
    exec(compile(source, "f.py", "exec"), space)
    leaves = [x.clone().requires_grad_() if x.is_floating_point() else x for x in inputs]
    result = space["f"](*leaves)
    result.sum().backward()
    return result.detach(), [leaf.grad for leaf in leaves if leaf.grad is not None]


def all_finite(result: torch.Tensor, gradients: list[torch.Tensor]) -> bool:
    return bool(torch.isfinite(result).all()) and all(bool(torch.isfinite(gradient).all()) for gradient in gradients)


def scores(rows: int = 3, columns: int = 4) -> torch.Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(0))


def labels() -> torch.Tensor:
    return (scores() > 0).float()


WIDE = torch.tensor([[-300.0, 0.0, 300.0]])
NARROW_MASK = torch.tensor([[True, False, False, True], [False, False, True, True], [True, True, False, False]])
FULL_MASK = torch.ones(3, 4, dtype=torch.bool)
EXTREME = torch.tensor([[-300.0, 0.0, 300.0, 50.0]])
BIASED = torch.tensor([[1.0, 0.0, 0.0, 1.0]])


@dataclass(frozen=True)
class Case:
    """A function that fails on `failing`, what a repair is to call itself, and what the new line is to hold."""

    repair: str
    rule: str
    body: str
    holds: str
    ordinary: Callable[[], Tensors] = lambda: (scores(),)
    failing: Callable[[], Tensors] = lambda: (WIDE,)
    head: str = "import torch"
    format: str = "float32"

    @property
    def source(self) -> str:
        return torch_source(self.body, self.head)


def probabilities() -> Tensors:
    return torch.sigmoid(scores()), labels()


def masked(mask: torch.Tensor) -> Callable[[], Tensors]:
    return lambda: (scores(), mask)


def float_masked(mask: torch.Tensor) -> Callable[[], Tensors]:
    return lambda: (scores(), (~mask).float())


def half(values: Callable[[], Tensors]) -> Callable[[], Tensors]:
    return lambda: tuple(x.half() if x.is_floating_point() else x for x in values())


FUNCTIONAL = "import torch\nimport torch.nn.functional as F"
LOG_SOFTMAX, LOG_SIGMOID = "log-softmax", "log-sigmoid"
CROSS_ENTROPY, BOUNDED = "cross-entropy-with-logits", "cross-entropy-bounded"
ENTROPY_INPUTS = {"ordinary": lambda: (scores(), labels()), "failing": lambda: (EXTREME, BIASED)}
CERTAIN = {"ordinary": probabilities, "failing": lambda: (torch.tensor([[0.0, 1.0]]), torch.tensor([[0.0, 1.0]]))}
ZERO = {"failing": lambda: (torch.zeros(3, 4),)}
POSITIVE = {"ordinary": lambda: (scores().abs() + 0.1,), "failing": lambda: (torch.tensor([0.0, -1.0, 4.0]),)}
ROWS = {"ordinary": lambda: (scores().abs() + 0.1,), "failing": lambda: (torch.tensor([[0.0, 0.0], [-1.0, 0.5]]),)}
MASKS = {"ordinary": masked(NARROW_MASK), "failing": masked(FULL_MASK)}

CASES = [
    # log(softmax(x))
    Case(LOG_SOFTMAX, "NUM101", "(x):\n    return torch.log(torch.softmax(x, dim=1))", "torch.log_softmax(x, dim=1)"),
    Case(LOG_SOFTMAX, "NUM101", "(x):\n    return x.softmax(1).log()", "x.log_softmax(1)"),
    Case(LOG_SOFTMAX, "NUM101", "(x):\n    return (x * 2).softmax(dim=-1).log()", "(x * 2).log_softmax(dim=-1)"),
    Case(LOG_SOFTMAX, "NUM101", "(x):\n    return torch.log(F.softmax(x, 1))", "F.log_softmax(x, 1)", head=FUNCTIONAL),
    Case(
        LOG_SOFTMAX,
        "NUM101",
        "(x):\n    return t.log(F.softmax(x, dim=-1))",
        "F.log_softmax(x, dim=-1)",
        head="import torch as t\nfrom torch.nn import functional as F",
    ),
    Case(
        LOG_SOFTMAX,
        "NUM101",
        "(x):\n    return torch.nn.functional.softmax(x, 1).log()",
        "torch.nn.functional.log_softmax(x, 1)",
    ),
    Case(
        LOG_SOFTMAX,
        "NUM101",
        "(x):\n    return torch.log(nn.functional.softmax(x, 1, dtype=torch.float32))",
        "nn.functional.log_softmax(x, 1, dtype=torch.float32)",
        head="import torch\nfrom torch import nn",
    ),
    Case(
        LOG_SOFTMAX,
        "NUM101",
        "(x):\n    return log(softmax(x, 1))",
        "return log_softmax(x, 1)",
        head="from torch import log, softmax",
    ),
    Case(
        LOG_SOFTMAX,
        "NUM101",
        "(x):\n    p = torch.softmax(x, 1)\n    return torch.log(p) + p",
        "return torch.log_softmax(x, 1) + p",
    ),
    Case(
        LOG_SOFTMAX,
        "NUM101",
        "(x):\n    # the probabilities\n    p = torch.softmax(torch.relu(x) @ torch.eye(x.shape[1]), dim=1)  # sum to 1\n    return p * p.log()",
        "return p * torch.log_softmax(logits, dim=1)",
    ),
    # log(sigmoid(x)), log(1 - sigmoid(x))
    Case(LOG_SIGMOID, "NUM101", "(x):\n    return torch.log(torch.sigmoid(x))", "torch.nn.functional.logsigmoid(x)"),
    Case(LOG_SIGMOID, "NUM101", "(x):\n    return torch.log(1 - torch.sigmoid(x))", "F.logsigmoid(-x)", head=FUNCTIONAL),
    Case(
        LOG_SIGMOID,
        "NUM101",
        "(x):\n    return (1.0 - x.sigmoid()).log()",
        "nn.functional.logsigmoid(-x)",
        head="import torch\nfrom torch import nn",
    ),
    Case(LOG_SIGMOID, "NUM101", "(x):\n    return torch.log1p(-torch.sigmoid(x + 1))", "torch.nn.functional.logsigmoid(-(x + 1))"),
    Case(LOG_SIGMOID, "NUM101", "(x):\n    return torch.log(1 - torch.sigmoid(-x))", "torch.nn.functional.logsigmoid(x)"),
    Case(
        LOG_SIGMOID,
        "NUM101",
        "(x):\n    return log(sigmoid(x))",
        "return logsigmoid(x)",
        head="from torch import log, sigmoid",
    ),
    Case(
        LOG_SIGMOID,
        "NUM101",
        "(x):\n    p = torch.sigmoid(x)\n    q = 1 - p\n    return p * torch.log(q)",
        "return p * torch.nn.functional.logsigmoid(-x)",
    ),
    # -(y log(p) + (1 - y) log(1 - p))
    Case(
        CROSS_ENTROPY,
        "NUM101",
        "(z, y):\n    p = torch.sigmoid(z)\n    return -(y * torch.log(p) + (1 - y) * torch.log(1 - p)).mean()",
        'return torch.nn.functional.binary_cross_entropy_with_logits(z, y, reduction="none").mean()',
        **ENTROPY_INPUTS,
    ),
    Case(
        CROSS_ENTROPY,
        "NUM101",
        "(z, y):\n    p = z.sigmoid()\n    loss = -y * p.log() - (1.0 - y) * (1.0 - p).log()  #!\n    return loss.mean()",
        'loss = F.binary_cross_entropy_with_logits(z, y, reduction="none")',
        head=FUNCTIONAL,
        **ENTROPY_INPUTS,
    ),
    Case(
        CROSS_ENTROPY,
        "NUM101",
        "(z, y):\n    p = torch.sigmoid(2 * z)\n    return -torch.mean((1 - y) * torch.log(1 - p) + y * torch.log(p))",
        'return torch.mean(torch.nn.functional.binary_cross_entropy_with_logits(logits, y, reduction="none"))',
        **ENTROPY_INPUTS,
    ),
    Case(
        CROSS_ENTROPY,
        "NUM101",
        "(z, y):\n    p = torch.sigmoid(z)\n    return torch.sum(y * torch.log(p) + (1 - y) * torch.log1p(-p))",
        'torch.sum((-torch.nn.functional.binary_cross_entropy_with_logits(z, y, reduction="none")))',
        **ENTROPY_INPUTS,
    ),
    Case(
        BOUNDED,
        "NUM101",
        "(p, y):\n    return -torch.mean(y * torch.log(p) + (1 - y) * torch.log(1 - p))",
        "torch.log(torch.clamp(1 - p, min=torch.finfo(p.dtype).tiny))",
        **CERTAIN,
    ),
    Case(
        BOUNDED,
        "NUM109",
        "(p, y):\n    return -(y * p.log() + (1 - y) * (1 - p).log())",
        "(1 - p).clamp(min=torch.finfo(p.dtype).tiny).log()",
        **CERTAIN,
    ),
    Case(
        CROSS_ENTROPY,
        "NUM101",
        "(z, y):\n    p = torch.sigmoid(z)\n    return -(y * torch.log(p) + (1 - y) * torch.log(1 - p)).sum(1).mean()",
        'return torch.nn.functional.binary_cross_entropy_with_logits(z, y, reduction="none").sum(1).mean()',
        **ENTROPY_INPUTS,
    ),
    # log(sum(exp(x)))
    Case("log-sum-exp", "NUM201", "(x):\n    return torch.log(torch.sum(torch.exp(x), dim=1))", "torch.logsumexp(x, dim=1)"),
    Case("log-sum-exp", "NUM201", "(x):\n    return x.exp().sum(1, keepdim=True).log()", "x.logsumexp(1, keepdim=True)"),
    Case("log-sum-exp", "NUM101", "(x):\n    return torch.log(torch.exp(x - 1).sum(axis=-1))", "torch.logsumexp(x - 1, axis=-1)"),
    Case("log-sum-exp", "NUM201", "(x):\n    return torch.log(torch.exp(-x).sum())", "torch.logsumexp((-x).flatten(), 0)"),
    Case(
        "log-sum-exp",
        "NUM201",
        "(x):\n    e = torch.exp(x)  #!\n    s = e.sum(-1)\n    return torch.log(s)",
        "return torch.logsumexp(x, -1)",
    ),
    # log(1 + exp(x))
    Case("softplus", "NUM201", "(x):\n    return torch.log(1 + torch.exp(x))", "torch.nn.functional.softplus(x)"),
    Case("softplus", "NUM201", "(x):\n    return torch.log1p(torch.exp(-x))", "F.softplus(-x)", head=FUNCTIONAL),
    Case("softplus", "NUM201", "(x):\n    return (x.exp() + 1.0).log()", "torch.nn.functional.softplus(x)"),
    Case("softplus", "NUM201", "(x):\n    return x.exp().add(1).log()", "torch.nn.functional.softplus(x)"),
    # exp(x) / sum(exp(x))
    Case("softmax", "NUM201", "(x):\n    return torch.exp(x) / torch.exp(x).sum(1, keepdim=True)", "torch.softmax(x, dim=1)"),
    Case("softmax", "NUM103", "(x):\n    e = x.exp()\n    return e / e.sum(dim=-1, keepdim=True)", "torch.softmax(x, dim=-1)"),
    Case(
        "softmax",
        "NUM103",
        "(x):\n    e = torch.exp(x * 3)\n    return e / torch.sum(e, 0)",
        "torch.softmax(exponent, dim=0)",
        failing=lambda: (WIDE.T,),
    ),
    Case("softmax", "NUM103", "(x):\n    return torch.exp(x) / torch.exp(x).sum()", "torch.softmax(x.flatten(), dim=0).view_as(x)"),
    # sqrt(x), sqrt(exp(s))
    Case(
        "square-root",
        "NUM102",
        "(x):\n    return torch.sqrt(x)",
        "torch.sqrt(torch.clamp(x, min=torch.finfo(x.dtype).tiny))",
        **POSITIVE,
    ),
    Case("square-root", "NUM102", "(x):\n    return x.sqrt()", "x.clamp(min=torch.finfo(x.dtype).tiny).sqrt()", **POSITIVE),
    Case(
        "square-root",
        "NUM104",
        "(x):\n    return x.sum(1) ** 0.5",
        "(x.sum(1).clamp(min=torch.finfo(x.dtype).tiny) ** 0.5)",
        **ROWS,
    ),
    Case(
        "square-root",
        "NUM104",
        "(x):\n    return torch.pow(x, 0.5)",
        "torch.pow(torch.clamp(x, min=torch.finfo(x.dtype).tiny), 0.5)",
        **POSITIVE,
    ),
    Case("square-root", "NUM103", "(x):\n    return torch.rsqrt(x)", "torch.rsqrt(torch.clamp(", **POSITIVE),
    Case(
        "square-root",
        "NUM102",
        "(x):\n    return torch.sqrt((x ** 2).sum(1))",
        "torch.sqrt(torch.clamp((x ** 2).sum(1), min=torch.finfo(x.dtype).tiny))",
        **ZERO,
    ),
    Case(
        "root-of-exponential",
        "NUM201",
        "(s):\n    return torch.sqrt(torch.exp(s))",
        "torch.exp(s / 2)",
        failing=lambda: (torch.tensor([-150.0, 0.0, 100.0]),),
    ),
    Case(
        "root-of-exponential",
        "NUM102",
        "(s):\n    return (s + 1).exp().sqrt()",
        "((s + 1) / 2).exp()",
        failing=lambda: (torch.tensor([-150.0, 0.0, 100.0]),),
    ),
    # x / norm(x)
    Case(
        "divisor-kept-from-zero",
        "NUM103",
        "(x):\n    return x / x.norm(dim=1, keepdim=True)",
        "x / x.norm(dim=1, keepdim=True).clamp_min(torch.finfo(x.dtype).eps)",
        **ZERO,
    ),
    Case(
        "divisor-kept-from-zero",
        "NUM103",
        "(x):\n    n = torch.linalg.vector_norm(x, dim=1, keepdim=True)\n    return x / n",
        "return x / n.clamp_min(torch.finfo(n.dtype).eps)",
        **ZERO,
    ),
    Case(
        "divisor-kept-from-zero",
        "NUM103",
        "(x):\n    return (x - x.mean()) / x.std()",
        "/ x.std().clamp_min(torch.finfo(x.dtype).eps)",
        **ZERO,
    ),
    Case(
        "divisor-kept-from-zero",
        "NUM103",
        "(x):\n    return x / x.abs().sum(1, keepdim=True)",
        ".sum(1, keepdim=True).clamp_min(",
        **ZERO,
    ),
    Case(
        "divisor-kept-from-zero",
        "NUM103",
        "(x, mask):\n    return (x * mask).sum() / mask.sum()",
        "/ mask.sum().clamp_min(torch.finfo(mask.dtype).eps)",
        ordinary=float_masked(NARROW_MASK),
        failing=float_masked(FULL_MASK),
    ),
    Case(
        "divisor-kept-from-zero",
        "NUM103",
        "(x):\n    return x / torch.sqrt(torch.sum(x * x, 1, keepdim=True))",
        "x / torch.sqrt(torch.clamp(torch.sum(x * x, 1, keepdim=True), min=torch.finfo(x.dtype).tiny))",
        **ZERO,
    ),
    # an epsilon that is lost
    Case(
        "epsilon-that-survives",
        "NUM302",
        "(p):\n    return torch.log(1 + 1e-10 - p)",
        "torch.log(1 + torch.finfo(p.dtype).eps - p)",
        ordinary=lambda: (torch.sigmoid(scores()),),
        failing=lambda: (torch.tensor([1.0, 0.5]),),
    ),
    Case(
        "epsilon-that-survives",
        "NUM101",
        "(p):\n    return torch.log(1e-12 + 1.0 - p)",
        "torch.log(torch.finfo(p.dtype).eps + 1.0 - p)",
        ordinary=lambda: (torch.sigmoid(scores()),),
        failing=lambda: (torch.tensor([1.0, 0.5]),),
    ),
    Case(
        "epsilon-that-survives",
        "NUM101",
        "(p):\n    return torch.log(1 - p + 1e-10)",
        "torch.log(1 - p + torch.finfo(p.dtype).eps)",
        ordinary=lambda: (torch.full((2, 2), -1000.0).half(),),
        failing=lambda: (torch.tensor([1.0, -1000.0]).half(),),
        format="float16",
    ),
    Case(
        "epsilon-that-survives",
        "NUM103",
        "(x):\n    return x / (x.norm() + EPS)",
        "x / (x.norm() + torch.finfo(x.dtype).eps)",
        ordinary=lambda: (torch.full((2, 2), 1024.0).half(),),
        failing=lambda: (torch.zeros(2, 2).half(),),
        head="import torch\n\nEPS = 1e-8",
        format="float16",
    ),
    Case(
        "epsilon-that-survives",
        "NUM301",
        "(p):\n    return p.clamp(min=1e-9).log()",
        "p.clamp(min=torch.finfo(p.dtype).eps).log()",
        ordinary=lambda: (torch.sigmoid(scores()).half(),),
        failing=lambda: (torch.tensor([0.0, 0.5]).half(),),
        format="float16",
    ),
    # the number of a mask
    Case(
        "mask-constant",
        "NUM108",
        '(x, mask):\n    return x.masked_fill(mask, float("-inf")).softmax(-1)',
        "x.masked_fill(mask, torch.finfo(x.dtype).min).softmax(-1)",
        **MASKS,
    ),
    Case(
        "mask-constant",
        "NUM108",
        "(x, mask):\n    return torch.softmax(torch.masked_fill(x, mask, -math.inf), -1)",
        "torch.masked_fill(x, mask, torch.finfo(x.dtype).min)",
        head="import math\nimport torch",
        **MASKS,
    ),
    Case(
        "mask-constant",
        "NUM108",
        "(x, mask):\n    x = torch.where(mask, -torch.inf, x)  #!\n    return x.softmax(-1)",
        "x = torch.where(mask, torch.finfo(x.dtype).min, x)",
        **MASKS,
    ),
    Case(
        "mask-constant",
        "NUM205",
        "(x, mask):\n    mask = (~mask).to(x.dtype)\n    x = x + (1.0 - mask) * -1e9  #!\n    return x.softmax(-1)",
        "x = x + (1.0 - mask) * (torch.finfo(x.dtype).min / 2)",
        ordinary=half(masked(NARROW_MASK)),
        failing=half(masked(FULL_MASK)),
        format="float16",
    ),
    Case(
        "mask-constant",
        "NUM205",
        "(x, mask):\n    mask = (~mask).to(x.dtype)\n    bias = (1 - mask) * NEGATIVE  #!\n    return (x + bias).softmax(-1)",
        "bias = (1 - mask) * (torch.finfo(torch.float16).min / 2)",
        ordinary=half(masked(NARROW_MASK)),
        failing=half(masked(FULL_MASK)),
        head="import torch\n\nNEGATIVE = -1e9",
        format="float16",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.repair}: {case.holds}")
def test_a_repaired_function_is_the_old_one_where_that_is_finite(case: Case) -> None:
    repair = repaired(case.source, case.rule, format=case.format)
    assert repair.name == case.repair
    assert case.holds in repair.source
    assert repair.safe == next(known.safe for known in REPAIRS if known.name == case.repair)
    old_source, _ = marked(case.source)
    for inputs in (case.ordinary(), case.failing()):
        old, _ = run(old_source, inputs)
        new, gradients = run(repair.source, inputs)
        assert all_finite(new, gradients)
        finite = torch.isfinite(old)
        torch.testing.assert_close(new[finite], old[finite], rtol=1e-5, atol=1e-5)
    assert not all_finite(*run(old_source, case.failing())), "the input does not fail"
    assert all_finite(*run(old_source, case.ordinary()))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.repair}: {case.holds}")
def test_what_was_repaired_needs_no_repair(case: Case) -> None:
    source, line = marked(case.source)
    repair = repaired(case.source, case.rule, format=case.format)
    added = len(repair.source.split("\n")) - len(source.split("\n"))
    again = propose(repair.source, line + added, case.rule, format=case.format)
    assert isinstance(again, Declined), again.diff("f.py")


def test_every_repair_is_run() -> None:
    assert {case.repair for case in CASES} == {repair.name for repair in REPAIRS}


TENSORFLOW = "import tensorflow as tf"
JAX = "import jax\nimport jax.numpy as jnp"
NUMPY = "import numpy as np"

OTHER_LIBRARIES = [
    (TENSORFLOW, "NUM101", "(x):\n    return tf.math.log(tf.nn.softmax(x))", "return tf.nn.log_softmax(x)"),
    (TENSORFLOW, "NUM101", "(x):\n    return tf.log(tf.nn.softmax(x, axis=1))", "return tf.nn.log_softmax(x, axis=1)"),
    ("import tensorflow.compat.v1 as tf", "NUM101", "(x):\n    return tf.log(tf.sigmoid(x))", "return tf.math.log_sigmoid(x)"),
    (
        TENSORFLOW,
        "NUM101",
        "(z, y):\n    p = tf.sigmoid(z)\n    return -tf.reduce_mean(y * tf.math.log(p) + (1 - y) * tf.math.log(1 - p))",
        "return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=z))",
    ),
    (TENSORFLOW, "NUM201", "(x):\n    return tf.math.log(tf.reduce_sum(tf.exp(x), 1))", "return tf.reduce_logsumexp(x, 1)"),
    (TENSORFLOW, "NUM201", "(x):\n    return tf.math.log(1.0 + tf.exp(x))", "return tf.math.softplus(x)"),
    (
        TENSORFLOW,
        "NUM201",
        "(x):\n    return tf.exp(x) / tf.reduce_sum(tf.exp(x), axis=-1, keepdims=True)",
        "return tf.nn.softmax(x, axis=-1)",
    ),
    (TENSORFLOW, "NUM102", "(x):\n    return tf.sqrt(x)", "return tf.sqrt(tf.maximum(x, 1.1754943508222875e-38))"),
    (TENSORFLOW, "NUM103", "(x):\n    return x / tf.norm(x)", "return x / tf.maximum(tf.norm(x), 1.1920928955078125e-07)"),
    (TENSORFLOW, "NUM302", "(p):\n    return tf.math.log(1 + 1e-10 - p)", "return tf.math.log(1 + 1.1920928955078125e-07 - p)"),
    (TENSORFLOW, "NUM108", "(x, m):\n    return tf.nn.softmax(tf.where(m, x, -1e9))", "tf.where(m, x, x.dtype.min)"),
    (JAX, "NUM101", "(x):\n    return jnp.log(jax.nn.softmax(x, axis=0))", "return jax.nn.log_softmax(x, axis=0)"),
    (JAX, "NUM101", "(x):\n    return jnp.log(1 - jax.nn.sigmoid(x))", "return jax.nn.log_sigmoid(-x)"),
    (
        JAX,
        "NUM101",
        "(z, y):\n    p = jax.nn.sigmoid(z)\n    return -jnp.mean(y * jnp.log(p) + (1 - y) * jnp.log(1 - p))",
        "return -jnp.mean(y * jax.nn.log_sigmoid(z) + (1 - y) * jax.nn.log_sigmoid(-z))",
    ),
    ("import jax.numpy as jnp", "NUM201", "(x):\n    return jnp.log1p(jnp.exp(x))", "return jax.nn.softplus(x)"),
    (JAX, "NUM201", "(x):\n    return jnp.log(jnp.exp(x).sum(axis=1))", "return jax.nn.logsumexp(x, axis=1)"),
    (JAX, "NUM201", "(x):\n    e = jnp.exp(x)\n    return e / jnp.sum(e)", "return jax.nn.softmax(x, axis=None)"),
    (JAX, "NUM102", "(x):\n    return jnp.sqrt(x)", "return jnp.sqrt(jnp.maximum(x, jnp.finfo(x.dtype).tiny))"),
    (JAX, "NUM108", "(x, m):\n    return jax.nn.softmax(jnp.where(m, x, -jnp.inf))", "jnp.where(m, x, jnp.finfo(x.dtype).min)"),
    (NUMPY, "NUM201", "(x):\n    return np.log(np.sum(np.exp(x), axis=1))", "return np.logaddexp.reduce(x, axis=1)"),
    (NUMPY, "NUM201", "(x):\n    return np.log(np.exp(x).sum())", "return np.logaddexp.reduce(x, axis=None)"),
    (NUMPY, "NUM201", "(x):\n    return np.log(1 + np.exp(x))", "return np.logaddexp(0, x)"),
    (
        NUMPY,
        "NUM103",
        "(x):\n    return np.exp(x) / np.sum(np.exp(x), axis=1, keepdims=True)",
        "return np.exp(x - np.logaddexp.reduce(x, axis=1, keepdims=True))",
    ),
    (NUMPY, "NUM102", "(x):\n    return np.sqrt(x)", "return np.sqrt(np.maximum(x, 0))"),
    (
        NUMPY,
        "NUM103",
        "(x):\n    return x / np.linalg.norm(x)",
        "return x / np.maximum(np.linalg.norm(x), np.finfo(np.float32).eps)",
    ),
]


@pytest.mark.parametrize(("head", "rule", "body", "holds"), OTHER_LIBRARIES, ids=lambda value: value.strip())
def test_spellings_of_other_libraries(head: str, rule: str, body: str, holds: str) -> None:
    source = torch_source(body, head)
    repair = repaired(source, rule)
    assert holds in repair.source
    compile(repair.source, "f.py", "exec")
    line = len(repair.source.rstrip("\n").split("\n"))
    assert isinstance(propose(repair.source, line, rule), Declined)
    if head == "import jax.numpy as jnp":
        assert "import jax.numpy as jnp\nimport jax\n" in repair.source


NEAR_MISSES = [
    (
        "in a string",
        "NUM101",
        '(z, y):\n    p = torch.sigmoid(z)\n    return f"{-(y * torch.log(p) + (1 - y) * torch.log(1 - p))}"',
        "cannot be written",
        None,
    ),
    ("root with a named epsilon", "NUM102", "(x, eps):\n    return torch.sqrt(x + eps)", "added under the root", None),
    ("a constant of itself", "NUM108", "(x, m):\n    return x.masked_fill(m, A)", "", "import torch\nA = -A"),
    ("root that may be of a number", "NUM103", "(x, d):\n    return x / d ** 0.5", "d is not surely a tensor", None),
    ("root of a size", "NUM104", "(x):\n    return x.numel() ** 0.5", "not surely a tensor", None),
    ("root of several lines", "NUM104", "(x):\n    return (  #!\n        x.numel()\n    ) ** 0.5", "not surely a tensor", None),
    ("root of a number", "NUM102", "(x):\n    return x * 2 ** 0.5", "", None),
    ("another log", "NUM101", "(x):\n    return log(torch.softmax(x, 1))", "math.log", "import torch\nfrom math import log"),
    (
        "a log of the file's own",
        "NUM101",
        "(x):\n    return log(torch.softmax(x, 1))",
        "no single import",
        "import torch\n\ndef log(x):\n    return x\n",
    ),
    (
        "log imported twice",
        "NUM101",
        "(x):\n    return log(torch.softmax(x, 1))",
        "no single import",
        "import torch\nfrom torch import log\nfrom numpy import log",
    ),
    ("no dim", "NUM101", "(x):\n    return torch.log(F.softmax(x))", "without dim", FUNCTIONAL),
    (
        "assigned twice",
        "NUM101",
        "(x):\n    p = torch.softmax(x, 1)\n    p = p.clone()\n    return torch.log(p)",
        "p is assigned more than once",
        None,
    ),
    (
        "assigned under a condition",
        "NUM101",
        "(x, c):\n    if c:\n        p = torch.softmax(x, 1)\n    return torch.log(p)",
        "one path only",
        None,
    ),
    (
        "the operand assigned again",
        "NUM101",
        "(x):\n    p = torch.softmax(x, 1)\n    x = x + 1\n    return torch.log(p)",
        "x may have another value",
        None,
    ),
    (
        "changed in place",
        "NUM101",
        "(x):\n    p = torch.softmax(x, 1)\n    p.mul_(2)\n    return torch.log(p)",
        "p may be changed",
        None,
    ),
    (
        "an element assigned",
        "NUM101",
        "(x):\n    p = torch.softmax(x, 1)\n    p[0] = 1\n    return torch.log(p)",
        "p may be changed",
        None,
    ),
    ("augmented", "NUM101", "(x):\n    p = torch.softmax(x, 1)\n    p += 1e-8\n    return torch.log(p)", "p ", None),
    (
        "the operand changed in place",
        "NUM101",
        "(x):\n    p = torch.softmax(x, 1)\n    x.zero_()\n    return torch.log(p)",
        "changed in between",
        None,
    ),
    (
        "handed to a function",
        "NUM101",
        "(x, g):\n    p = torch.softmax(x, 1)\n    g(x)\n    return torch.log(p)",
        "x may have another value",
        None,
    ),
    (
        "assigned again in the loop",
        "NUM101",
        "(x):\n    p = torch.softmax(x, 1)\n    for _ in range(3):\n        q = torch.log(p)  #!\n        p = q.exp() * 2\n    return p",
        "p is assigned again",
        None,
    ),
    (
        "two that differ",
        "NUM101",
        "(x, y):\n    return torch.log(x.softmax(1)) + torch.log(y.softmax(1))",
        "several expressions",
        None,
    ),
    ("out=", "NUM101", "(x, y):\n    return torch.log(torch.softmax(x, 1), out=y)", "out", None),
    ("log with epsilon", "NUM101", "(x):\n    return torch.log(torch.softmax(x, 1) + 1e-8)", "not lost in float32", None),
    ("sum without keepdim", "NUM103", "(x):\n    return torch.exp(x) / torch.exp(x).sum(1)", "keep its dimension", None),
    (
        "keepdim decided elsewhere",
        "NUM103",
        "(x, k):\n    return torch.exp(x) / torch.exp(x).sum(1, keepdim=k)",
        "decided elsewhere",
        None,
    ),
    (
        "other exponentials",
        "NUM103",
        "(x, y):\n    return torch.exp(x) / torch.exp(y).sum(1, keepdim=True)",
        "different values",
        None,
    ),
    (
        "shifted softmax",
        "NUM103",
        "(x):\n    e = torch.exp(x - x.max(1, keepdim=True)[0])\n    return e / e.sum(1, keepdim=True)",
        "shifted by a maximum",
        None,
    ),
    ("shifted logsumexp", "NUM101", "(x):\n    return torch.log(torch.exp(x - x.max()).sum(1))", "shifted by a maximum", None),
    (
        "exponential with other users",
        "NUM201",
        "(x):\n    e = torch.exp(x)  #!\n    return e / e.sum(1, keepdim=True) + e",
        "e has other users",
        None,
    ),
    ("a sum of unknown sign", "NUM103", "(x):\n    return x / x.sum(1, keepdim=True)", "sign of the divisor", None),
    ("root of what is bounded", "NUM102", "(x):\n    return torch.sqrt(x.clamp(min=1e-6))", "bounded below", None),
    ("root with epsilon", "NUM102", "(x):\n    return torch.sqrt(x + 1e-6)", "", None),
    ("root of a Python number", "NUM102", "(x):\n    return x / math.sqrt(x.shape[1])", "", "import torch\nimport math"),
    ("cube root", "NUM104", "(x):\n    return x ** 0.3", "", None),
    ("entropy of other labels", "NUM101", "(p, y, w):\n    return -(y * torch.log(p) + (1 - w) * torch.log(1 - p))", "", None),
    (
        "entropy of bounded probabilities",
        "NUM101",
        "(p, y):\n    q = p.clamp(1e-6, 1 - 1e-6)\n    return -(y * q.log() + (1 - y) * (1 - q).log())",
        "bounded already",
        None,
    ),
    ("a small mask constant", "NUM108", "(x, m):\n    return x.masked_fill(m, -100.0)", "", None),
    ("a mask of zeros", "NUM108", "(x, m):\n    return x.masked_fill(m, 0.0)", "", None),
    ("no tensor library", "NUM101", "(x):\n    return x.softmax(1).log()", "", "import os"),
    (
        "a method of a module",
        "NUM101",
        "(x):\n    return other.log(torch.softmax(x, 1))",
        "other.log",
        "import torch\nimport other",
    ),
    (
        "a comment inside",
        "NUM101",
        "(x):\n    return torch.log(  #!\n        torch.softmax(x, 1)  # probabilities\n    )",
        "comment",
        None,
    ),
    (
        "operand computed twice",
        "NUM101",
        "(x, net):\n    a = 1; p = torch.softmax(net(x), a)\n    return torch.log(p)",
        "twice",
        None,
    ),
    (
        "a rule without repairs",
        "NUM114",
        "(x):\n    return torch.log(torch.softmax(x, 1))",
        "no repair in source is known for NUM114",
        None,
    ),
    (
        "a name of another function",
        "NUM101",
        "(x):\n    p = torch.softmax(x, 1)\n    def g():\n        return torch.log(p)  #!\n    return g",
        "",
        None,
    ),
]


@pytest.mark.parametrize(
    ("rule", "body", "reason", "head"), [miss[1:] for miss in NEAR_MISSES], ids=[miss[0] for miss in NEAR_MISSES]
)
def test_near_misses_are_declined(rule: str, body: str, reason: str, head: str | None) -> None:
    found = declined(torch_source(body, head or "import torch"), rule)
    assert found
    assert "\n" not in found
    assert reason in found


def test_formats_without_repairs_are_declined() -> None:
    assert "int64" in declined(CASES[0].source, "NUM101", format="int64")


def test_the_rest_of_the_file_stays_as_it_is() -> None:
    head = "# -*- coding: utf-8 -*-\nimport torch  # first\n\n\nclass A:\n\n    def g(self): return {  'a':1,}\n\n    def h(self):\n        '''x'''\n        pass\n"
    tail = "\n\ndef last( a ) :\n\treturn  a+1  # the end"
    source = f"{head}\n\ndef f(x):\n    return (torch.log( torch.softmax( x,dim = 1 ) ))  # loss{tail}"
    line = source[: source.index("torch.log")].count("\n") + 1
    repair = propose(source, line, "NUM101")
    assert isinstance(repair, SourceRepair)
    assert repair.source == source.replace("torch.log( torch.softmax( x,dim = 1 ) )", "torch.log_softmax(x, dim=1)")
    assert repair.diff("a.py").splitlines()[:2] == ["--- a/a.py", "+++ b/a.py"]
    assert [text for text in repair.diff("a.py").splitlines() if text[0] in "+-"][2:] == [
        "-    return (torch.log( torch.softmax( x,dim = 1 ) ))  # loss",
        "+    return (torch.log_softmax(x, dim=1))  # loss",
    ]


def test_line_ends_stay() -> None:
    source = (
        "import torch\r\nfrom torch import nn\r\n\r\ndef f(net, x):\r\n    p = torch.softmax(net(x), 1)\r\n    return torch.log(p)"
    )
    repair = propose(source, 6, "NUM101")
    assert isinstance(repair, SourceRepair)
    assert repair.source.count("\r\n") == repair.source.count("\n") == 6
    assert "\\ No newline at end of file" in repair.diff("a.py")


def test_imports_are_added_in_the_style_of_the_file() -> None:
    joined = repaired(
        torch_source("(x):\n    return log(softmax(x, 1))", "from torch import (\n    log,\n    softmax,\n)"), "NUM101"
    )
    assert "    log,\n    log_softmax, softmax,\n" in joined.source
    bare = repaired(torch_source("(x):\n    return log(sigmoid(x))", "from torch import log, sigmoid"), "NUM101")
    assert bare.source.startswith("from torch import log, sigmoid\nfrom torch.nn.functional import logsigmoid\n")
    inside = repaired(torch_source("(x):\n    import torch as t\n    return t.log(t.sigmoid(x))", "import os"), "NUM101")
    assert "    return t.nn.functional.logsigmoid(x)" in inside.source
    assert inside.source.count("import") == 2


def test_an_expression_of_several_lines_is_found_by_each_of_them() -> None:
    source = torch_source(
        "(z, y):\n    p = torch.sigmoid(z)\n    return -(\n        y * torch.log(p)\n        + (1 - y) * torch.log(1 - p)\n    ).mean()"
    )
    first = source[: source.index("y * torch")].count("\n") + 1
    for line in (first, first + 1):
        repair = propose(source, line, "NUM101")
        assert isinstance(repair, SourceRepair)
        assert 'binary_cross_entropy_with_logits(z, y, reduction="none").mean()' in repair.source


def test_operands_of_several_lines_keep_their_lines() -> None:
    source = torch_source(
        "(x, y):\n    return torch.sqrt(  #!\n        torch.sum(\n            x * y,\n            dim=1,\n        ),\n    )"
    )
    repair = repaired(source, "NUM102")
    assert "torch.clamp(torch.sum(\n            x * y,\n            dim=1,\n        ), min=" in repair.source


def test_a_minus_that_is_taken_leaves_a_space() -> None:
    repair = repaired(torch_source("(z, y):\n    p = z.sigmoid()\n    return-(y * p.log() + (1 - y) * (1 - p).log())"), "NUM101")
    assert '    return torch.nn.functional.binary_cross_entropy_with_logits(z, y, reduction="none")\n' in repair.source


def test_equal_expressions_are_repaired_together() -> None:
    repair = repaired(torch_source("(x):\n    return torch.log(x.softmax(1)) * torch.log(x.softmax(1))"), "NUM101")
    assert "return x.log_softmax(1) * x.log_softmax(1)" in repair.source


def test_scripts_without_functions_are_repaired() -> None:
    source = "import tensorflow as tf\ny = tf.nn.softmax(tf.matmul(h, W) + b)\nloss = -tf.reduce_sum(t * tf.log(y))\n"
    repair = propose(source, 3, "NUM101")
    assert isinstance(repair, SourceRepair)
    assert repair.source.splitlines()[1:] == [
        "logits = tf.matmul(h, W) + b",
        "y = tf.nn.softmax(logits)",
        "loss = -tf.reduce_sum(t * tf.nn.log_softmax(logits))",
    ]


NASTY = {
    "empty": "",
    "one newline": "\n",
    "syntax error": "def f(:\n",
    "Python 2": "print 'x'\nexec 'y'\n",
    "null byte": "x = 1\0\n",
    "byte order mark": "\ufeffimport torch\n",
    "form feeds": "import torch\n\x0c\nx = torch.log(torch.softmax(y, 1))\n",
    "line separator in a string": "s = '\u2028'\nx = 1\n",
    "surrogate": "x = '\udc80'\n",
    "deep parentheses": "(" * 5000 + ")" * 5000,
    "deep sum": "x = " + "+".join("1" * 5000),
    "deep minus": "x = " + "-" * 5000 + "1",
    "deep attributes": "x = a" + ".b" * 5000,
    "deep lambdas": "x = " + "lambda: " * 900 + "1",
    "unfinished string": "x = '''\n",
    "mixed tabs": "if 1:\n\tx = 1\n        y = 2\n",
    "star import": "from torch import *\nx = log(softmax(y, 1))\n",
    "names of many kinds": "global x\nx: int\n(x := 1)\ndel x\nfor x, *y in z: pass\nwith a as x: pass\nimport x.y.z\n[x for x in x]\n",
    "huge numbers": f"import torch\ny = x / {10**400}\nz = x + 1{'0' * 400}\n",
    "odd calls": "import torch\ntorch.log(*a)\ntorch.log(**a)\ntorch.log()\ntorch.log(x=1)\n''.log()\n(lambda: 1)()\ntorch.log(x, 1, 2, 3, 4)\n",
    "decorators and classes": "@f\nclass A:\n    @g\n    async def f(self): await x\n    x = 1\n    class B: pass\n",
    "carriage returns": "import torch\rx = torch.log(torch.softmax(y, 1))\r",
}


@pytest.mark.parametrize("source", NASTY.values(), ids=NASTY)
def test_no_source_makes_it_raise(source: str) -> None:
    lines = range(-1, min(source.count("\n"), 6) + 3)
    for line, rule in itertools.product(lines, ("NUM101", "NUM103", "NUM108") if len(source) < 1000 else ("NUM101",)):
        proposal = propose(source, line, rule)
        if isinstance(proposal, Declined):
            assert proposal.reason
            assert "\n" not in proposal.reason
        else:
            compile(proposal.source, "f.py", "exec")


def test_lines_outside_of_the_file_are_declined() -> None:
    assert "no line 9" in str(propose("x = 1\n", 9, "NUM101"))
    assert "no line 0" in str(propose("x = 1\n", 0, "NUM101"))


def test_carriage_returns_and_form_feeds_do_not_move_the_change() -> None:
    for name, line in (("carriage returns", 2), ("form feeds", 3)):
        repair = propose(NASTY[name], line, "NUM101")
        assert isinstance(repair, SourceRepair)
        assert repair.source == NASTY[name].replace("torch.log(torch.softmax(y, 1))", "torch.log_softmax(y, 1)")


def test_a_very_long_file_is_read() -> None:
    """Four thousand functions; the one of the line is in the middle."""
    other = "def g{}(x):\n    if x:\n        return x + 1\n    return [x for x in range(3)]\n\n\n"
    source = "import torch\n" + "".join(other.format(i) for i in range(2_000))
    line = source.count("\n") + 2
    source += "def f(x):\n    return torch.log(torch.softmax(x, 1))\n" + "".join(other.format(i) for i in range(2_000))
    repair = propose(source, line, "NUM101")
    assert isinstance(repair, SourceRepair)
    assert len(repair.diff("a.py").splitlines()) == 11
    assert "too large" in str(propose("#" * (5 << 20), 1, "NUM101"))


PIECES = st.sampled_from(
    ["torch", "x", "p", "log", "softmax", "sigmoid", "exp", "sum", ".", "(", ")", ",", "=", "+", "-", "*", "/", "**", "1", "1e-10"]
    + [
        "\n",
        "\n    ",
        " ",
        "def f(x):\n    ",
        "return ",
        "if x:\n        ",
        "for p in x:\n        ",
        "lambda x: ",
        "[",
        "]",
        "'",
        '"',
        "\\\n",
    ]
    + [
        "#c\n",
        "    p = torch.softmax(x, 1)\n",
        "torch.log(p)",
        "torch.exp(x)",
        "x.norm()",
        "x += 1\n    ",
        "p = x; ",
        "f'{x}'",
        "\r",
        "\t",
        "\0",
    ]
)


@st.composite
def damaged_sources(draw: st.DrawFn) -> tuple[Case, str]:
    """The source of a case, with a few pieces put in and a few characters left out."""
    case = draw(st.sampled_from(CASES))
    source, _ = marked(case.source)
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(source)))
        source = source[:start] + draw(PIECES) + source[start + draw(st.sampled_from((0, 0, 1, 3, 12))) :]
    return case, source


@settings(max_examples=400, deadline=None, derandomize=True)
@given(damaged_sources(), st.integers(0, 12))
def test_damaged_sources_are_repaired_or_declined(damaged: tuple[Case, str], line: int) -> None:
    case, source = damaged
    proposal = propose(source, line, case.rule, format=case.format)
    if isinstance(proposal, SourceRepair):
        compile(source, "f.py", "exec", dont_inherit=True)
        compile(proposal.source, "f.py", "exec", dont_inherit=True)
        assert proposal.diff("f.py").startswith("--- a/f.py\n+++ b/f.py\n@@ ")


def test_terms_that_double_at_every_name_are_not_followed_for_ever() -> None:
    doubling = "".join(f"    x{i + 1} = x{i} + x{i}\n" for i in range(18))
    assert "sign of the divisor" in declined(torch_source(f"(x):\n    x0 = x.exp()\n{doubling}    return x / x18.sum()"), "NUM103")


def test_numbers_are_read_as_python_reads_them() -> None:
    """A mask constant of any spelling."""
    for text in ("-1e9", "-10_000", "-1e4", "-float('inf')", "-np.inf"):
        repair = repaired(
            torch_source(f"(x, m):\n    return x.masked_fill(m, {text})", "import torch\nimport numpy as np"), "NUM108"
        )
        assert "x.masked_fill(m, torch.finfo(x.dtype).min)" in repair.source
