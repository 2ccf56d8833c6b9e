"""Reductions, order along an axis, softmax, and choices by a condition."""

from __future__ import annotations

from tensorproof.shapes.families import norms, ordering, reductions, selection, softmax
from tests.shape_cases import Draw, cases, names_of


def _array(draw: Draw, shape: tuple[int, ...]) -> str:
    is_logical = draw.short in ("reduce_any", "reduce_all")
    return draw.array_of(shape, "bool" if is_logical else "")


def _axes(draw: Draw, rank: int, name: str, *, several: bool = True) -> str:
    """An axis argument: none, one, or several."""
    if several and rank > 1 and draw.chance(0.3):
        axes = [draw.axis(rank, 0.08) for _ in range(2)]
        return f"{name}=({axes[0]}, {axes[1]})"
    return f"{name}={draw.axis(rank)}"


def _keep(draw: Draw, name: str) -> tuple[str, ...]:
    return (f"{name}={draw.pick(['True', 'False'])}",) if draw.chance(0.5) else ()


@cases(*names_of(reductions.torch_reduce, reductions.torch_prod, reductions.torch_arg, reductions.torch_deviation))
def _(draw: Draw) -> str:
    shape = draw.shape()
    needs_axis = draw.short == "logsumexp"
    if not needs_axis and draw.chance(0.2):
        return draw.call(draw.array(shape))
    several = draw.short not in ("prod", "argmax", "argmin", "nanmedian")
    return draw.call(
        draw.array(shape), _axes(draw, len(shape), draw.pick(["dim", "axis"]), several=several), *_keep(draw, "keepdim")
    )


@cases(*names_of(reductions.torch_extreme, reductions.torch_median, reductions.torch_mode))
def _(draw: Draw) -> str:
    shape = draw.shape()
    if draw.chance(0.2) and draw.short != "mode":
        return draw.call(draw.array(shape))
    if draw.chance(0.3) and draw.short in ("max", "min"):
        return draw.call(draw.array(shape), draw.array(draw.varied(shape)))
    return draw.call(draw.array(shape), str(draw.axis(len(shape))), *_keep(draw, "keepdim"))


@cases(*names_of(reductions.torch_aminmax, norms.torch_norm, norms.torch_linalg_norm, reductions.torch_count_nonzero))
def _(draw: Draw) -> str:
    shape = draw.shape(1)
    if draw.chance(0.2):
        return draw.call(draw.array(shape))
    several = draw.short not in ("aminmax",)
    keep = () if draw.short == "count_nonzero" else _keep(draw, "keepdim")
    return draw.call(draw.array(shape), _axes(draw, len(shape), "dim", several=several), *keep)


@cases(*names_of(norms.torch_distance))
def _(draw: Draw) -> str:
    shape = draw.shape()
    return draw.call(draw.array(shape), draw.array(draw.varied(shape, 0.5)))


@cases(*names_of(norms.torch_cosine, norms.torch_pairwise))
def _(draw: Draw) -> str:
    shape = draw.shape(1)
    axis = (f"dim={draw.axis(len(shape))}",) if draw.short == "cosine_similarity" else ()
    return draw.call(draw.array(shape), draw.array(draw.varied(shape, 0.4)), *axis)


@cases(
    *names_of(
        reductions.numpy_sum,
        reductions.numpy_deviation,
        reductions.numpy_extreme,
        reductions.numpy_arg,
        reductions.numpy_count_nonzero,
        norms.numpy_norm,
        reductions.numpy_logsumexp,
        reductions.numpy_ufunc_reduce,
        ordering.numpy_median,
        reductions.tf_reduce,
        norms.tf_norm,
        reductions.tf_count_nonzero,
        reductions.keras_reduce,
        reductions.keras_arg,
        norms.keras_norm,
    )
)
def _(draw: Draw) -> str:
    shape = draw.shape(1)
    if draw.chance(0.2):
        return draw.call(_array(draw, shape))
    several = "arg" not in draw.short
    return draw.call(_array(draw, shape), _axes(draw, len(shape), "axis", several=several), *_keep(draw, "keepdims"))


@cases(*names_of(reductions.numpy_average, reductions.keras_average, reductions.keras_count_nonzero, reductions.tf_arg))
def _(draw: Draw) -> str:
    shape = draw.shape(1)
    several = draw.short not in ("argmax", "argmin")
    return draw.call(draw.array(shape), *((_axes(draw, len(shape), "axis", several=several),) if draw.chance(0.8) else ()))


@cases("tf.nn.moments", "keras.ops.moments")
def _(draw: Draw) -> str:
    shape = draw.shape(1)
    axes = sorted({draw.axis(len(shape)) for _ in range(draw.integer(1, 2))})
    return draw.call(draw.array(shape), f"{axes}", *_keep(draw, "keepdims"))


@cases("tf.add_n")
def _(draw: Draw) -> str:
    array = draw.array(draw.shape())
    return draw.call(f"[{array}, {array}]")


@cases(*names_of(norms.torch_trace, norms.numpy_trace, norms.keras_trace, norms.tf_trace))
def _(draw: Draw) -> str:
    return draw.call(draw.array(draw.shape(0, 4)))


# -- softmax ----------------------------------------------------------------------------------------------------------


@cases(*names_of(softmax.torch_softmax, softmax.torch_functional_softmax))
def _(draw: Draw) -> str:
    shape = draw.shape()
    axis = () if "functional" in draw.name and draw.chance(0.3) else (f"dim={draw.axis(len(shape))}",)
    return draw.call(draw.array(shape), *axis)


@cases("torch.nn.functional.gumbel_softmax", "torch.nn.functional.normalize")
def _(draw: Draw) -> str:
    shape = draw.shape(1)
    return draw.call(draw.array(shape), *((f"dim={draw.axis(len(shape))}",) if draw.chance(0.7) else ()))


@cases(
    *names_of(
        softmax.jax_softmax,
        softmax.jax_standardize,
        softmax.scipy_softmax,
        softmax.tf_softmax,
        softmax.keras_softmax,
        softmax.keras_normalize,
    )
)
def _(draw: Draw) -> str:
    shape = draw.shape(2 if "keras" in draw.name else 1)
    return draw.call(draw.array(shape), *((f"axis={draw.axis(len(shape))}",) if draw.chance(0.7) else ()))


@cases("keras.utils.normalize", setup="import numpy as np")
def _(draw: Draw) -> str:
    shape = draw.shape(2)
    return draw.call(f"np.zeros({shape})", *((f"axis={draw.axis(len(shape)) or 1}",) if draw.chance(0.7) else ()))


# -- order ------------------------------------------------------------------------------------------------------------


@cases(
    *names_of(
        ordering.torch_sort, ordering.torch_argsort, ordering.torch_msort, ordering.torch_cumulative, ordering.torch_running_extreme
    )
)
def _(draw: Draw) -> str:
    shape = draw.shape(1 if draw.short == "msort" else 0)
    optional = draw.short in ("sort", "argsort", "msort")
    if draw.short == "msort" or (optional and draw.chance(0.3)):
        return draw.call(draw.array(shape))
    return draw.call(draw.array(shape), f"dim={draw.axis(len(shape))}")


@cases(*names_of(ordering.torch_topk, ordering.torch_kthvalue))
def _(draw: Draw) -> str:
    shape = draw.shape(1)
    return draw.call(draw.array(shape), str(draw.integer(1, 4)), *((f"dim={draw.axis(len(shape))}",) if draw.chance(0.7) else ()))


@cases(
    *names_of(
        ordering.numpy_sort,
        ordering.numpy_cumulative,
        ordering.numpy_accumulate,
        ordering.tf_sort,
        ordering.tf_cumulative,
        ordering.keras_sort,
        ordering.keras_cumulative,
    )
)
def _(draw: Draw) -> str:
    shape = draw.shape(1)
    return draw.call(draw.array(shape), *((f"axis={draw.axis(len(shape))}",) if draw.chance(0.7) else ()))


@cases(*names_of(ordering.numpy_partition))
def _(draw: Draw) -> str:
    shape = draw.shape(1)
    return draw.call(draw.array(shape), "0", *((f"axis={draw.axis(len(shape))}",) if draw.chance(0.7) else ()))


@cases(*names_of(ordering.tf_top_k, ordering.keras_top_k, ordering.jax_top_k))
def _(draw: Draw) -> str:
    return draw.call(draw.array(draw.shape(0, 3)), f"k={draw.integer(1, 5)}")


@cases(*names_of(ordering.tf_in_top_k))
def _(draw: Draw) -> str:
    rows, columns = draw.integer(1, 4), draw.integer(1, 4)
    return draw.call(draw.array_of((rows,), "int32"), draw.array((rows, columns)), "1")


@cases(*names_of(ordering.torch_quantile, ordering.numpy_quantile, ordering.keras_quantile))
def _(draw: Draw) -> str:
    shape = draw.shape(1)
    torch = draw.name.startswith("torch")
    levels = (
        draw.pick(["0.5", "torch.tensor([0.1, 0.5])", "torch.zeros(2, 2)"])
        if torch
        else draw.pick(["0.5", "jnp.array([0.1, 0.5, 0.9])" if draw.name.startswith("jax") else "[0.1, 0.5, 0.9]"])
    )
    axis = "dim" if torch else "axis"
    named = (f"{axis}={draw.axis(len(shape))}",) if draw.chance(0.7) else ()
    return draw.call(draw.array(shape), levels, *named, *_keep(draw, "keepdim" if torch else "keepdims"))


@cases(*names_of(ordering.numpy_diff, ordering.torch_diff, ordering.keras_diff))
def _(draw: Draw) -> str:
    shape = draw.shape(0, 3)
    name = "dim" if draw.name.startswith("torch") else "axis"
    return draw.call(
        draw.array(shape), *((f"n={draw.integer(1, 3)}", f"{name}={draw.axis(len(shape))}") if draw.chance(0.7) else ())
    )


@cases(*names_of(ordering.bincount), imprecise=True)
def _(draw: Draw) -> str:
    array = draw.array_of(draw.shape(1, 1 if draw.name.startswith("keras") else 2), "int32")
    return draw.call(
        array, *(("minlength=7",) if draw.chance(0.5) else ()), *(("length=6",) if draw.name.startswith("jax") else ())
    )


@cases(*names_of(ordering.torch_histogram))
def _(draw: Draw) -> str:
    return draw.call(draw.array(draw.shape()), f"bins={draw.integer(1, 5)}")


@cases(*names_of(ordering.torch_unique, ordering.numpy_unique, ordering.tf_unique), imprecise=True)
def _(draw: Draw) -> str:
    shape = draw.shape(1, 2)
    if draw.name.startswith("jax"):
        return draw.call(draw.array(shape), "size=3", "fill_value=0")
    axis = "dim" if draw.name.startswith("torch") else "axis"
    options = (
        ()
        if draw.name.startswith("tf")
        else ("return_inverse=True", "return_counts=True")
        if draw.chance(0.5)
        else (f"{axis}={draw.axis(len(shape))}",)
    )
    return draw.call(draw.array(shape), *options)


# -- choices ----------------------------------------------------------------------------------------------------------


@cases(*names_of(selection.torch_where, selection.numpy_where, selection.tf_where))
def _(draw: Draw) -> str:
    shape = draw.shape()
    second = draw.varied([1 if draw.chance(0.2) else size for size in shape])
    return draw.call(
        draw.array_of(shape, "bool"), draw.array(second), draw.array(draw.varied(shape)) if draw.chance(0.6) else "0.0"
    )


@cases("torch.Tensor.where")
def _(draw: Draw) -> str:
    shape = draw.shape()
    return draw.call(draw.array(shape), draw.array_of(draw.varied(shape), "bool"), draw.array(shape))


@cases(*names_of(selection.numpy_select))
def _(draw: Draw) -> str:
    shape = draw.shape(1)
    condition, choice = draw.array_of(draw.varied(shape), "bool"), draw.array(draw.varied(shape))
    return draw.call(f"[{condition}, {condition}]", f"[{choice}, {choice}]")


_POSITIONS = names_of(selection.torch_nonzero, selection.argwhere, selection.numpy_nonzero, selection.numpy_flatnonzero)


@cases(*(name for name in _POSITIONS if name != "jax.Array.nonzero"), imprecise=True)
def _(draw: Draw) -> str:
    return draw.call(draw.array(draw.shape(1)), *(("size=2",) if "jax" in draw.name and not draw.is_method else ()))
