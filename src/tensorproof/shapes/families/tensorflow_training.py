"""Training in TensorFlow 1: optimizers, gradients, and what surrounds them without a shape."""

from __future__ import annotations

from tensorproof.shapes.families.tensorflow_sessions import operation
from tensorproof.shapes.families.variables import all_variables
from tensorproof.shapes.rule_table import Call, native_class, shape_rule
from tensorproof.shapes.shape import ANY_SHAPE, Shape
from tensorproof.shapes.values import UNKNOWN, ListValue, Tensor, Unknown, Value

Arguments = tuple[Value, ...]
Options = dict[str, Value]


@native_class(
    *(f"tf.train.{name}Optimizer" for name in ("GradientDescent", "Adam", "Adagrad", "Adadelta", "Momentum", "RMSProp", "Ftrl",
                                               "ProximalAdagrad", "ProximalGradientDescent")),
)  # fmt: skip
class Optimizer:
    """Steps of training."""

    arguments: Arguments
    options: Options

    def minimize(self, call: Call, loss: Value, *further: Value, **options: Value) -> Value:
        return operation(call, loss)

    def compute_gradients(self, call: Call, loss: Value, var_list: Value = None, **options: Value) -> Value:
        variables = all_variables(call, None, trainable=True) if var_list is None else var_list
        items = variables.items if isinstance(variables, ListValue) else variables
        if not isinstance(items, tuple):
            return ListValue(None, UNKNOWN)
        return ListValue([(gradient_of(part), part) for part in items])

    def apply_gradients(self, call: Call, grads_and_vars: Value, *further: Value, **options: Value) -> Value:
        return operation(call, grads_and_vars)


def gradient_of(variable: Value) -> Value:
    """A gradient has the shape of what is varied."""
    if not isinstance(variable, Tensor):
        return UNKNOWN
    return Tensor(variable.shape, variable.dtype, "tf", history=variable.history)


@shape_rule("tf.gradients")
def gradients(call: Call, ys: Value, xs: Value, *further: Value, **options: Value) -> Value:
    """One gradient for each of the variables."""
    items = xs.items if isinstance(xs, ListValue) else xs if isinstance(xs, tuple) else (xs,)
    if items is None or isinstance(xs, Unknown):
        return ListValue(None, Tensor(ANY_SHAPE, framework="tf", contiguous=None))
    return ListValue([gradient_of(item) for item in items])


@shape_rule("tf.clip_by_global_norm")
def clip_by_global_norm(t_list: Value, clip_norm: Value, use_norm: Value = None, name: Value = None) -> Value:
    """Tensors scaled together, and their norm."""
    norm = Tensor(Shape(()), "f32", "tf")
    if isinstance(t_list, ListValue):
        if t_list.items is None:
            return t_list, norm
        return ListValue([part.with_shape(part.shape) if isinstance(part, Tensor) else part for part in t_list.items]), norm
    return (t_list if isinstance(t_list, tuple) else UNKNOWN), norm


@native_class(
    "tf.train.Saver", "tf.train.Checkpoint", "tf.train.CheckpointManager", "tf.summary.FileWriter", "tf.train.Coordinator",
    "tf.train.ExponentialMovingAverage",
)  # fmt: skip
class Keeper:
    """Writes and reads files, counts threads: nothing that concerns shapes."""

    arguments: Arguments
    options: Options

    def save(self, call: Call, *arguments: Value, **options: Value) -> Value:
        return UNKNOWN

    restore = add_summary = add_graph = flush = close = request_stop = join = should_stop = apply = average = write = read = save


@shape_rule(
    *(f"tf.summary.{name}" for name in ("scalar", "histogram", "image", "merge_all", "merge", "text", "audio",
                                        "create_file_writer")),
    *(f"tf.train.{name}" for name in ("get_or_create_global_step", "exponential_decay", "start_queue_runners", "latest_checkpoint",
                                      "get_checkpoint_state", "piecewise_constant", "polynomial_decay", "cosine_decay")),
    "tf.ConfigProto", "tf.GPUOptions", "tf.RunOptions", "tf.RunMetadata",
)  # fmt: skip
def nothing_known(*arguments: Value, **options: Value) -> Value:
    """Summaries, rates and settings."""
    return UNKNOWN
