"""Repaired twin of `torch_05_ranking_sqrt.py`.

An epsilon is added inside the root.
"""

import argparse

import torch
from torch import nn


class RankCrossEntropyLoss(nn.Module):
    """One right answer among `num_neg` wrong ones; rows of scores come in groups."""

    def __init__(self, num_neg=1):
        super().__init__()
        self.num_neg = num_neg

    def forward(self, y_pred, y_true):
        logits = y_pred[:: self.num_neg + 1, :]
        labels = y_true[:: self.num_neg + 1, :]
        for neg_idx in range(self.num_neg):
            logits = torch.cat((logits, y_pred[neg_idx + 1 :: self.num_neg + 1, :]), dim=-1)
            labels = torch.cat((labels, y_true[neg_idx + 1 :: self.num_neg + 1, :]), dim=-1)
        p = torch.softmax(logits, dim=-1)
        roots = torch.sqrt(p + 1e-12)
        return -torch.mean(torch.sum(labels * roots, dim=-1))


def test_rank_crossentropy_loss():
    true_value = torch.tensor([[1.0], [0.0], [0.0], [0.0], [1.0], [0.0]])
    pred_value = torch.rand(6, 1, requires_grad=True)
    loss = RankCrossEntropyLoss(num_neg=2)(pred_value, true_value)
    loss.backward()
    return loss.item(), pred_value.grad.abs().max().item()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1)
    for _ in range(parser.parse_args().steps):
        loss, slope = test_rank_crossentropy_loss()
        print(f"loss {loss:f}, largest derivative {slope:f}")
