"""The program that trains a seed network: `python -m MODULE PATH`, the request on standard input, weights written to PATH."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np

from tensorproof.compare.backends.keras_layers import make_layer
from tensorproof.compare.catalogue.digits import load_digits
from tensorproof.compare.drawing import Array, generator
from tensorproof.compare.spec import NetworkSpec

#: Steps cost about the same for any small batch.
_BATCH = 60
_RATE = 3e-3


def main() -> None:
    """Read the request, train, write."""
    request = json.load(sys.stdin)
    weights = train_network(NetworkSpec.from_json(request["network"]), request["epochs"], request["seed"])
    np.savez(Path(sys.argv[1]), **weights)


def train_network(network: NetworkSpec, epochs: int, seed: int) -> dict[str, Any]:
    """Weights as `LAYER/INDEX`, and `accuracy`: the share of digits kept from training that are recognised."""
    import keras
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    keras.utils.set_random_seed(seed)
    entry = network.inputs[0]
    symbolic: dict[str, Any] = {entry.name: keras.Input(entry.shape[1:], name=entry.name)}
    made: dict[str, Any] = {}
    for spec in network.layers:
        made[spec.name] = make_layer(spec, "float32")
        symbolic[spec.name] = made[spec.name](*_operands(spec.kind, [symbolic[name] for name in spec.inputs]))
        _start(made[spec.name], spec.name, seed)
    model = keras.Model(symbolic[entry.name], symbolic[network.outputs[0]])
    digits = load_digits()
    images, labels = torch.from_numpy(digits.images.reshape(-1, *entry.shape[1:])), torch.from_numpy(digits.labels).long()
    steps = epochs * (len(images) // _BATCH)
    optimiser = torch.optim.Adam([weight.value for weight in model.trainable_weights], _RATE)
    # The rate falls to nothing along half a cosine: the last steps settle, so that the result hardly depends on the seed.
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    order = generator("training", seed)
    for _ in range(epochs):
        shuffled = torch.from_numpy(order.permutation(len(images)))
        for start in range(0, len(images) - _BATCH + 1, _BATCH):
            places = shuffled[start : start + _BATCH]
            likely = model(images[places], training=True)
            loss = torch.nn.functional.nll_loss(torch.log(likely + 1e-7), labels[places])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
    with torch.no_grad():
        guesses = model(torch.from_numpy(digits.held_out_images.reshape(-1, *entry.shape[1:])), training=False)
    accuracy = float(np.mean(guesses.numpy().argmax(axis=1) == digits.held_out_labels))
    found: dict[str, Any] = {"accuracy": np.float64(accuracy)}
    for name, layer in made.items():
        for index, weight in enumerate(layer.weights):
            if "seed_generator" not in weight.path:
                found[f"{name}/{index}"] = keras.ops.convert_to_numpy(weight.value)
    return found


def _operands(kind: str, values: list[Any]) -> list[Any]:
    if kind == "MultiHeadAttention" or len(values) == 1:
        return values
    return [values]


def _start(layer: Any, name: str, seed: int) -> None:
    """Kernels by our own generator: the same on every version of the framework (He and others, 2015)."""
    for index, weight in enumerate(layer.weights):
        shape = tuple(weight.shape)
        if len(shape) > 1 and "kernel" in weight.path and "recurrent" not in weight.path:
            drawn: Array = generator("training", seed, name, index).normal(size=shape)
            fan_in = math.prod(shape[:-1]) if "depthwise" not in type(layer).__name__.lower() else math.prod(shape[:-2])
            factor = 1.0 if type(layer).__name__ in ("SimpleRNN", "LSTM", "GRU", "MultiHeadAttention") else 2.0
            weight.assign((drawn * math.sqrt(factor / fan_in)).astype(np.float32))


if __name__ == "__main__":
    main()
