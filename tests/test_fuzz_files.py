"""Valid files mutated thousands of times, in their bytes and in the fields of their protobuf: no traceback, no hang, no blow-up."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.area("fuzz")

MUTATIONS = 2000


def test_mutated_files_never_break_the_analyser(tmp_path: Path) -> None:
    """Runs in a process of its own, whose memory is limited and in which each file has a time limit."""
    result = subprocess.run(
        [sys.executable, "-m", "tests.fuzz_files", str(tmp_path), str(MUTATIONS)],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-4000:]
    tally = json.loads(result.stdout.splitlines()[-1])
    assert tally["files"] == MUTATIONS
    assert tally["bad"] == []
    # The mutations must reach beyond the reader: many files are still models, many are refused.
    assert tally["codes"]["2"] > MUTATIONS // 20
    assert tally["codes"].get("0", 0) + tally["codes"].get("1", 0) > MUTATIONS // 5
