"""Causal padding goes after the sequence: outputs see the future."""

from tests.planted_faults.planting import Fault, Trigger, is_worker, replace_in

FAULT = Fault(
    frozenset({"padding"}),
    (
        Trigger("Conv1D", (8, 3), {"filters": 4, "kernel_size": 3, "padding": "causal", "activation": "tanh"}),
        Trigger("Conv1D", (9, 2), {"filters": 3, "kernel_size": 3, "padding": "causal", "strides": 2, "use_bias": False}),
    ),
    (Trigger("Conv1D", (8, 3), {"filters": 4, "kernel_size": 3, "padding": "same"}),),
)


def plant():
    from keras.src.layers.convolutional.conv1d import Conv1D

    def make(original):
        return lambda self: [list(reversed(pair)) for pair in original(self)]

    replace_in(Conv1D, "_compute_causal_padding", make)


if is_worker():
    plant()
