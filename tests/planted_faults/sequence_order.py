"""A recurrent layer that goes backwards gives its sequence of outputs in the order of its inputs."""

from tests.planted_faults.planting import Fault, Trigger, is_worker, replace_in

FAULT = Fault(
    frozenset({"go_backwards", "return_sequences"}),
    (
        Trigger("SimpleRNN", (5, 3), {"units": 4, "go_backwards": True, "return_sequences": True, "activation": "relu"}),
        Trigger("GRU", (4, 2), {"units": 3, "go_backwards": True, "return_sequences": True, "use_bias": False}),
    ),
    (
        Trigger("SimpleRNN", (5, 3), {"units": 4, "go_backwards": True}),
        Trigger("SimpleRNN", (5, 3), {"units": 4, "return_sequences": True}),
    ),
)


def plant():
    import torch
    from keras.src import backend
    from keras.src.layers.rnn.gru import GRU
    from keras.src.layers.rnn.simple_rnn import SimpleRNN

    def make(original):
        def call(self, sequences, *arguments, **options):
            result = original(self, sequences, *arguments, **options)
            if self.go_backwards and self.return_sequences and not self.return_state:
                return torch.flip(backend.convert_to_tensor(result), (1,))
            return result

        return call

    for layer in (SimpleRNN, GRU):
        replace_in(layer, "call", make)


if is_worker():
    plant()
