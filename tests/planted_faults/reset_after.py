"""A GRU that is to apply its reset gate before the product applies it after."""

from tests.planted_faults.planting import Fault, Trigger, is_worker, replace_in

FAULT = Fault(
    frozenset({"reset_after"}),
    (
        Trigger("GRU", (5, 3), {"units": 4, "reset_after": False}),
        Trigger("GRU", (4, 2), {"units": 3, "reset_after": False, "return_sequences": True, "activation": "softsign"}),
    ),
    (Trigger("GRU", (5, 3), {"units": 4}),),
)


def plant():
    from keras import ops
    from keras.src.layers.rnn.gru import GRUCell

    def make(original):
        def call(self, inputs, states, training=False):
            if self.reset_after:
                return original(self, inputs, states, training)
            state = states[0] if isinstance(states, list | tuple) else states
            x = ops.matmul(inputs, self.kernel)
            if self.use_bias:
                x = ops.add(x, self.bias)
            x_z, x_r, x_h = ops.split(x, 3, axis=-1)
            h_z, h_r, h_h = ops.split(ops.matmul(state, self.recurrent_kernel), 3, axis=-1)
            z, r = self.recurrent_activation(x_z + h_z), self.recurrent_activation(x_r + h_r)
            h = z * state + (1 - z) * self.activation(x_h + r * h_h)
            return h, [h] if isinstance(states, list | tuple) else h

        return call

    replace_in(GRUCell, "call", make)


if is_worker():
    plant()
