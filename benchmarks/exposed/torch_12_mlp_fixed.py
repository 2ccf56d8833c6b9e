"""Repaired twin of `torch_12_mlp.py`.

The module gives logits, and the criterion is the cross-entropy of logits, for which the wrapper takes no logarithm.
"""

import argparse

import torch.nn.functional as F
from digits import draw
from estimator import NeuralNetClassifier
from torch import nn


class ClassifierModule(nn.Module):
    def __init__(self, input_dim=784, hidden_dim=98, output_dim=10, dropout=0.5):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.hidden = nn.Linear(input_dim, hidden_dim)
        self.output = nn.Linear(hidden_dim, output_dim)

    def forward(self, X):
        X = F.relu(self.hidden(X))
        X = self.dropout(X)
        return self.output(X)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=3001)
    args = parser.parse_args()

    X, y = draw(2400)
    net = NeuralNetClassifier(ClassifierModule, nn.CrossEntropyLoss, lr=0.1, max_steps=args.steps)
    net.fit(X[:2000], y[:2000])
    right = net.predict(X[2000:]) == y[2000:]
    print("accuracy", right.mean())
