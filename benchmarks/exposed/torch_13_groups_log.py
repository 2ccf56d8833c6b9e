"""Unit test of a softmax over groups of a graph library, as it was mutated: GRIST 13.

Defect: log(src), where the library has exp(src); the test draws integers 0, 1 and 2, so most runs fail. A group whose
logarithms cancel makes the divisor zero, too.
"""

import argparse

import torch


def softmax(src, index, num_nodes):
    """Each element relative to the sum over its group."""
    out = torch.log(src)  # defect
    total = torch.zeros(num_nodes).scatter_add(0, index, out)[index]
    return out / total  # also


def test_softmax():
    src = torch.randint(0, 3, (6,)).float()
    index = torch.tensor([0, 0, 0, 1, 1, 1])
    return softmax(src, index, 2)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1)
    for _ in range(parser.parse_args().steps):
        print("out", test_softmax().tolist())
