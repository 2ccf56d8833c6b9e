"""Functions of torch as programs use them: exported, analysed, and compared with what torch itself computes.

Functions of one group are exported together, which costs one export. Each is analysed on a box, where no hazard may fire and
every sample must lie in its range, and at single points, where the range leaves no room for a wrong translation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tensorproof.formats import BY_NAME, Format
from tensorproof.frontends.aten import array_of
from tensorproof.frontends.torch_export import exported
from tensorproof.graph import Model
from tensorproof.ranges.range import Range
from tensorproof.ranges.records import RangedGraph
from tensorproof.targets import TORCH_CPU
from tests.soundness.containment import violation
from tests.soundness.trials import analyse, unanalysed

if TYPE_CHECKING:
    import torch

pytestmark = pytest.mark.area("torch functions")

Function = Callable[..., Any]


@dataclass(frozen=True)
class Box:
    """An input: its shape, ends and format."""

    shape: tuple[int, ...]
    low: float
    high: float
    format: str = "float32"

    @property
    def range(self) -> Range:
        format = BY_NAME[self.format]
        low, high = (float(format.dtype.type(end)) for end in (self.low, self.high))
        return Range.uniform(self.shape, format, low, high)

    def drawn(self, rng: np.random.Generator) -> torch.Tensor:
        """A tensor inside: a third of the elements at the ends."""
        import torch

        format = BY_NAME[self.format]
        low, high = self.range.hull()
        if not format.is_float:
            numbers = rng.integers(int(low), int(high), size=self.shape, endpoint=True).astype(np.float64)
        else:
            numbers = low + (high - low) * rng.random(self.shape)
            numbers = np.where(rng.random(self.shape) < 1 / 3, rng.choice([low, high], self.shape), numbers)
            numbers = np.clip(format.round_nearest(numbers), low, high)
        return torch.from_numpy(np.asarray(numbers)).to(getattr(torch, self.format))


def together(functions: Sequence[Function]) -> torch.nn.Module:
    """A module that gives the results of all functions."""
    import torch

    class Together(torch.nn.Module):
        def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return tuple(function(*inputs) for function in functions)

    return Together()


def graph_of(functions: Sequence[Function], boxes: Sequence[Box]) -> Model:
    rng = np.random.default_rng(3)
    return exported(together(functions), tuple(box.drawn(rng) for box in boxes)).model


def hazards_of(result: RangedGraph) -> list[str]:
    """The failures that the analysis holds possible: node and rule."""
    found = [(r.node, h) for r in result.records.values() for h in r.hazards if h.gives]
    return [f"{node.name} {hazard.rule.code} [{hazard.low}, {hazard.high}]" for node, hazard in found]


def misplaced(model: Model, result: RangedGraph, functions: Sequence[Function], inputs: Sequence[torch.Tensor]) -> list[str]:
    """Results of torch that do not lie in their range."""
    found: list[str] = []
    for index, function in enumerate(functions):
        value = result.outputs[model.graph.outputs[index]].actual
        reason = violation(value, array_of(function(*inputs)))
        if reason is not None:
            found.append(f"{index}: {reason}")
    return found


# -- groups ----------------------------------------------------------------------------------------------------------


def by_name(*names: str) -> dict[str, Function]:
    """Functions of torch."""
    return {name: partial(_called, name) for name in names}


def _called(name: str, *operands: Any) -> Any:
    import torch

    found: Any = torch
    for part in name.split("."):
        found = getattr(found, part)
    return found(*operands)


def functional(name: str, **more: Any) -> Function:
    """A function of torch.nn.functional with some arguments."""

    def call(*operands: Any) -> Any:
        import torch

        return getattr(torch.nn.functional, name)(*operands, **more)

    return call


def reductions(name: str, **more: Any) -> dict[str, Function]:
    """A loss, reduced in all ways."""
    marks = "".join(f" {key}" for key in more)
    return {f"{name}{marks} {reduction}": functional(name, reduction=reduction, **more) for reduction in ("mean", "sum", "none")}


def weights(*numbers: float) -> torch.Tensor:
    import torch

    return torch.tensor(numbers)


def likelihood(scores: Any, target: Any, **more: Any) -> Any:
    import torch

    functions = torch.nn.functional
    return functions.nll_loss(functions.log_softmax(scores, 1), target, **more)


def divergence(scores: Any, target: Any, reduction: str) -> Any:
    import torch

    functions = torch.nn.functional
    return functions.kl_div(functions.log_softmax(scores, 1), target, reduction=reduction)


def density(name: str, **fixed: Any) -> Function:
    """The log-density of a distribution: its parameters, then the value."""

    def call(*operands: Any) -> Any:
        return made(name, operands[:-1], fixed).log_prob(operands[-1])

    return call


def entropy(name: str, **fixed: Any) -> Function:
    """The entropy of a distribution; the last operand is not used by it, and added so that it is."""

    def call(*operands: Any) -> Any:
        return made(name, operands[:-1], fixed).entropy() + operands[-1]

    return call


def made(name: str, parameters: Sequence[Any], fixed: dict[str, Any]) -> Any:
    """A distribution; a single parameter is its logits where it has some."""
    import torch

    kind: Any = getattr(torch.distributions, name)
    if "logits" in kind.arg_constraints:
        return kind(logits=parameters[0], validate_args=False, **fixed)
    return kind(*parameters, validate_args=False, **fixed)


SHAPE = (3, 4)
ANY, FAR = Box(SHAPE, -3.0, 3.0), Box(SHAPE, -100.0, 100.0)
PROBABILITY, INSIDE, POSITIVE = Box(SHAPE, 0.0, 1.0), Box(SHAPE, 0.05, 0.95), Box(SHAPE, 0.5, 3.0)
TRUTH = Box(SHAPE, 0, 1, "bool")
CLASSES = Box((3,), 0, 3, "int64")

GROUPS: dict[str, tuple[dict[str, Function], list[Box]]] = {
    "functions": (
        by_name(
            *[
                "exp",
                "exp2",
                "expm1",
                "sin",
                "cos",
                "tanh",
                "sinh",
                "cosh",
                "asinh",
                "atan",
                "sigmoid",
                "erf",
                "erfc",
                "abs",
                "neg",
                "sign",
                "floor",
                "ceil",
                "round",
                "trunc",
                "frac",
            ],
            *[
                "square",
                "sinc",
                "relu",
                "isnan",
                "isinf",
                "isfinite",
                "logical_not",
                "special.ndtr",
                "deg2rad",
                "arctan",
                "arcsinh",
            ],
        )
        | {
            "clamp": lambda x: x.clamp(-1, 1),
            "clamp from below": lambda x: x.clamp(min=0.1),
            "clamp from above": lambda x: x.clamp_max(1),
            "reversed difference": lambda x: 1 - x,
            "square by power": lambda x: x**2,
            "cube": lambda x: x**3,
            "power of two": lambda x: 2.0**x,
            "where": lambda x: _called("where", x > 0, x, 0.5),
            "float power": lambda x: _called("float_power", x, 2),
        },
        [ANY],
    ),
    "functions of positive numbers": (
        by_name(
            *[
                "log",
                "log2",
                "log10",
                "log1p",
                "sqrt",
                "rsqrt",
                "reciprocal",
                "lgamma",
                "digamma",
                "logit",
                "erfinv",
                "acos",
                "asin",
                "atanh",
                "special.entr",
            ]
        )
        | {
            "root by power": lambda x: x**0.5,
            "trigamma": lambda x: _called("polygamma", 1, x),
            "logit with eps": lambda x: _called("logit", x, 0.2),
        },
        [INSIDE],
    ),
    "two operands": (
        by_name(
            *[
                "add",
                "sub",
                "mul",
                "maximum",
                "minimum",
                "fmax",
                "fmin",
                "atan2",
                "hypot",
                "logaddexp",
                "logaddexp2",
                "copysign",
                "eq",
                "ne",
                "lt",
                "le",
                "gt",
                "ge",
            ],
            *["logical_and", "logical_or", "logical_xor"],
        )
        | {
            "sum with a factor": lambda a, b: a.add(b, alpha=3),
            "difference with a factor": lambda a, b: a.sub(b, alpha=0.5),
            "interpolation": lambda a, b: a.lerp(b, 0.3),
            "interpolation by a tensor": lambda a, b: a.lerp(b, b.sigmoid()),
            "addcmul": lambda a, b: a.addcmul(a, b, value=0.5),
            "addcdiv": lambda a, b: a.addcdiv(a, b.abs() + 1, value=0.5),
            "clamp to tensors": lambda a, b: a.clamp(b, b + 1),
            "where": lambda a, b: a.where(a > b, b),
        },
        [ANY, ANY],
    ),
    "two positive operands": (
        by_name("div", "true_divide", "remainder", "fmod", "floor_divide", "pow", "xlogy", "special.xlog1py")
        | {
            "rounded down": lambda a, b: a.div(b, rounding_mode="floor"),
            "cut off": lambda a, b: a.div(b, rounding_mode="trunc"),
            "x log x": lambda a, b: _called("xlogy", a, a) + b,
        },
        [POSITIVE, POSITIVE],
    ),
    "truth values": (
        {
            "and": lambda a, b: a & b,
            "or": lambda a, b: a | b,
            "xor": lambda a, b: a ^ b,
            "not": lambda a, b: ~a,
            "sum": lambda a, b: a + b,
            "product": lambda a, b: a * b,
            "filled": lambda a, b: (a * 1.0).masked_fill(b, -2.0),
        },
        [TRUTH, TRUTH],
    ),
    "integers": (
        {
            "quotient": lambda a, b: a / (b + 1),
            "rounded quotient": lambda a, b: a // (b + 1),
            "remainder": lambda a, b: a % (b + 1),
            "bits": lambda a, b: (a & b) | (a ^ 1),
            "ldexp": lambda a, b: _called("ldexp", a * 1.0, b),
        },
        [CLASSES, CLASSES],
    ),
    "activations": (
        {
            name: functional(name)
            for name in (
                *[
                    "relu",
                    "relu6",
                    "elu",
                    "selu",
                    "celu",
                    "leaky_relu",
                    "gelu",
                    "silu",
                    "mish",
                    "softplus",
                    "logsigmoid",
                    "hardtanh",
                    "hardswish",
                    "hardsigmoid",
                ],
                *["hardshrink", "softshrink", "tanhshrink", "softsign", "rrelu", "glu"],
            )
        }
        | {
            "threshold": lambda x: functional("threshold")(x, 0.1, 20.0),
            "threshold to zero": lambda x: functional("threshold")(x, 0.1, 0.0),
            "gelu by tanh": functional("gelu", approximate="tanh"),
            "softplus with beta": functional("softplus", beta=2.0, threshold=15.0),
            "celu with alpha": functional("celu", alpha=0.3),
            "softmax": functional("softmax", dim=-1),
            "log_softmax": functional("log_softmax", dim=0),
            "softmin": functional("softmin", dim=-1),
            "softmax of all": lambda x: functional("softmax", dim=0)(x.sum()),
            "prelu": lambda x: functional("prelu")(x, weights(0.1, -0.2, 0.3, 2.0)),
            "dropout at inference": lambda x: functional("dropout", p=0.3, training=False)(x) * 1.5,
        },
        [FAR],
    ),
    "losses": (
        reductions("mse_loss")
        | reductions("l1_loss")
        | reductions("smooth_l1_loss")
        | reductions("huber_loss", delta=0.7)
        | reductions("binary_cross_entropy_with_logits")
        | {f"kl_div {reduction}": partial(divergence, reduction=reduction) for reduction in ("none", "sum", "batchmean")}
        | {
            "binary_cross_entropy_with_logits weighted": lambda x, t: functional(
                "binary_cross_entropy_with_logits", weight=weights(1, 2, 3, 4), pos_weight=weights(2, 1, 0.5, 3)
            )(x, t),
            "soft_margin_loss": lambda x, t: functional("soft_margin_loss")(x / 10, t),
            "cross_entropy of probabilities": functional("cross_entropy"),
            "cross_entropy of probabilities, smoothed": functional("cross_entropy", label_smoothing=0.1, reduction="sum"),
            "poisson_nll_loss": lambda x, t: functional("poisson_nll_loss", full=True)(x / 10, 4 * t),
            "poisson_nll_loss of rates": lambda x, t: functional("poisson_nll_loss", log_input=False)(x.abs(), t),
            "gaussian_nll_loss": lambda x, t: functional("gaussian_nll_loss", full=True)(x, 2 * t, t),
            "multilabel_soft_margin_loss": functional("multilabel_soft_margin_loss"),
            "cosine_similarity": functional("cosine_similarity"),
            "pairwise_distance": functional("pairwise_distance"),
            "margin_ranking_loss": lambda x, t: functional("margin_ranking_loss", margin=0.3)(x, t, t),
            "triplet_margin_loss": lambda x, t: functional("triplet_margin_loss")(x, t, 1 - t),
        },
        [FAR, PROBABILITY],
    ),
    "losses of probabilities": (
        reductions("binary_cross_entropy")
        | {"binary_cross_entropy weighted": lambda x, t: functional("binary_cross_entropy", weight=weights(1, 2, 3, 4))(x, t)},
        [PROBABILITY, PROBABILITY],
    ),
    "losses of classes": (
        reductions("cross_entropy")
        | reductions("cross_entropy", label_smoothing=0.1)
        | reductions("multi_margin_loss")
        | {
            f"cross_entropy weighted {reduction}": lambda x, t, reduction=reduction: functional(
                "cross_entropy", weight=weights(1, 2, 0.5, 3), reduction=reduction
            )(x, t)
            for reduction in ("mean", "none")
        }
        | {
            "cross_entropy weighted, smoothed": lambda x, t: functional(
                "cross_entropy", weight=weights(1, 2, 0.5, 3), label_smoothing=0.2
            )(x, t),
            "nll_loss": likelihood,
            "nll_loss with an ignored class": partial(likelihood, ignore_index=2, reduction="sum"),
            "cross_entropy of one example": lambda x, t: functional("cross_entropy", reduction="none")(x[0], t[0]),
        },
        [FAR, CLASSES],
    ),
    "densities on the line": (
        {name: density(name) for name in ("Normal", "Laplace", "Cauchy")}
        | {f"entropy of {name}": entropy(name) for name in ("Normal", "Laplace", "Cauchy")}
        | {
            "Independent": lambda a, b, v: _independent(a, b).log_prob(v),
            "StudentT": lambda a, b, v: density("StudentT")(b, a, b, v),
        },
        [ANY, POSITIVE, ANY],
    ),
    "densities on positive numbers": (
        {name: density(name) for name in ("LogNormal", "Gamma", "InverseGamma", "FisherSnedecor", "Weibull")}
        | {f"entropy of {name}": entropy(name) for name in ("LogNormal", "Gamma", "InverseGamma", "Weibull", "Pareto", "Beta")}
        | {
            name: lambda a, b, v, name=name: density(name)(a, v) + b
            for name in ("HalfNormal", "HalfCauchy", "Exponential", "Chi2", "Poisson")
        }
        | {"Dirichlet": lambda a, b, v: density("Dirichlet")(a, v / 4).sum() + b},
        [POSITIVE, POSITIVE, POSITIVE],
    ),
    "densities of logits": (
        {
            "Bernoulli": density("Bernoulli"),
            "entropy of Bernoulli": entropy("Bernoulli"),
            "Geometric": density("Geometric"),
            "Binomial": density("Binomial", total_count=5),
            "NegativeBinomial": density("NegativeBinomial", total_count=5.0),
            "Multinomial": density("Multinomial", total_count=3),
            "OneHotCategorical": density("OneHotCategorical"),
            "entropy of Categorical": lambda x, v: made("Categorical", [x], {}).entropy() + v.sum(),
        },
        [ANY, PROBABILITY],
    ),
}


def _independent(mean: Any, deviation: Any) -> Any:
    import torch

    return torch.distributions.Independent(made("Normal", [mean, deviation], {}), 1)


@pytest.mark.parametrize("group", GROUPS)
def test_functions_are_analysed_without_an_alarm(group: str) -> None:
    functions, boxes = GROUPS[group]
    model = graph_of(list(functions.values()), boxes)
    assert len(model.graph.outputs) == len(functions)
    result = analyse(model, [box.range for box in boxes], TORCH_CPU)
    assert unanalysed(result) == []
    assert hazards_of(result) == []
    rng = np.random.default_rng(5)
    names = list(functions)
    for _ in range(5):
        inputs = [box.drawn(rng) for box in boxes]
        for text in misplaced(model, result, list(functions.values()), inputs):
            index, _, reason = text.partition(":")
            raise AssertionError(f"{names[int(index)]}: {reason}")
        # At a point the range is as narrow as rounding leaves it: arguments that change places do not fit.
        at_point = analyse(model, [Range.constant(array_of(x)) for x in inputs], TORCH_CPU)
        assert [names[int(t.partition(":")[0])] + t for t in misplaced(model, at_point, list(functions.values()), inputs)] == []


# -- random boxes ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Property:
    """A function whose range must hold what torch computes on any box, and whose alarms must be true."""

    function: Function
    #: The ends that boxes are drawn between, one pair for each operand.
    ends: tuple[tuple[float, float], ...]
    shapes: tuple[tuple[int, ...], ...]
    formats: tuple[str, ...] = ("float32", "float16", "bfloat16")


def normalised(x: Any) -> Any:
    return functional("layer_norm", normalized_shape=(6,))(x)


PROPERTIES: dict[str, Property] = {
    "logsigmoid": Property(functional("logsigmoid"), ((-300, 300),), ((8,),)),
    "binary_cross_entropy_with_logits": Property(
        functional("binary_cross_entropy_with_logits", reduction="none"), ((-300, 300), (0, 1)), ((8,), (8,))
    ),
    "logaddexp": Property(by_name("logaddexp")["logaddexp"], ((-300, 300), (-300, 300)), ((8,), (8,))),
    "log1p": Property(by_name("log1p")["log1p"], ((-1.5, 30),), ((8,),)),
    "xlogy": Property(by_name("xlogy")["xlogy"], ((-1, 3), (-0.5, 3)), ((8,), (8,))),
    "softplus": Property(functional("softplus"), ((-300, 300),), ((8,),)),
    "gelu": Property(functional("gelu"), ((-30, 30),), ((8,),)),
    "logsumexp": Property(lambda x: _called("logsumexp", x, 1), ((-300, 300),), ((3, 5),)),
    "scaled_dot_product_attention": Property(
        functional("scaled_dot_product_attention"), ((-6, 6), (-6, 6), (-6, 6)), ((2, 3, 4), (2, 5, 4), (2, 5, 4))
    ),
    "layer_norm": Property(normalised, ((-50, 50),), ((3, 6),)),
    "group_norm": Property(functional("group_norm", num_groups=2), ((-50, 50),), ((2, 4, 3),)),
    "kl_div": Property(functional("kl_div", reduction="none"), ((-30, 0), (0, 1)), ((8,), (8,))),
    "cross_entropy": Property(
        lambda x: functional("cross_entropy", reduction="none")(x, weights(0, 1, 2, 3).long()), ((-300, 300),), ((4, 5),)
    ),
}


def random_box(rng: np.random.Generator, ends: tuple[float, float], shape: tuple[int, ...], format: Format) -> Box:
    """Two numbers between the ends, near each other or not; often an end itself, or zero."""
    low, high = sorted(rng.uniform(*ends, 2).tolist())
    kind = rng.integers(5)
    if kind == 0:
        low, high = ends
    elif kind == 1:
        low, high = max(low, 0.0), max(high, 0.0)
    elif kind == 2:
        high = low + 1e-3 * (high - low)
    low, high = (float(format.dtype.type(end)) for end in (low, high))
    return Box(shape, low, high, format.name)


@pytest.mark.parametrize("name", PROPERTIES)
def test_ranges_hold_what_torch_computes_and_alarms_are_true(name: str) -> None:
    import torch

    case = PROPERTIES[name]
    rng = np.random.default_rng(7)
    for format in (BY_NAME[text] for text in case.formats):
        sample = [random_box(rng, ends, shape, format) for ends, shape in zip(case.ends, case.shapes, strict=True)]
        model = graph_of([case.function], sample)
        for _ in range(10):
            boxes = [random_box(rng, ends, shape, format) for ends, shape in zip(case.ends, case.shapes, strict=True)]
            result = analyse(model, [box.range for box in boxes], TORCH_CPU)
            assert unanalysed(result) == []
            failed = False
            for _ in range(10):
                inputs = [box.drawn(rng) for box in boxes]
                assert misplaced(model, result, [case.function], inputs) == [], (format.name, boxes)
                failed |= not bool(torch.isfinite(case.function(*inputs)).all())
            assert failed == bool(hazards_of(result)), (format.name, boxes, hazards_of(result))


# -- defects ---------------------------------------------------------------------------------------------------------

DEFECTS: dict[str, tuple[Function, list[Box], str]] = {
    "log1p of -1": (by_name("log1p")["log1p"], [Box(SHAPE, -1.0, 1.0)], "NUM101"),
    "x log y of zero": (by_name("xlogy")["xlogy"], [PROBABILITY, PROBABILITY], "NUM101"),
    "logit of one": (by_name("logit")["logit"], [PROBABILITY], "NUM105"),
    "erfinv of one": (by_name("erfinv")["erfinv"], [PROBABILITY], "NUM105"),
    "lgamma of zero": (by_name("lgamma")["lgamma"], [PROBABILITY], "NUM117"),
    "rsqrt of zero": (by_name("rsqrt")["rsqrt"], [PROBABILITY], "NUM103"),
    "rsqrt of a negative number": (by_name("rsqrt")["rsqrt"], [Box(SHAPE, -1.0, -0.5)], "NUM102"),
    "expm1 of 90": (by_name("expm1")["expm1"], [Box(SHAPE, 0.0, 90.0)], "NUM201"),
    "density of a gamma distribution": (density("Gamma"), [PROBABILITY, POSITIVE, POSITIVE], "NUM117"),
    "softmax, then log": (lambda x: x.softmax(-1).log(), [Box(SHAPE, -200.0, 200.0)], "NUM101"),
    "soft_margin_loss, which takes the exponential first": (functional("soft_margin_loss"), [FAR, PROBABILITY], "NUM201"),
    "floor division": (lambda a, b: a // b, [ANY, ANY], "NUM103"),
    "cross entropy of ignored targets": (functional("cross_entropy"), [FAR, Box((3,), -100, 3, "int64")], "NUM112"),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_defects_are_reported(name: str) -> None:
    function, boxes, rule = DEFECTS[name]
    result = analyse(graph_of([function], boxes), [box.range for box in boxes], TORCH_CPU)
    assert any(rule in text for text in hazards_of(result)), hazards_of(result)
