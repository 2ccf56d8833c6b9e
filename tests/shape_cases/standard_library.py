"""Python's standard library: what it computes is compared through the sizes of arrays that are made with it."""

from __future__ import annotations

import math

from tensorproof.shapes.families.names import spelled
from tests.shape_cases import Draw, cases

_ONE = "sqrt exp log log2 log10 log1p expm1 sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh degrees radians erf erfc gamma lgamma fabs trunc cbrt exp2 floor ceil isnan isinf isfinite"
_TWO = "atan2 pow hypot fmod copysign"
_WHOLE = "gcd lcm comb perm"


def _sized(value: str) -> str:
    return f"torch.zeros(1 + int(abs({value}) * 8) % 7)"


@cases(*spelled("math", f"{_ONE} {_TWO} {_WHOLE} isqrt factorial"), setup="import math\n")
def _(draw: Draw) -> str:
    number = str(draw.pick([0.25, 0.5, 1, 2.5, 3]))
    if draw.short in _WHOLE.split():
        return _sized(f"{draw.name}({draw.integer(1, 9)}, {draw.integer(1, 9)})")
    if draw.short in ("isqrt", "factorial"):
        return _sized(f"{draw.name}({draw.integer(0, 9)})")
    if draw.short in _TWO.split():
        return _sized(f"{draw.name}({number}, {draw.pick([0.5, 2, 3.5])})")
    try:
        getattr(math, draw.short)(float(number))
    except ValueError:
        number = "1" if draw.short != "atanh" else "0.5"
    return _sized(f"{draw.name}({number})")


@cases("math.prod")
def _(draw: Draw) -> str:
    return f"torch.zeros(math.prod({list(draw.shape())}))"


@cases(*spelled("operator", "add sub mul floordiv mod"))
def _(draw: Draw) -> str:
    return f"torch.zeros(abs({draw.name}({draw.integer(1, 9)}, {draw.integer(1, 9)})))"


@cases("functools.reduce", "functools.partial", "functools.lru_cache", "functools.cache")
def _(draw: Draw) -> str:
    if draw.short == "reduce":
        return f"torch.zeros(functools.reduce(lambda a, b: a * b, {list(draw.shape(1))}))"
    if draw.short == "partial":
        inner = draw.integer(1, 4)
        return (
            f"functools.partial(torch.matmul, torch.zeros({draw.integer(1, 4)}, {inner}))(torch.zeros({draw.pick([inner, 5])}, 2))"
        )
    return f"{draw.name}(lambda x: x @ torch.zeros(3, 2))(torch.zeros({draw.integer(1, 4)}, {draw.pick([3, 3, 4])}))"


@cases("itertools.product", "itertools.zip_longest")
def _(draw: Draw) -> str:
    left, right = list(draw.shape(1, 3)), list(draw.shape(1, 3))
    fill = ", fillvalue=1" if draw.short == "zip_longest" else ""
    return f"tuple(torch.zeros(a, b) for a, b in {draw.name}({left}, {right}{fill}))"


@cases("itertools.combinations", "itertools.permutations", "itertools.combinations_with_replacement", "itertools.pairwise")
def _(draw: Draw) -> str:
    count = "" if draw.short == "pairwise" else ", 2"
    return f"tuple(torch.zeros(a, b) for a, b in {draw.name}({list(draw.shape(2, 3))}{count}))"


@cases("itertools.chain", "itertools.chain.from_iterable", "itertools.islice", "itertools.repeat")
def _(draw: Draw) -> str:
    left, right = list(draw.shape(1, 3)), list(draw.shape(1, 3))
    given = {"chain": f"{left}, {right}", "from_iterable": f"[{left}, {right}]", "islice": f"{left}, {draw.integer(0, 4)}",
             "repeat": f"{draw.integer(1, 4)}, 3"}[draw.short]  # fmt: skip
    return f"tuple(torch.zeros(size) for size in {draw.name}({given}))"


@cases("tqdm.tqdm", "tqdm.trange", "tqdm.std.tqdm", "tqdm.auto.tqdm", "tqdm.auto.trange", setup="import tqdm.auto\n")
def _(draw: Draw) -> str:
    given = str(draw.integer(1, 4)) if draw.short == "trange" else str(list(draw.shape(1, 3)))
    return f"tuple(torch.zeros(size) for size in {draw.name}({given}, disable=True))"


@cases("collections.OrderedDict", "collections.deque", "collections.namedtuple")
def _(draw: Draw) -> str:
    sizes = list(draw.shape(2, 2))
    if draw.short == "OrderedDict":
        return f"torch.zeros(*collections.OrderedDict([('a', {sizes[0]}), ('b', {sizes[1]})]).values())"
    if draw.short == "deque":
        return f"torch.zeros(*collections.deque({sizes}, maxlen={draw.integer(1, 3)}))"
    return f"torch.zeros(collections.namedtuple('Pair', 'a b')({sizes[0]}, b={sizes[1]}).{draw.pick(['a', 'b'])})"


@cases("copy.deepcopy", "copy.copy")
def _(draw: Draw) -> str:
    inner = draw.integer(1, 4)
    given = draw.pick([f"torch.nn.Linear({inner}, 3)", f"torch.nn.Sequential(torch.nn.Linear({inner}, 2), torch.nn.ReLU())"])
    return f"{draw.name}({given})(torch.zeros(2, {draw.pick([inner, inner, 5])}))"


@cases("types.SimpleNamespace", "argparse.Namespace")
def _(draw: Draw) -> str:
    return f"torch.zeros({draw.name}(a={draw.integer(1, 4)}, b=2).a)"


@cases("argparse.ArgumentParser", setup="import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--batch-size', type=int, default=3)\n"
       "parser.add_argument('-w', '--width', default='4', type=int)\nparser.add_argument('--deep', action='store_true')\n")  # fmt: skip
def _(draw: Draw) -> str:
    options = "parser.parse_args([])"
    return f"torch.zeros({options}.batch_size, {options}.width, 2 if {options}.deep else {draw.integer(1, 4)})"


@cases("random.sample", "random.choices")
def _(draw: Draw) -> str:
    count = draw.integer(1, 3)
    return f"tuple({draw.name}([torch.zeros(2), torch.zeros(2), torch.zeros(2)], k={count}))"


@cases("random.choice")
def _(draw: Draw) -> str:
    return "random.choice([torch.zeros(2), torch.zeros(2)])"


@cases("typing.cast")
def _(draw: Draw) -> str:
    return f"typing.cast(int, torch.zeros({draw.integer(1, 4)}))"
