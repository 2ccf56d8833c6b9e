"""Distributions of PyTorch: the shapes of samples and of their log-probabilities."""

from __future__ import annotations

from tensorproof.rules.shapes.not_broadcastable import NOT_BROADCASTABLE
from tensorproof.shapes.families.broadcasting import broadcast_dims
from tensorproof.shapes.rule_table import Call, Mismatch, NotKnown, as_sizes, native_class, shape_rule
from tensorproof.shapes.shape import Shape
from tensorproof.shapes.values import NativeObject, Tensor, Value


def _together(what: str, *tensors: Tensor) -> Shape:
    """The shape that parameters, or a value and its distribution, are stretched to."""
    shape = tensors[0].shape
    for tensor in tensors[1:]:
        wide = broadcast_dims(shape, tensor.shape)
        if wide is None:
            shapes = " and ".join(str(part.shape) for part in tensors)
            raise Mismatch(NOT_BROADCASTABLE, f"{what} of shapes {shapes} cannot be broadcast together", tensors=tensors)
        shape = wide
    return shape


class Distribution:
    """What distributions share: `batch` is a tensor with one element per distribution."""

    def batch(self) -> Tensor:
        raise NotKnown

    def sample(self, call: Call, sample_shape: Value = ()) -> Tensor:
        one_each = self.batch()
        return one_each.with_shape(one_each.shape.preceded(*as_sizes(sample_shape)))

    rsample = sample

    def log_prob(self, call: Call, value: Tensor) -> Tensor:
        one_each = self.batch()
        return one_each.with_shape(_together("a value and its distribution", value, one_each))

    def cdf(self, call: Call, value: Tensor) -> Tensor:
        return self.log_prob(call, value)

    def entropy(self, call: Call) -> Tensor:
        one_each = self.batch()
        return one_each.with_shape(one_each.shape)

    @property
    def mean(self) -> Tensor:
        one_each = self.batch()
        return one_each.with_shape(one_each.shape)

    stddev = variance = mean


@native_class("torch.distributions.Normal", "torch.distributions.normal.Normal")
class Normal(Distribution):
    """`Normal`."""

    loc: Tensor
    scale: Tensor
    validate_args: Value = None

    def setup(self, call: Call) -> Value:
        self.batch()
        return None

    def batch(self) -> Tensor:
        return self.loc.with_shape(_together("the parameters of a distribution", self.loc, self.scale), dtype="f32")


@native_class("torch.distributions.Uniform", "torch.distributions.uniform.Uniform")
class Uniform(Distribution):
    """`Uniform`."""

    low: Tensor
    high: Tensor
    validate_args: Value = None

    def setup(self, call: Call) -> Value:
        self.batch()
        return None

    def batch(self) -> Tensor:
        return self.low.with_shape(_together("the bounds of a distribution", self.low, self.high), dtype="f32")


@native_class("torch.distributions.Beta", "torch.distributions.beta.Beta")
class Beta(Distribution):
    """`Beta`."""

    concentration1: Tensor
    concentration0: Tensor
    validate_args: Value = None

    def setup(self, call: Call) -> Value:
        self.batch()
        return None

    def batch(self) -> Tensor:
        parameters = (self.concentration1, self.concentration0)
        return parameters[0].with_shape(_together("the parameters of a distribution", *parameters), dtype="f32")


class ByProbability(Distribution):
    """Distributions that take probabilities or their logarithms."""

    probs: Value = None
    logits: Value = None
    validate_args: Value = None

    def _scores(self) -> Tensor:
        for given in (self.probs, self.logits):
            if isinstance(given, Tensor):
                return given
        raise NotKnown

    def batch(self) -> Tensor:
        scores = self._scores()
        return scores.with_shape(scores.shape)


@native_class("torch.distributions.Bernoulli", "torch.distributions.bernoulli.Bernoulli")
class Bernoulli(ByProbability):
    """`Bernoulli`."""


@native_class("torch.distributions.Categorical", "torch.distributions.categorical.Categorical")
class Categorical(ByProbability):
    """`Categorical`: the last axis of the scores holds the classes."""

    def batch(self) -> Tensor:
        scores = self._scores()
        return scores.with_shape(scores.shape.without_last(1))

    def sample(self, call: Call, sample_shape: Value = ()) -> Tensor:
        one_each = self.batch()
        return one_each.with_shape(one_each.shape.preceded(*as_sizes(sample_shape)), dtype="i64")


@shape_rule("torch.distributions.kl_divergence", "torch.distributions.kl.kl_divergence")
def kl_divergence(p: Value, q: Value) -> Tensor:
    """One number per pair of distributions."""
    shapes: list[Tensor] = []
    for distribution in (p, q):
        if not isinstance(distribution, NativeObject) or not issubclass(distribution.cls.python_class, Distribution):
            raise NotKnown
        shapes.append(distribution.cls.view(distribution).batch())
    return Tensor(_together("distributions", *shapes), "f32", "torch")
