"""Functions of `tf.nn` besides windows."""

from __future__ import annotations

from tests.shape_cases import Draw, cases


@cases("tf.nn.bias_add")
def _(draw: Draw) -> str:
    value = draw.shape(1, 4)
    return f"tf.nn.bias_add({draw.array(value)}, {draw.array(draw.varied(value[-1:], 0.3))})"


@cases("tf.nn.xw_plus_b", "tf.nn.relu_layer")
def _(draw: Draw) -> str:
    rows, inner, columns = (draw.integer(1, 4) for _ in range(3))
    left, right = draw.array((rows, inner)), draw.array((inner if draw.chance(0.8) else inner + 1, columns))
    bias = draw.array((columns if draw.chance(0.8) else columns + 1,))
    return f"tf.compat.v1.nn.{draw.short}({left}, {right}, {bias})"


@cases("tf.nn.batch_normalization")
def _(draw: Draw) -> str:
    shape = draw.shape(1, 4)
    part = shape[-1:]
    parts = [draw.array(draw.varied(part, 0.1)) for _ in range(4)]
    offset = parts[2] if draw.chance(0.8) else "None"
    scale = parts[3] if draw.chance(0.8) else "None"
    return f"tf.nn.batch_normalization({draw.array(shape)}, {parts[0]}, {parts[1]}, {offset}, {scale}, 1e-3)"


@cases("tf.nn.lrn", "tf.nn.local_response_normalization")
def _(draw: Draw) -> str:
    return f"{draw.name}({draw.array(draw.shape(3, 5) if draw.chance(0.4) else draw.shape(4, 4))})"


@cases("tf.nn.l2_loss")
def _(draw: Draw) -> str:
    return f"{draw.name}({draw.array(draw.shape(0, 3))})"


@cases("tf.nn.log_poisson_loss", "tf.nn.sigmoid_cross_entropy_with_logits")
def _(draw: Draw) -> str:
    shape = draw.shape(0, 3)
    return f"{draw.name}({draw.array(draw.varied(shape))}, {draw.array(shape)})"


@cases("tf.nn.weighted_cross_entropy_with_logits")
def _(draw: Draw) -> str:
    shape = draw.shape(0, 3)
    return f"{draw.name}({draw.array(draw.varied(shape))}, {draw.array(shape)}, 2.0)"


@cases("tf.nn.softmax_cross_entropy_with_logits")
def _(draw: Draw) -> str:
    shape = draw.shape(2, 3)
    return f"{draw.name}(labels={draw.array(draw.varied(shape))}, logits={draw.array(shape)})"


@cases("tf.nn.sparse_softmax_cross_entropy_with_logits")
def _(draw: Draw) -> str:
    shape = draw.shape(1, 3)
    labels = draw.varied(shape[:-1])
    return f"{draw.name}(labels=tf.zeros({labels}, tf.int32), logits={draw.array(shape)})"


@cases("tf.nn.softmax_cross_entropy_with_logits_v2")
def _(draw: Draw) -> str:
    shape = draw.shape(2, 3)
    return f"tf.compat.v1.nn.{draw.short}(labels={draw.array(draw.varied(shape))}, logits={draw.array(shape)})"


@cases("tf.nn.nce_loss", "tf.nn.sampled_softmax_loss")
def _(draw: Draw) -> str:
    rows, width = draw.integer(1, 4), draw.integer(1, 4)
    weights = draw.array((6, width if draw.chance(0.75) else width + 1))
    labels = f"tf.zeros(({rows}, 1), tf.int64)"
    return f"{draw.name}({weights}, {draw.array((6,))}, {labels}, {draw.array((rows, width))}, 3, 6)"


@cases("tf.ensure_shape")
def _(draw: Draw) -> str:
    shape = draw.shape(0, 3)
    wanted = [None if draw.chance(0.3) else size for size in draw.varied(shape)]
    return f"tf.ensure_shape({draw.array(shape)}, {wanted})"


@cases("tf.Variable", imprecise=True)
def _(draw: Draw) -> str:
    shape = draw.shape(0, 3)
    declared = f", shape={[None if draw.chance(0.2) else size for size in draw.varied(shape)]}" if draw.chance(0.5) else ""
    return f"tf.Variable({draw.array(shape)}{declared}) + 0"


@cases("tf.Tensor.assign", "tf.Tensor.assign_add", "tf.Tensor.assign_sub")
def _(draw: Draw) -> str:
    shape = draw.shape(0, 3)
    return f"tf.Variable({draw.array(shape)}).{draw.short}({draw.array(draw.varied(shape))})"


@cases("tf.assign", "tf.assign_add", "tf.assign_sub")
def _(draw: Draw) -> str:
    shape = draw.shape(0, 3)
    return f"tf.compat.v1.{draw.short}(tf.Variable({draw.array(shape)}), {draw.array(draw.varied(shape))})"


@cases("tf.Tensor.value", "tf.Tensor.read_value")
def _(draw: Draw) -> str:
    return f"tf.Variable({draw.array(draw.shape(0, 3))}).{draw.short}()"


@cases("tf.clip_by_global_norm")
def _(draw: Draw) -> str:
    parts = ", ".join(draw.array(draw.shape(0, 3)) for _ in range(draw.integer(1, 3)))
    return f"tf.clip_by_global_norm([{parts}], 1.0)"


@cases("tf.map_fn", "tf.vectorized_map")
def _(draw: Draw) -> str:
    shape = draw.shape(1, 2, 3)
    body = draw.pick(["row * 2.0", "tf.stack([row, row])", "tf.reduce_sum(row)", "row + tf.zeros((3,))"])
    return f"{draw.name}(lambda row: {body}, {draw.array(shape)})"


@cases("tf.scan", "tf.foldl", "tf.foldr")
def _(draw: Draw) -> str:
    rows, width = draw.integer(1, 3), draw.integer(1, 3)
    state = draw.array((width,))
    body = draw.pick(["state + row", "state * tf.reduce_sum(row)", f"state + tf.zeros(({draw.integer(1, 4)}, 1))[0] * row"])
    return f"{draw.name}(lambda state, row: {body}, {draw.array((rows, width))}, {state})"


@cases("tf.cond")
def _(draw: Draw) -> str:
    shape = draw.shape(0, 3)
    return f"tf.cond(True, lambda: {draw.array(shape)}, lambda: {draw.array(shape)} + 1.0)"


@cases("tf.while_loop")
def _(draw: Draw) -> str:
    shape = draw.shape(1, 3)
    return f"tf.while_loop(lambda i, x: i < 2, lambda i, x: (i + 1, x * 2.0), [tf.constant(0), {draw.array(shape)}])"
