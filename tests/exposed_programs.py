"""Programs that `tensorproof expose` is tried on, by name; the line that fails is marked."""

from __future__ import annotations

from pathlib import Path

MARK = "# fails"

LOADER = """
import sys

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class Sums(Dataset):
    def __init__(self):
        self.x = np.random.default_rng(1).uniform(0, 4, (200, 6)).astype("float32")
        self.y = (self.x.sum(1) > 12).astype("int64")

    def __len__(self):
        return 200

    def __getitem__(self, index):
        return torch.from_numpy(self.x[index]), int(self.y[index])


def main():
    net = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0005)
    for epoch in range(30):
        for x, y in DataLoader(Sums(), batch_size=20, shuffle=True, num_workers=int(sys.argv[1])):
            z = net(x) * 60
            e = torch.exp(z)  # fails
            loss = (torch.log(e.sum(1)) - z[torch.arange(len(y)), y]).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
"""

TENSORS = """
import torch

x = torch.tensor([[1.0, 2.0], [2.0, 3.0], [3.0, 1.0], [4.0, 3.0], [5.0, 3.0], [6.0, 2.0]])
y = torch.tensor([[0.0], [0.0], [0.0], [1.0], [1.0], [1.0]])
w = torch.zeros((2, 1), requires_grad=True)
b = torch.zeros(1, requires_grad=True)
optimizer = torch.optim.SGD([w, b], lr=1)
for step in range(60):
    p = torch.sigmoid(x @ w + b)
    good = torch.log(p)
    bad = torch.log(1 - p)  # fails
    loss = -(y * good + (1 - y) * bad).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

TENSORS_REPAIRED = """
import torch

x = torch.tensor([[1.0, 2.0], [2.0, 3.0], [3.0, 1.0], [4.0, 3.0], [5.0, 3.0], [6.0, 2.0]])
y = torch.tensor([[0.0], [0.0], [0.0], [1.0], [1.0], [1.0]])
w = torch.zeros((2, 1), requires_grad=True)
b = torch.zeros(1, requires_grad=True)
optimizer = torch.optim.SGD([w, b], lr=1)
for step in range(60):
    z = x @ w + b
    good = torch.nn.functional.logsigmoid(z)
    bad = torch.nn.functional.logsigmoid(-z)
    loss = -(y * good + (1 - y) * bad).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

DRAWN = """
import torch

scores = torch.rand(3, 5)
p = torch.softmax(scores, 1)
print((-torch.log(p)).mean().item())  # fails
"""

ROOT = """
import torch

torch.manual_seed(3)
x = torch.rand(100, 8)
layer = torch.nn.Linear(8, 8)
optimizer = torch.optim.Adam(layer.parameters())
for step in range(60):
    h = torch.relu(layer(x))
    n = torch.sqrt((h * h).sum(1, keepdim=True)) + 1e-6  # fails
    loss = (h / n).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

HALF = """
import torch
from torch import nn

x = torch.rand(40, 8) * 4
y = torch.randint(0, 3, (40,))
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(60):
    with torch.autocast("cpu", dtype=torch.float16):
        e = torch.exp(net(x) * 3)
        p = e / e.sum(1, keepdim=True)
        loss = -torch.log(p[torch.arange(40), y]).mean()  # fails
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

#: It has a line that fails at once, and, run again for the other operator, never ends.
ENDLESS = TENSORS.replace("import torch\n", "import time\n\nimport torch\n").replace(
    "for step in range(60):", "print('begun')\nfor step in range(10**9):\n    time.sleep(0.5 * (step > 20))"
)

#: It writes to its folder, reads from it, and looks at its loss.
WRITER = """
import sys

import torch

count = int(open("count.txt").read())
open("count.txt", "w").write("ruined")
x = torch.rand(count, 5)
layer = torch.nn.Linear(5, 3)
optimizer = torch.optim.SGD(layer.parameters(), lr=float(sys.argv[1]))
for step in range(60):
    e = torch.exp(layer(x) * 25)  # fails
    loss = -torch.log(e[:, 0] / e.sum(1)).mean()
    torch.save(layer.state_dict(), "weights.pt")
    if not torch.isfinite(loss):
        raise RuntimeError("the loss is not finite")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

#: Two optimisers, noise, and a loader for each epoch.
RIVALS = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

data = torch.rand(256, 8)
judge = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1), nn.Sigmoid())
maker = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8))
for_judge = torch.optim.SGD(judge.parameters(), lr=0.1)
for_maker = torch.optim.SGD(maker.parameters(), lr=0.1)
for epoch in range(10):
    for (real,) in DataLoader(TensorDataset(data), batch_size=32, shuffle=True):
        z = torch.randn(len(real), 4)
        fake = maker(z)
        loss = -(torch.log(judge(real)) + torch.log(1 - judge(fake.detach()))).mean()  # fails
        for_judge.zero_grad()
        loss.backward()
        for_judge.step()
        loss = torch.log(1 - judge(fake)).mean()
        for_maker.zero_grad()
        loss.backward()
        for_maker.step()
"""

#: Batches out of arrays, weights that are drawn by hand, and steps of training by hand.
BY_HAND = """
import numpy as np
import torch

rng = np.random.default_rng(0)
xs = rng.uniform(0, 1, (500, 10)).astype("float32")
ys = (xs.sum(1) > 5).astype("float32")[:, None]
w = torch.randn(10, 1, requires_grad=True)
for step in range(60):
    rows = rng.integers(0, 500, 32)
    x, y = torch.from_numpy(xs[rows]), torch.from_numpy(ys[rows])
    p = torch.sigmoid(5 * (x @ w))
    loss = -(y * torch.log(p) + (1 - y) * torch.log(1 - p)).mean()  # fails
    loss.backward()
    with torch.no_grad():
        w -= 2.0 * w.grad
        w.grad.zero_()
"""


def written(folder: Path, text: str, name: str = "train.py") -> Path:
    """The program as a file."""
    path = folder / name
    path.write_text(text.lstrip("\n"), "utf-8")
    return path


def failing_line(text: str) -> int:
    """The number of the line that is marked."""
    (line,) = [number for number, line in enumerate(text.lstrip("\n").splitlines(), 1) if MARK in line]
    return line
