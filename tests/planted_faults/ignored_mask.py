"""A recurrent layer ignores the mask that an earlier layer made: it takes both to show it."""

from tests.planted_faults.planting import is_worker, replace_in


def plant():
    from keras.src.layers.rnn.simple_rnn import SimpleRNN

    def make(original):
        def call(self, sequences, initial_state=None, mask=None, training=False):
            return original(self, sequences, initial_state=initial_state, mask=None, training=training)

        return call

    replace_in(SimpleRNN, "call", make)


if is_worker():
    plant()
