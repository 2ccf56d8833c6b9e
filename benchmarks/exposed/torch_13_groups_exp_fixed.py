"""Repaired twin of `torch_13_groups_exp.py`.

The maximum of each group is subtracted before the exponential.
"""

import argparse

import torch


def softmax(src, index, num_nodes):
    """Each element relative to the sum over its group."""
    largest = torch.zeros(num_nodes).scatter_reduce(0, index, src, "amax", include_self=False)[index]
    out = torch.exp(src - largest)
    total = torch.zeros(num_nodes).scatter_add(0, index, out)[index]
    return out / total


def test_softmax():
    src = torch.randint(0, 3, (6,)).float()
    index = torch.tensor([0, 0, 0, 1, 1, 1])
    out = softmax(src, index, 2)
    assert torch.allclose(torch.zeros(2).scatter_add(0, index, out), torch.ones(2))
    return out


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1)
    for _ in range(parser.parse_args().steps):
        print("out", test_softmax().tolist())
