"""The input gate and the forget gate of an LSTM change places."""

from tests.planted_faults.planting import Fault, Trigger, is_worker, replace_in

FAULT = Fault(
    frozenset(),
    (
        Trigger("LSTM", (5, 3), {"units": 4}),
        Trigger("LSTM", (4, 2), {"units": 3, "return_sequences": True, "use_bias": False}),
        Trigger("LSTM", (4, 2), {"units": 3, "recurrent_activation": "hard_sigmoid", "go_backwards": True}),
    ),
)


def plant():
    import torch
    from keras.src import backend

    def swapped(weights):
        if weights is None:
            return None
        i, f, c, o = torch.chunk(backend.convert_to_tensor(weights), 4, dim=-1)
        return torch.cat([f, i, c, o], dim=-1)

    def make(original):
        def lstm(*arguments, kernel, recurrent_kernel, bias, **options):
            weights = {"kernel": swapped(kernel), "recurrent_kernel": swapped(recurrent_kernel), "bias": swapped(bias)}
            return original(*arguments, **weights, **options)

        return lstm

    replace_in(backend, "lstm", make)


if is_worker():
    plant()
