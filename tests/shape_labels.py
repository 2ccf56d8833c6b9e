"""Runs the programs of the shape corpus and compares what happens with their labels.

A program is `NAME.py` beside `NAME.expected` in `tests/fixtures/shapes/FRAMEWORK`, or in `tests/fixtures/source` for the
framework `source`. Each line of the latter is a finding `LINE CODE`, sorted; the file of a correct program is empty.
`NAME_bug` has a twin `NAME_fixed`; programs that are named otherwise have none.

A program with an error (SHP1xx) must raise, and the last line of its own in the traceback must be the line of an error. A
program with warnings only, or with no finding, must run to its end. Where a run fails elsewhere than at the finding (a
reshape that changes the batch, and fails in the loss), or not at all, `NAME.raises` holds the line, or the word `nowhere`.

TensorFlow names the lines of the user's program in the message of an error inside `tf.function`, and in the operation of an
error of `Session.run`: such a line stands for the one of the traceback.

All programs of a framework run in one child process, one after the other, each as `__main__`. The stand-ins below take the
place of data that would come over the network: arrays of zeros in the documented shapes, with labels drawn at random.

    python -m tests.shape_labels [FRAMEWORK...]
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import os
import random
import re
import runpy
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, NoReturn

import numpy as np

ROOT = Path(__file__).parent.parent
FIXTURES = Path(__file__).parent / "fixtures"

#: Seconds that one program may take, and that a child may take to import its frameworks.
PROGRAM_LIMIT = 60.0
START_LIMIT = 180.0

#: What a child imports before the first program, so that no program pays for it.
PRELOADED = {
    "torch": ("torch", "torch.utils.data", "torch._dynamo"),
    "numpy": ("numpy",),
    "jax": ("jax", "jax.numpy"),
    "keras": ("tensorflow", "keras"),
    "tf1": ("tensorflow",),
    "tf2": ("tensorflow", "keras"),
    "source": ("torch", "jax", "tensorflow", "keras"),
}

ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TF_NUM_INTRAOP_THREADS": "1",
    "KERAS_BACKEND": "tensorflow",
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true",
    "CUDA_VISIBLE_DEVICES": "",
    "MPLBACKEND": "agg",
}


# Labels


@dataclasses.dataclass(frozen=True, order=True)
class Finding:
    """What the checker should report: a rule at a line."""

    line: int
    code: str

    @property
    def is_error(self) -> bool:
        """Whether a run fails because of it."""
        return self.code.startswith("SHP1")


class LabelError(Exception):
    """The files of a label do not follow the convention."""


def read_findings(program: Path) -> list[Finding]:
    """The findings that `NAME.expected` lists."""
    label = program.with_suffix(".expected")
    if not label.exists():
        raise LabelError("no .expected file")
    findings: list[Finding] = []
    for text in label.read_text("utf-8").splitlines():
        match = re.fullmatch(r"([1-9]\d*) ((?:SHP|NUM)\d{3})", text)
        if match is None:
            raise LabelError(f"not `LINE CODE`: {text!r}")
        findings.append(Finding(int(match[1]), match[2]))
    if findings != sorted(findings):
        raise LabelError("findings are not sorted")
    check_convention(program, findings)
    return findings


def check_convention(program: Path, findings: list[Finding]) -> None:
    """Refuse labels that contradict the program's name or length, and bugs that lack their twin."""
    lines = len(program.read_text("utf-8").splitlines())
    if any(finding.line > lines for finding in findings):
        raise LabelError("a finding is beyond the end of the program")
    name = program.stem
    if name.endswith("_bug") != bool(findings):
        raise LabelError("only a program named _bug has findings, and it has at least one")
    for own, other in (("_bug", "_fixed"), ("_fixed", "_bug")):
        if name.endswith(own) and not program.with_name(name.removesuffix(own) + other + ".py").exists():
            raise LabelError(f"its twin {other} is missing")


def expected_lines(program: Path, findings: list[Finding]) -> frozenset[int]:
    """The lines a run may fail at; empty if it must reach its end."""
    override = program.with_suffix(".raises")
    if not override.exists():
        return frozenset(finding.line for finding in findings if finding.is_error)
    text = override.read_text("utf-8").strip()
    if text == "nowhere":
        return frozenset()
    if not text.isdecimal():
        raise LabelError(f"neither a line nor `nowhere`: {text!r}")
    return frozenset({int(text)})


# Outcomes


@dataclasses.dataclass(frozen=True)
class Run:
    """What one run of a program did: the error that ended it, if any, and the program's own last line in it."""

    seconds: float
    error: str | None = None
    line: int | None = None


@dataclasses.dataclass(frozen=True)
class Outcome:
    """A program, and how its run disagrees with its label; `mismatch` is None if it does not."""

    program: Path
    run: Run | None
    mismatch: str | None


def run_labels(framework: str, only: str = "") -> list[Outcome]:
    """Run the programs of a framework whose name contains `only`, and compare each with its label."""
    programs = [program for program in programs_of(framework) if only in program.stem]
    runs = run_programs(framework, programs)
    return [compare(program, runs.get(program)) for program in programs]


def programs_of(framework: str) -> list[Path]:
    """All programs of a framework, by name."""
    folder = FIXTURES / "source" if framework == "source" else FIXTURES / "shapes" / framework
    return sorted(folder.glob("*.py"))


def compare(program: Path, run: Run | None) -> Outcome:
    """Hold a run against the label."""
    try:
        lines = expected_lines(program, read_findings(program))
    except LabelError as error:
        return Outcome(program, run, str(error))
    return Outcome(program, run, disagreement(lines, run))


def disagreement(lines: frozenset[int], run: Run | None) -> str | None:
    """What is wrong about a run that may fail at `lines` only, and must fail if there are any."""
    if run is None:
        return "did not run: the child process ended before"
    wanted = "should fail at line " + " or ".join(map(str, sorted(lines))) if lines else "should run to its end"
    if run.error is None:
        return f"{wanted}, but runs to its end" if lines else None
    if run.line in lines:
        return None
    place = "no line of its own" if run.line is None else f"line {run.line}"
    return f"{wanted}, but fails at {place}: {run.error}"


def run_programs(framework: str, programs: list[Path]) -> dict[Path, Run]:
    """Run programs in one child process; one that the child does not survive, and those after it, have no run."""
    with tempfile.TemporaryDirectory() as scratch:
        results = Path(scratch, "results")
        results.touch()
        command = [sys.executable, "-m", "tests.shape_labels", "--results", str(results), framework]
        limit = START_LIMIT + PROGRAM_LIMIT * len(programs)
        with Path(scratch, "errors").open("w+b") as errors:
            child = subprocess.Popen(
                [*command, "--programs", *map(str, programs)],
                cwd=ROOT,
                env=os.environ | ENVIRONMENT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )
            try:
                child.wait(limit)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
            if child.returncode:
                errors.seek(0)
                sys.stderr.write(errors.read()[-4000:].decode("utf-8", "replace"))
        records = [json.loads(line) for line in results.read_text("utf-8").splitlines()]
    return {Path(record.pop("program")): Run(**record) for record in records}


# In the child


class TimeLimitError(BaseException):
    """A program took too long; no program catches it."""


#: Errors that no shape can cause: the program is broken, wherever they occur.
UNRELATED = (TimeLimitError, SyntaxError, ImportError, NameError)


def run_in_child(framework: str, programs: list[Path], results: Path) -> None:
    """Run each program, and append what it did to `results` as a line of JSON."""
    with results.open("a", encoding="utf-8") as file:
        for name in PRELOADED[framework]:
            importlib.import_module(name)
        reset = RESETS.get(framework, no_reset)
        install_stand_ins(framework)
        for program in programs:
            reset()
            run = run_program(program)
            file.write(json.dumps({"program": str(program)} | dataclasses.asdict(run)) + "\n")
            file.flush()


def run_program(program: Path) -> Run:
    """Run a program as `__main__` in a scratch folder, without arguments."""
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002  (the generator that the programs use)
    started = time.perf_counter()
    error: BaseException | None = None
    with tempfile.TemporaryDirectory() as scratch, time_limit(PROGRAM_LIMIT):
        os.chdir(scratch)
        sys.argv = [str(program)]
        try:
            runpy.run_path(str(program), run_name="__main__")
        except SystemExit as end:
            error = end if end.code else None
        except (Exception, TimeLimitError) as caught:
            error = caught
        os.chdir(ROOT)
    seconds = time.perf_counter() - started
    if error is None:
        return Run(seconds)
    return Run(seconds, summary(error), failing_line(error, program))


@contextmanager
def time_limit(seconds: float) -> Generator[None]:
    """Raise `TimeLimitError` in the main thread after so many seconds."""

    def expire(_signal: int, _frame: FrameType | None) -> NoReturn:
        raise TimeLimitError(f"no end after {seconds:.0f} s")

    signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def summary(error: BaseException) -> str:
    """The type of an error and the start of its message, in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]


def failing_line(error: BaseException, program: Path) -> int | None:
    """The program's own line that an error is about; None if no line is, or if the error says nothing about shapes."""
    if isinstance(error, UNRELATED):
        return None
    operation = getattr(error, "op", None)
    frames = [*traceback.extract_tb(error.__traceback__), *(getattr(operation, "traceback", None) or ())]
    lines = [frame.lineno for frame in frames if frame.filename == str(program)]
    named = re.findall(rf'File "{re.escape(str(program))}", line (\d+)', str(error))
    if operation is None and named:
        return int(named[-1])
    return lines[-1] if lines else None


# State that a program may leave behind


def no_reset() -> None:
    """Nothing is left behind."""


def reset_torch() -> None:
    """Default settings of PyTorch."""
    import torch

    torch.manual_seed(0)
    torch.set_default_dtype(torch.float32)
    torch.set_grad_enabled(True)


def reset_jax() -> None:
    """Default settings of JAX."""
    import jax

    jax.config.update("jax_enable_x64", False)


def reset_keras() -> None:
    """Names, seeds and the number format of Keras and TensorFlow."""
    import keras
    import tensorflow as tf

    keras.utils.clear_session()
    keras.utils.set_random_seed(0)
    keras.config.set_floatx("float32")
    tf.config.run_functions_eagerly(False)


def reset_graph() -> None:
    """An empty default graph, also after an `InteractiveSession` that was never closed."""
    framework = "tensorflow.python.framework"
    ops: Any = importlib.import_module(f"{framework}.ops")
    stack: Any = importlib.import_module(f"{framework}.stack")
    stack._default_session_stack.reset()
    ops._default_graph_stack.reset()
    sys.modules["tensorflow"].compat.v1.set_random_seed(0)


def reset_all() -> None:
    """Every framework that programs may share a process with."""
    reset_torch()
    reset_jax()
    reset_keras()


RESETS: dict[str, Callable[[], None]] = {
    "torch": reset_torch,
    "jax": reset_jax,
    "keras": reset_keras,
    "tf1": reset_graph,
    "tf2": reset_keras,
    "source": reset_all,
}


# Stand-ins


def install_stand_ins(framework: str) -> None:
    """Replace what needs the network or an old version."""
    if framework == "torch":
        install_torchvision()
    if framework in ("keras", "tf2"):
        install_keras_datasets()
    if framework == "tf1":
        install_tensorflow_1()


def new_module(name: str, **members: Any) -> ModuleType:
    """A module that `import` finds under `name`, also as an attribute of its parent."""
    module = ModuleType(name)
    vars(module).update(members, __path__=[])
    sys.modules[name] = module
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, module)
    return module


def zeros(*shape: int, dtype: str = "uint8") -> np.ndarray[Any, Any]:
    """Zeros that take no memory before they are written to."""
    return np.zeros(shape, dtype)


def classes(count: int, *shape: int, dtype: str = "uint8") -> np.ndarray[Any, Any]:
    """Labels below `count`, the same in every run."""
    return np.random.default_rng(0).integers(0, count, shape).astype(dtype)


def install_tensorflow_1() -> None:
    """`import tensorflow` means TensorFlow 1: graphs, placeholders, sessions, and the MNIST reader of its tutorials."""
    tf: Any = importlib.import_module("tensorflow.compat.v1")
    tf.disable_v2_behavior()
    tf.logging.set_verbosity(tf.logging.ERROR)
    sys.modules["tensorflow"] = tf
    for name in ("tensorflow.examples", "tensorflow.examples.tutorials", "tensorflow.examples.tutorials.mnist"):
        new_module(name)
    new_module("tensorflow.examples.tutorials.mnist.input_data", read_data_sets=MnistSplits)


class MnistBatches:
    """One split of MNIST: flat images, and labels as numbers or one-hot rows."""

    def __init__(self, count: int, one_hot: bool, reshape: bool) -> None:
        labels = classes(10, count)
        self.num_examples = count
        self.images = zeros(count, *((784,) if reshape else (28, 28, 1)), dtype="float32")
        self.labels = np.eye(10, dtype="float64")[labels] if one_hot else labels
        self._next = 0

    def next_batch(
        self, batch_size: int, fake_data: bool = False, shuffle: bool = True
    ) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """The next images and labels; batches are always full."""
        picked = np.arange(self._next, self._next + batch_size) % self.num_examples
        self._next = int(picked[-1]) + 1
        return self.images[picked], self.labels[picked]


class MnistSplits:
    """What `input_data.read_data_sets` returns."""

    def __init__(self, train_dir: str, fake_data: bool = False, one_hot: bool = False, reshape: bool = True) -> None:
        self.train = MnistBatches(55000, one_hot, reshape)
        self.validation = MnistBatches(5000, one_hot, reshape)
        self.test = MnistBatches(10000, one_hot, reshape)


def install_keras_datasets() -> None:
    """`load_data` of `keras.datasets`, also as `tensorflow.keras.datasets`."""
    import keras

    datasets: dict[str, Callable[..., Any]] = {
        "mnist": lambda path="": grey_images(),
        "fashion_mnist": lambda: grey_images(),
        "cifar10": lambda: colour_images(10),
        "cifar100": lambda label_mode="fine": colour_images(100 if label_mode == "fine" else 20),
        "boston_housing": lambda **_options: tables(404, 102, 13),
        "california_housing": lambda version="large", **_options: tables(*((16512, 4128) if version == "large" else (480, 120)), 8),
        "imdb": lambda path="", num_words=None, **_options: texts(25000, 25000, num_words or 88587, 2),
        "reuters": lambda path="", num_words=None, **_options: texts(8982, 2246, num_words or 30981, 46),
    }
    for name, load_data in datasets.items():
        getattr(keras.datasets, name).load_data = load_data


def grey_images() -> Any:
    """MNIST and Fashion-MNIST."""
    return (zeros(60000, 28, 28), classes(10, 60000)), (zeros(10000, 28, 28), classes(10, 10000))


def colour_images(count: int) -> Any:
    """CIFAR: its labels are columns."""
    train = zeros(50000, 32, 32, 3), classes(count, 50000, 1, dtype="int64")
    return train, (zeros(10000, 32, 32, 3), classes(count, 10000, 1, dtype="int64"))


def tables(train: int, test: int, columns: int) -> Any:
    """Rows of numbers with a target each."""
    return tuple((zeros(rows, columns, dtype="float32"), zeros(rows, dtype="float32")) for rows in (train, test))


def texts(train: int, test: int, words: int, count: int) -> Any:
    """Lists of word numbers, of unequal lengths."""
    generator = np.random.default_rng(0)

    def split(rows: int) -> Any:
        lists = np.empty(rows, dtype=object)
        lists[:] = [generator.integers(1, words, length).tolist() for length in generator.integers(11, 40, rows)]
        return lists, classes(count, rows, dtype="int64")

    return split(train), split(test)


@dataclasses.dataclass
class Picture:
    """An image before it becomes a tensor: its channels, height and width."""

    channels: int
    height: int
    width: int


def install_torchvision() -> None:
    """Datasets and transforms of torchvision that the programs use."""
    import torch
    from torch.utils.data import Dataset

    class Pictures(Dataset[Any]):
        """A dataset of pictures of one size; subclasses say which."""

        channels, size, classes, counts = 1, 28, 10, (60000, 10000)

        def __init__(
            self,
            root: str,
            train: bool = True,
            transform: Callable[[Any], Any] | None = None,
            target_transform: Callable[[Any], Any] | None = None,
            download: bool = False,
        ) -> None:
            self.transform = transform or (lambda picture: picture)
            self.target_transform = target_transform or (lambda label: label)
            self.targets = classes(self.classes, self.counts[not train], dtype="int64").tolist()

        def __len__(self) -> int:
            return len(self.targets)

        def __getitem__(self, index: int) -> tuple[Any, Any]:
            if not 0 <= index < len(self):
                raise IndexError(index)
            picture = Picture(self.channels, self.size, self.size)
            return self.transform(picture), self.target_transform(self.targets[index])

    def dataset(name: str, **sizes: Any) -> type[Dataset[Any]]:
        return type(name, (Pictures,), sizes)

    def to_tensor(picture: Picture) -> torch.Tensor:
        return torch.rand(picture.channels, picture.height, picture.width)

    def sized(value: Any, height: int, width: int) -> Any:
        if isinstance(value, Picture):
            return dataclasses.replace(value, height=height, width=width)
        return value.new_zeros(*value.shape[:-2], height, width)

    def size_of(value: Any) -> tuple[int, int]:
        return (value.height, value.width) if isinstance(value, Picture) else tuple(value.shape[-2:])

    def compose(transforms: list[Callable[[Any], Any]]) -> Callable[[Any], Any]:
        def apply(value: Any) -> Any:
            for transform in transforms:
                value = transform(value)
            return value

        return apply

    def normalize(mean: Any, std: Any, inplace: bool = False) -> Callable[[Any], Any]:
        means, deviations = torch.as_tensor(mean).view(-1, 1, 1), torch.as_tensor(std).view(-1, 1, 1)
        return lambda image: (image - means) / deviations

    def resize(size: int | tuple[int, int], **_options: Any) -> Callable[[Any], Any]:
        def apply(value: Any) -> Any:
            if not isinstance(size, int):
                return sized(value, *size)
            height, width = size_of(value)
            shorter = min(height, width)
            return sized(value, size * height // shorter, size * width // shorter)

        return apply

    def crop(size: int | tuple[int, int], **_options: Any) -> Callable[[Any], Any]:
        height, width = (size, size) if isinstance(size, int) else size
        return lambda value: sized(value, height, width)

    def grayscale(num_output_channels: int = 1) -> Callable[[Any], Any]:
        return lambda picture: dataclasses.replace(picture, channels=num_output_channels)

    def unchanged(*_arguments: Any, **_options: Any) -> Callable[[Any], Any]:
        return lambda value: value

    new_module("torchvision")
    new_module(
        "torchvision.datasets",
        MNIST=dataset("MNIST"),
        FashionMNIST=dataset("FashionMNIST"),
        KMNIST=dataset("KMNIST"),
        CIFAR10=dataset("CIFAR10", channels=3, size=32, counts=(50000, 10000)),
        CIFAR100=dataset("CIFAR100", channels=3, size=32, classes=100, counts=(50000, 10000)),
    )
    new_module(
        "torchvision.transforms",
        Compose=compose,
        ToTensor=lambda: to_tensor,
        Normalize=normalize,
        Resize=resize,
        CenterCrop=crop,
        RandomCrop=crop,
        RandomResizedCrop=crop,
        Grayscale=grayscale,
        Lambda=lambda function: function,
        RandomHorizontalFlip=unchanged,
        RandomRotation=unchanged,
        ColorJitter=unchanged,
    )


# The command


def report(framework: str, outcomes: list[Outcome]) -> int:
    """Print a line per mismatch and a total, and return the number of mismatches."""
    mismatches = [outcome for outcome in outcomes if outcome.mismatch is not None]
    for outcome in mismatches:
        print(f"{outcome.program.relative_to(FIXTURES)}: {outcome.mismatch}")
    runs = [(outcome.run.seconds, outcome.program.stem) for outcome in outcomes if outcome.run is not None]
    slowest = "; slowest {1} in {0:.1f} s".format(*max(runs)) if runs else ""
    print(f"{framework}: {len(outcomes)} programs, {len(mismatches)} mismatches{slowest}")
    return len(mismatches)


def main(arguments: list[str] | None = None) -> int:
    """Check the labels of the frameworks named, or of all that have programs."""
    parser = argparse.ArgumentParser(prog="python -m tests.shape_labels", description="Run the programs of the shape corpus.")
    parser.add_argument("frameworks", nargs="*", metavar="framework", help=", ".join(PRELOADED))
    parser.add_argument("--only", default="", metavar="TEXT", help="only programs whose name contains it")
    parser.add_argument("--results", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--programs", nargs="*", type=Path, default=[], help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    unknown = set(options.frameworks) - PRELOADED.keys()
    if unknown:
        parser.error(f"unknown framework: {', '.join(sorted(unknown))}")
    if options.results is not None:
        run_in_child(options.frameworks[0], options.programs, options.results)
        return 0
    frameworks = options.frameworks or [framework for framework in PRELOADED if programs_of(framework)]
    return int(sum(report(framework, run_labels(framework, options.only)) for framework in frameworks) > 0)


if __name__ == "__main__":
    sys.exit(main())
