"""`tensorproof expose --function`: arguments of one function are searched, replayed and reported; whatever it does, it is said."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import tensorproof
from tensorproof.errors import AssumptionError, ConfigurationError, SourceError, TensorproofError
from tensorproof.expose.events import Failure
from tensorproof.expose.functions.argument import Argument, argument_of
from tensorproof.expose.functions.declaration import Declared, FunctionSettings, parse_arguments, parse_value, split_options
from tensorproof.expose.functions.shrinking import MOST_CALLS, simplified
from tensorproof.findings import Finding, Report, Verdict
from tensorproof.formats import BFLOAT16, FLOAT16, FLOAT32, FLOAT64
from tensorproof.report import find_format
from tests.commands import tensorproof as command
from tests.function_searches import Searched, searched

pytestmark = pytest.mark.area("expose function")

OWN = '''\
import torch


def ball(x: torch.Tensor) -> torch.Tensor:
    """Fails near one point alone: random numbers do not meet it."""
    centre = torch.tensor([0.37, -2.2, 5.1, 1.9])
    return torch.log(((x - centre) ** 2).sum() - 1e-4)


def distance(x, y):
    return torch.sqrt(((x - y) ** 2).sum())


def outer(x):
    return inner(x) * 2.0


def inner(x):
    return torch.log(x)


def always(x):
    raise RuntimeError("never\\nand never")


def heated(x: torch.Tensor, tau: float):
    return x / tau


def ends(x):
    raise SystemExit(3)


def falls(x):
    import os
    os._exit(7)


def masked(x):
    return torch.where(x > 0, x, -torch.inf)


def written_in_place(x):
    with torch.no_grad():
        y = x.clone()
        y.sub_(3.0)
        y.mul_(y)
    return torch.log(y - 0.5)


class Scorer(torch.nn.Module):
    def __init__(self, floor: float = 0.0):
        super().__init__()
        self.floor = floor

    def forward(self, x):
        return 1.0 / (x.sum() + self.floor)


number = 3.0
'''


@pytest.fixture()
def own(tmp_path: Path) -> Path:
    (tmp_path / "own.py").write_text(OWN)
    sys.modules.pop("own", None)
    return tmp_path


def line_of(text: str, source: str = OWN) -> int:
    return next(number for number, line in enumerate(source.splitlines(), 1) if text in line)


def gradients(function: Any, arrays: dict[str, Any]) -> tuple[np.ndarray, list[np.ndarray]]:
    """What a function returns for these arguments and its gradients, without anything of tensorproof."""
    import torch

    leaves = [torch.from_numpy(np.array(array)).requires_grad_(array.dtype.kind == "f") for array in arrays.values()]
    result = function(*leaves)
    result.sum().backward()
    return result.detach().numpy(), [leaf.grad.numpy() for leaf in leaves if leaf.grad is not None]


# -- functions that fail, and functions that do not ------------------------------------------------------------------------

POSITIVE = {"rate": "float32[3] in 0:10"}
DEFECTIVE: list[tuple[str, dict[str, Any], tuple[str, str, str, str | None]]] = [
    ("torch.distributions.Exponential.entropy", POSITIVE, ("NUM403", "log", "backward", "exponential.py")),
    ("torch.distributions.Normal.log_prob", {}, ("NUM202", "div", "forward", "normal.py")),
    ("torch.distributions.Beta.log_prob", {}, ("NUM101", "xlogy", "forward", "beta.py")),
    ("torch.nn.functional.normalize", {"eps": 0.0}, ("NUM103", "div", "forward", "functional.py")),
    (
        "torch.nn.functional.kl_div",
        {"input": "float32[3] in -5:0", "target": "float32[3] in 0:1", "reduction": "sum"},
        ("NUM403", "xlogy", "backward", "functional.py"),
    ),
    ("torch.nn.functional.cosine_similarity", {"eps": 0.0}, ("NUM103", "div", "forward", None)),
    ("torch.special.entr", {"input": "in 0:1"}, ("NUM403", "special_entr", "backward", None)),
    ("torch.atan2", {}, ("NUM403", "atan2", "backward", None)),
    ("torch.Tensor.log", {}, ("NUM101", "log", "forward", None)),
    ("torch.exp", {"input": "float16[3] in 0:20"}, ("NUM201", "exp", "forward", None)),
    ("torch.rsqrt", {"input": "bfloat16[3] in 0:20"}, ("NUM103", "rsqrt", "forward", None)),
    ("torch.cumprod", {"input": "float32[40] in 0:1000"}, ("NUM203", "cumprod", "forward", None)),
]
SAFE: list[tuple[str, dict[str, Any]]] = [
    ("torch.logsumexp", {"input": "float32[4,3] in -100:100"}),
    ("torch.nn.functional.log_softmax", {"input": "float32[4,3] in -100:100", "dim": 1}),
    (
        "torch.nn.functional.binary_cross_entropy_with_logits",
        {"input": "float32[4] in -100:100", "target": "float32[4] in 0:1"},
    ),
    ("torch.nn.functional.cross_entropy", {"input": "float32[4,3] in -100:100", "target": "int64[4] in 0:2"}),
    ("torch.sigmoid", {}),
    ("torch.nn.functional.softplus", {"input": "in -100:100"}),
    ("torch.nn.functional.normalize", {}),
    ("torch.nn.functional.cosine_similarity", {}),
    ("torch.norm", {}),
    ("torch.nn.functional.gumbel_softmax", {}),
    # The gradient by a target that nobody differentiates by is not looked at.
    (
        "torch.nn.functional.kl_div",
        {"input": "float32[3] in -5:0", "target": "float32[3] in 0:1 nograd", "reduction": "sum"},
    ),
    ("torch.distributions.Exponential.entropy", {}),
    ("torch.distributions.Bernoulli.entropy", {}),
    ("torch.distributions.ContinuousBernoulli.entropy", {}),
    ("torch.distributions.Categorical.entropy", {}),
    ("torch.distributions.Normal.entropy", {}),
    ("torch.nn.LayerNorm", {"normalized_shape": 3}),
]


@pytest.mark.parametrize(("function", "arguments", "expected"), DEFECTIVE, ids=[case[0] for case in DEFECTIVE])
def test_functions_that_fail(
    function: str, arguments: dict[str, Any], expected: tuple[str, str, str, str | None], tmp_path: Path
) -> None:
    found = searched(tmp_path, function, arguments)
    told = [(f.rule, f.operator, f.phase, None if f.file is None else Path(f.file).name) for f in found.failures]
    assert expected in told
    failure = found.failures[told.index(expected)]
    arrays = found.arrays(failure)
    assert all(np.isfinite(array).all() for array in arrays.values())
    for name, array in arrays.items():
        declared = next(e for e in found.events if e["event"] == "value" and e["name"] == name)
        assert declared["low"] <= array.min() and array.max() <= declared["high"]


@pytest.mark.parametrize(("function", "arguments"), SAFE, ids=[case[0] for case in SAFE])
def test_functions_that_do_not_fail(function: str, arguments: dict[str, Any], tmp_path: Path) -> None:
    found = searched(tmp_path, function, arguments)
    assert found.failures == []
    assert found.evaluations > 100


def test_what_is_found_fails_in_torch_itself(tmp_path: Path) -> None:
    import torch

    found = searched(tmp_path, "torch.special.entr", {"input": "float32[3] in 0:1"})
    result, (slope,) = gradients(torch.special.entr, dict(found.arrays(found.failures[0])))
    assert np.isfinite(result).all() and not np.isfinite(slope).all()
    found = searched(tmp_path, "torch.distributions.Normal.log_prob")
    loc, scale, value = found.arrays(found.failures[0]).values()
    density, _ = gradients(
        lambda a, b, c: torch.distributions.Normal(a, b).log_prob(c), {"loc": loc, "scale": scale, "value": value}
    )
    assert not np.isfinite(density).all()


def test_an_illegal_rate_is_refused_by_the_distribution_and_no_finding(tmp_path: Path) -> None:
    found = searched(tmp_path, "torch.distributions.Exponential.entropy", {"rate": "float32[3] in -1:10"})
    (failure,) = found.failures
    rate = found.arrays(failure)["rate"]
    assert rate.min() > 0.0
    assert (failure.low, failure.phase) == (FLOAT32.smallest_subnormal, "backward")
    assert not any("refused" in note for note in found.notes())


def test_what_a_function_refuses_is_counted(tmp_path: Path) -> None:
    ends = {"low": "float32[2] in 0:1", "high": "float32[2] in 1:2", "value": "float32[2] in 0:3"}
    found = searched(tmp_path, "torch.distributions.Uniform.log_prob", ends)
    assert any(note.startswith("the function refused the arguments of ") for note in found.notes())
    for failure in found.failures:
        low, high, value = found.arrays(failure).values()
        assert (low < high).all() and (low <= value).all() and (value <= high).all()


# -- functions of the user's -------------------------------------------------------------------------------------------------


def test_steps_lead_where_random_numbers_do_not(own: Path) -> None:
    arguments = {"x": "float32[4] in -10:10"}
    led = searched(own, "own.ball", arguments, evaluations=1500)
    (failure,) = led.failures
    assert (failure.rule, failure.line, Path(failure.file or "").name) == ("NUM101", line_of("- 1e-4)"), "own.py")
    x = led.arrays(failure)["x"]
    assert np.square(x - np.array([0.37, -2.2, 5.1, 1.9])).sum() <= 1.001e-4
    assert searched(own, "own.ball", arguments, evaluations=1500, is_moved=False).failures == []


def test_the_same_seed_gives_the_same_search(own: Path) -> None:
    def told(seed: int) -> tuple[list[dict[str, Any]], list[float]]:
        found = searched(own, "own.ball", {"x": "float32[4] in -10:10"}, seed=seed, runs=1)
        return found.events, found.arrays(found.failures[0])["x"].tolist()

    first = told(0)
    assert first == told(0)
    assert first != told(1)


def test_the_line_is_that_of_the_innermost_function_of_the_user(own: Path) -> None:
    (failure,) = searched(own, "own.py:outer", {"x": "float32[3] in -1:1"}).failures
    assert (failure.line, failure.function, failure.reaches) == (line_of("return torch.log(x)"), "inner", "output")


def test_arguments_are_moved_against_each_other(own: Path) -> None:
    found = searched(own, "own.py:distance", {"x": "float32[3]", "y": "float32[3]"})
    (failure,) = found.failures
    assert (failure.rule, failure.phase) == ("NUM401", "backward")
    assert "the gradient by x and y is not finite" in failure.message
    arrays = found.arrays(failure)
    assert np.array_equal(arrays["x"], arrays["y"])


def test_a_class_is_what_it_computes(own: Path) -> None:
    (failure,) = searched(own, "own.Scorer", {"x": "float32[2] in -1:1", "floor": 0.5}).failures
    assert failure.operator in ("reciprocal", "div") and failure.line == line_of("1.0 / (x.sum()")
    assert searched(own, "own.Scorer", {"x": "float32[2] in -1:1", "floor": 2.5}).failures == []


def test_values_written_in_place_without_gradients_are_followed(own: Path) -> None:
    (failure,) = searched(own, "own.written_in_place", {"x": "float32[1] in -20:20"}).failures
    assert failure.line == line_of("torch.log(y - 0.5)")


def test_infinities_that_a_function_writes_itself_are_no_failure(own: Path) -> None:
    found = searched(own, "own.masked", {"x": "float32[3] in -1:1"})
    assert found.failures == []
    assert any("returned infinities that it writes itself" in note for note in found.notes())


def test_what_is_not_declared_is_guessed_and_said(tmp_path: Path) -> None:
    found = searched(tmp_path, "torch.logsumexp")
    assert found.arranged["guesses"] == ["input=float32[2,3] in -10:10", "dim=-1"]
    assert found.arranged["literals"] == {"dim": "-1"}
    assert searched(tmp_path, "torch.mm").arranged["guesses"][0] == "input=float32[3,3] in -10:10"
    everywhere = searched(tmp_path, "torch.add", {"*": "in 2:3", "other": "float32[3] in 0:1"}, evaluations=20).arranged
    assert everywhere["words"] == {"input": "float32[2,3] in 2:3", "other": "float32[3] in 0:1"}
    # Of parameters that may be left out, a distribution needs exactly one.
    normal = searched(tmp_path, "torch.distributions.MultivariateNormal.log_prob", evaluations=20).arranged
    assert normal["words"]["covariance_matrix"] == "float32[3,3] in definite" and "scale_tril" not in normal["words"]
    # What has no derivative is called without.
    incomplete = searched(tmp_path, "torch.special.gammainc", evaluations=20).arranged
    assert incomplete["differentiated"] == [] and "nograd" in incomplete["guesses"][-1]
    # A range alone leaves the shape to be guessed.
    assert searched(tmp_path, "torch.exp", {"input": "in 0:1"}).arranged["guesses"] == ["input=float32[2,3] in 0:1"]


@pytest.mark.parametrize(
    ("function", "arguments", "told"),
    [
        ("torch.nn.functional.nomalize", {}, "torch.nn.functional has no 'nomalize'; there is 'normalize'"),
        ("nowhere.f", {}, "nowhere.f: there is no module 'nowhere'"),
        ("gone.py:f", {}, "there is no file gone.py"),
        ("torch", {}, "write the name of a function"),
        ("torch.a b", {}, "write the name of a function"),
        ("torch.nn.functional", {}, "this is a module; name a function of it"),
        ("torch.pi", {}, "this is no function, but float"),
        ("own.number", {}, "this is no function, but float"),
        ("json.dumps", {}, "it computes with neither PyTorch nor TensorFlow"),
        ("own.always", {}, "it refuses all arguments that were tried (RuntimeError: never); guessed: x=float32[2,3]"),
        ("own.ends", {}, "it refuses all arguments that were tried (SystemExit: 3)"),
        ("own.heated", {}, "the argument 'tau' is not given; write --args tau=VALUE"),
        ("own.heated", {"x": "float32[2]", "tau": 1.0, "eps": 1}, "own.heated has no argument 'eps'; it has x, tau"),
        ("own.heated", {"x": "float32[2]", "tau": "float32[3]"}, "it refuses all arguments that were tried (RuntimeError: "),
        ("torch.argmax", {}, "it returns no floating tensor: nothing that it gives can be NaN or infinite"),
        ("torch.bitwise_and", {"input": "int64[3]", "other": "int64[3]"}, "it returns no floating tensor"),
        ("torch.bitwise_and", {}, "it refuses all arguments that were tried (NotImplementedError: "),
        ("torch.exp", {"input": "float32[3] in 0:inf"}, "argument input: 0:inf is none that values can be moved in"),
        ("torch.exp", {"input": "int8[3] in 0.2:0.8"}, "argument input: no number of int8 lies in its range"),
        ("torch.exp", {"input": "float32[100000,100000]"}, "10000000000 elements are too many to be searched"),
        ("torch.manual_seed", {"seed": 1}, "it takes no tensor"),
    ],
)  # fmt: skip
def test_what_cannot_be_searched_is_said_in_one_line(own: Path, function: str, arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(TensorproofError) as error:
        searched(own, function, arguments)
    assert told in str(error.value)
    assert "\n" not in str(error.value)


def test_a_module_that_cannot_be_imported(tmp_path: Path) -> None:
    (tmp_path / "broken_module.py").write_text("import torch\nraise ValueError('no\\nluck')\n")
    with pytest.raises(SourceError, match=r"broken_module.f: cannot be imported: ValueError: no$"):
        searched(tmp_path, "broken_module.f")
    (tmp_path / "needy_module.py").write_text("import not_there_at_all\n")
    with pytest.raises(SourceError, match=r"cannot be imported: ModuleNotFoundError: No module named 'not_there_at_all'"):
        searched(tmp_path, "needy_module.f")


# -- legal arguments ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["Bernoulli", "Beta", "Binomial", "Categorical", "Dirichlet", "Gamma", "Geometric", "Laplace", "MultivariateNormal",
     "OneHotCategorical", "Poisson", "StudentT", "Weibull"],
)  # fmt: skip
def test_arguments_satisfy_the_constraints_of_distributions(name: str) -> None:
    import torch

    from tensorproof.expose.functions.constraints import constrained

    generator = np.random.default_rng(0)
    for parameter, constraint in getattr(torch.distributions, name).arg_constraints.items():
        for declared in (Declared(shape=(3, 3)), Declared("float32", (3, 3), "box", -5.0, 5.0)):
            argument = constrained(argument_of(parameter, declared), constraint)
            for array in [argument.drawn(generator) for _ in range(40)] + [argument.whole(v) for v in argument.specials()]:
                tensor = torch.from_numpy(array).to(torch.float32)
                assert bool(constraint.check(tensor).all()), (parameter, argument, array)
                assert np.array_equal(tensor.double().numpy(), array)


@pytest.mark.parametrize("format", [FLOAT64, FLOAT32, FLOAT16, BFLOAT16])
def test_numbers_are_numbers_of_the_format_within_the_range(format: Any) -> None:
    argument = argument_of("x", Declared(format.name, (50,), "box", -0.1, 0.3))
    generator = np.random.default_rng(0)
    for array in (
        argument.drawn(generator),
        argument.even(generator),
        argument.legal(np.array([np.nan, np.inf, -np.inf] + [9.0] * 47)),
    ):
        assert np.array_equal(format.round_nearest(array), array)
        assert array.min() >= -0.1 and array.max() <= 0.3
    assert {0.0, format.smallest_normal, format.smallest_subnormal} <= set(argument.specials())


def test_sets_that_are_no_boxes() -> None:
    generator = np.random.default_rng(0)
    rows = argument_of("p", Declared("float32", (4, 3), "simplex", 0.0, 1.0)).drawn(generator)
    assert (rows >= 0).all() and np.allclose(rows.sum(axis=1), 1.0, atol=1e-6)
    hot = argument_of("y", Declared("float32", (4, 3), "one-hot", 0.0, 1.0)).drawn(generator)
    assert np.isin(hot, (0.0, 1.0)).all() and (hot.sum(axis=1) == 1.0).all()
    unit = argument_of("u", Declared("float32", (4, 3), "unit-norm", -1.0, 1.0)).legal(np.zeros((4, 3)))
    assert np.allclose(np.square(unit).sum(axis=1), 1.0)
    chosen = argument_of("v", Declared("float32", (9,), "values", 1.0, 4.0, (1.0, 4.0))).drawn(generator)
    assert np.isin(chosen, (1.0, 4.0)).all()
    whole = argument_of("n", Declared("int64", (9,), "box", -2.0, 2.0)).drawn(generator)
    assert np.isin(whole, (-2, -1, 0, 1, 2)).all()
    flags = argument_of("m", Declared("bool", (9,))).drawn(generator)
    assert np.isin(flags, (0, 1)).all()


def test_failures_are_made_plain_within_a_number_of_calls() -> None:
    calls = 0
    failure = Failure("", "torch", "log", "NUM101", "forward", "f.py", 1, 0, "f", "self", 0.0, 0.0, "float32", 0, "", {}, 0)

    def run(values: Any) -> Failure | None:
        nonlocal calls
        calls += 1
        return failure if (values["x"][37] < -2.0) else None

    arguments = {"x": Argument("x", FLOAT32, (500,), -10.0, 10.0), "y": Argument("y", FLOAT32, (2,), -10.0, 10.0)}
    plain, shown = simplified(arguments, {"x": np.full(500, -3.14159265), "y": np.full(2, 7.7)}, failure, run)
    assert shown is failure and plain["x"][37] < -2.0
    assert (np.delete(plain["x"], 37) == 1.0).sum() > 450
    assert calls <= MOST_CALLS


# -- what users write --------------------------------------------------------------------------------------------------------


def test_arguments_as_the_command_line_has_them() -> None:
    words = split_options(["input=float32[4,3] in -10:10; dim=-1", "reduction=mean", "shape=(2, 3); text='a;b'", "flag=True"])
    values = {name: parse_value(text) for name, text in words.items()}
    tensors, literals = parse_arguments(values)
    assert tensors == {"input": Declared("float32", (4, 3), "box", -10.0, 10.0)}
    assert literals == {"dim": -1, "reduction": "mean", "shape": (2, 3), "text": "a;b", "flag": True}
    tensors, _ = parse_arguments({"x": "in [0,1]", "p": "float64[] in 0:1 nograd", "q": "bfloat16[2,5] in simplex"})
    assert tensors["x"] == Declared(low=0.0, high=1.0)
    assert tensors["p"] == Declared("float64", (), "box", 0.0, 1.0, is_differentiated=False)
    assert (tensors["q"].format, tensors["q"].kind) == ("bfloat16", "simplex")
    settings = FunctionSettings("torch.exp", ".", tensors, literals)
    assert FunctionSettings.from_json(settings.to_json()) == settings


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["input"], "--args 'input': write NAME=float32[4,3] in LOW:HIGH, or NAME=VALUE"),
        (["=3"], "--args '=3'"),
        (["x=1; x=2"], "--args x: it is given twice"),
        (["x=1 +"], "'1 +' is neither a tensor nor a value"),
        (["x=real32[3]"], "argument x: unknown format 'real32'"),
        (["x=float32[N]"], "argument x: a function is called with sizes that are numbers"),
        (["x=float32[3] in 5"], None),
        (["x=float32[3] in 5:1"], "argument x: low 5 is above high 1"),
        (["x=float32[3] in mask"], "argument x: mask along axis -1 is no range that arguments are searched in"),
    ],
)
def test_arguments_that_are_written_wrong(words: list[str], told: str | None) -> None:
    if told is None:
        tensors, _ = parse_arguments({name: parse_value(text) for name, text in split_options(words).items()})
        assert (tensors["x"].low, tensors["x"].high) == (5.0, 5.0)
        return
    with pytest.raises(AssumptionError) as error:
        parse_arguments({name: parse_value(text) for name, text in split_options(words).items()})
    assert told in str(error.value)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("train.py", "--function", "torch.exp"), "name a script or a function, not both"),
        ((), "name a script, or a function with --function"),
        (("train.py", "--args", "x=1"), "--args: these are arguments of a function"),
        (("--function", "torch.exp", "--sandbox"), "--sandbox and --log are for scripts"),
        (("--function", "torch.exp", "--method", "no-replacement"), "method 'no-replacement': for a function, write search or plain"),
        (("--function", "torch.exp", "--evaluations", "0"), "evaluations 0: write 1 or more"),
        (("--function", "torch.exp", "--range", "x=one-hot"), "--range x: values of a program are moved in a range"),
        (("--function", "torch.exp", "--args", "x=1", "--range", "x=0:1"), "range of x: its value is given"),
        (("--function", "torch.exp", "--args", "x"), "--args 'x': write NAME="),
        (("--function", "torch.exp", "--format", "yaml"), "unknown format 'yaml'"),
    ],
)  # fmt: skip
def test_options_that_are_wrong(options: tuple[str, ...], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = command("expose", *options)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"tensorproof: {told}") and result.err.count("\n") == 1


def test_a_value_that_is_no_plain_one() -> None:
    with pytest.raises(AssumptionError, match="argument x: ndarray is no plain value; declare a tensor as text"):
        tensorproof.expose_function("torch.exp", {"input": "float32[2]", "x": np.ones(2)})
    with pytest.raises(ConfigurationError, match="stop after 0"):
        tensorproof.expose_function("torch.exp", stop_after=0)


# -- the command, in processes of its own ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def entropy(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, Report]:
    """A function of a file of the user's, as the API reports it, and its method of a library as the command does."""
    folder = tmp_path_factory.mktemp("entropy")
    (folder / "own.py").write_text(OWN)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        options = ("--args", "rate=float32[3] in 0:10", "--evaluations", 300, "--format", "json")
        result = command("expose", "--function", "torch.distributions.Exponential.entropy", *options)
        assert result.code == 1, result.err
        report = tensorproof.expose_function(
            "own.distance", {"x": "float32[3]", "y": "float32[3]"}, ranges={"y": (0, 1)}, evaluations=300, witnesses="kept"
        )
    return folder, result.out, report


def confirmed(report: Report) -> Finding:
    (finding,) = report.findings
    assert finding.verdict is Verdict.CONFIRMED and finding.witness is not None
    return finding


def test_the_command_names_function_operator_arguments_and_library_line(entropy: tuple[Path, str, Report]) -> None:
    folder, printed, _ = entropy
    report = json.loads(printed)
    (finding,) = report["findings"]
    assert (finding["rule"], finding["phase"], finding["verdict"]) == ("NUM403", "backward", "confirmed")
    assert finding["node"] == "torch.distributions.Exponential.entropy/log"
    assert finding["location"]["file"].endswith("torch/distributions/exponential.py")
    assert "torch.distributions.Exponential.entropy with rate = [1, 1, 1.4013e-45]" in finding["message"]
    assert "the gradient by rate is not finite; at torch/distributions/exponential.py:" in finding["message"]
    assert report["assumptions"]["inputs"]["rate"]["source"] == "declared"
    assert not report["coverage"]["complete"] and report["proven_safe"] == []
    text = (folder / finding["replay"]).read_text()
    assert "tensorproof" not in text and str(folder) not in text


def test_a_report_of_the_api_and_its_formats(entropy: tuple[Path, str, Report]) -> None:
    folder, _, report = entropy
    finding = confirmed(report)
    assert (finding.rule.code, finding.reaches, finding.op) == ("NUM401", "gradient", "aten.sqrt")
    assert finding.location is not None and (finding.location.file, finding.location.line) == ("own.py", line_of("torch.sqrt"))
    assert report.assumptions["inputs"]["y"]["range"] == [0.0, 1.0]
    assert report.fails("confirmed") and not math.isnan(report.times["search"])
    assert "own.distance with x = [" in find_format("terminal")([report], source_root=folder)
    assert f"own.py,line={line_of('torch.sqrt')}" in find_format("github")([report], source_root=folder)
    (result,) = json.loads(find_format("sarif")([report], source_root=folder))["runs"][0]["results"]
    assert result["ruleId"] == "NUM401"
    assert ElementTree.fromstring(find_format("junit")([report], source_root=folder)).get("failures") == "1"


def test_a_replay_passes_when_the_function_is_mended(entropy: tuple[Path, str, Report]) -> None:
    folder, _, report = entropy
    witness = confirmed(report).witness
    assert witness is not None
    script = folder / witness.script
    mended = OWN.replace("torch.sqrt(((x - y) ** 2).sum())", "torch.sqrt(((x - y) ** 2).sum() + 1e-12)")
    try:
        (folder / "own.py").write_text(mended)
        ended = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        assert "the function did not fail" in ended.stdout
        (folder / "own.py").write_text("raise ValueError('gone')\n")
        ended = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
        assert ended.returncode == 2 and "cannot be called with these arguments: ValueError: gone" in ended.stdout
    finally:
        (folder / "own.py").write_text(OWN)


def test_a_function_that_ends_the_process_is_an_error(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(own)
    result = command("expose", "--function", "own.falls")
    assert result.code == 2
    assert result.err == "tensorproof: own.falls: the process that called it ended\n"


def test_time_that_is_used_up_before_the_first_call_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "slow_module.py").write_text("import time\ntime.sleep(60)\n")
    monkeypatch.chdir(tmp_path)
    report = tensorproof.expose_function("slow_module.f", budget=2.0)
    assert report.errors == ("slow_module.f: it was not called before the end",)
    assert "the time was used up: more of it may show more" in report.coverage.remarks


# -- TensorFlow --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "arguments", "expected"),
    [
        ("tf.norm", {"tensor": "float32[3] in -1:1"}, ("NUM401", "Sqrt", "backward", "linalg_ops.py")),
        ("tf.math.reduce_std", {}, ("NUM401", "Sqrt", "backward", "math_ops.py")),
        ("keras.ops.log", {"x": "float32[3] in 0:1"}, ("NUM101", "Log", "forward", "numpy.py")),
        ("tf.math.erfc", {}, None),
        ("tf.nn.softmax", {"logits": "float32[2,3] in -100:100"}, None),
        ("tf.reduce_logsumexp", {"input_tensor": "float32[2,3] in -100:100"}, None),
        ("tf.nn.sigmoid_cross_entropy_with_logits", {"labels": "float32[3] in 0:1", "logits": "float32[3] in -100:100"}, None),
    ],
)  # fmt: skip
def test_functions_of_tensorflow(
    function: str, arguments: dict[str, Any], expected: tuple[str, ...] | None, tmp_path: Path
) -> None:
    found: Searched = searched(tmp_path, function, arguments, evaluations=120, runs=1)
    told = [(f.rule, f.operator, f.phase, Path(f.file or "").name) for f in found.failures]
    assert told == ([] if expected is None else [expected])


def test_a_replay_in_tensorflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    report = tensorproof.expose_function(
        "tf.norm", {"tensor": "float32[2] in -1:1"}, evaluations=60, runs=1, stop_after=1, witnesses="kept"
    )
    finding = confirmed(report)
    assert (finding.op, finding.target, finding.rule.code) == ("Sqrt", "tensorflow-cpu", "NUM401")
