"""Losses of PyTorch as layers: each is a function of `families.losses` with its options kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tensorproof.shapes.families.modules import Module
from tensorproof.shapes.rule_table import RULES, Call, native_class
from tensorproof.shapes.values import UNKNOWN, Value


def apply_function(call: Call, name: str, *arguments: Value, **options: Value) -> Value:
    """The function of `torch.nn.functional` with that name, as a part of the layer's call: what it refuses, the layer does."""
    return apply_as_part(call, f"torch.nn.functional.{name}", arguments, options)


def apply_as_part(call: Call, name: str, arguments: Sequence[Value], options: Mapping[str, Value]) -> Value:
    """A rule inside another one; unknown if there is none of that name."""
    rule = RULES.get(name)
    if rule is None:
        return UNKNOWN
    given, named = rule.binding.bind(arguments, options, call.framework)
    inner = [replace(call, name=name)] if rule.binding.wants_call else []
    return rule.function(*inner, *given, **named)


class Loss(Module):
    """The options that most losses share."""

    size_average: Value = None
    reduce: Value = None
    reduction: Value = "mean"


class ElementLoss(Loss):
    """A loss of an input and a target without further options that matter."""

    function = ""

    def __call__(self, call: Call, input: Value, target: Value) -> Value:
        return apply_function(call, self.function, input, target, reduce=self.reduce, reduction=self.reduction)


@native_class("torch.nn.MSELoss")
class MSELoss(ElementLoss):
    """`nn.MSELoss`."""

    function = "mse_loss"


@native_class("torch.nn.L1Loss")
class L1Loss(ElementLoss):
    """`nn.L1Loss`."""

    function = "l1_loss"


@native_class("torch.nn.SoftMarginLoss")
class SoftMarginLoss(ElementLoss):
    """`nn.SoftMarginLoss`."""

    function = "soft_margin_loss"


@native_class("torch.nn.MultiLabelMarginLoss")
class MultiLabelMarginLoss(ElementLoss):
    """`nn.MultiLabelMarginLoss`."""

    function = "multilabel_margin_loss"


@native_class("torch.nn.SmoothL1Loss")
class SmoothL1Loss(ElementLoss):
    """`nn.SmoothL1Loss`."""

    function = "smooth_l1_loss"
    beta: Value = 1.0


@native_class("torch.nn.KLDivLoss")
class KLDivLoss(ElementLoss):
    """`nn.KLDivLoss`."""

    function = "kl_div"
    log_target: Value = False


@native_class("torch.nn.HuberLoss")
class HuberLoss(Module):
    """`nn.HuberLoss`."""

    reduction: Value = "mean"
    delta: Value = 1.0

    def __call__(self, call: Call, input: Value, target: Value) -> Value:
        return apply_function(call, "huber_loss", input, target, reduction=self.reduction)


class WeightedLoss(Module):
    """A loss with weights in front of its options."""

    function = ""

    weight: Value = None
    size_average: Value = None
    reduce: Value = None
    reduction: Value = "mean"

    def __call__(self, call: Call, input: Value, target: Value) -> Value:
        return apply_function(call, self.function, input, target, weight=self.weight, reduce=self.reduce, reduction=self.reduction)


@native_class("torch.nn.BCELoss")
class BCELoss(WeightedLoss):
    """`nn.BCELoss`."""

    function = "binary_cross_entropy"


@native_class("torch.nn.MultiLabelSoftMarginLoss")
class MultiLabelSoftMarginLoss(WeightedLoss):
    """`nn.MultiLabelSoftMarginLoss`."""

    function = "multilabel_soft_margin_loss"


@native_class("torch.nn.BCEWithLogitsLoss")
class BCEWithLogitsLoss(Module):
    """`nn.BCEWithLogitsLoss`."""

    weight: Value = None
    size_average: Value = None
    reduce: Value = None
    reduction: Value = "mean"
    pos_weight: Value = None

    def __call__(self, call: Call, input: Value, target: Value) -> Value:
        return apply_function(
            call,
            "binary_cross_entropy_with_logits",
            input,
            target,
            weight=self.weight,
            reduce=self.reduce,
            reduction=self.reduction,
            pos_weight=self.pos_weight,
        )


@native_class("torch.nn.NLLLoss", "torch.nn.NLLLoss2d")
class NLLLoss(Module):
    """`nn.NLLLoss`."""

    weight: Value = None
    size_average: Value = None
    ignore_index: Value = -100
    reduce: Value = None
    reduction: Value = "mean"

    def __call__(self, call: Call, input: Value, target: Value) -> Value:
        return apply_function(call, "nll_loss", input, target, weight=self.weight, reduce=self.reduce, reduction=self.reduction)


@native_class("torch.nn.CrossEntropyLoss")
class CrossEntropyLoss(Module):
    """`nn.CrossEntropyLoss`."""

    weight: Value = None
    size_average: Value = None
    ignore_index: Value = -100
    reduce: Value = None
    reduction: Value = "mean"
    label_smoothing: Value = 0.0

    def __call__(self, call: Call, input: Value, target: Value) -> Value:
        return apply_function(
            call, "cross_entropy", input, target, weight=self.weight, reduce=self.reduce, reduction=self.reduction
        )


@native_class("torch.nn.MultiMarginLoss")
class MultiMarginLoss(Module):
    """`nn.MultiMarginLoss`."""

    p: Value = 1
    margin: Value = 1.0
    weight: Value = None
    size_average: Value = None
    reduce: Value = None
    reduction: Value = "mean"

    def __call__(self, call: Call, input: Value, target: Value) -> Value:
        return apply_function(
            call, "multi_margin_loss", input, target, weight=self.weight, reduce=self.reduce, reduction=self.reduction
        )


@native_class("torch.nn.PoissonNLLLoss")
class PoissonNLLLoss(Module):
    """`nn.PoissonNLLLoss`."""

    log_input: Value = True
    full: Value = False
    size_average: Value = None
    eps: Value = 1e-08
    reduce: Value = None
    reduction: Value = "mean"

    def __call__(self, call: Call, log_input: Value, target: Value) -> Value:
        return apply_function(call, "poisson_nll_loss", log_input, target, reduce=self.reduce, reduction=self.reduction)


@native_class("torch.nn.GaussianNLLLoss")
class GaussianNLLLoss(Module):
    """`nn.GaussianNLLLoss`."""

    full: Value = False
    eps: Value = 1e-06
    reduction: Value = "mean"

    def __call__(self, call: Call, input: Value, target: Value, var: Value) -> Value:
        return apply_function(call, "gaussian_nll_loss", input, target, var, reduction=self.reduction)


class MarginLoss(Module):
    """Losses with a margin in front of their options."""

    margin: Value = 0.0
    size_average: Value = None
    reduce: Value = None
    reduction: Value = "mean"


@native_class("torch.nn.HingeEmbeddingLoss")
class HingeEmbeddingLoss(MarginLoss):
    """`nn.HingeEmbeddingLoss`."""

    def __call__(self, call: Call, input: Value, target: Value) -> Value:
        return apply_function(call, "hinge_embedding_loss", input, target, reduce=self.reduce, reduction=self.reduction)


@native_class("torch.nn.MarginRankingLoss")
class MarginRankingLoss(MarginLoss):
    """`nn.MarginRankingLoss`."""

    def __call__(self, call: Call, input1: Value, input2: Value, target: Value) -> Value:
        return apply_function(call, "margin_ranking_loss", input1, input2, target, reduce=self.reduce, reduction=self.reduction)


@native_class("torch.nn.CosineEmbeddingLoss")
class CosineEmbeddingLoss(MarginLoss):
    """`nn.CosineEmbeddingLoss`."""

    def __call__(self, call: Call, input1: Value, input2: Value, target: Value) -> Value:
        return apply_function(call, "cosine_embedding_loss", input1, input2, target, reduce=self.reduce, reduction=self.reduction)


@native_class("torch.nn.TripletMarginLoss")
class TripletMarginLoss(Module):
    """`nn.TripletMarginLoss`."""

    margin: Value = 1.0
    p: Value = 2.0
    eps: Value = 1e-06
    swap: Value = False
    size_average: Value = None
    reduce: Value = None
    reduction: Value = "mean"

    def __call__(self, call: Call, anchor: Value, positive: Value, negative: Value) -> Value:
        return apply_function(call, "triplet_margin_loss", anchor, positive, negative, reduce=self.reduce, reduction=self.reduction)


@native_class("torch.nn.CTCLoss")
class CTCLoss(Module):
    """`nn.CTCLoss`."""

    blank: Value = 0
    reduction: Value = "mean"
    zero_infinity: Value = False

    def __call__(self, call: Call, log_probs: Value, targets: Value, input_lengths: Value, target_lengths: Value) -> Value:
        return apply_function(call, "ctc_loss", log_probs, targets, input_lengths, target_lengths, reduction=self.reduction)


@native_class("torch.nn.CosineSimilarity")
class CosineSimilarity(Module):
    """`nn.CosineSimilarity`."""

    dim: Value = 1
    eps: Value = 1e-08

    def __call__(self, call: Call, x1: Value, x2: Value) -> Value:
        return apply_function(call, "cosine_similarity", x1, x2, dim=self.dim)


@native_class("torch.nn.PairwiseDistance")
class PairwiseDistance(Module):
    """`nn.PairwiseDistance`."""

    p: Value = 2.0
    eps: Value = 1e-06
    keepdim: Value = False

    def __call__(self, call: Call, x1: Value, x2: Value) -> Value:
        return apply_function(call, "pairwise_distance", x1, x2, keepdim=self.keepdim)
