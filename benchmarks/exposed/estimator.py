"""A classifier around a PyTorch module, with the interface that scikit-learn's users know: fit, predict, history.

`torch_12_mlp.py` trains with it. The user's module gives probabilities, and the wrapper takes their logarithm for the
criterion: it is here that the program fails.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class NeuralNetClassifier:
    """Trains `module` on arrays, batch after batch, until `max_steps` are done."""

    def __init__(self, module, criterion=nn.NLLLoss, lr=0.1, batch_size=128, max_steps=1000, verbose=100):
        self.module_ = module()
        self.criterion_ = criterion()
        self.optimizer_ = torch.optim.SGD(self.module_.parameters(), lr=lr)
        self.batch_size = batch_size
        self.max_steps = max_steps
        self.verbose = verbose
        self.history = []

    def get_loss(self, y_pred, y_true):
        """The loss of predictions; the NLL criterion wants logarithms of probabilities."""
        if isinstance(self.criterion_, nn.NLLLoss):
            y_pred = torch.log(y_pred)  # defect
        return self.criterion_(y_pred, y_true)

    def train_step(self, X, y):
        self.module_.train()
        self.optimizer_.zero_grad()
        loss = self.get_loss(self.module_(X), y)
        loss.backward()
        self.optimizer_.step()
        return loss.item()

    def fit(self, X, y):
        batches = DataLoader(TensorDataset(torch.from_numpy(X), torch.from_numpy(y)), self.batch_size, shuffle=True, drop_last=True)
        while len(self.history) < self.max_steps:
            for Xb, yb in batches:
                self.history.append(self.train_step(Xb, yb))
                if (len(self.history) - 1) % self.verbose == 0:
                    print("step", len(self.history) - 1, "train_loss", round(self.history[-1], 5))
                if len(self.history) == self.max_steps:
                    break
        return self

    def predict(self, X):
        self.module_.eval()
        with torch.no_grad():
            return self.module_(torch.from_numpy(X)).argmax(dim=-1).numpy()
