"""Numerical source rules, NUM5xx: found in the programs that have them, at their lines, and not in the corrected ones.

Programs are `tests/fixtures/source/NAME.py` beside `NAME.expected`; every label was checked by a run. Beside them stand single
lines, each with what must be said of it: near misses of every pattern, and corrections that are carried out and computed.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tensorproof.shapes.analysis import analyse_source
from tensorproof.shapes.problems import Edit, Problem
from tests.shape_labels import programs_of, read_findings

pytestmark = pytest.mark.area("shapes")

PROGRAMS = programs_of("source")
HEADER = """
import jax, keras, torch
import jax.numpy as jnp
import numpy as np
import tensorflow as tf
import torch.nn.functional as F
from torch import nn

x = torch.randn(4, 5)
y = torch.randn(4, 5)
n = np.random.rand(4, 5)
j = jax.random.normal(jax.random.PRNGKey(0), (4, 5))
t = tf.random.normal((4, 5))
k = keras.ops.ones((4, 5)) * 0.3
mask = x > 0
"""


def problems(text: str, header: str = HEADER) -> list[Problem]:
    return list(analyse_source(header + text, "program.py").problems)


def codes(text: str, header: str = HEADER) -> list[str]:
    return [problem.rule.code for problem in problems(text, header)]


# -- programs ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_programs_get_what_their_labels_say(program: Path) -> None:
    found = {
        (problem.place.line, problem.rule.code) for problem in analyse_source(program.read_text("utf-8"), str(program)).problems
    }
    assert found == {(finding.line, finding.code) for finding in read_findings(program)}


def test_the_programs_have_every_rule() -> None:
    found = [finding.code for program in PROGRAMS for finding in read_findings(program)]
    assert {f"NUM50{number}" for number in range(1, 10)} == set(found)
    assert len(found) >= 29


# -- single lines -----------------------------------------------------------------------------------------------------

REPORTED = [
    ("NUM501", "torch.log(1 + x.abs())"),
    ("NUM501", "(x.abs() + 1).log()"),
    ("NUM501", "np.log(np.add(n, 1))"),
    ("NUM501", "tf.math.log(1.0 + t)"),
    ("NUM501", "jnp.log(j + 1)"),
    ("NUM501", "keras.ops.log(k + 1)"),
    ("NUM501", "np.log(1 + np.exp(n))"),
    ("NUM501", "torch.log(1 + 0.1 * torch.arange(5))"),
    ("NUM502", "torch.exp(x) - 1"),
    ("NUM502", "x.exp().sub(1)"),
    ("NUM502", "np.subtract(np.exp(n), 1)"),
    ("NUM503", "torch.log(torch.sum(torch.exp(x), dim=1))"),
    ("NUM503", "tf.math.log(tf.reduce_sum(tf.exp(t), 1))"),
    ("NUM503", "np.log(np.exp(n).sum(axis=0))"),
    ("NUM504", "torch.log(F.softmax(x, dim=1))"),
    ("NUM504", "torch.log(nn.Softmax(dim=1)(x))"),
    ("NUM504", "torch.log(x.softmax(1)[torch.arange(4), torch.zeros(4, dtype=torch.long)])"),
    ("NUM504", "torch.log(x.softmax(1).gather(1, torch.zeros(4, 1, dtype=torch.long)))"),
    ("NUM505", "torch.log(nn.Sigmoid()(x))"),
    ("NUM505", "torch.log(1 - torch.sigmoid(x))"),
    ("NUM505", "np.log(1 / (1 + np.exp(-n)))"),
    ("NUM505", "jnp.log(1 - 1 / (1 + jnp.exp(-j)))"),
    ("NUM506", "(x**2).mean() - x.mean() ** 2"),
    ("NUM506", "torch.mean(x * x, dim=1) - torch.square(torch.mean(x, dim=1))"),
    ("NUM508", "torch.clamp(x, 1e-8, 1 - 1e-8)"),
    ("NUM508", "x.clamp(max=1 - 1e-9)"),
    ("NUM508", "np.clip(n, 1e-17, 1 - 1e-17)"),
    ("NUM508", "np.minimum(n.astype(np.float32), 1 - 1e-8)"),
    ("NUM508", "tf.clip_by_value(t, 1e-9, 1 - 1e-9)"),
    ("NUM508", "x.bfloat16().clamp(1e-3, 1 - 1e-3)"),
    ("NUM509", "x.half().masked_fill(mask, -1e9)"),
    ("NUM509", "x.half().masked_fill_(mask, float(-1e9))"),
    ("NUM509", "torch.where(mask, x.half(), -1e9)"),
    ("NUM509", "mask.half() * -1e6"),
    ("NUM509", "np.where(n > 0, n.astype(np.float16), -1e5)"),
]


@pytest.mark.parametrize(("code", "line"), REPORTED, ids=[line for _, line in REPORTED])
def test_patterns_are_reported(code: str, line: str) -> None:
    (problem,) = problems(f"value = {line}\n")
    assert problem.rule.code == code
    assert not problem.certain
    assert problem.place.line == HEADER.count("\n") + 1


SILENT = [
    "torch.log(2 + x.abs())",
    "torch.log(torch.arange(5) + 1)",
    "torch.log(torch.bincount(torch.tensor([1, 2])).float() + 1)",
    "torch.log((x > 0).float().sum(1) + 1)",
    "np.log(1 + np.zeros(5))",
    "np.log(1 + len(n))",
    "torch.log1p(x)",
    "torch.exp(x) - 2",
    "1 - torch.exp(x)",
    "np.exp(1.0) - 1",
    "torch.log(torch.exp(x - x.max(dim=1, keepdim=True)[0]).sum(1))",
    "torch.log(torch.exp(x - x.amax(1, keepdim=True)).sum(1))",
    "torch.log((torch.exp(x) * mask).sum(1))",
    "torch.log(x.softmax(1) + 1e-8)",
    "torch.log(x.softmax(1).clamp(min=1e-8))",
    "torch.log(x.sigmoid() + 1e-8)",
    "torch.log(1 - x.sigmoid() + 1e-8)",
    "torch.log(2 - x.sigmoid())",
    "(x**2).mean() - y.mean() ** 2",
    "(x**3).mean() - x.mean() ** 2",
    "(x**2).sum() - x.mean() ** 2",
    "torch.clamp(x, 1e-7, 1 - 1e-7)",
    "torch.clamp(x.double(), 1e-12, 1 - 1e-12)",
    "np.clip(n, 1e-12, 1 - 1e-12)",
    "np.clip(n, 1e-17, 1.0)",
    "x.clamp(0.0, 1.0)",
    "x.half().clamp(1e-3, 1 - 1e-3)",
    "x.masked_fill(mask, -1e9)",
    "x.bfloat16().masked_fill(mask, -1e9)",
    "x.half().masked_fill(mask, -1e4)",
    "x.half().masked_fill(mask, float('-inf'))",
    "x.half().masked_fill(mask, torch.finfo(torch.float16).min)",
    "x.masked_fill(mask, -1e9).half()",
    "x.half() * 1e5",
]


@pytest.mark.parametrize("line", SILENT)
def test_near_misses_are_not_reported(line: str) -> None:
    assert codes(f"value = {line}\n") == []


def test_patterns_are_seen_across_functions_and_assignments() -> None:
    text = "def probabilities(scores):\n    return F.softmax(scores, dim=1)\np = probabilities(x)\nq = p\nloss = -torch.log(q).mean()\n"
    assert codes(text) == ["NUM504"]


def test_functions_that_nobody_calls_are_looked_at() -> None:
    assert codes("def unused(z):\n    return np.log(1 + np.exp(z))\n") == ["NUM501"]


@pytest.mark.parametrize(
    "change",
    ["p.clamp_(1e-6, 1 - 1e-6)", "p[p == 0] = 1e-6", "torch.clamp(p, 1e-6, 1 - 1e-6, out=p)", "def f(q): q.add_(1e-6)\nf(p)"],
)
def test_a_tensor_that_was_changed_in_place_is_no_longer_what_it_was(change: str) -> None:
    assert codes("p = torch.sigmoid(x)\nloss = torch.log(p)\n") == ["NUM505"]
    assert codes(f"p = torch.sigmoid(x)\n{change}\nloss = torch.log(p)\n") == []


def test_a_function_that_changes_its_argument_changes_every_argument() -> None:
    text = (
        "def f(q):\n    q.add_(1e-6)\np, q = torch.sigmoid(x), torch.sigmoid(x)\nf(p)\nf(q)\na = torch.log(p)\nb = torch.log(q)\n"
    )
    assert codes(text) == []


def test_tensors_of_one_shape_are_told_apart_behind_functions() -> None:
    prepared = "def prepare(z):\n    return 2 * z\nvalue = (prepare(x) ** 2).mean() - prepare(y).mean() ** 2\n"
    averaged = "def average(z):\n    return z.mean()\naverage(x)\nvalue = (x**2).mean() - average(y) ** 2\n"
    assert codes(prepared) == []
    assert codes(averaged) == []


@pytest.mark.parametrize("setting", ["torch.set_default_dtype(torch.float64)", "keras.config.set_floatx('float64')"])
def test_other_default_types_are_respected(setting: str) -> None:
    line = "p = torch.rand(3).clamp(1e-8, 1 - 1e-8)\n"
    assert codes(line) == ["NUM508"]
    assert codes(f"{setting}\n{line}") == []


ATTENTION = """
def attend(q, k):
    scores = (q @ k.transpose(-1, -2)) / 5**0.5
    return scores.masked_fill(torch.ones(4, 4, dtype=torch.bool), -1e9)
with {}:
    weights = attend(x, y)
"""


@pytest.mark.parametrize(
    "region",
    ["torch.cuda.amp.autocast()", "torch.autocast('cuda')", "torch.amp.autocast('cpu', dtype=torch.float16, enabled=use_amp)"],
)
def test_products_are_in_half_precision_where_pytorch_casts(region: str) -> None:
    assert codes(ATTENTION.format(region)) == ["NUM509"]


@pytest.mark.parametrize(
    "region",
    [
        "torch.no_grad()",
        "torch.autocast('cpu')",
        "torch.autocast('cuda', dtype=torch.bfloat16)",
        "torch.autocast('cuda', torch.bfloat16)",
        "torch.cuda.amp.autocast(enabled=False)",
        "torch.autocast(device)",
    ],
)
def test_other_regions_are_in_single_precision(region: str) -> None:
    assert codes(ATTENTION.format(region)) == []


def test_what_is_no_product_stays_in_single_precision() -> None:
    assert (
        codes(
            "with torch.autocast('cuda'):\n    z = x.masked_fill(mask, -1e9)\n    w = (x @ y.T + x[:, :4]).masked_fill(mask[:, :4], -1e9)\n"
        )
        == []
    )


# -- roots ------------------------------------------------------------------------------------------------------------

MODEL = "model = nn.Linear(5, 5)\n"
DIFFERENTIATED = [
    "torch.sqrt(((model(x) - y) ** 2).sum())",
    "((model(x) - y) ** 2).sum(dim=1).sqrt().mean()",
    "torch.sqrt(F.mse_loss(model(x), y))",
    "torch.sqrt((model(x) - y)[:, 0] ** 2 + (model(x) - y)[:, 1] ** 2).sum()",
    "(torch.sqrt(0.5 * torch.square(model.weight).mean()) * 2).sum()",
]
NOT_STEEP = [
    "torch.sqrt(((model(x) - y) ** 2).sum() + 1e-8)",
    "torch.sqrt(((model(x) - y) ** 2).sum().clamp(min=1e-8))",
    "(model(x) - y).norm()",
    "torch.sqrt(model(x).exp()).sum()",
    "model(x).sum() / torch.sqrt((y**2).sum())",
    "model(x).sum() / torch.sqrt(((model(x) - y) ** 2).sum()).detach()",
    "model(x).sum() / torch.sqrt(((model(x).detach() - y) ** 2).sum())",
]


@pytest.mark.parametrize("loss", DIFFERENTIATED)
def test_roots_that_are_differentiated_at_zero_are_reported(loss: str) -> None:
    assert codes(f"{MODEL}loss = {loss}\nloss.backward()\n") == ["NUM507"]
    assert codes(f"{MODEL}loss = {loss}\nprint(loss.item())\n") == []


@pytest.mark.parametrize("loss", NOT_STEEP)
def test_roots_with_a_floor_or_of_constants_are_not_reported(loss: str) -> None:
    assert codes(f"{MODEL}loss = {loss}\nloss.backward()\n") == []


def test_roots_in_blocks_without_gradients_are_not_reported() -> None:
    root = "((model(x) - y) ** 2).sum().sqrt()"
    block = f"with torch.no_grad():\n    scale = {root}\n"
    function = f"@torch.no_grad()\ndef measure():\n    return {root}\nscale = measure()\n"
    for text in (block, function):
        assert codes(f"{MODEL}{text}(model(x).sum() / scale).backward()\n") == []


def test_losses_that_are_scaled_or_minimised_are_followed() -> None:
    root = f"{MODEL}loss = torch.sqrt(((model(x) - y) ** 2).sum())\nscaler = torch.cuda.amp.GradScaler()\n"
    assert codes(f"{root}scaler.scale(loss).backward()\n") == ["NUM507"]
    assert codes(f"{root}print(scaler.scale(loss))\n") == []
    graph = (
        "import tensorflow as tf\na = tf.placeholder(tf.float32, [None, 3])\nw = tf.Variable(tf.zeros([3, 1]))\n"
        "loss = tf.sqrt(tf.reduce_sum(tf.square(tf.matmul(a, w))))\n"
    )
    assert codes(f"{graph}step = tf.train.AdamOptimizer(0.1).minimize(loss)\n", header="") == ["NUM507"]
    assert codes(graph, header="") == []


def test_gradients_of_jax_and_tensorflow_are_followed() -> None:
    distance = "def distance(a, b):\n    return jnp.sum(jnp.linalg.norm(a - b, axis=-1))\n"
    assert codes(f"{distance}g = jax.grad(distance)(j, j)\n") == ["NUM507"]
    assert codes(f"{distance}g = distance(j, j)\n") == []
    tape = "v = tf.Variable(t)\nwith tf.GradientTape() as tape:\n    loss = tf.sqrt(tf.reduce_sum(tf.square({})))\ng = tape.gradient(loss, v)\n"
    assert codes(tape.format("v - t")) == ["NUM507"]
    assert codes(tape.format("t")) == []


# -- corrections ------------------------------------------------------------------------------------------------------

CORRECTED = {
    "torch.log(1 + x.abs())": "torch.log1p(x.abs())",
    "(x.abs() + 1).log()": "x.abs().log1p()",
    "np.log(1 + n)": "np.log1p(n)",
    "tf.math.log(1.0 + tf.abs(t))": "tf.math.log1p(tf.abs(t))",
    "keras.ops.log(k + 1)": "keras.ops.log1p(k)",
    "torch.log(1 + torch.exp(x))": "torch.nn.functional.softplus(x)",
    "np.log(1 + np.exp(n - 1))": "np.logaddexp(0, n - 1)",
    "jnp.log(jnp.exp(j) + 1)": "jnp.logaddexp(0, j)",
    "tf.math.log(1 + tf.exp(t))": "tf.math.softplus(t)",
    "keras.ops.log(1 + keras.ops.exp(k))": "keras.ops.softplus(k)",
    "torch.exp(x * 2) - 1": "torch.expm1(x * 2)",
    "(x + y).exp() - 1.0": "(x + y).expm1()",
    "tf.exp(t) - 1": "tf.math.expm1(t)",
    "jnp.exp(j) - 1": "jnp.expm1(j)",
    "torch.log(torch.sum(torch.exp(x), dim=1))": "torch.logsumexp(x, dim=1)",
    "(x - 1).exp().sum(1, keepdim=True).log()": "(x - 1).logsumexp(1, keepdim=True)",
    "tf.math.log(tf.reduce_sum(tf.exp(t), axis=1))": "tf.reduce_logsumexp(t, axis=1)",
    "keras.ops.log(keras.ops.sum(keras.ops.exp(k), axis=1))": "keras.ops.logsumexp(k, axis=1)",
    "torch.log(F.softmax(x, dim=1))": "F.log_softmax(x, dim=1)",
    "x.softmax(1).log()": "x.log_softmax(1)",
    "jnp.log(jax.nn.softmax(j, axis=0))": "jax.nn.log_softmax(j, axis=0)",
    "tf.math.log(tf.nn.softmax(t))": "tf.nn.log_softmax(t)",
    "torch.log(torch.sigmoid(-x))": "torch.nn.functional.logsigmoid(-x)",
    "tf.math.log(tf.sigmoid(t))": "tf.math.log_sigmoid(t)",
    "jnp.log(jax.nn.sigmoid(j))": "jax.nn.log_sigmoid(j)",
    "keras.ops.log(keras.ops.sigmoid(k))": "keras.ops.log_sigmoid(k)",
}


def only_edit(text: str) -> Edit:
    (problem,) = problems(text)
    (edit,) = problem.edits
    return edit


@pytest.mark.parametrize("line", CORRECTED)
def test_corrections_are_offered(line: str) -> None:
    edit = only_edit(f"value = {line}\n")
    assert edit.text == CORRECTED[line]
    assert (edit.place.column, edit.place.end_column) == (len("value = "), len("value = ") + len(line))
    assert codes(f"value = {edit.text}\n") == []


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """The names that the lines use, as the libraries make them."""
    values: dict[str, Any] = {}
    exec(HEADER, values)
    return values


@pytest.mark.parametrize("line", CORRECTED)
def test_corrections_compute_the_same(line: str, names: dict[str, Any]) -> None:
    import numpy as np

    values = [np.asarray(eval(text, names)) for text in (line, CORRECTED[line])]
    assert values[0].shape == values[1].shape
    np.testing.assert_allclose(*values, rtol=1e-4, atol=1e-5)


def test_corrections_of_other_rules() -> None:
    root = f"{MODEL}loss = torch.sqrt(((model(x) - y) ** 2).sum())\nloss.backward()\n"
    assert only_edit(root).text == "torch.sqrt(((model(x) - y) ** 2).sum() + 1e-12)"
    fill = "h = x.half()\nh = h.masked_fill(mask, -1e9)\n"
    assert only_edit(fill).text == "h.masked_fill(mask, torch.finfo(h.dtype).min)"
    choice = "h = j.astype(jnp.float16)\nh = jnp.where(h > 0, h, -1e9)\n"
    assert only_edit(choice).text == "jnp.where(h > 0, h, jnp.finfo(h.dtype).min)"


def test_corrections_keep_what_is_not_ascii_and_what_spans_lines() -> None:
    edit = only_edit("é = x.abs()\nvalue = 'ü', torch.log(\n    1\n    + é\n)\n")
    assert edit.text == "torch.log1p(é)"
    assert (edit.place.line, edit.place.end_line) == (HEADER.count("\n") + 2, HEADER.count("\n") + 5)
    assert edit.place.column == len("value = 'ü', ".encode())


def test_no_correction_is_offered_where_the_parts_are_written_apart() -> None:
    (problem,) = problems("e = torch.exp(x)\nvalue = e - 1\n")
    assert problem.edits == ()
    assert any(re.search("torch.exp", related.message) for related in problem.related)
