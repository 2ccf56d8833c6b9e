"""What was found out about weights is remembered: as long as they live, and on disk as long as their file stays as it is."""

from __future__ import annotations

import gc
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensorproof.ranges import weight_cache

pytestmark = pytest.mark.area("weights")


@pytest.fixture
def folder(tmp_path: Path) -> Any:
    weight_cache.use_cache(tmp_path / "cache")
    yield tmp_path / "cache"
    weight_cache.use_cache(None)


def stored(path: Path, array: np.ndarray[Any, Any], age: float = 60.0) -> Path:
    """A file of numbers that was last changed some time ago."""
    path.write_bytes(b"head" * 16 + array.tobytes())
    then = time.time() - age
    os.utime(path, (then, then))
    return path


def read(path: Path, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    content = np.memmap(path, np.uint8, "r")
    origin = weight_cache.Origin.of(path)
    return weight_cache.placed(content[64:].view(np.float32).reshape(shape), origin, 64)


def counted(array: np.ndarray[Any, Any]) -> tuple[float, int]:
    """Something about an array, and how often it had to be computed for that."""
    calls: list[int] = []

    def compute() -> tuple[np.ndarray[Any, Any], ...]:
        calls.append(1)
        return np.array([float(array.sum())]), np.zeros((2, 3))

    (total, other) = weight_cache.cached(array, "a test", compute)
    assert other.shape == (2, 3)
    return float(total[0]), len(calls)


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of tests are young, and the time of their last change of state cannot be set."""
    monkeypatch.setattr(weight_cache, "SETTLED_SECONDS", 0.0)


ONES = np.ones((80, 90), np.float32)


@pytest.mark.usefixtures("settled")
def test_what_is_found_outlives_the_process(folder: Path, tmp_path: Path) -> None:
    path = stored(tmp_path / "w.bin", ONES)
    assert counted(read(path, ONES.shape)) == (ONES.size, 1)
    weight_cache.save()
    assert [file.suffix for file in folder.iterdir()] == [".weights"]
    weight_cache.use_cache(folder)
    assert counted(read(path, ONES.shape)) == (ONES.size, 0)
    # Another shape, or another part of the file, is another constant.
    assert counted(read(path, (90, 80)))[1] == 1
    assert counted(read(path, ONES.shape)[8:])[1] == 1


@pytest.mark.usefixtures("settled")
def test_a_file_that_changed_is_read_again(folder: Path, tmp_path: Path) -> None:
    path = stored(tmp_path / "w.bin", ONES)
    counted(read(path, ONES.shape))
    weight_cache.save()
    for age in (60.0, 30.0):
        # The same size, and once even the same time of change: the inode or the time of its last change of state tells.
        stored(path, ONES * 2, age)
        weight_cache.use_cache(folder)
        assert counted(read(path, ONES.shape)) == (ONES.size * 2, 1)


@pytest.mark.usefixtures("settled")
def test_a_file_that_changes_meanwhile_is_not_remembered(folder: Path, tmp_path: Path) -> None:
    path = stored(tmp_path / "w.bin", ONES)
    counted(read(path, ONES.shape))
    stored(path, ONES * 2, 30.0)
    weight_cache.save()
    assert not folder.exists()


def test_a_file_that_changed_just_now_is_not_remembered(folder: Path, tmp_path: Path) -> None:
    path = stored(tmp_path / "w.bin", ONES, age=0.0)
    assert weight_cache.Origin.of(path) is None
    counted(read(path, ONES.shape))
    weight_cache.save()
    assert not folder.exists()


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("damage", ["empty", "cut", "bit", "noise", "folder", "header"])
def test_a_broken_cache_is_ignored_and_mended(folder: Path, tmp_path: Path, damage: str) -> None:
    path = stored(tmp_path / "w.bin", ONES)
    counted(read(path, ONES.shape))
    weight_cache.save()
    (kept,) = folder.iterdir()
    data = bytearray(kept.read_bytes())
    if damage == "folder":
        kept.unlink()
        kept.mkdir()
    elif damage == "bit":
        data[-1] ^= 1
        kept.write_bytes(data)
    else:
        content = {"empty": b"", "cut": data[:50], "noise": os.urandom(400), "header": data[:28] + b"\xff" * 40}[damage]
        kept.write_bytes(bytes(content))
    weight_cache.use_cache(folder)
    assert counted(read(path, ONES.shape)) == (ONES.size, 1)
    weight_cache.save()
    weight_cache.use_cache(folder)
    assert counted(read(path, ONES.shape)) == (ONES.size, 1 if damage == "folder" else 0)


@pytest.mark.usefixtures("settled")
def test_the_folder_keeps_its_limit(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weight_cache, "FOLDER_LIMIT", 1_000)
    for number in range(6):
        counted(read(stored(tmp_path / f"{number}.bin", ONES), ONES.shape))
        weight_cache.save()
    kept = list(folder.iterdir())
    assert 1 <= len(kept) < 6 and sum(file.stat().st_size for file in kept) <= 1_000


def test_memory_is_given_back() -> None:
    gc.collect()  # What earlier tests left in cycles would else be given back in the midst of this one.
    before = len(weight_cache._memories)  # pyright: ignore[reportPrivateUsage]
    for _ in range(20):
        assert counted(np.ones((90, 90), np.float32))[1] == 1
    gc.collect()
    assert len(weight_cache._memories) == before  # pyright: ignore[reportPrivateUsage]


def test_where_the_cache_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORPROOF_CACHE", "/somewhere")
    assert weight_cache.default_folder() == Path("/somewhere")
    monkeypatch.setenv("TENSORPROOF_CACHE", "")
    assert weight_cache.default_folder() is None
    monkeypatch.delenv("TENSORPROOF_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    monkeypatch.setattr("sys.platform", "linux")
    assert weight_cache.default_folder() == Path("/caches/tensorproof")
