"""Worker processes and the backends in them: the same network gives the same numbers everywhere, and whatever dies is survived."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import sysconfig
import time
import venv
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tensorproof.compare.backends.backend import NetworkRun, Unavailable
from tensorproof.compare.drawing import Array, Arrays, draw_inputs, draw_weight, dtype_of
from tensorproof.compare.judging import judge
from tensorproof.compare.spec import Dialect, InputSpec, LayerSpec, NetworkSpec, Phase, TestSpec
from tensorproof.compare.workers import protocol
from tensorproof.compare.workers.backend_id import BackendId
from tensorproof.compare.workers.fleet import Fleet
from tensorproof.compare.workers.pipes import Pipes, TooLate
from tensorproof.compare.workers.process import Worker, WorkerFailed
from tensorproof.errors import ConfigurationError

pytestmark = pytest.mark.area("compare workers")

NUMPY, TENSORFLOW, TORCH, JAX, OPENVINO = (
    BackendId(f"keras:{name}") for name in ("numpy", "tensorflow", "torch", "jax", "openvino")
)
ORT, ORT_PLAIN, OV, REFERENCE = map(BackendId.parse, ("onnxruntime", "onnxruntime?optimisation=off", "openvino", "onnx-reference"))


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    with Fleet(time_limit=120.0) as fleet:
        yield fleet


def test_of(*parts: InputSpec | LayerSpec, outputs: tuple[str, ...] = (), dialect: Dialect = "keras", **rest: object) -> TestSpec:
    inputs = tuple(part for part in parts if isinstance(part, InputSpec))
    layers = tuple(part for part in parts if isinstance(part, LayerSpec))
    return TestSpec(NetworkSpec(dialect, inputs, layers, outputs or (layers[-1].name,)), **rest)  # type: ignore[arg-type]


test_of.__test__ = False  # type: ignore[attr-defined]


def agree(left: NetworkRun, right: NetworkRun) -> None:
    assert left.failure is None and right.failure is None, (left.failure, right.failure)
    assert set(left.arrays) == set(right.arrays)
    for name, array in left.arrays.items():
        found = judge(array, right.arrays[name])
        assert not found.is_defect, (name, found)


DENSE = test_of(
    InputSpec("x", (3, 4)),
    LayerSpec("first", "Dense", {"units": 5, "activation": "relu"}, ("x",)),
    LayerSpec("second", "Dense", {"units": 2}, ("first",)),
)
CONVOLUTION = test_of(
    InputSpec("x", (2, 6, 6, 3)),
    LayerSpec("convolution", "Conv2D", {"filters": 4, "kernel_size": 3, "padding": "same"}, ("x",)),
    LayerSpec("norm", "BatchNormalization", {}, ("convolution",)),
    LayerSpec("pool", "MaxPooling2D", {"pool_size": [2, 2]}, ("norm",)),
    LayerSpec("flat", "Flatten", {}, ("pool",)),
    LayerSpec("classes", "Dense", {"units": 3, "activation": "softmax"}, ("flat",)),
)


# -- Keras on its five backends ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", [TENSORFLOW, TORCH, JAX, OPENVINO], ids=str)
@pytest.mark.parametrize("test", [DENSE, CONVOLUTION], ids=["dense", "convolution"])
def test_backends_agree(fleet: Fleet, backend: BackendId, test: TestSpec) -> None:
    run = fleet.run(backend, test)
    agree(run, fleet.run(NUMPY, test))
    (output,) = test.network.outputs
    batch = test.network.inputs[0].shape[0]
    assert run.static_shapes[output] == (None, *run.arrays[output].shape[1:])
    assert run.arrays[output].shape[0] == batch and run.arrays[output].dtype == np.float32


def test_dense_is_what_it_says(fleet: Fleet) -> None:
    """Weights and inputs that are given take the place of drawn ones: the result is known."""
    layer = LayerSpec("d", "Dense", {"units": 2}, ("x",))
    x, kernel, bias = np.float32([[1, 2]]), np.float32([[1, 0], [3, -1]]), np.float32([0.5, 0])
    run = fleet.run(TORCH, test_of(InputSpec("x", (1, 2)), layer), arrays={"x": x, "d/0": kernel, "d/1": bias})
    np.testing.assert_array_equal(run.arrays["d"], [[7.5, -2]])


@pytest.mark.parametrize("backend", [NUMPY, OPENVINO, JAX], ids=str)
def test_kept_networks_take_new_weights(fleet: Fleet, backend: BackendId) -> None:
    """A network is built once and run with other weights and inputs after that: OpenVINO compiles weights into its graph."""
    kernels = [np.full((4, 5), value, np.float32) for value in (1.0, 2.0, 1.0)]
    runs = [fleet.run(backend, DENSE, arrays={"first/0": kernel}, keep=["first"]).arrays["first"] for kernel in kernels]
    assert not np.array_equal(runs[0], runs[1])
    np.testing.assert_array_equal(runs[0], runs[2])
    drawn = draw_inputs(DENSE)["x"]
    others = [fleet.run(backend, DENSE, arrays={"x": drawn * factor}).arrays["second"] for factor in (1, 3, 1)]
    assert not np.array_equal(others[0], others[1])
    np.testing.assert_array_equal(others[0], others[2])


def test_inner_results_are_kept(fleet: Fleet) -> None:
    keep = ["convolution", "flat"]
    runs = [fleet.run(backend, CONVOLUTION, keep=keep) for backend in (TORCH, OPENVINO)]
    assert list(runs[0].arrays) == keep and runs[0].arrays["convolution"].shape == (2, 6, 6, 4)
    agree(*runs)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_types_of_numbers(fleet: Fleet, dtype: str) -> None:
    test = TestSpec(DENSE.network, dtype=dtype)
    runs = [fleet.run(backend, test) for backend in (TENSORFLOW, TORCH, OPENVINO)]
    for run in runs:
        agree(run, runs[0])
        assert run.arrays["second"].dtype == dtype_of(dtype)


def test_float64_on_tensorflow_alone(fleet: Fleet) -> None:
    """Keras turns float64 into float32 inside its operations on all other backends, by design."""
    test = TestSpec(DENSE.network, dtype="float64")
    for backend in (TORCH, JAX, NUMPY, OPENVINO):
        with pytest.raises(Unavailable, match="float32"):
            fleet.run(backend, test)
    x = draw_inputs(test)["x"]
    kernel, bias = (draw_weight(test, "first", index, "", shape) for index, shape in enumerate([(4, 5), (5,)]))
    np.testing.assert_allclose(fleet.run(TENSORFLOW, test, keep=["first"]).arrays["first"], np.maximum(x @ kernel + bias, 0), 1e-14)


SEVERAL = {
    "states": test_of(
        InputSpec("x", (2, 3, 4)), LayerSpec("l", "LSTM", {"units": 2, "return_state": True, "return_sequences": True}, ("x",))
    ),
    "mask": test_of(
        InputSpec("x", (2, 4, 3)), InputSpec("seen", (2, 4), "bool", "mask"), LayerSpec("l", "GRU", {"units": 2}, ("x", "seen"))
    ),
    "initial state": test_of(
        InputSpec("x", (2, 3, 4)), InputSpec("h", (2, 5)), LayerSpec("l", "SimpleRNN", {"units": 5}, ("x", "h"))
    ),
    "both ways": test_of(
        InputSpec("x", (2, 3, 4)),
        LayerSpec("l", "Bidirectional", {"layer": {"kind": "GRU", "parameters": {"units": 2}}, "merge_mode": "mul"}, ("x",)),
    ),
    "cells": test_of(
        InputSpec("x", (2, 3, 4)),
        LayerSpec(
            "l",
            "RNN",
            {"cell": [{"kind": "LSTMCell", "parameters": {"units": 2}}, {"kind": "GRUCell", "parameters": {"units": 3}}]},
            ("x",),
        ),
    ),
    "each step": test_of(
        InputSpec("x", (2, 3, 4)),
        LayerSpec("l", "TimeDistributed", {"layer": {"kind": "Dense", "parameters": {"units": 2}}}, ("x",)),
    ),
    "attention": test_of(
        InputSpec("q", (2, 3, 4)),
        InputSpec("v", (2, 5, 4)),
        InputSpec("seen", (2, 3, 5), "bool", "mask"),
        LayerSpec(
            "l", "MultiHeadAttention", {"num_heads": 2, "key_dim": 3, "call:return_attention_scores": True}, ("q", "v", "seen")
        ),
    ),
    "merging": test_of(
        InputSpec("a", (2, 3)),
        InputSpec("b", (2, 3)),
        LayerSpec("s", "Subtract", {}, ("a", "b")),
        LayerSpec("l", "Concatenate", {}, ("a", "s", "b")),
    ),
}


@pytest.mark.parametrize("name", SEVERAL)
def test_several_inputs_and_results(fleet: Fleet, name: str) -> None:
    test = SEVERAL[name]
    run = fleet.run(TORCH, test)
    agree(run, fleet.run(NUMPY, test))
    assert set(run.arrays) == {"states": {"l", "l:1", "l:2"}, "attention": {"l", "l:1"}}.get(name, {"l"})
    for result, shape in run.static_shapes.items():
        assert len(shape) == run.arrays[result].ndim


def test_masks_hide(fleet: Fleet) -> None:
    """A mask is an argument of the call: a step that it hides has no influence."""
    test = SEVERAL["mask"]
    x = draw_inputs(test)["x"]
    seen = np.array([[True, True, False, False]] * 2)
    changed = np.where(seen[:, :, None], x, 9.0).astype(np.float32)
    left, right = (fleet.run(TORCH, test, arrays={"x": array, "seen": seen}).arrays["l"] for array in (x, changed))
    np.testing.assert_array_equal(left, right)
    assert not np.array_equal(left, fleet.run(TORCH, test, arrays={"x": changed, "seen": ~seen}).arrays["l"])


def test_second_results_are_inputs(fleet: Fleet) -> None:
    test = test_of(
        InputSpec("x", (2, 3, 4)),
        LayerSpec("l", "LSTM", {"units": 2, "return_state": True}, ("x",)),
        LayerSpec("d", "Dense", {"units": 3}, ("l:2",)),
    )
    agree(fleet.run(TORCH, test), fleet.run(NUMPY, test))
    assert [layer.name for layer in test.network.up_to(["d"]).layers] == ["l", "d"]


def test_gradients_are_the_same(fleet: Fleet) -> None:
    phase: Phase = "gradient"
    test = TestSpec(CONVOLUTION.network.up_to(["pool"]), phase=phase)
    runs = [fleet.run(backend, test) for backend in (TENSORFLOW, TORCH, JAX)]
    assert runs[0].arrays["gradient:x"].shape == (2, 6, 6, 3)
    agree(runs[0], runs[1])
    agree(runs[0], runs[2])
    for backend in (NUMPY, OPENVINO):
        with pytest.raises(Unavailable, match="no gradients"):
            fleet.run(backend, test)


@pytest.mark.parametrize("backend", [TENSORFLOW, TORCH, JAX], ids=str)
def test_gradient_of_a_sum_of_products(fleet: Fleet, backend: BackendId) -> None:
    """The slope of the sum of x @ kernel is the sum of the kernel's rows; an input that nothing depends on has slope zero."""
    test = test_of(
        InputSpec("x", (3, 2)),
        InputSpec("unused", (3, 2)),
        InputSpec("n", (3,), "int32", "integers"),
        LayerSpec("d", "Dense", {"units": 3}, ("x",)),
        phase="gradient",
    )
    kernel = np.float32([[1, 2, 3], [0, -1, 4]])
    run = fleet.run(backend, test, arrays={"d/0": kernel})
    np.testing.assert_array_equal(run.arrays["gradient:x"], [[6, 3]] * 3)
    np.testing.assert_array_equal(run.arrays["gradient:unused"], np.zeros((3, 2)))
    assert "gradient:n" not in run.arrays


@pytest.mark.parametrize("backend", [TENSORFLOW, JAX], ids=str)
def test_compiled(fleet: Fleet, backend: BackendId) -> None:
    eager = fleet.run(backend, CONVOLUTION)
    agree(eager, fleet.run(backend, CONVOLUTION, mode="compiled"))
    other = {"classes/1": np.float32([5, 0, 0])}
    changed = fleet.run(backend, CONVOLUTION, mode="compiled", arrays=other)
    agree(changed, fleet.run(backend, CONVOLUTION, arrays=other))
    assert not np.array_equal(changed.arrays["classes"], eager.arrays["classes"])


@pytest.mark.parametrize("backend", [TORCH, OPENVINO, NUMPY], ids=str)
def test_compiling_is_refused(fleet: Fleet, backend: BackendId) -> None:
    with pytest.raises(Unavailable):
        fleet.run(backend, DENSE, mode="compiled")


@pytest.mark.parametrize("backend", [NUMPY, TORCH], ids=str)
@pytest.mark.parametrize("test", [CONVOLUTION, SEVERAL["both ways"]], ids=["convolution", "both ways"])
def test_saved(fleet: Fleet, backend: BackendId, test: TestSpec) -> None:
    agree(fleet.run(backend, test), fleet.run(backend, test, mode="saved"))


def test_training_is_seeded(fleet: Fleet) -> None:
    network = test_of(
        InputSpec("x", (4, 6)),
        LayerSpec("norm", "BatchNormalization", {"momentum": 0.5}, ("x",)),
        LayerSpec("drop", "Dropout", {"rate": 0.5}, ("norm",)),
    ).network
    runs = [fleet.run(TORCH, TestSpec(network, seed, phase="training"), keep=["norm", "drop"]) for seed in (1, 1, 2)]
    np.testing.assert_array_equal(runs[0].arrays["drop"], runs[1].arrays["drop"])
    zeros = [run.arrays["drop"] == 0 for run in runs]
    assert 0 < zeros[0].sum() < 24 and not np.array_equal(zeros[0], zeros[2])
    # The mean of the batch is taken out, not the mean that was learned before.
    weights = fleet.run(NUMPY, TestSpec(network, 1, phase="training"), keep=["norm"]).arrays["norm"]
    assert not judge(weights, runs[0].arrays["norm"]).is_defect
    assert not np.allclose(weights, fleet.run(NUMPY, TestSpec(network, 1), keep=["norm"]).arrays["norm"])


def test_layer_at_fault_when_built(fleet: Fleet) -> None:
    wrong = LayerSpec("wrong", "Conv2D", {"filters": -2, "kernel_size": 3}, ("flat",))
    failure = fleet.run(TORCH, test_of(InputSpec("x", (2, 3, 4)), LayerSpec("flat", "Flatten", {}, ("x",)), wrong)).failure
    assert failure is not None and (failure.stage, failure.kind, failure.layer) == ("build", "ValueError", "wrong")
    assert "filters" in failure.message and "\x1b" not in failure.message


def test_layer_at_fault_when_called(fleet: Fleet) -> None:
    """PyTorch normalises over last axes only: Keras builds the layer and fails when it is called."""
    layers = [LayerSpec("relu", "ReLU", {}, ("x",)), LayerSpec("norm", "LayerNormalization", {"axis": 1}, ("relu",))]
    run = fleet.run(TORCH, test_of(InputSpec("x", (2, 3, 4)), *layers))
    assert run.failure is None or (run.failure.stage, run.failure.layer) == ("call", "norm")
    assert run.static_shapes == {"norm": (None, 3, 4)}


def test_dialects_are_not_mixed(fleet: Fleet) -> None:
    with pytest.raises(Unavailable, match="Keras layers"):
        fleet.run(NUMPY, TestSpec(ONNX.network))
    with pytest.raises(Unavailable, match="ONNX operators"):
        fleet.run(ORT, DENSE)


# -- ONNX on its three runtimes ---------------------------------------------------------------------------------------

ONNX = test_of(
    InputSpec("x", (2, 3, 6, 6)),
    LayerSpec("c", "Conv", {"@1": {"shape": [4, 3, 3, 3]}, "@2": {"shape": [4]}, "pads": [1, 1, 1, 1]}, ("x",)),
    LayerSpec("r", "Clip", {"@1": None, "@2": 0.5}, ("c",)),
    LayerSpec("p", "MaxPool", {"kernel_shape": [2, 2], "strides": [2, 2]}, ("r",)),
    LayerSpec("f", "Reshape", {"@1": [2, -1]}, ("p",)),
    LayerSpec("g", "Gemm", {"@1": {"shape": [36, 5]}, "@2": {"shape": [5]}, "alpha": 2}, ("f",)),
    LayerSpec("s", "Split", {"@1": [2, 3], "@results": 2, "axis": 1}, ("g",)),
    LayerSpec("m", "Mul", {"@0": {"dtype": "float32", "value": [0.5]}}, ("s:1",)),
    dialect="onnx",
    outputs=("s", "m"),
)


@pytest.mark.parametrize("backend", [ORT_PLAIN, OV, REFERENCE], ids=str)
def test_onnx_runtimes_agree(fleet: Fleet, backend: BackendId) -> None:
    run = fleet.run(backend, ONNX)
    agree(run, fleet.run(ORT, ONNX))
    assert {name: array.shape for name, array in run.arrays.items()} == {"s": (2, 2), "s:1": (2, 3), "m": (2, 3)}
    assert run.static_shapes == {"s": (2, 2), "s:1": (2, 3), "m": (2, 3)}
    np.testing.assert_array_equal(run.arrays["m"], run.arrays["s:1"] / 2)
    agree(run, fleet.run(backend, ONNX, mode="saved"))


def test_onnx_weights_can_be_given(fleet: Fleet) -> None:
    arrays: Arrays = {"g/1": np.zeros((36, 5), np.float32), "g/2": np.arange(5, dtype=np.float32)}
    for backend in (ORT, OV, REFERENCE):
        np.testing.assert_array_equal(fleet.run(backend, ONNX, arrays=arrays, keep=["g"]).arrays["g"], [[0, 1, 2, 3, 4]] * 2)


@pytest.mark.parametrize("backend", [ORT, OV], ids=str)
def test_onnx_layer_at_fault(fleet: Fleet, backend: BackendId) -> None:
    layers = [LayerSpec("relu", "Relu", {}, ("x",)), LayerSpec("soft", "Softmax", {"axis": 7}, ("relu",))]
    failure = fleet.run(backend, test_of(InputSpec("x", (2, 3)), *layers, dialect="onnx")).failure
    assert failure is not None and (failure.stage, failure.layer) == ("build", "soft")
    assert "7" in failure.message.splitlines()[0]


def test_onnx_refusals(fleet: Fleet) -> None:
    for rest in ({"phase": "training"}, {"dtype": "bfloat16"}):
        with pytest.raises(Unavailable):
            fleet.run(ORT, TestSpec(ONNX.network, **rest))  # type: ignore[arg-type]
    with pytest.raises(Unavailable, match="off, basic, all"):
        fleet.run(BackendId.parse("onnxruntime?optimisation=some"), ONNX)


def test_torch_reads_programs_only(fleet: Fleet) -> None:
    with pytest.raises(Unavailable, match="keras:torch"):
        fleet.run(BackendId("torch"), DENSE)


# -- Processes --------------------------------------------------------------------------------------------------------

#: Layers with certain numbers of units end the process, hang, or complain without end.
MISCHIEF = """
import os, signal, sys, time
import keras
original = keras.layers.Dense.call
def call(self, inputs, training=None):
    if self.units == 13 and not isinstance(inputs, keras.KerasTensor):
        print("the thirteenth hour", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)
    if self.units == 14:
        os._exit(3)
    if self.units == 17 and not isinstance(inputs, keras.KerasTensor):
        time.sleep(60)
    if self.units == 19:
        print("complaint\\n" * 400_000, file=sys.stderr)
        print("answer\\n" * 400_000, flush=True)
    return original(self, inputs, training)
keras.layers.Dense.call = call
"""


def dense(units: int) -> TestSpec:
    return test_of(
        InputSpec("x", (2, 3)), LayerSpec("before", "ReLU", {}, ("x",)), LayerSpec("d", "Dense", {"units": units}, ("before",))
    )


@pytest.fixture(scope="module")
def mischief(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    path = tmp_path_factory.mktemp("mischief") / "mischief.py"
    path.write_text(MISCHIEF)
    with Worker(BackendId.parse(f"keras:numpy?with={path}"), time_limit=3.0) as worker:
        yield worker


def test_death_is_survived(mischief: Worker) -> None:
    before = mischief.deaths
    run = mischief.run_network(dense(13))
    assert run.failure is not None and (run.failure.stage, run.failure.kind) == ("process", "death")
    assert "SIGSEGV" in run.failure.message and "the thirteenth hour" in run.failure.message and run.failure.layer == "d"
    assert mischief.deaths == before + 1
    assert mischief.run_network(dense(4)).arrays["d"].shape == (2, 4)
    run = mischief.run_network(dense(14))
    assert run.failure is not None and "code 3" in run.failure.message and mischief.deaths == before + 2


def test_hanging_is_ended(mischief: Worker) -> None:
    assert mischief.run_network(dense(4)).failure is None
    started = time.monotonic()
    run = mischief.run_network(dense(17))
    assert run.failure is not None and (run.failure.stage, run.failure.kind, run.failure.layer) == ("process", "timeout", "d")
    assert time.monotonic() - started < 20 and mischief.timeouts == 1
    assert mischief.run_network(dense(4)).failure is None


def test_output_of_a_framework_is_no_answer(mischief: Worker) -> None:
    """What a layer prints, in any amount, neither blocks the process nor mixes with its answer."""
    assert mischief.run_network(dense(4)).failure is None
    mischief._time_limit = 60.0
    run = mischief.run_network(dense(19))
    mischief._time_limit = 3.0
    assert run.failure is None and run.arrays["d"].shape == (2, 19)


def test_death_between_requests_is_nobodys_fault(mischief: Worker) -> None:
    mischief.run_network(dense(4))
    process = mischief._process
    assert process is not None
    process.kill()
    process.wait()
    before = mischief.deaths
    assert mischief.run_network(dense(4)).failure is None and mischief.deaths == before


def test_requests_about_files_fail_with_a_message(mischief: Worker, tmp_path: Path) -> None:
    with pytest.raises(WorkerFailed, match=r"nothing\.keras"):
        mischief.open_model(tmp_path / "nothing.keras")
    assert mischief.run_network(dense(4)).failure is None


def _child(source: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", source], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import sys, time; sys.stdout.buffer.write({half!r}); sys.stdout.flush(); time.sleep(60)", TooLate),
        ("import time; time.sleep(60)", TooLate),
        ("import sys\nwhile True: sys.stderr.write('complaint ' * 1000)", TooLate),
        ("import sys; sys.stdout.buffer.write({half!r})", EOFError),
        ("import sys, time; print('no answer at all, but a line of text'); sys.stdout.flush(); time.sleep(60)", protocol.Garbled),
    ],
    ids=["half an answer", "reads nothing", "floods", "ends in the middle", "garbage"],
)
def test_deadline_holds_for_the_whole_answer(source: str, expected: type[Exception]) -> None:
    half = protocol.pack({"a": 1}, {"x": np.zeros(1000)})[:500]
    request = protocol.pack({}, {"x": np.zeros(1 << 18)})  # more than a pipe holds
    process = _child(source.format(half=half))
    started = time.monotonic()
    try:
        with pytest.raises(expected):
            Pipes(process).exchange(request if expected is TooLate else b"", 2.0)
        assert time.monotonic() - started < 10
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            assert stream is not None
            stream.close()


def test_missing_framework(tmp_path: Path) -> None:
    module = tmp_path / "missing.py"
    module.write_text("import sys; sys.modules['onnxruntime'] = None")
    backend = BackendId.parse(f"onnxruntime?with={module}")
    with Worker(backend) as worker:
        with pytest.raises(Unavailable, match="onnxruntime"):
            worker.run_network(ONNX)
        with pytest.raises(Unavailable, match="onnxruntime"):
            worker.versions()


def test_environments_that_cannot_start(tmp_path: Path) -> None:
    with (
        Worker(BackendId("onnxruntime", python=str(tmp_path / "python"))) as worker,
        pytest.raises(Unavailable, match="No such file"),
    ):
        worker.run_network(ONNX)
    bare = tmp_path / "bare"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')  # without its packages
    bare.chmod(0o755)
    with Worker(BackendId("onnxruntime", python=str(bare))) as worker, pytest.raises(Unavailable, match="No module named"):
        worker.run_network(ONNX)


def test_another_environment(tmp_path: Path, fleet: Fleet) -> None:
    """The other environment has no tensorproof, and another version of what is compared."""
    venv.create(tmp_path / "other", with_pip=False)
    python = tmp_path / "other" / "bin" / "python"
    found = subprocess.run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], capture_output=True, text=True)
    packages = Path(found.stdout.strip())
    (packages / "rest.pth").write_text(sysconfig.get_path("purelib"))
    (packages / "elsewhere.py").write_text("import onnxruntime\nonnxruntime.__version__ = '0.0.1'\n")
    backend = BackendId.parse("onnxruntime?with=elsewhere", str(python))
    assert fleet.worker(backend).versions()["onnxruntime"] == "0.0.1" != fleet.worker(ORT).versions()["onnxruntime"]
    agree(fleet.run(backend, ONNX), fleet.run(ORT, ONNX))


def test_workers_end_with_their_parent(tmp_path: Path) -> None:
    """Even in the middle of a test, and even if the parent could not say good-bye."""
    module = tmp_path / "sleeping.py"
    module.write_text(
        f"import os, pathlib, time\npathlib.Path({str(tmp_path / 'number')!r}).write_text(str(os.getpid()))\ntime.sleep(60)"
    )
    source = (
        "from tensorproof.compare.workers.process import Worker; from tensorproof.compare.workers.backend_id import BackendId\n"
        f"Worker(BackendId.parse('onnxruntime?with={module}')).versions()"
    )
    root = str(Path(protocol.__file__).parents[3])
    parent = subprocess.Popen([sys.executable, "-c", source], env={**os.environ, "PYTHONPATH": root})
    try:
        number = int(_eventually((tmp_path / "number").read_text, ""))
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()

    def state() -> str:
        try:
            return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return "gone"

    assert _eventually(lambda: state() if state() in ("gone", "Z") else "", "") in ("gone", "Z")


def _eventually(read: object, nothing: str) -> str:
    for _ in range(300):
        try:
            text = read()  # type: ignore[operator]
        except OSError:
            text = nothing
        if text != nothing:
            return text
        time.sleep(0.1)
    raise AssertionError("nothing within 30 seconds")


def test_names_of_backends() -> None:
    text = "keras:tensorflow?onednn=off&threads=2"
    assert str(BackendId.parse(text)) == text and BackendId.parse(text).toggle("threads") == "2"
    with pytest.raises(ConfigurationError, match="keras:torch"):
        BackendId.parse("keras:theano")


def test_versions(fleet: Fleet) -> None:
    import keras
    import torch

    assert fleet.worker(TORCH).versions() == {"keras": keras.__version__, "torch": str(torch.__version__)}
    assert set(fleet.worker(OV).versions()) == {"onnx", "openvino"}


# -- Messages ---------------------------------------------------------------------------------------------------------

ARRAYS: dict[str, Array] = {
    "bfloat16": np.array([1.5, -2.25, np.inf, np.nan]).astype(dtype_of("bfloat16")),
    "float8": np.array([[0.5], [448]]).astype(dtype_of("float8_e4m3fn")),
    "empty": np.zeros((0, 3), np.float32),
    "scalar": np.array(7, np.int64),
    "bool": np.array([True, False]),
    "turned": np.arange(6, dtype=np.float16).reshape(2, 3).T,
}


def test_messages_come_back() -> None:
    stream = io.BytesIO()
    protocol.send(stream, {"verb": "é", "list": [1, None]}, ARRAYS)
    protocol.send(stream, {}, {})
    stream.seek(0)
    message, arrays = protocol.receive(stream)
    assert message == {"verb": "é", "list": [1, None]} and list(arrays) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype and arrays[name].shape == array.shape
        assert arrays[name].tobytes() == np.ascontiguousarray(array).tobytes()
    assert protocol.receive(stream) == ({}, {})
    with pytest.raises(EOFError):
        protocol.receive(stream)


def test_specs_come_back() -> None:
    for test in (ONNX, CONVOLUTION, *SEVERAL.values()):
        assert TestSpec.from_json(test.to_json()) == test
