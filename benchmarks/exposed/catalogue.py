"""The scripts of this folder: which bugs of GRIST each stands for, where it fails, and which file is its repaired twin.

The defect of a script is at the line that ends in `# defect`. Lines that end in `# also` fail, too: to find one of them is
as good.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from tensorproof.findings import Phase

Framework = Literal["tensorflow", "pytorch"]

FOLDER = Path(__file__).parent

#: The letters of GRIST's programs that have several bugs.
_LETTERS = {2: "ab", 9: "ab", 11: "abc", 16: "abc", 28: "abcd", **dict.fromkeys((35, 36, 39, 43, 45, 48, 49), "ab")}
#: The bugs of GRIST's 63 programs by number and letter. A form that GRIST does not run has a word in place of the letter: `4-exp`.
GRIST_BUGS = frozenset(f"{number}{letter}" for number in range(1, 64) for letter in _LETTERS.get(number, ("",)))

_MARK = re.compile(r"  # (defect|also)$")
_DERIVATIVE = re.compile(r"(grad|_?backward\d*)$")


@dataclass(frozen=True, slots=True)
class Defect:
    """An operator that fails, in the framework's words, at a marked line: 0 is that of `# defect`, n the nth one of `# also`."""

    operator: str
    rule: str
    phase: Phase = "forward"
    mark: int = 0


@dataclass(frozen=True, slots=True)
class Program:
    """One script.

    `place` is the file with the marked lines where it is not the script itself. `ranges` are legal ranges by the name of the
    variable, for values of which the script shows a few only although any number is legal: GRIST does not bound these either.
    `at_start` tells of a script that fails in its first step, in most runs.
    """

    file: str
    framework: Framework
    bugs: tuple[str, ...]
    defect: Defect
    also: tuple[Defect, ...] = ()
    place: str | None = None
    fixed: str | None = None
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=lambda: MappingProxyType({}))
    at_start: bool = False

    @property
    def path(self) -> Path:
        return FOLDER / self.file

    @property
    def marked(self) -> Path:
        """The file with the marked lines."""
        return FOLDER / (self.place or self.file)

    @property
    def twin(self) -> Path | None:
        """The repaired script."""
        return FOLDER / self.fixed if self.fixed else None

    @property
    def grist_programs(self) -> frozenset[int]:
        """The numbers of the programs that the script stands for."""
        return frozenset(program_of(bug) for bug in self.bugs)

    def line(self, defect: Defect) -> int:
        """The line at which a defect is."""
        return marked_lines(self.marked)[defect.mark]

    def is_met_by(self, file: str, line: int, operator: str, phase: Phase) -> bool:
        """Whether a failure that was found is one of the script's defects.

        A defect of the forward pass may show in the derivative of its operator first; one of the backward pass shows there alone.
        """
        if Path(file).name != self.marked.name:
            return False
        alike = [defect for defect in (self.defect, *self.also) if plain_name(defect.operator) == plain_name(operator)]
        return any(line == self.line(defect) and phase in (defect.phase, "backward") for defect in alike)


def program_of(bug: str) -> int:
    """The number of the program that a bug belongs to."""
    return int(re.split(r"\D", bug)[0])


def plain_name(operator: str) -> str:
    """An operator's name without namespace and overload, and without what says that it is a derivative."""
    name = operator.removeprefix("aten.").removeprefix("aten::").split(".")[0].lower()
    return _DERIVATIVE.sub("", name)


def marked_lines(path: Path) -> list[int]:
    """The line of `# defect`, then those of `# also`, counted from 1."""
    marks = [(number, mark[1]) for number, text in enumerate(path.read_text().splitlines(), 1) if (mark := _MARK.search(text))]
    return [number for number, kind in marks if kind == "defect"] + [number for number, kind in marks if kind == "also"]


def _tensorflow(name: str, bugs: str, defect: Defect, *also: Defect, fixed: bool = False) -> Program:
    twin = f"tf_{name}_fixed.py" if fixed else None
    return Program(f"tf_{name}.py", "tensorflow", tuple(bugs.split()), defect, also, fixed=twin)


def _torch(
    name: str,
    bugs: str,
    defect: Defect,
    *also: Defect,
    free: str = "",
    place: str | None = None,
    fixed: bool = False,
    at_start: bool = False,
) -> Program:
    twin = f"torch_{name}_fixed.py" if fixed else None
    ranges = MappingProxyType(dict.fromkeys(free.split(), (-100.0, 100.0)))
    return Program(f"torch_{name}.py", "pytorch", tuple(bugs.split()), defect, also, place, twin, ranges, at_start)


_LOG = Defect("Log", "NUM101")
_OTHER_LOG = Defect("Log", "NUM101", mark=1)
_MEAN = Defect("Mean", "NUM203", mark=1)
_ROOT = Defect("Sqrt", "NUM401", "backward")
_log = Defect("log", "NUM101")
_other_log = Defect("log", "NUM101", mark=1)
_exp = Defect("exp", "NUM201")


def _quotient(mark: int = 0) -> Defect:
    return Defect("RealDiv", "NUM103", mark=mark)


PROGRAMS = (
    _tensorflow("01_spatial_transformer", "1", _LOG),
    _tensorflow("02_softmax_two_logs", "2a 2b", _LOG, _OTHER_LOG, fixed=True),
    _tensorflow("03_softmax_regression", "3", _LOG, fixed=True),
    _tensorflow("06_cnn", "6", _LOG),
    _tensorflow("09_sigmoid_mlp", "9a 9b", _LOG, _OTHER_LOG, fixed=True),
    _tensorflow("11_softmax_exp", "11a 11c", Defect("Exp", "NUM201"), Defect("Sum", "NUM203"), _quotient(1), fixed=True),
    _tensorflow("11_softmax_log", "11b", _LOG, Defect("Exp", "NUM201", mark=1), Defect("Sum", "NUM203", mark=2), _quotient(2)),
    _tensorflow("14_lenet", "14", _LOG),
    _tensorflow("15_value_iteration", "15", _LOG),
    _tensorflow("16_clipped_log", "16b", _LOG, _quotient(1), Defect("Sum", "NUM203", mark=1)),
    _tensorflow("16_clipped_div", "16c", _quotient(), Defect("Sum", "NUM203")),
    _tensorflow("17_unet", "17", Defect("Exp", "NUM201"), Defect("Sum", "NUM203", mark=1)),
    _tensorflow("18_monitored", "18", _LOG),
    _tensorflow("19_relu_softmax", "19", _LOG),
    _tensorflow("20_small_steps", "20", _LOG),
    _tensorflow("25_dataset", "25", _LOG),
    _tensorflow("28_gains", "28c 28d", _quotient(), _quotient(1), _quotient(2), _quotient(3), fixed=True),
    _tensorflow("28_weight_sums", "28b", _quotient(), _quotient(1), _quotient(2), _quotient(3)),
    _tensorflow("31_gan", "31", _LOG, _OTHER_LOG, fixed=True),
    _tensorflow("35_vae_log", "35a", _LOG, Defect("Sum", "NUM203", mark=1), Defect("Mean", "NUM203", mark=2), fixed=True),
    _tensorflow("35_vae_sqrt", "35b", _ROOT, _MEAN, fixed=True),
    _tensorflow("36_vae_scatter", "36a", _LOG, _MEAN),
    _tensorflow("40_bmi", "40", _LOG),
    _tensorflow("42_bmi_summaries", "42", _LOG),
    _tensorflow("43_cvae_log", "43a", _LOG, _MEAN),
    _tensorflow("43_cvae_sqrt", "43b", _ROOT, _MEAN),
    _tensorflow("44_one_conv", "44", _LOG),
    _tensorflow("48_noise_mlp", "48a", _LOG),
    _tensorflow("59_own_updates", "59", _LOG),
    _tensorflow("60_restored", "60", _LOG),
    _tensorflow("61_mlp", "61", _LOG),
    _torch("04_divergence_log", "4", _log, free="x"),
    _torch("04_divergence_exp", "4-exp", _exp, free="x", fixed=True),
    _torch("05_ranking_sqrt", "5", Defect("sqrt", "NUM401", "backward"), free="pred_value", fixed=True),
    _torch("05_ranking_log", "5-log", _log, free="pred_value"),
    _torch("12_mlp", "12", _log, place="estimator.py", fixed=True),
    _torch("13_groups_log", "13", _log, Defect("div", "NUM103", mark=1), free="src", at_start=True),
    _torch(
        "13_groups_exp",
        "13-exp",
        _exp,
        Defect("scatter_add", "NUM203", mark=1),
        Defect("div", "NUM103", mark=2),
        free="src",
        fixed=True,
    ),
    _torch("22_rbm", "22", _exp, fixed=True),
    _torch("23_softmax_cost", "23", _log, free="z", fixed=True),
    _torch("26_logistic", "26", _log, _other_log, free="x_train", fixed=True),
    _torch("27_module_cost", "27", _log, free="z"),
    _torch("32_softmax_regression", "32", _log, free="x_train", fixed=True),
    _torch("33_logistic_hooks", "33", _log, _other_log, free="x_train"),
    _torch("34_softmax_scatter", "34", _log, free="x_train"),
    _torch("37_linear_sigmoid", "37", _log, _other_log, free="X"),
    _torch("38_xor", "38", _log, _other_log, free="X"),
    _torch("46_without_gradients", "46", _log, free="z"),
    _torch("47_own_optimiser", "47", _log, free="x"),
    _torch("51_rbm_sampler", "51", _exp),
    _torch("53_own_steps", "53", _log, _other_log, free="x"),
    _torch("54_evaluated", "54", _log, _other_log, free="x_train x_test", fixed=True),
    _torch("56_loader", "56", _log, _other_log, free="x_train x"),
    _torch("57_learned_logits", "57", _log, free="z"),
    _torch("62_rbm_workers", "62", _exp),
    _torch("63_rbm_slices", "63", _exp),
)
