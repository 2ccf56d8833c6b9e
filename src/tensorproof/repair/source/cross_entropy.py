"""Binary cross-entropy written out, -(y log(p) + (1 - y) log(1 - p)), from its logits or with bounded arguments.

With p = sigmoid(z) it is (1 - y) z + log(1 + exp(-z)) = max(z, 0) - y z + log1p(exp(-|z|)): no logarithm of zero, and no
0 * inf. A mean or sum around it stays where it is. The functions of torch and TensorFlow want labels of the shape of the
logits, and torch wants them in a floating format, which the written-out form does not: so the repair is not called safe.

Where p does not come from a sigmoid in sight, the arguments of both logarithms are kept at or above the smallest normal
number of the format; every finite result stays what it was.
"""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from tensorproof.repair.source.drafting import Draft
from tensorproof.repair.source.exceptions import NotSure
from tensorproof.repair.source.log_sigmoid import FUNCTIONS as LOG_SIGMOIDS
from tensorproof.repair.source.reading import Operation
from tensorproof.repair.source.repair import Repair

_RULES = frozenset({"NUM101", "NUM109"})


@dataclass(frozen=True, slots=True)
class _CrossEntropy:
    """y log(p) + (1 - y) log(1 - p), times `sign`; `log` is the logarithm of p and `other` that of 1 - p."""

    sign: int
    node: cst.BaseExpression
    labels: cst.BaseExpression
    log: Operation
    other: Operation

    @property
    def probability(self) -> cst.BaseExpression:
        return self.log.operand


def _from_logits(node: cst.BaseExpression, draft: Draft) -> None:
    found = _around(node, draft)
    if found is None:
        return
    entropy, minus = found
    sigmoid = draft.reader.operation(entropy.probability, "sigmoid")
    if sigmoid is None or sigmoid.library is None:
        return
    logits = draft.operand(sigmoid, name="logits")
    if sigmoid.library == "jax":
        draft.replace(entropy.log.node, draft.call(LOG_SIGMOIDS["jax"], sigmoid, logits))
        draft.replace(entropy.other.node, draft.call(LOG_SIGMOIDS["jax"], sigmoid, draft.minus(logits)))
        return
    call = _call(draft, sigmoid, logits, draft.code(entropy.labels))
    if minus is not None:
        draft.take_minus(minus)
    draft.replace(entropy.node, call if minus is not None or entropy.sign < 0 else f"(-{call})")


def _call(draft: Draft, sigmoid: Operation, logits: str, labels: str) -> str:
    if sigmoid.library == "torch":
        function = "torch.nn.functional.binary_cross_entropy_with_logits"
        return draft.call(function, sigmoid, f'{logits}, {labels}, reduction="none"')
    if sigmoid.library == "tensorflow":
        return draft.call("tensorflow.nn.sigmoid_cross_entropy_with_logits", sigmoid, f"labels={labels}, logits={logits}")
    raise NotSure("NumPy has no cross-entropy of logits")


def _bounded(node: cst.BaseExpression, draft: Draft) -> None:
    entropy = _cross_entropy(node, draft)
    if entropy is None or draft.reader.operation(entropy.probability, "sigmoid") is not None:
        return
    if draft.reader.operation(entropy.probability, "clamp", "maximum", extra=frozenset({"min", "max"})) is not None:
        raise NotSure("the probability is bounded already")
    for log in (entropy.log, entropy.other):
        if log.name == "log1p":
            raise NotSure("the logits behind the probability are not in sight")
        library = draft.library(log)
        low = draft.limit("tiny", entropy.probability, library)
        draft.replace(log.operand, draft.at_least(log.operand, low, log, library))


def _around(node: cst.BaseExpression, draft: Draft) -> tuple[_CrossEntropy, cst.UnaryOperation | None] | None:
    """The cross-entropy that a node is; or, for -mean(...), that below the minus, with the minus."""
    if not isinstance(node, cst.UnaryOperation) or (inside := draft.reader.negated(node)) is None:
        found = _cross_entropy(node, draft)
        return None if found is None else (found, None)
    below = inside
    while (
        reduction := draft.reader.operation(below, "mean", "sum", extra=frozenset({"axis", "keepdims"}))
    ) and not reduction.through:
        below = reduction.operand
    found = _cross_entropy(below, draft)
    return None if found is None or found.sign < 0 else (found, node)


def _cross_entropy(node: cst.BaseExpression, draft: Draft) -> _CrossEntropy | None:
    terms = [_product(sign, term, draft) for sign, term in _terms(1, node, draft)]
    if len(terms) != 2 or terms[0][0] != terms[1][0]:
        return None
    found = [_weighted_log(factors, draft) for _, factors in terms]
    first, second = found
    if first is None or second is None:
        return None
    for (labels, log), (other_labels, other) in ((first, second), (second, first)):
        complement, one_minus = draft.reader.complement(other_labels), _complement_below(other, draft)
        if log.name != "log" or complement is None or one_minus is None:
            continue
        if draft.reader.same(complement.operand, labels) and draft.reader.same(one_minus, log.operand):
            return _CrossEntropy(terms[0][0], node, labels, log, other)
    return None


def _complement_below(log: Operation, draft: Draft) -> cst.BaseExpression | None:
    """The p of log(1 - p) or log1p(-p)."""
    if log.name == "log1p":
        return draft.reader.negated(log.operand)
    complement = draft.reader.complement(log.operand)
    return None if complement is None or complement.through else complement.operand


def _weighted_log(factors: list[cst.BaseExpression], draft: Draft) -> tuple[cst.BaseExpression, Operation] | None:
    """A weight and the logarithm that it is multiplied with."""
    if len(factors) != 2:
        return None
    for weight, factor in (factors, factors[::-1]):
        log = draft.reader.operation(factor, "log", "log1p")
        if log is not None and not log.through:
            return weight, log
    return None


def _terms(sign: int, node: cst.BaseExpression, draft: Draft) -> list[tuple[int, cst.BaseExpression]]:
    """A sum as its terms with their signs."""
    inside = draft.reader.negated(node)
    if inside is not None:
        return _terms(-sign, inside, draft)
    found = draft.reader.operation(node, "add", "subtract")
    if found is None or found.through:
        return [(sign, node)]
    second = sign if found.name == "add" else -sign
    if draft.reader.number(found.operand) is not None:
        return [(sign, node)]
    return [*_terms(sign, found.operand, draft), *_terms(second, found.arguments["y"], draft)]


def _product(sign: int, node: cst.BaseExpression, draft: Draft) -> tuple[int, list[cst.BaseExpression]]:
    """A product as its factors, with the sign of the whole."""
    inside = draft.reader.negated(node)
    if inside is not None:
        return _product(-sign, inside, draft)
    found = draft.reader.operation(node, "multiply")
    if found is None or found.through:
        return sign, [node]
    first, left = _product(sign, found.operand, draft)
    second, right = _product(first, found.arguments["y"], draft)
    return second, [*left, *right]


CROSS_ENTROPY = Repair(
    "cross-entropy-with-logits",
    False,
    "The cross-entropy is computed from the logits, where no logarithm of zero is taken; labels must have the shape of the logits "
    "and a floating format.",
    _RULES,
    _from_logits,
)
BOUNDED_CROSS_ENTROPY = Repair(
    "cross-entropy-bounded",
    False,
    "The arguments of both logarithms are kept at or above the smallest normal number of their format.",
    _RULES,
    _bounded,
)
