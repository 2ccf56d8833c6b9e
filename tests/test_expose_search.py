"""How the search of `tensorproof expose` gets to failures: what programs are taught, what is declared, what is replayed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensorproof.errors import ConfigurationError
from tensorproof.expose.running import exposed
from tensorproof.expose.search.feeding import Feeding
from tensorproof.expose.search.moves import BLANKS, Batch, Legal, blank, cornered, signed
from tensorproof.expose.search.phases import Phase
from tensorproof.expose.search.rows import Rows
from tensorproof.expose.settings import Settings
from tensorproof.findings import Finding, Report, Verdict
from tests.exposed_programs import RIVALS, failing_line, written

pytestmark = pytest.mark.area("expose search")


def found(report: Report) -> Finding:
    (finding,) = report.findings
    return finding


def is_confirmed_at(report: Report, text: str, code: str) -> bool:
    finding = found(report)
    line = None if finding.location is None else finding.location.line
    return (finding.rule.code, finding.verdict, line) == (code, Verdict.CONFIRMED, failing_line(text))


# -- phases --------------------------------------------------------------------------------------------------------------


def test_phases_take_turns_while_nothing_is_gained() -> None:
    phase = Phase()
    kinds = [phase.kind]
    for _ in range(200):
        if phase.is_over(1.0):
            kinds.append(phase.kind)
    assert kinds[:5] == ["approach", "repeat", "lesson", "approach", "repeat"]
    phase = Phase()
    assert not any(phase.is_over(-float(step)) for step in range(500)), "each step is progress"


def test_a_step_moves_the_rows_that_matter_and_clips_all() -> None:
    value, gradient = np.full((5, 2), 0.5), np.zeros((5, 2))
    value[4] = 3.0
    gradient[1], gradient[3] = (np.inf, -2.0), (np.nan, 0.0)
    legal, generator = Legal(0.0, 1.0), np.random.default_rng(0)
    moved = signed(value, gradient, legal, 0.1, generator)
    assert moved.tolist() == [[0.5, 0.5], [0.4, 0.6], [0.5, 0.5], [0.5, 0.5], [1.0, 1.0]]
    assert cornered(value, gradient, legal).tolist() == [[0.5, 0.5], [0.0, 1.0], [0.5, 0.5], [0.5, 0.5], [3.0, 3.0]]
    at_random = signed(value, np.zeros((5, 2)), legal, 0.1, generator)
    assert np.isin(at_random[:4].round(6), (0.4, 0.6)).all() and (at_random[4] == 1.0).all()
    number = signed(np.array(0.5), np.array(2.0), legal, 0.1, generator)
    assert number.shape == () and float(number) == pytest.approx(0.4)


def test_one_sample_with_its_label_in_place_of_all() -> None:
    fresh = {"x": np.arange(12.0).reshape(4, 3), "y": np.arange(4.0)}
    batch = Batch({"x": np.zeros((4, 3)), "y": np.zeros(4)})
    batch.repeat(fresh, np.random.default_rng(0))
    row = int(batch.arrays["y"][0])
    assert (batch.arrays["y"] == row).all() and (batch.arrays["x"] == fresh["x"][row]).all()
    feeding = Feeding(Settings("train.py"), np.random.default_rng(0))
    for name, array in (*fresh.items(), ("other", np.ones(7))):
        feeding.given("data", name, array)
    given = feeding.repeat("x", np.random.default_rng(0))
    assert given.keys() == {"x", "y"}, "what has other rows is not of the same samples"
    assert (given["x"] == fresh["x"][int(given["y"][0])]).all()
    assert np.array_equal(feeding.restart("x")["x"], fresh["x"])


#: The loss takes one logarithm of each row, and training pulls its probability up: it takes lessons to get another one to zero.
LEARNT = """
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
x = torch.rand(240, 600)
y = torch.randint(0, 10, (240,))
net = torch.nn.Sequential(torch.nn.Linear(600, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10), torch.nn.Softmax(dim=-1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(200):
    for images, labels in DataLoader(TensorDataset(x, y), batch_size=24):
        p = net(images)
        logs = torch.log(p)  # fails
        loss = torch.nn.functional.nll_loss(logs, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def test_lessons_lead_where_the_moves_of_batches_alone_do_not(tmp_path: Path) -> None:
    script = written(tmp_path, LEARNT)
    report = exposed(script, runs=1, iterations=400, stop_after=1)
    assert is_confirmed_at(report, LEARNT, "NUM101")
    # The loss takes other logarithms than that of zero: only gradients show it, and it is the logarithm that fails.
    assert (found(report).phase, found(report).reaches) == ("forward", "gradient")
    assert exposed(script, runs=1, iterations=400, method="no-replacement").findings == ()
    assert exposed(script, runs=1, iterations=400, method="plain").findings == ()


#: All units of a layer are alike, and batches of several labels hold each other back.
ALIKE = """
import torch

x = torch.rand(40, 12, generator=torch.Generator().manual_seed(0))
y = torch.eye(4).repeat(10, 1)
hidden = torch.zeros(12, 128, requires_grad=True)
output = torch.zeros(128, 4, requires_grad=True)
optimizer = torch.optim.SGD([hidden, output], lr=0.8)
for step in range(600):
    p = torch.sigmoid(torch.sigmoid(x @ hidden) @ output)
    bad = torch.log(1 - p)  # fails
    loss = -(y * torch.log(p) + (1 - y) * bad).sum(1).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_one_label_alone_leads_where_all_hold_each_other_back(tmp_path: Path) -> None:
    script = written(tmp_path, ALIKE)
    assert is_confirmed_at(exposed(script, runs=1, iterations=200, stop_after=1), ALIKE, "NUM101")
    assert exposed(script, runs=1, iterations=200, method="no-replacement").findings == ()


#: Each step takes other rows of the data: what a batch was moved to comes again only if it is put where the next rows are.
TAKEN = """
import torch

torch.manual_seed(0)
x = torch.rand(512, 196) ** 6
w = (torch.randn(100, 196) * 0.01).requires_grad_()
optimizer = torch.optim.SGD([w], lr=0.5)


def sample(p):
    return torch.relu(torch.sign(p - torch.rand_like(p)))


def energy(v):
    return torch.log(1 + torch.exp(v @ w.T)).sum(1).mean()  # fails


for step in range(600):
    v = x[torch.randperm(512)[:32]]
    loss = energy(sample(torch.sigmoid(sample(torch.sigmoid(v @ w.T)) @ w))) - energy(v)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_batch_that_a_program_takes_of_its_data_itself_is_kept(tmp_path: Path) -> None:
    report = exposed(written(tmp_path, TAKEN), runs=1, iterations=400, stop_after=1)
    assert is_confirmed_at(report, TAKEN, "NUM201")
    assert exposed(written(tmp_path, TAKEN), runs=1, iterations=400, method="plain").findings == ()


def test_a_batch_in_the_place_of_its_rows_or_of_all() -> None:
    feeding = Feeding(Settings("train.py"), np.random.default_rng(0))
    own = {"x": np.arange(12.0).reshape(6, 2), "y": np.arange(6)}
    for name, array in own.items():
        feeding.given("data", name, array)
    batch, rows = np.full((2, 2), -1.0), np.array([4, 1])
    (placed,) = feeding.placed("x", batch, rows, everywhere=False).values()
    assert (placed[rows] == -1.0).all() and np.array_equal(placed[[0, 2, 3, 5]], own["x"][[0, 2, 3, 5]])
    feeding.step_done()
    # What is in the rows already, with the labels of the program's own.
    everywhere = feeding.placed("x", None, rows)
    assert (everywhere["x"] == -1.0).all() and everywhere["y"].tolist() == [4, 1, 4, 1, 4, 1]
    assert feeding.placed("z", batch, rows) == {}
    # Every hundred steps the farthest sample is one of the program's own.
    for _ in range(99):
        feeding.step_done()
    replaced = feeding.placed("x", batch, rows, np.array([5.0, 9.0]))
    near, far = replaced["x"][::2], replaced["x"][1::2]
    assert (near == -1.0).all() and (far == far[0]).all() and far[0].tolist() in own["x"].tolist()
    assert (replaced["y"][1::2] == own["x"].tolist().index(far[0].tolist())).all()


def test_rows_that_change_from_step_to_step() -> None:
    rows = Rows()
    rows.note("x", np.array([0, 1]))
    rows.note("x", np.array([1, 0]))
    assert not rows.are_changing("x") and rows.first("x") is None
    rows.note("x", np.array([2, 3]))
    first = rows.first("x")
    assert rows.are_changing("x") and first is not None and first.tolist() == [0, 1]
    rows.note("x", np.array([0, 1]))
    assert rows.are_changing("x") and rows.first("x") is None


#: How a program takes rows of its data, and which ones these are; None: that is not said, or more of the data goes in.
WAYS: dict[str, list[int] | None] = {
    "x[1:4]": [1, 2, 3],
    "x[1:]": [1, 2, 3, 4],
    "x[::2]": [0, 2, 4],
    "x[-2:]": [3, 4],
    "x[torch.tensor([3, 0])]": [3, 0],
    "x[torch.tensor([-1, 0])]": [4, 0],
    "x[torch.tensor([True, False, True, False, False])]": [0, 2],
    "torch.index_select(x, 0, torch.tensor([2]))": [2],
    "x[:, :1]": None,
    "x[2]": None,
    "x[torch.tensor([[0, 1]])]": None,
    "x[1:3] + x.sum()": None,
    "x[1:3] + x[2:4]": None,
    "x * 2.0": None,
}


@pytest.mark.parametrize("way", WAYS)
def test_rows_that_a_recorded_call_takes(way: str) -> None:
    torch = pytest.importorskip("torch")
    from tensorproof.expose.pytorch.recording import Recording
    from tensorproof.observe.eager import dispatch_mode
    from tensorproof.observe.overloads import Overload

    recording = Recording()

    def record(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        read = recording.versions(args, kwargs)
        result = function(*args, **kwargs)
        recording.note(function, Overload.of(function), args, kwargs, read, result)
        return result

    x = torch.arange(10.0).reshape(5, 2)
    with dispatch_mode()(record):
        # Nothing but the cases above is evaluated.
        result = torch.exp(eval(way))
    slice = recording.slice(result)
    taken = slice.taken(x)
    assert (None if taken is None else taken.rows.tolist()) == WAYS[way]
    if taken is not None:
        assert torch.equal(taken.result, x[torch.from_numpy(taken.rows)])
        (again,) = slice.rerun({id(taken.result): torch.zeros_like(taken.result)})
        assert (again == 1.0).all(), "the batch stands in for what was taken"


#: The epsilon is outside of the root: a row that is the same everywhere has a deviation of zero, and a gradient of 0/0.
NORMALISED = """
import torch

x = torch.tensor([[0.0, 0.7, 0.4], [0.9, 0.3, 0.6], [0.2, 0.5, 0.8], [0.35, 0.65, 0.15]])
scale = torch.ones(3, requires_grad=True)
optimizer = torch.optim.SGD([scale], lr=0.01)
for step in range(50):
    h = x * scale
    centred = h - h.mean(1, keepdim=True)
    deviation = torch.sqrt((centred * centred).mean(1, keepdim=True))  # fails
    loss = (centred / (deviation + 1e-5)).abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_row_that_is_the_same_everywhere_is_tried(tmp_path: Path) -> None:
    report = exposed(written(tmp_path, NORMALISED), runs=2, stop_after=1)
    assert is_confirmed_at(report, NORMALISED, "NUM401")
    assert (found(report).phase, found(report).reaches) == ("backward", "gradient")
    inside = NORMALISED.replace("(centred * centred).mean(1, keepdim=True))", "(centred * centred).mean(1, keepdim=True) + 1e-10)")
    assert exposed(written(tmp_path, inside), runs=2).findings == ()


@pytest.mark.parametrize(("low", "high"), [(0.003, 0.99), (-3.0, -0.3), (0.0, 1.0), (-2.0, 5.0), (5.0, 5.5)])
def test_blank_samples_are_legal(low: float, high: float) -> None:
    value = np.full((3, 4), (low + high) / 2)
    for number in BLANKS:
        found = blank(value, Legal(low, high), number)
        assert len(set(found[0])) == 1 and low <= found[0, 0] <= high
        assert np.array_equal(found[1:], value[1:])


# -- values that the program computes ------------------------------------------------------------------------------------

COMPUTED = """
import torch


def spread(values):
    return torch.log(values)  # fails


def main():
    x = torch.full((3, 2), 2.0) + 1
    return spread(x).sum().item()


main()
"""


def test_a_variable_with_a_declared_range_is_a_value_although_it_is_computed(tmp_path: Path) -> None:
    script = written(tmp_path, COMPUTED)
    report = exposed(script, runs=1, ranges={"x": (-5.0, 5.0)}, witnesses=tmp_path / "witnesses")
    assert is_confirmed_at(report, COMPUTED, "NUM101")
    assert "x (value:x) in [" in found(report).message
    witness = found(report).witness
    assert witness is not None
    ended = subprocess.run([sys.executable, witness.script], capture_output=True, text=True, check=False, timeout=120)
    assert ended.returncode == 1, ended.stdout + ended.stderr


def test_what_is_computed_and_not_declared_stays_as_it_is(tmp_path: Path) -> None:
    report = exposed(written(tmp_path, COMPUTED), runs=1, ranges={"*": (-5.0, 5.0)})
    assert report.findings == ()
    report = exposed(written(tmp_path, COMPUTED), runs=1, ranges={"unknown": (-5.0, 5.0)})
    assert report.findings == ()


# -- what else a run is ---------------------------------------------------------------------------------------------------

#: Line 7 uses the numbers that chose the samples before it uses the samples.
CHOSEN = """
import torch

data = torch.rand(50, 3) * 4
w = torch.ones(3, requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.001)
for step in range(40):
    x = data[torch.randperm(50)[:10]]
    e = torch.exp(8 * (x * w).sum(1))  # fails
    loss = e.log().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_numbers_that_choose_samples_are_no_values_of_a_replay(tmp_path: Path) -> None:
    report = exposed(written(tmp_path, CHOSEN), runs=1, stop_after=1)
    assert is_confirmed_at(report, CHOSEN, "NUM201")
    assert "data:train.py:7:0 in [" in found(report).message


def test_a_search_ends_after_as_many_findings_as_are_asked_for(tmp_path: Path) -> None:
    script = written(tmp_path, RIVALS)
    ranges = {"z": (-400.0, 400.0)}
    assert len(exposed(script, runs=4, iterations=30, ranges=ranges).findings) == 2
    assert len(exposed(script, runs=4, iterations=30, ranges=ranges, stop_after=1).findings) == 1
    with pytest.raises(ConfigurationError, match="stop after 0: write 1 or more"):
        exposed(script, stop_after=0)


def test_a_program_that_draws_once_is_run_a_few_times_and_no_more(tmp_path: Path) -> None:
    report = exposed(written(tmp_path, "import torch\n\nx = torch.rand(5)\nprint(torch.log(x * x + 0.1))\n"), runs=1)
    assert report.findings == () and report.errors == ()
    assert report.times["search on the CPU"] > 0.0
