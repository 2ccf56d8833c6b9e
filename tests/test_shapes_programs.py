"""How the interpreter follows programs: what it knows of a name at the end, and what it reports."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tensorproof.shapes.analysis import analyse_source, analyse_with_frame
from tensorproof.shapes.problems import Context, ShapeOptions, Values
from tensorproof.shapes.values import Choice, ListValue, Tensor

pytestmark = pytest.mark.area("shapes")

HEADER = "import torch\nfrom torch import nn\n"


def shapes_at_end(program: str, name: str, options: ShapeOptions | None = None) -> str:
    """What a name holds when the program ends: a shape, alternatives, a list of shapes, or the value."""
    _, frame = analyse_with_frame(HEADER + textwrap.dedent(program), "program.py", options)
    return described(frame.slots.get(name))


def described(value: object) -> str:
    if isinstance(value, Tensor):
        return str(value.shape)
    if isinstance(value, Choice):
        return " or ".join(sorted(described(part) for part in value.of))
    items = value.items if isinstance(value, ListValue) else value
    if isinstance(items, tuple):
        return f"({', '.join(described(part) for part in items)})"
    return str(value)


def codes(program: str, options: ShapeOptions | None = None) -> list[tuple[int, str]]:
    """Lines (behind the header) and rules that are reported."""
    analysis = analyse_source(HEADER + textwrap.dedent(program), "program.py", options)
    return [(problem.place.line - 2, problem.rule.code) for problem in analysis.problems]


CASES = {
    "a layer": ("x = nn.Linear(4, 5)(torch.zeros(2, 4))", "[2, 5]"),
    "a branch on what is known": ("x = torch.zeros(2, 3) if 1 < 2 else torch.zeros(9)", "[2, 3]"),
    "a branch on what is not known": (
        """
        import os
        x = torch.zeros(2, 3)
        if os.environ.get("WIDE"):
            x = torch.zeros(2, 9)
        """,
        "[2, 3] or [2, 9]",
    ),
    "a loop that builds layers": (
        """
        layers, width = [], 8
        for out in (16, 32, 64):
            layers.append(nn.Linear(width, out))
            width = out
        x = nn.Sequential(*layers)(torch.zeros(5, 8))
        """,
        "[5, 64]",
    ),
    "a loop that goes on as it began": (
        """
        x = torch.zeros(2, 3)
        for step in range(1000):
            x = torch.relu(x)
        """,
        "[2, 3]",
    ),
    "a loop that grows its tensor": (
        """
        x = torch.zeros(2, 1)
        for step in range(1000):
            x = torch.cat([x, x], dim=1)
        """,
        "[2, 2] or [2, 4] or [2, ?]",
    ),
    "an early return": (
        """
        def f(x, flat):
            if flat:
                return x.view(x.size(0), -1)
            return x
        x = (f(torch.zeros(2, 3, 4), True), f(torch.zeros(2, 3, 4), False))
        """,
        "([2, 12], [2, 3, 4])",
    ),
    "a loop that is left": (
        """
        x = torch.zeros(1)
        for size in (2, 3, 4):
            x = torch.zeros(size)
            if size == 3:
                break
        """,
        "[3]",
    ),
    "rounds that are skipped": (
        """
        x = torch.zeros(1)
        for size in (2, 3, 4):
            if size > 2:
                continue
            x = torch.zeros(size)
        """,
        "[2]",
    ),
    "closures and nonlocal": (
        """
        def outer():
            size = 3
            def inner():
                nonlocal size
                size = 7
            inner()
            return torch.zeros(size)
        x = outer()
        """,
        "[7]",
    ),
    "properties, class methods and super": (
        """
        class Base:
            size = 4
            @property
            def doubled(self):
                return 2 * self.size
            @classmethod
            def made(cls):
                return cls()
            def tensor(self):
                return torch.zeros(self.doubled)
        class Child(Base):
            size = 5
            def tensor(self):
                return super().tensor().view(2, -1)
        x = Child.made().tensor()
        """,
        "[2, 5]",
    ),
    "dataclasses": (
        """
        from dataclasses import dataclass
        @dataclass
        class Config:
            width: int
            depth: int = 3
        config = Config(width=7)
        x = torch.zeros(config.width, config.depth)
        """,
        "[7, 3]",
    ),
    "keyword arguments and stars": (
        """
        def f(*sizes, scale=1, **rest):
            return torch.zeros(*sizes, scale, rest["last"])
        x = f(*(2, 3), **{"scale": 4, "last": 5})
        """,
        "[2, 3, 4, 5]",
    ),
    "a rank that a condition tells": (
        """
        def f(x):
            if x.dim() == 3:
                x = x.unsqueeze(0)
            return x
        x = (f(torch.zeros(3, 8, 8)), f(torch.zeros(2, 3, 8, 8)))
        """,
        "([1, 3, 8, 8], [2, 3, 8, 8])",
    ),
    "None that a condition rules out": (
        """
        import os
        mask = torch.zeros(4, 4) if os.environ.get("MASK") else None
        x = torch.zeros(4, 4)
        if mask is not None:
            x = x + mask
        """,
        "[4, 4]",
    ),
    "symbols through arithmetic": (
        """
        def f(x):
            n, c, h, w = x.shape
            return x.view(n, c * h * w).view(n, h, w, c)
        x = f(torch.zeros(2, 3, 4, 5))
        """,
        "[2, 4, 5, 3]",
    ),
    "a generator": (
        """
        def pieces():
            for start in range(0, 100, 10):
                yield torch.zeros(10, 4)
        for x in pieces():
            pass
        """,
        "[10, 4]",
    ),
}


@pytest.mark.parametrize(("program", "expected"), CASES.values(), ids=CASES.keys())
def test_values_at_the_end_of_a_program(program: str, expected: str) -> None:
    assert shapes_at_end(program, "x") == expected


def test_an_error_needs_all_alternatives_to_fail() -> None:
    program = """
    import os
    width = 4 if os.environ.get("NARROW") else {width}
    y = nn.Linear(width, 2)(torch.zeros(3, 8))
    """
    assert codes(program.format(width=8)) == []
    assert codes(program.format(width=5)) == [(4, "SHP105")]


def test_what_follows_from_a_defect_is_not_reported_again() -> None:
    program = """
    x = nn.Linear(5, 6)(torch.zeros(3, 4))
    y = nn.Linear(9, 2)(x)
    z = torch.zeros(7) + y
    """
    assert codes(program) == [(2, "SHP105")]


def test_the_second_round_of_a_loop_is_followed() -> None:
    program = """
    layer = nn.Linear(4, 5)
    x = torch.zeros(3, 4)
    for step in range(1000):
        x = layer(x)
    """
    assert codes(program) == [(5, "SHP105")]


def test_errors_that_a_program_catches_are_its_own_business() -> None:
    program = """
    try:
        torch.zeros(3) + torch.zeros(4)
    except RuntimeError as error:
        print(error)
    """
    assert codes(program) == []


def test_models_that_nobody_calls_are_followed() -> None:
    program = """
    class Model(nn.Module):
        def __init__(self, width=64):
            super().__init__()
            self.first = nn.Linear(10, width)
            self.second = nn.Linear(32, 2)

        def forward(self, x):
            return self.second(torch.relu(self.first(x)))
    """
    assert codes(program) == [(9, "SHP105")]


def test_arguments_of_functions_that_nobody_calls_are_unknown() -> None:
    program = """
    def work(*shapes, scale, **rest):
        left, right = shapes
        return torch.zeros(scale, rest["size"]).view(2, 3)
    """
    assert codes(program) == []


def test_new_axes_in_tensors_of_unknown_rank() -> None:
    """The second slice may be the axis that is known from the back, or another one before it."""
    program = """
    def row(mask: torch.Tensor):
        mask = nn.functional.pad(mask, (4, 0))[:, None, :]
        return nn.functional.conv1d(mask, torch.ones(1, 1, 5))
    def front(mask: torch.Tensor):
        mask = nn.functional.pad(mask, (4, 0))[:, None]
        return nn.functional.conv1d(mask, torch.ones(1, 1, 5))
    def back(mask: torch.Tensor):
        mask = nn.functional.pad(mask, (4, 0))[..., None, :]
        return nn.functional.conv1d(mask, torch.ones(1, 2, 5))
    """
    assert codes(program) == [(10, "SHP106")]


def test_modules_of_the_project_are_followed(tmp_path: Path) -> None:
    (tmp_path / "parts.py").write_text("from torch import nn\n\ndef head(width):\n    return nn.Linear(width, 3)\n")
    program = tmp_path / "main.py"
    text = "import torch\nfrom parts import head\n\ny = head(4)(torch.zeros(2, 5))\n"
    problems = analyse_source(text, str(program)).problems
    assert [(problem.place.line, problem.rule.code) for problem in problems] == [(4, "SHP105")]


def test_declared_shapes_are_assumed_and_checked() -> None:
    program = """
    from jaxtyping import Float
    from torch import Tensor
    def attend(query: Float[Tensor, "batch heads size"], key: Float[Tensor, "batch heads size"]):
        return query @ key
    def project(x: Float[Tensor, "batch 10"], weight: Float[Tensor, "4 5"]):
        return x @ weight
    attend(torch.zeros(2, 3, 3), torch.zeros(4, 3, 3))
    """
    assert codes(program) == [(4, "SHP124"), (7, "SHP101")]


CONTEXTS = """
def double(x):
    return torch.cat([x, x], dim=0)
a = double(torch.zeros(2, 3))
b = double(torch.zeros(4, 3))
"""


@pytest.mark.parametrize(
    ("context", "expected"), [("full", "[8, 3]"), ("1-call", "[8, 3]"), ("1-call-heap", "[8, 3]"), ("insensitive", "[?, 3]")]
)
def test_calls_are_told_apart_as_asked(context: Context, expected: str) -> None:
    found = shapes_at_end(CONTEXTS, "b", ShapeOptions(context=context))
    assert ("?" in found) == (expected == "[?, 3]")
    assert found == expected or context == "insensitive"


@pytest.mark.parametrize(("values", "expected"), [("full", "[2, 3] or [2, 9]"), ("joined", "[2, ?]")])
def test_alternatives_are_kept_as_asked(values: Values, expected: str) -> None:
    program, _ = CASES["a branch on what is not known"]
    assert shapes_at_end(program, "x", ShapeOptions(values=values)) == expected


HOSTILE = {
    "deep recursion": "def f(x):\n    return f(f(x))\nf(1)\n",
    "mutual recursion": "def f(x):\n    return g(x) + g(x)\ndef g(x):\n    return f(x) + f(x)\nf(1)\n",
    "nested loops": "\n".join("    " * i + f"for i{i} in range(n{i}):" for i in range(12)) + "\n" + "    " * 12 + "x = 1\n",
    "many branches": "\n".join(f"if c{i}:\n    x{i} = 1\nelse:\n    x{i} = 2" for i in range(300)),
    "a long list": "x = [" + ",".join(["0"] * 20000) + "]\ny = x * 1000\n",
    "huge numbers": "x = 10 ** 10 ** 10\ny = 'a' * 10 ** 12\nz = 1 << 10 ** 9\nw = [0] * 10 ** 12\n",
    "an endless loop": "i = 0\nwhile True:\n    i += 1\n    x = [i] * i\n",
    "endless generators": "def g():\n    while True:\n        yield 1\nfor a in g():\n    for b in g():\n        print(a, b)\n",
    "a name that is not there": "x = undefined.y[3](z)(*w, **v)\ndel x\nprint(x)\n",
    "odd assignments": "(a, *b), c = [1, 2, 3], 4\na.b.c = d[e] = f\n*g, = h\n",
    "classes of nothing": "class A(B, metaclass=C):\n    x: D = E\n    def __init__(self):\n        super().__init__(1, 2, 3)\nA()()[0].y = 1\n",
    "wrong numbers of arguments": "def f(a, b):\n    pass\nf()\nf(1, 2, 3)\nf(c=1)\nlen()\nint(1, 2, 3, 4)\n",
    "pattern matching": "match x:\n    case {'a': [1, *r]} if r:\n        y = 1\n    case str() | None:\n        y = 2\n    case _:\n        y = 3\n",
    "many alternatives": (
        "import os, torch\nc = [4 if os.environ.get(str(i)) else 5 for i in range(30)]\nx = torch.tensor(c)\n"
        "y = torch.zeros(*c)\nw = torch.zeros(tuple(c))\n"
    ),
    "asynchronous code": "async def f():\n    async with g() as h:\n        async for i in h:\n            await i\n    return [j async for j in k]\n",
}


@pytest.mark.parametrize("program", HOSTILE.values(), ids=HOSTILE.keys())
def test_nothing_hangs_and_nothing_crashes(program: str) -> None:
    analysis = analyse_source(program, "hostile.py")
    assert analysis.statistics.steps <= ShapeOptions().steps + 1


def test_no_program_is_executed(tmp_path: Path) -> None:
    text = f"open({str(tmp_path / 'written')!r}, 'w').write('x')\nimport os\nos.system('touch {tmp_path / 'touched'}')\n"
    analyse_source(text, str(tmp_path / "program.py"))
    assert list(tmp_path.iterdir()) == []
