"""The ways in which programs write what a stable rewrite replaces, each with the exact function; and what only looks alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper

from tests.models import model

Array = npt.NDArray[Any]
DTYPES: dict[str, Any] = {"float": np.float32, "double": np.float64, "float16": np.float16}
#: Inputs that no exponential survives, in all formats; in float64 these need more.
WIDE = {"float": 1000.0, "double": 3000.0, "float16": 1000.0}
LAST = np.array([-1], np.int64)


@dataclass(frozen=True)
class Form:
    """A function as a program writes it: `y` made of `x`, in ONNX's text form; `exact` computes it in float64.

    `rewrite` names what must be proposed. Numbers among the constants are of the form's format; arrays are as they are. Between `low`
    and `high` the form works; within `wide` it fails, in a value that is `hidden` or in `y` itself.
    """

    name: str
    rewrite: str
    body: str
    exact: Callable[[Array], Array]
    constants: Mapping[str, Any] = field(default_factory=dict[str, Any])
    shape: tuple[int, ...] = (4, 6)
    result: tuple[int, ...] = (4, 6)
    kind: str = "float"
    opset: int = 18
    low: float = -6.0
    high: float = 6.0
    wide: tuple[float, float] | None = None
    hidden: bool = False

    @property
    def id(self) -> str:
        return f"{self.rewrite}: {self.name}, {self.kind}, {self.opset}"

    @property
    def dtype(self) -> Any:
        return DTYPES[self.kind]

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        end = WIDE[self.kind]
        return {"x": self.wide or (-end, end)}

    @property
    def proto(self) -> onnx.ModelProto:
        sizes, results = (",".join(map(str, shape)) for shape in (self.shape, self.result))
        proto = model(f"({self.kind}[{sizes}] x) => ({self.kind}[{results}] y)", self.body, opset=self.opset)
        for name, value in {"last": LAST, "one": 1.0, **self.constants}.items():
            array = value if isinstance(value, np.ndarray) else np.array(value, self.dtype)
            proto.graph.initializer.append(numpy_helper.from_array(array, name))
        return proto

    def points(self, seed: int, low: float, high: float) -> npt.NDArray[Any]:
        return np.random.default_rng(seed).uniform(low, high, self.shape).astype(self.dtype)

    def extremes(self) -> Iterator[npt.NDArray[Any]]:
        """Points at the ends of the wide range, inside it, and with elements that are nearly equal."""
        low, high = self.ranges["x"]
        ends = np.array([high, low])
        yield np.resize(ends, self.shape).astype(self.dtype)
        yield np.resize(ends, self.shape[::-1]).T.astype(self.dtype)
        for end in (low, high):
            yield np.full(self.shape, end, self.dtype)
        for seed in range(8):
            yield self.points(seed, low, high)
            middle = self.points(seed, low, high).flat[0]
            steps = np.random.default_rng(seed).integers(0, 3, self.shape)
            yield (middle - steps * np.spacing(middle)).clip(low, high).astype(self.dtype)


def log_softmax(x: Array, axis: int | tuple[int, ...] = -1) -> Array:
    lowered = x - x.max(axis=axis, keepdims=True)
    return lowered - np.log(np.exp(lowered).sum(axis=axis, keepdims=True))


def log_sigmoid(x: Array) -> Array:
    return -np.logaddexp(0.0, -x)


def log_of_rest(x: Array) -> Array:
    """log(1 - softmax(x)) along the last axis: the other classes, without the one."""
    logarithms = np.broadcast_to(log_softmax(x)[..., None, :], (*x.shape, x.shape[-1])).copy()
    classes = np.arange(x.shape[-1])
    logarithms[..., classes, classes] = -np.inf
    return np.logaddexp.reduce(logarithms, axis=-1)


def log_sum_exp(x: Array, axis: int | tuple[int, ...] = -1, *, keepdims: bool = True) -> Array:
    top = x.max(axis=axis, keepdims=True)
    total = top + np.log(np.exp(x - top).sum(axis=axis, keepdims=True))
    return total if keepdims else total.squeeze(axis)


def _softplus(x: Array) -> Array:
    return np.logaddexp(0.0, x)


def _sum(opset: int) -> str:
    """A sum of `e` over the last axis as a version of ONNX spells it."""
    return "s = ReduceSum(e, last)" if opset >= 13 else f"s = ReduceSum<axes=[{-1 if opset >= 11 else 1}]>(e)"


ROW = "e = Exp(x)\n s = ReduceSum(e, last)\n"


def _base(kind: str) -> list[Form]:
    """Forms in a format, at one version."""

    def form(name: str, rewrite: str, body: str, exact: Callable[[Array], Array], **options: Any) -> Form:
        return Form(name, rewrite, body, exact, kind=kind, **options)

    small = {"float": 1e-10, "double": 1e-18, "float16": 1e-4}[kind]
    epsilon = float(np.array(small, DTYPES[kind]))

    def guarded_sigmoid(x: Array) -> Array:
        return np.log(epsilon + np.exp(log_sigmoid(-x)))

    def guarded_rest(x: Array) -> Array:
        return np.log(epsilon + np.exp(log_of_rest(x)))

    return [
        form("operator", "log-softmax", "p = Softmax<axis=-1>(x)\n y = Log(p)", log_softmax),
        form("by hand", "log-softmax", ROW + "p = Div(e, s)\n y = Log(p)", log_softmax),
        form("operator", "log-sigmoid", "p = Sigmoid(x)\n y = Log(p)", log_sigmoid),
        form("the rest", "log-sigmoid", "p = Sigmoid(x)\n q = Sub(one, p)\n y = Log(q)", lambda x: log_sigmoid(-x)),
        form(
            "1 + eps - p",
            "one-minus-sigmoid",
            "p = Sigmoid(x)\n c = Add(eps, one)\n q = Sub(c, p)\n y = Log(q)",
            guarded_sigmoid,
            constants={"eps": small},
        ),
        form("plain", "log-one-minus-softmax", "p = Softmax<axis=-1>(x)\n q = Sub(one, p)\n y = Log(q)", log_of_rest),
        form(
            "1 + eps - p",
            "log-one-minus-softmax",
            "p = Softmax<axis=-1>(x)\n c = Add(one, eps)\n q = Sub(c, p)\n y = Log(q)",
            guarded_rest,
            constants={"eps": small},
        ),
        form("by hand", "logsumexp", ROW + "y = Log(s)", log_sum_exp, result=(4, 1)),
        form("by hand", "softplus-by-hand", "e = Exp(x)\n s = Add(one, e)\n y = Log(s)", _softplus),
        form("by hand", "softmax-by-hand", ROW + "y = Div(e, s)", lambda x: np.exp(log_softmax(x))),
        form(
            "of the negative",
            "sigmoid-by-hand",
            "n = Neg(x)\n e = Exp(n)\n s = Add(e, one)\n y = Div(one, s)",
            lambda x: np.exp(log_sigmoid(x)),
            hidden=True,
        ),
        form(
            "of two exponentials",
            "tanh-by-hand",
            "n = Neg(x)\n a = Exp(x)\n b = Exp(n)\n d = Sub(a, b)\n s = Add(a, b)\n y = Div(d, s)",
            np.tanh,
        ),
        form(
            "of different tensors",
            "log-of-quotient",
            "h = Mul(x, half)\n a = Exp(h)\n e = Exp(x)\n s = ReduceSum(e, last)\n p = Div(a, s)\n y = Log(p)",
            lambda x: 0.5 * x - log_sum_exp(x),
            constants={"half": 0.5},
        ),
        form(
            "root",
            "sqrt-of-exp",
            "e = Exp(x)\n y = Sqrt(e)",
            lambda x: np.exp(x / 2.0),
            wide={"float": (-100.0, 100.0), "double": (-800.0, 800.0), "float16": (-15.0, 15.0)}[kind],
        ),
        form(
            "root", "sqrt-of-softmax", "p = Softmax<axis=-1>(x)\n y = Sqrt(p)", lambda x: np.exp(log_softmax(x) / 2.0), hidden=True
        ),
        form(
            "under a root",
            "variance-of-squares",
            "q = Mul(x, x)\n a = ReduceMean(q, last)\n m = ReduceMean(x, last)\n b = Mul(m, m)\n v = Sub(a, b)\n y = Sqrt(v)",
            lambda x: x.std(axis=-1, keepdims=True),
            result=(4, 1),
            low=10.0,
            high=100.0,
            wide=(10.0, 100.0),
        ),
    ]


def _spellings() -> list[Form]:
    """Other spellings in float32: moves between, constants behind moves, other axes, exporters' forms."""
    shape, column = np.array([6, 4], np.int64), np.array([1, 3], np.int64)
    two = {"two": 2.0, "shape": shape, "first": np.array([0], np.int64), "both": np.array([0, 1], np.int64)}
    fill = {"full": np.array([4, 6], np.int64)}
    clip = {"low": 1e-6, "high": 1.0, "top": 87.0, "bottom": -87.0}
    softmax_rest = "p = Softmax<axis=-1>(x)\n"

    def quotient(x: Array) -> Array:
        return np.clip(np.clip(x, -87.0, 87.0) - log_sum_exp(x), np.log(np.float32(1e-6)), 0.0)

    def variance(x: Array) -> Array:
        return x.var(axis=(0, 1), keepdims=True)

    sums = "q = Pow(x, two)\n a = ReduceSum(q, both)\n b = Div(a, n)\n c = ReduceSum(x, both)\n m = Div(c, n)\n"
    return [
        Form(
            "transposed",
            "log-softmax",
            "p = Softmax<axis=0>(x)\n t = Transpose<perm=[1,0]>(p)\n y = Log(t)",
            lambda x: log_softmax(x, 0).T,
            result=(6, 4),
        ),
        Form(
            "reshaped, positive part",
            "log-softmax",
            "p = Softmax<axis=-1>(x)\n r = Relu(p)\n t = Reshape(r, shape)\n y = Log(t)",
            lambda x: log_softmax(x).reshape(6, 4),
            two,
            result=(6, 4),
        ),
        Form(
            "gathered",
            "log-softmax",
            "p = Softmax<axis=-1>(x)\n t = Gather<axis=1>(p, column)\n y = Log(t)",
            lambda x: log_softmax(x)[:, [1, 3]],
            {"column": column},
            result=(4, 2),
        ),
        Form("product with a reciprocal", "log-softmax", ROW + "r = Reciprocal(s)\n p = Mul(r, e)\n y = Log(p)", log_softmax),
        Form(
            "sum squeezed and expanded",
            "log-softmax",
            "e = Exp(x)\n s = ReduceSum<keepdims=0>(e, last)\n u = Unsqueeze(s, last)\n v = Expand(u, full)\n p = Div(e, v)\n y = Log(p)",
            log_softmax,
            fill,
        ),
        Form(
            "over all axes",
            "log-softmax",
            "e = Exp(x)\n s = ReduceSum(e)\n p = Div(e, s)\n y = Log(p)",
            lambda x: log_softmax(x, (0, 1)),
        ),
        Form(
            "magnitude of a quotient",
            "log-softmax",
            ROW + "p = Div(e, s)\n a = Abs(p)\n y = Log(a)",
            log_softmax,
            wide=(-1000.0, 80.0),
        ),
        Form(
            "negative added", "log-sigmoid", "p = Sigmoid(x)\n n = Neg(p)\n q = Add(n, one)\n y = Log(q)", lambda x: log_sigmoid(-x)
        ),
        Form("by hand", "log-sigmoid", "n = Neg(x)\n e = Exp(n)\n s = Add(one, e)\n p = Reciprocal(s)\n y = Log(p)", log_sigmoid),
        Form(
            "constant expanded",
            "log-sigmoid",
            "o = Expand(one, full)\n p = Sigmoid(x)\n q = Sub(o, p)\n y = Log(q)",
            lambda x: log_sigmoid(-x),
            fill,
        ),
        Form(
            "moved twice",
            "log-sigmoid",
            "p = Sigmoid(x)\n t = Transpose(p)\n q = Sub(one, t)\n u = Unsqueeze(q, first)\n y = Log(u)",
            lambda x: log_sigmoid(-x).T[None],
            two,
            result=(1, 6, 4),
        ),
        Form(
            "in float16 between", "log-sigmoid", "p = Sigmoid(x)\n h = Cast<to=10>(p)\n f = Cast<to=1>(h)\n y = Log(f)", log_sigmoid
        ),
        Form(
            "negative added to 1 + eps",
            "one-minus-sigmoid",
            "p = Sigmoid(x)\n c = Add(one, eps)\n n = Neg(p)\n q = Add(c, n)\n y = Log(q)",
            lambda x: np.log(1.000000013351432e-10 + np.exp(log_sigmoid(-x))),
            {"eps": 1e-10},
        ),
        Form(
            "three classes, first axis",
            "log-one-minus-softmax",
            "p = Softmax<axis=0>(x)\n q = Sub(one, p)\n y = Log(q)",
            lambda x: log_of_rest(x.T).T,
            shape=(3, 5),
            result=(3, 5),
        ),
        Form(
            "two classes",
            "log-one-minus-softmax",
            softmax_rest + "n = Neg(p)\n q = Add(one, n)\n y = Log(q)",
            log_of_rest,
            shape=(5, 2),
            result=(5, 2),
        ),
        Form(
            "without the axis",
            "logsumexp",
            "e = Exp(x)\n s = ReduceSum<keepdims=0>(e, last)\n y = Log(s)",
            lambda x: log_sum_exp(x, keepdims=False),
            result=(4,),
        ),
        Form(
            "over both axes, reshaped",
            "logsumexp",
            "e = Exp(x)\n s = ReduceSum<keepdims=0>(e, both)\n t = Unsqueeze(s, first)\n y = Log(t)",
            lambda x: log_sum_exp(x, (0, 1)).reshape(1),
            two,
            result=(1,),
        ),
        Form("one operator", "logsumexp", "e = Exp(x)\n y = ReduceLogSum(e, last)", log_sum_exp, result=(4, 1)),
        Form(
            "of a mean",
            "logsumexp",
            "e = Exp(x)\n s = ReduceMean(e, last)\n y = Log(s)",
            lambda x: log_sum_exp(x) - np.log(6.0),
            result=(4, 1),
        ),
        Form(
            "constant expanded, reshaped",
            "softplus-by-hand",
            "o = Expand(one, full)\n e = Exp(x)\n s = Add(e, o)\n t = Reshape(s, shape)\n y = Log(t)",
            lambda x: _softplus(x).reshape(6, 4),
            fill | two,
            result=(6, 4),
        ),
        Form(
            "of the negative", "softplus-by-hand", "n = Neg(x)\n e = Exp(n)\n s = Sum(one, e)\n y = Log(s)", lambda x: _softplus(-x)
        ),
        Form(
            "product with a reciprocal",
            "softmax-by-hand",
            ROW + "r = Reciprocal(s)\n y = Mul(e, r)",
            lambda x: np.exp(log_softmax(x)),
        ),
        Form(
            "of two axes",
            "softmax-by-hand",
            "e = Exp(x)\n s = ReduceSum(e, both)\n y = Div(e, s)",
            lambda x: np.exp(log_softmax(x, (1, 2))),
            {"both": np.array([1, 2], np.int64)},
            shape=(2, 3, 4),
            result=(2, 3, 4),
        ),
        Form(
            "tiled sum, axis 1",
            "softmax-by-hand",
            "e = Exp(x)\n s = ReduceSum(e, axis)\n t = Tile(s, times)\n y = Div(e, t)",
            lambda x: np.exp(log_softmax(x, 1)),
            {"axis": np.array([1]), "times": np.array([1, 3, 1])},
            shape=(2, 3, 4),
            result=(2, 3, 4),
        ),
        Form(
            "two exponentials of one tensor",
            "softmax-by-hand",
            "d = Exp(x)\n e = Exp(x)\n s = ReduceSum(e, last)\n y = Div(d, s)",
            lambda x: np.exp(log_softmax(x)),
        ),
        Form("over 1 + exp", "sigmoid-by-hand", "e = Exp(x)\n s = Add(one, e)\n y = Div(e, s)", lambda x: np.exp(log_sigmoid(x))),
        Form(
            "of one exponential",
            "tanh-by-hand",
            "e = Exp(x)\n d = Sub(e, one)\n s = Add(e, one)\n y = Div(d, s)",
            lambda x: np.tanh(x / 2.0),
        ),
        Form(
            "negative of one exponential",
            "tanh-by-hand",
            "e = Exp(x)\n d = Sub(one, e)\n s = Add(one, e)\n y = Div(d, s)",
            lambda x: np.tanh(-x / 2.0),
        ),
        Form(
            "clipped",
            "log-of-quotient",
            "k = Clip(x, bottom, top)\n a = Exp(k)\n e = Exp(x)\n s = ReduceSum(e, last)\n p = Div(a, s)\n c = Clip(p, low, high)\n y = Log(c)",
            quotient,
            clip,
            hidden=True,
        ),
        Form(
            "power",
            "sqrt-of-exp",
            "e = Exp(x)\n t = Transpose(e)\n y = Pow(t, half)",
            lambda x: np.exp(x / 2.0).T,
            {"half": 0.5},
            result=(6, 4),
            wide=(-100.0, 100.0),
        ),
        Form(
            "sums over counts, powers",
            "variance-of-squares",
            sums + "d = Pow(m, two)\n v = Sub(b, d)\n w = Add(v, eps)\n y = Sqrt(w)",
            lambda x: np.sqrt(variance(x) + np.float64(np.float32(1e-5))),
            two | {"n": 24.0, "eps": 1e-5},
            result=(1, 1),
            low=10.0,
            high=100.0,
            wide=(10.0, 100.0),
        ),
        Form(
            "divisor",
            "variance-of-squares",
            "q = Mul(x, x)\n a = ReduceMean<keepdims=0>(q, last)\n m = ReduceMean<keepdims=0>(x, last)\n b = Mul(m, m)\n v = Sub(a, b)\n"
            "w = Add(v, eps)\n r = Sqrt(w)\n y = Div(one, r)",
            lambda x: 1.0 / np.sqrt(x.var(axis=-1) + np.float64(np.float32(1e-5))),
            {"eps": 1e-5},
            result=(4,),
            low=10.0,
            high=100.0,
            wide=(10.0, 100.0),
        ),
    ]


def _versions() -> list[Form]:
    """Older and newer versions of ONNX: axes as attributes, softmax over all axes from one on, Clip's attributes."""
    found: list[Form] = []
    for opset in (7, 9, 11, 12, 13, 17, 20, 23, 25):
        total = _sum(opset)
        axis = 1 if opset < 11 else -1
        softmax = f"p = Softmax<axis={axis}>(x)\n"
        found += [
            Form("operator", "log-softmax", softmax + "y = Log(p)", log_softmax, opset=opset),
            Form("by hand", "log-softmax", f"e = Exp(x)\n {total}\n p = Div(e, s)\n y = Log(p)", log_softmax, opset=opset),
            Form("by hand", "logsumexp", f"e = Exp(x)\n {total}\n y = Log(s)", log_sum_exp, result=(4, 1), opset=opset),
            Form("operator", "log-sigmoid", "p = Sigmoid(x)\n y = Log(p)", log_sigmoid, opset=opset),
            Form(
                "by hand", "softmax-by-hand", f"e = Exp(x)\n {total}\n y = Div(e, s)", lambda x: np.exp(log_softmax(x)), opset=opset
            ),
        ]
        if opset >= 9:
            body = softmax + "q = Sub(one, p)\n y = Log(q)"
            found.append(Form("plain", "log-one-minus-softmax", body, log_of_rest, opset=opset))
    old = "p = Softmax<axis=1>(x)\n"
    shape = (2, 3, 4)
    found.append(
        Form(
            "of all axes from one on",
            "log-softmax",
            old + "y = Log(p)",
            lambda x: log_softmax(x, (1, 2)),
            shape=shape,
            result=shape,
            opset=12,
        )
    )
    return found


FORMS = [*(form for kind in DTYPES for form in _base(kind)), *_spellings(), *_versions()]
