"""Large files: their weights stay in the file, and everything else is as if they had been read."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tensorproof import check
from tensorproof.errors import ModelError
from tensorproof.frontends import onnx_file, onnx_wire
from tensorproof.frontends.onnx_file import load, read_proto
from tests.models import found, model

pytestmark = pytest.mark.area("weights")


@pytest.fixture(autouse=True)
def everything_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_file, "MAPPED_FILE", 0)
    monkeypatch.setattr(onnx_wire, "SMALLEST_TENSOR", 1)


WEIGHTS = np.random.default_rng(0).normal(0, 1, (4, 6)).astype(np.float32)


def network(weights: np.ndarray = WEIGHTS) -> onnx.ModelProto:
    """log(relu(x w) + b): w is raw data, b is written as numbers."""
    proto = model(
        "(float[2,4] x) => (float[2,6] y) <float[6] b = {1, 2, 3, 4, 5, 6}>", "p = MatMul(x, w)\nq = Relu(p)\ny = Add(q, b)"
    )
    proto.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    proto.metadata_props.add(key="after", value="the graph")
    return proto


def written(folder: Path, data: bytes) -> Path:
    path = folder / "net.onnx"
    path.write_bytes(data)
    return path


def test_the_same_model_with_its_weights_in_the_file(tmp_path: Path) -> None:
    proto = network()
    path = written(tmp_path, proto.SerializeToString())
    read = read_proto(path)
    (small, large) = read.graph.initializer
    assert small == proto.graph.initializer[0]
    assert large.data_location == TensorProto.EXTERNAL and not large.raw_data
    assert [p.value for p in read.metadata_props] == ["the graph"] and list(read.graph.node) == list(proto.graph.node)
    loaded = load(path)
    number = loaded.find_value("w")
    assert number is not None and isinstance(loaded.constants[number], np.memmap)
    np.testing.assert_array_equal(loaded.constants[number], WEIGHTS)
    # ONNX's own loader understands it as well.
    onnx.load_external_data_for_model(read, str(tmp_path))
    np.testing.assert_array_equal(numpy_helper.to_array(read.graph.initializer[1]), WEIGHTS)


def test_through_a_symbolic_link(tmp_path: Path) -> None:
    (tmp_path / "blobs").mkdir()
    written(tmp_path / "blobs", network().SerializeToString()).rename(tmp_path / "blobs" / "0123abcd")
    (tmp_path / "net.onnx").symlink_to(tmp_path / "blobs" / "0123abcd")
    report = check(tmp_path / "net.onnx", ranges={"x": (-1, 1)}, confirm=False)
    assert report.coverage.complete and not report.findings


def test_reports_do_not_depend_on_where_the_weights_are(tmp_path: Path) -> None:
    weights = WEIGHTS * 1e38
    path = written(tmp_path, network(weights).SerializeToString())
    for precision in (None, "float16"):
        mapped = check(path, ranges={"x": (-1, 1)}, precision=precision, witnesses=tmp_path / "witnesses")
        direct = check(network(weights), ranges={"x": (-1, 1)}, precision=precision)
        assert found(mapped) == found(direct) and found(mapped)
        assert [f.verdict for f in mapped.findings] == [f.verdict for f in direct.findings]
    saved = [f.witness for f in check(path, ranges={"x": (-1, 1)}, witnesses=tmp_path / "witnesses").findings if f.witness]
    assert saved, "a witness carries the weights that it needs"


def test_nan_in_the_file_is_found(tmp_path: Path) -> None:
    weights = WEIGHTS.copy()
    weights[2, 3] = np.nan
    path = written(tmp_path, network(weights).SerializeToString())
    assert ("NUM115", "w") in found(check(path, ranges={"x": (-1, 1)}, confirm=False))


def test_data_of_another_size_than_its_shape_is_refused(tmp_path: Path) -> None:
    for dims in ((4, 7), (4, 5), (1 << 40, 1 << 20)):
        proto = network()
        proto.graph.initializer[1].dims[:] = dims
        with pytest.raises(ModelError, match=r"corrupt|exceeds"):
            load(written(tmp_path, proto.SerializeToString()))


@pytest.mark.parametrize("cut", [1, 10, 60, 150])
def test_files_that_end_too_early_are_refused(tmp_path: Path, cut: int) -> None:
    data = network().SerializeToString()
    with pytest.raises(ModelError):
        load(written(tmp_path, data[:-cut]))


def test_noise_is_refused_or_read_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the bytes are: the walk never reads another model than the protobuf library does."""
    data = network().SerializeToString()
    rng = np.random.default_rng(1)
    for _ in range(300):
        noisy = bytearray(data)
        for place in rng.integers(0, len(data), rng.integers(1, 4)):
            noisy[place] = int(rng.integers(0, 256))
        path = written(tmp_path, bytes(noisy))
        outcomes: list[object] = []
        for limit in (0, 1 << 40):
            monkeypatch.setattr(onnx_file, "MAPPED_FILE", limit)
            try:
                loaded = load(path)
                outcomes.append({loaded.name_of(n): np.array(a).tobytes() for n, a in loaded.constants.items()})
            except ModelError:
                outcomes.append(None)
        assert outcomes[0] == outcomes[1]


def test_data_that_is_written_twice_is_left_to_the_protobuf_library(tmp_path: Path) -> None:
    """The last of several values counts, and messages that occur twice are merged."""
    first, second = network(), onnx.ModelProto()
    tensor = first.graph.initializer[1]
    doubled = tensor.SerializeToString() + onnx.TensorProto(raw_data=(2 * WEIGHTS).tobytes()).SerializeToString()
    raw = first.graph.initializer[0].SerializeToString()
    del first.graph.initializer[:]
    graph = b"".join(b"\x2a" + onnx_wire._varint(len(t)) + t for t in (raw, doubled))  # pyright: ignore[reportPrivateUsage]
    second.graph.ParseFromString(graph)
    data = first.SerializeToString() + b"\x3a" + onnx_wire._varint(len(graph)) + graph  # pyright: ignore[reportPrivateUsage]
    loaded = load(written(tmp_path, data))
    number = loaded.find_value("w")
    assert number is not None
    np.testing.assert_array_equal(loaded.constants[number], 2 * WEIGHTS)


def test_a_tensor_may_not_point_into_the_model_file_at_will(tmp_path: Path) -> None:
    """External data in the model file itself is what this reader writes: the bytes of one tensor, as many as its shape says."""
    proto = network()
    tensor = proto.graph.initializer[1]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": "net.onnx", "offset": "4", "length": "8"}.items():
        tensor.external_data.add(key=key, value=value)
    with pytest.raises(ModelError, match=r"corrupt|exceeds"):
        load(written(tmp_path, proto.SerializeToString()))


def test_what_was_found_about_the_weights_of_a_file_is_used_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tensorproof.ranges import weight_cache, weights

    monkeypatch.setattr(weight_cache, "SETTLED_SECONDS", 0.0)
    large = np.random.default_rng(0).normal(0, 1, (200, 300)).astype(np.float32)
    proto = helper.make_model(
        helper.make_graph(
            [helper.make_node("MatMul", ["x", "w"], ["y"])],
            "large",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 200])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 300])],
            [numpy_helper.from_array(large, "w")],
        ),
        opset_imports=[helper.make_opsetid("", 18)],
    )
    path = written(tmp_path, proto.SerializeToString())
    then = time.time() - 60
    os.utime(path, (then, then))
    monkeypatch.setenv("TENSORPROOF_CACHE", str(tmp_path / "cache"))
    first = check(path, ranges={"x": (-1, 1)}, confirm=False)
    assert list((tmp_path / "cache").iterdir())
    monkeypatch.setattr(weights, "_computed", lambda *_: pytest.fail("the weights were read again"))
    monkeypatch.setattr(weights, "_extent", lambda *_: pytest.fail("the weights were read again"))
    second = check(path, ranges={"x": (-1, 1)}, confirm=False)
    weight_cache.use_cache(None)
    assert first.proven_safe == second.proven_safe and not second.findings
