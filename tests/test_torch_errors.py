"""PyTorch programs that cannot be checked: one line that says what is wrong and where, exit code 2, no traceback."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.commands import Result, tensorproof

pytestmark = pytest.mark.area("torch corpus")

HEAD = """import torch
from torch import nn


"""
INPUT = "# tensorproof: x = float32[N,4] in [-1,1]\n"


@dataclass(frozen=True)
class Wrong:
    """A program that is wrong: the words that the message must hold, and the line that it must name (None: no line)."""

    id: str
    source: str
    words: tuple[str, ...]
    line: int | None = None
    name: str = "Net"
    options: tuple[str, ...] = ()


def module(body: str, declared: str = INPUT) -> str:
    """A program whose `forward(self, x)` has that body; its first line is line 8."""
    return f"{HEAD}{declared}class Net(nn.Module):\n    def forward(self, x):\n" + "".join(
        f"        {line}\n" for line in body.splitlines()
    )


WRONG = [
    Wrong("branch on data", module("if x.sum() > 0:\n    return x\nreturn -x"), ("Net", "depends on", "torch.cond"), 8),
    Wrong("loop on data", module("while x.sum() > 0:\n    x = x - 1\nreturn x"), ("Net", "depends on", "torch.cond"), 8),
    Wrong("size from data", module("return torch.zeros(int(x.sum().item()))"), ("Net", "depends on"), 8),
    Wrong("numpy in the middle", module("return torch.from_numpy(x.detach().numpy() + 1)"), ("Net", "export"), 8),
    Wrong("exception in forward", module('raise ValueError("the batch is too small")'), ("Net", "the batch is too small"), 8),
    Wrong("shapes that do not fit", module("y = torch.ones(5)\nreturn x + y"), ("Net", "size"), 9),
    Wrong("undefined name", module("return sigmoid(x)"), ("Net", "sigmoid"), 8),
    Wrong("no declaration", module("return x", declared=""), ("'x'", "tensorproof_inputs", "# tensorproof: x =")),
    Wrong("range without shape", module("return x", "# tensorproof: x in [0,1]\n"), ("'x'", "shape")),
    Wrong("unknown input", module("return x", f"{INPUT}# tensorproof: Net.z = float32[N] in [0,1]\n"), ("'z'", "x")),
    Wrong("unknown format", module("return x", "# tensorproof: x = float[N] in [0,1]\n"), ("'float'", "float32"), 5),
    Wrong("malformed shape", module("return x", "# tensorproof: x = float32[N,-1] in [0,1]\n"), ("'-1'",), 5),
    Wrong("malformed range", module("return x", "# tensorproof: x = float32[N] in [0..1]\n"), ("[0..1]",), 5),
    Wrong("malformed declaration", module("return x", "# tensorproof: x is float32\n"), ("declaration",), 5),
    Wrong("reversed range", module("return x", "# tensorproof: x = float32[N] in [1,0]\n"), ("1",), 5),
    Wrong("unknown name", module("return x"), ("'Net2'", "Net"), name="Net2"),
    Wrong("not a module", f"{HEAD}Net = 3\n", ("Net", "int", "nn.Module")),
    Wrong("class of another kind", f"{HEAD}class Net:\n    pass\n", ("Net", "nn.Module")),
    Wrong(
        "constructor with parameters",
        f"{HEAD}{INPUT}class Net(nn.Module):\n    def __init__(self, width):\n        super().__init__()\n",
        ("Net", "width"),
    ),
    Wrong(
        "constructor that fails",
        f"{HEAD}{INPUT}class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        nn.Linear(-1, 2)\n",
        ("Net",),
        9,
    ),
    Wrong("syntax error", module("return x +"), ("not Python",), 8),
    Wrong("import error", "import a_package_that_does_not_exist\n", ("a_package_that_does_not_exist",), 1),
    Wrong("error at import", f"{HEAD}1 / 0\n", ("ZeroDivisionError",), 5),
    Wrong("exit at import", "import sys\n\nsys.exit(3)\n", ("SystemExit",), 3),
    Wrong(
        "inputs that fail",
        f"{HEAD}def tensorproof_inputs():\n    return torch.zeros(2, 3) @ torch.zeros(2, 3)\n\n\n{module('return x', '')[len(HEAD) :]}",
        ("tensorproof_inputs",),
        6,
    ),
    Wrong(
        "inputs of another kind",
        f"{HEAD}def tensorproof_inputs():\n    return 'x'\n\n\n{module('return x', '')[len(HEAD) :]}",
        ("str", "tensor"),
    ),
    Wrong(
        "too many inputs",
        f"{HEAD}def tensorproof_inputs():\n    return torch.zeros(2), torch.zeros(2)\n\n\n{module('return x', '')[len(HEAD) :]}",
        (":Net: ", "too many"),
    ),
    Wrong("unknown precision", module("return x"), ("float12",), options=("--precision", "float12")),
    Wrong("unknown phase", module("return x"), ("deployment",), options=("--phase", "deployment")),
    Wrong("range of an unknown input", module("return x"), ("'z'",), options=("--range", "z=0:1")),
]


def checked(wrong: Wrong, folder: Path) -> tuple[Path, Result]:
    path = folder / "program.py"
    path.write_text(wrong.source)
    return path, tensorproof("check", f"{path}:{wrong.name}", *wrong.options)


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.id.replace(" ", "-"))
def test_one_line_says_what_is_wrong(wrong: Wrong, tmp_path: Path):
    path, (code, out, err) = checked(wrong, tmp_path)
    assert code == 2 and out == ""
    assert len(err.splitlines()) == 1 and len(err) < 500, err
    assert "Traceback" not in err and "internal error" not in err
    missing = [word for word in wrong.words if word not in err]
    assert missing == [], err
    assert re.findall(r"(\S+\.py):(\d+): ", err) == ([] if wrong.line is None else [(str(path), str(wrong.line))]), err


def test_a_file_that_does_not_exist():
    code, out, err = tensorproof("check", "nowhere/program.py:Net")
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1 and "nowhere/program.py" in err and "no such file" in err


def test_what_a_program_prints_is_not_part_of_the_report(tmp_path: Path):
    path = tmp_path / "program.py"
    path.write_text(HEAD + 'print("loading")\n' + module('print("running")\nreturn x')[len(HEAD) :])
    code, out, _ = tensorproof("check", f"{path}:Net", "--format", "json")
    assert code == 0 and out.startswith("{") and "loading" not in out and "running" not in out
