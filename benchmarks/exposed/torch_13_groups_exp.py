"""Unit test of a softmax over groups of a graph library, without the maximum that is subtracted: GRIST 13, before its mutation.

Defect: exp(src) overflows above 88, and so does the sum of several; where all of a group are below -104, the divisor is zero.
"""

import argparse

import torch


def softmax(src, index, num_nodes):
    """Each element relative to the sum over its group."""
    out = torch.exp(src)  # defect
    total = torch.zeros(num_nodes).scatter_add(0, index, out)[index]  # also
    return out / total  # also


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
