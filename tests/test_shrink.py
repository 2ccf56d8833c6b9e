"""A failing point becomes plain, stays legal and goes on failing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort
import pytest

from tensorproof.assumptions import Domain, parse_domain
from tensorproof.confirm.sampling import Point, into_format, sample
from tensorproof.confirm.shrink import Shrinker, shrunk
from tensorproof.formats import BFLOAT16, BOOL, FLOAT16, FLOAT32, FLOAT64, INT8, INT64, Format
from tests.models import model

pytestmark = pytest.mark.area("confirm")

SHAPE = (4, 6)
CHANNELS = Domain("channels", -9.0, 5.0, axis=1, channels=((-1, 1), (0.3, 0.7), (2, 5), (-9, -2), (0, 0), (-0.1, 0.2)))
DOMAINS: list[tuple[Domain, Format]] = [
    *((parse_domain("-80:80", "x"), format) for format in (FLOAT64, FLOAT32, FLOAT16, BFLOAT16, INT64, INT8)),
    (parse_domain("0.1:0.9", "x"), FLOAT16),
    (parse_domain("-7:-2.5", "x"), INT64),
    (parse_domain("0:1", "x"), BOOL),
    (parse_domain("{-3,0.5,7}", "x"), BFLOAT16),
    (CHANNELS, FLOAT32),
    *(
        (parse_domain(name, "x"), format)
        for name in ("simplex", "unit-norm@0", "one-hot@0", "mask")
        for format in (FLOAT32, BFLOAT16)
    ),
]


def is_legal(array: npt.NDArray[Any], domain: Domain, format: Format) -> bool:
    """Whether an array of shape SHAPE is in its domain; sums and norms may be off by the rounding of their elements."""
    numbers = array.astype(np.float64)
    if array.dtype != format.dtype or array.shape != SHAPE or (numbers < domain.low).any() or (numbers > domain.high).any():
        return False
    close = 2 * SHAPE[domain.axis] * format.unit_roundoff
    match domain.kind:
        case "values":
            return bool(np.isin(numbers, into_format(np.array(domain.values), domain, format).astype(np.float64)).all())
        case "one-hot":
            return bool(np.isin(numbers, (0, 1)).all() and (numbers.sum(domain.axis) == 1).all())
        case "mask":
            return bool(np.isin(numbers, (0, 1)).all() and (numbers.sum(domain.axis) >= 1).all())
        case "simplex":
            return bool((np.abs(numbers.sum(domain.axis) - 1) <= close).all())
        case "unit-norm":
            return bool((np.abs(np.linalg.norm(numbers, axis=domain.axis) - 1) <= close).all())
        case "channels":
            low, high = np.array(domain.channels).T
            return bool(((low <= numbers) & (numbers <= high)).all())
        case _:
            return True


def few_digits(array: npt.NDArray[Any], digits: int) -> bool:
    """Whether all numbers are those of their format that are nearest to decimals with this many digits."""
    written = np.array([float(f"{float(x):.{digits - 1}e}") for x in array.flat]).astype(array.dtype)
    return bool((written == array.ravel()).all())


@pytest.mark.parametrize("domain, format", DOMAINS, ids=lambda value: str(value) if isinstance(value, Format) else value.describe())
def test_every_point_that_is_tried_is_legal_and_the_best_one_fails(domain: Domain, format: Format) -> None:
    domains = {"x": (domain, SHAPE, format), "y": (domain, SHAPE, format)}
    for seed in range(6):
        rng = np.random.default_rng(seed)
        point = {name: sample(rng, domain, SHAPE, format, "uniform") for name in domains}
        weights = rng.standard_normal((2, *SHAPE)) * (rng.random((2, *SHAPE)) < 0.3)
        tried: list[Point] = []

        def score(at: Point, weights: npt.NDArray[np.float64] = weights) -> float:
            return float((weights * np.array([at["x"].astype(np.float64), at["y"].astype(np.float64)])).sum())

        least = score(point) - 0.1 * abs(score(point))

        def fails(at: Point, least: float = least, score: Callable[[Point], float] = score, tried: list[Point] = tried) -> bool:
            tried.append(at)
            return score(at) >= least

        before = {name: array.tobytes() for name, array in point.items()}
        best = shrunk(point, domains, fails, budget=150)
        assert score(best) >= least and len(tried) <= 150
        assert all(is_legal(array, domain, format) for at in tried for array in at.values())
        assert before == {name: array.tobytes() for name, array in point.items()}, "points are never changed in place"
        again = shrunk(point, domains, lambda at: score(at) >= least, budget=150)  # noqa: B023
        assert {name: array.tobytes() for name, array in best.items()} == {name: array.tobytes() for name, array in again.items()}


def test_two_of_a_million_weights_are_found() -> None:
    shape = (1000, 1000)
    weights = np.random.default_rng(1).uniform(-1, 1, shape).astype(np.float32)
    weights[37, 77], weights[800, 3] = 0.7316, 0.9128
    domains = {"w": (parse_domain("-1:1", "w"), shape, FLOAT32)}
    shrinker = Shrinker({"w": weights}, domains, lambda p: bool(0.6 < p["w"][37, 77] < 0.75 and p["w"][800, 3] > 0.9), budget=200)
    best = shrinker.run()["w"]
    assert shrinker.calls < 120
    assert np.count_nonzero(best) == 2
    assert best[37, 77] == np.float32(0.7) and best[800, 3] == 1


def test_tensors_that_do_not_matter_are_plain_after_few_replays() -> None:
    rng = np.random.default_rng(2)
    domains = {f"w{i}": (parse_domain("-1:1", "w"), (50,), FLOAT32) for i in range(64)}
    point = {name: rng.uniform(-1, 1, 50).astype(np.float32) for name in domains}
    point["w9"][:] = 0.77
    best = shrunk(point, domains, lambda p: float(p["w9"].sum()) > 30, budget=200)
    assert all(not best[name].any() for name in domains if name != "w9")
    assert set(best["w9"].tolist()) == {0.0, 1.0} and best["w9"].sum() == 31


@pytest.mark.parametrize(
    "text, format, plain",
    [
        ("-1:1", FLOAT32, 0),
        ("0.5:9", FLOAT32, 1),
        ("-9:-0.5", INT64, -1),
        ("2:9", INT64, 2),
        ("-9:-0.3", FLOAT16, -1),
        ("0.2:0.7", FLOAT64, 0.2),
    ],
)
def test_plain_values_of_a_box(text: str, format: Format, plain: float) -> None:
    domains = {"x": (parse_domain(text, "x"), (5,), format)}
    point = {"x": sample(np.random.default_rng(3), *domains["x"], "uniform")}
    assert shrunk(point, domains, lambda _: True, budget=9)["x"].tolist() == [plain] * 5


@pytest.mark.parametrize(
    "text, plain",
    [("one-hot", [1, 0, 0]), ("simplex", [1, 0, 0]), ("unit-norm", [1, 0, 0]), ("mask", [1, 1, 1]), ("{4,-2,7}", [-2] * 3)],
)
def test_plain_rows(text: str, plain: list[float]) -> None:
    domains = {"x": (parse_domain(text, "x"), (2, 3), FLOAT32)}
    point = {"x": sample(np.random.default_rng(4), *domains["x"], "uniform")}
    assert shrunk(point, domains, lambda _: True, budget=9)["x"].tolist() == [plain] * 2


@pytest.mark.parametrize("format", [FLOAT64, FLOAT32, FLOAT16, BFLOAT16], ids=str)
def test_numbers_have_few_digits_in_their_own_format(format: Format) -> None:
    """Both numbers are needed, and no common one does."""
    domains = {"x": (parse_domain("-100:100", "x"), (6,), format)}
    point = {"x": np.array([31.41, -2.718, 1.414, 0, 0.577, 9.87], format.dtype)}

    def fails(at: Point) -> bool:
        x = at["x"].astype(np.float64)
        return bool(31 < x[0] < 31.8 and -2.9 < x[1] < -2.2)

    best = shrunk(point, domains, fails, budget=200)["x"]
    assert not best[2:].any()
    assert few_digits(best[:1], 3) and few_digits(best[1:2], 2)


def test_integers_and_very_small_numbers_are_rounded_too() -> None:
    domains = {
        "i": (parse_domain("0:1000000", "i"), (2,), INT64),
        "x": (parse_domain("0:1", "x"), (), FLOAT64),
        "y": (parse_domain("0:1e308", "y"), (), FLOAT64),
    }
    point = {"i": np.array([123456, 9]), "x": np.array(2.3456e-310), "y": np.array(1.2345678e300)}

    def fails(at: Point) -> bool:
        return bool(100_000 < at["i"][0] < 150_000 and 2.2e-310 < at["x"] < 2.9e-310 and 1.1e300 < at["y"] < 1.9e300)

    best = shrunk(point, domains, fails, budget=400)
    assert best["i"].tolist() == [120_000, 0]
    assert best["x"] == 2.3e-310 and best["y"] == 1.2e300


def test_rows_become_equal() -> None:
    domains = {"x": (parse_domain("-1:1", "x"), (5, 2), FLOAT32)}
    point = {"x": np.random.default_rng(5).uniform(0.5, 1, (5, 2)).astype(np.float32) * np.float32([1, -0.5])}

    def fails(at: Point) -> bool:
        return bool((at["x"][:, 0] > 0.4).all() and (at["x"][:, 1] < -0.2).all())

    best = shrunk(point, domains, fails, budget=200)["x"]
    assert (best == best[0]).all() and few_digits(best, 1)


def test_the_best_point_survives_an_interruption() -> None:
    domains = {"x": (parse_domain("-1:1", "x"), (64,), FLOAT32)}
    point = {"x": np.random.default_rng(6).uniform(-1, 1, 64).astype(np.float32)}
    calls = 0

    def fails(at: Point) -> bool:
        nonlocal calls
        calls += 1
        if calls == 12:
            raise KeyboardInterrupt
        return bool(at["x"][5] != 0 and at["x"][60] != 0)

    shrinker = Shrinker(point, domains, fails, budget=100)
    with pytest.raises(KeyboardInterrupt):
        shrinker.run()
    best = shrinker.best["x"]
    assert best[5] and best[60] and np.count_nonzero(best) < 20


@pytest.mark.parametrize("budget", [0, 1, 2, 7])
def test_the_budget_counts_replays(budget: int) -> None:
    domains = {"x": (parse_domain("-1:1", "x"), (64,), FLOAT32)}
    point = {"x": np.random.default_rng(7).uniform(-1, 1, 64).astype(np.float32), "undeclared": np.arange(3)}
    shrinker = Shrinker(point, domains, lambda at: bool(np.abs(at["x"]).sum() > 1), budget=budget)
    best = shrinker.run()
    assert shrinker.calls == budget
    assert np.abs(best["x"]).sum() > 1 and best["undeclared"] is point["undeclared"]


def test_a_failure_of_the_runtime() -> None:
    """The logarithm of a softmax: two logits of one row that are 104 apart are all that it takes."""
    proto = model("(float[3,8] x, float[8] bias) => (float[3,8] y)", "z = Add(x, bias)\np = Softmax<axis=-1>(z)\ny = Log(p)")
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    domains = {"x": (parse_domain("-100:100", "x"), (3, 8), FLOAT32), "bias": (parse_domain("-1:1", "bias"), (8,), FLOAT32)}
    rng = np.random.default_rng(8)
    point = {name: sample(rng, *where, "uniform") for name, where in domains.items()}

    def fails(at: Point) -> bool:
        (y,) = session.run(["y"], at)
        return bool(np.isinf(y).any())

    assert fails(point)
    best = shrunk(point, domains, fails, budget=150)
    assert fails(best)
    assert not best["bias"].any()
    assert np.count_nonzero(best["x"]) == 2 and few_digits(best["x"], 1)
