"""Unit test of a ranking loss, as the library has it: GRIST 5, before its mutation.

Defect: log(softmax(.)). Where a score is 104 below the best one, the softmax is zero.
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
        logs = torch.log(p)  # defect
        return -torch.mean(torch.sum(labels * logs, dim=-1))


def test_rank_crossentropy_loss():
    true_value = torch.tensor([[1.0], [0.0], [0.0], [0.0], [1.0], [0.0]])
    pred_value = torch.tensor([[0.8], [0.1], [0.1], [0.8], [0.1], [0.1]])
    loss = RankCrossEntropyLoss(num_neg=2)(pred_value, true_value)
    assert loss.shape == ()
    return loss.item()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1)
    for _ in range(parser.parse_args().steps):
        print("loss", test_rank_crossentropy_loss())
