"""The cost of softmax regression on random logits, computed where no gradients are recorded: GRIST 46.

Defect: log(softmax(z)) inside `torch.no_grad()`. The program never calls backward.
"""

import argparse

import torch
import torch.nn.functional as F


@torch.no_grad()
def average_cost(z, rounds):
    total = 0.0
    for _ in range(rounds):
        y = torch.randint(0, z.shape[1], (z.shape[0],))
        y_one_hot = F.one_hot(y, z.shape[1]).float()
        low = F.softmax(z, dim=1).log()  # defect
        total += (y_one_hot * -low).sum(dim=1).mean().item()
    return total / rounds


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    z = torch.empty(3, 5).uniform_()
    print("cost", average_cost(z, parser.parse_args().steps))
