"""Dense layers, embeddings and attention of Keras."""

from __future__ import annotations

from tensorproof.compare.catalogue.layer_kind import (
    ANY_RANK,
    SEQUENCES,
    Arguments,
    InputRule,
    LayerKind,
    Shape,
    Shapes,
    alone,
    only,
    require,
    unchanged,
)
from tensorproof.compare.catalogue.parameters import activation, choice, count, flag, is_count, is_list, listed, number, spread
from tensorproof.compare.spec import Json

_DROPPED = number(0.0, low=0.0, high=1.0, illegal=(-0.5, 1.5, "much"))


def dense(shape: Shape, arguments: Arguments) -> Shape:
    """The last axis becomes `units`."""
    return (*shape[:-1], arguments["units"])


def einsum(shape: Shape, arguments: Arguments) -> Shape:
    """One equation `input,kernel->output`; sizes that the input does not give come from `output_shape`."""
    equation, wanted = arguments["equation"], arguments["output_shape"]
    require(isinstance(equation, str) and "->" in equation and "," in equation)
    left, right = str(equation).split("->")
    given, kernel = left.split(",")
    wanted_sizes: list[Json] = list(wanted) if is_list(wanted) else [wanted]
    require(all(size is None or is_count(size) for size in wanted_sizes))
    dots = "..." in given
    require(dots == ("..." in right) and "..." not in kernel)
    names, results = given.replace("...", ""), right.replace("...", "")
    require(len(shape) == len(names) if not dots else len(shape) >= len(names))
    require(all(name in names + kernel for name in results))
    lead = shape[: len(shape) - len(names)]
    known = dict(zip(names, shape[len(lead) :]))
    # The batch axis is not part of `output_shape`.
    named = results if dots else results[1:]
    require(len(wanted_sizes) == len(named))
    for name, size in zip(named, wanted_sizes):
        if size is None:
            require(name in known)
        else:
            require(known.setdefault(name, size) == size)
    require(all(name in known for name in results + kernel))
    bias, said = arguments["bias_axes"], dict(zip(named, wanted_sizes))
    require(bias is None or (isinstance(bias, str) and bool(bias) and all(said.get(name) is not None for name in bias)))
    return (*lead, *(known[name] for name in results))


def embedded(shape: Shape, arguments: Arguments) -> Shape:
    """A vector for each number."""
    return (*shape, arguments["output_dim"])


def attended(shapes: Shapes, arguments: Arguments) -> Shapes:
    """Query, value and key (the value, if left out): each step of the query gets a mean of the values."""
    require(len(shapes) in (2, 3) and all(len(shape) == 3 for shape in shapes))
    query, value, key = shapes if len(shapes) == 3 else (*shapes, shapes[1])
    require(query[0] == value[0] == key[0] and query[2] == key[2] and value[1] == key[1])
    return ((*query[:2], value[2]),)


def added(shapes: Shapes, arguments: Arguments) -> Shapes:
    """As `attended`; the scores are those of Bahdanau."""
    return attended(shapes, arguments)


def heads(shapes: Shapes, arguments: Arguments) -> Shapes:
    """Several heads, projected back to the query's size or to `output_shape`."""
    require(len(shapes) in (2, 3) and all(len(shape) == 3 for shape in shapes))
    query, value, key = shapes if len(shapes) == 3 else (*shapes, shapes[1])
    require(query[0] == value[0] == key[0] and value[1] == key[1])
    wanted = arguments["output_shape"]
    require(wanted is None or is_count(wanted) or (is_list(wanted) and len(wanted) > 0 and all(is_count(part) for part in wanted)))
    last = (query[2],) if wanted is None else spread(wanted, 1)
    return ((*query[:2], *last),)


def grouped_heads(shapes: Shapes, arguments: Arguments) -> Shapes:
    """Heads of the query share heads of key and value."""
    require(len(shapes) in (2, 3) and all(len(shape) == 3 for shape in shapes))
    query, value, key = shapes if len(shapes) == 3 else (*shapes, shapes[1])
    require(query[0] == value[0] == key[0] and value[1] == key[1] and query[2] == value[2])
    require(arguments["num_query_heads"] % arguments["num_key_value_heads"] == 0)
    return (query,)


_ATTENTION: tuple[Shapes, ...] = (
    ((2, 8, 4), (2, 8, 4)),
    ((2, 5, 4), (2, 8, 4)),
    ((2, 8, 4), (2, 5, 4), (2, 5, 4)),
    ((1, 1, 4), (1, 3, 4)),
    ((4, 4, 4), (4, 4, 4)),
)
_UNEVEN: tuple[Shapes, ...] = (((2, 5, 4), (2, 8, 6), (2, 8, 4)),)
_MASKED: tuple[tuple[Shapes, Shapes], ...] = ((((2, 5, 4), (2, 8, 4)), ((2, 5), (2, 8))),)
_INTEGERS = InputRule("int32", ("integers",), "input_dim")

KINDS = (
    LayerKind(
        "Dense",
        "keras",
        "dense",
        only(dense),
        alone(*ANY_RANK),
        {"units": count(4, 1, 7, required=True), "activation": activation, "use_bias": flag(True)},
        is_audee=True,
    ),
    LayerKind(
        "EinsumDense",
        "keras",
        "dense",
        only(einsum),
        alone(*SEQUENCES, (2, 8)),
        {
            "equation": listed(
                "abc,cd->abd",
                "ab,bc->ac",
                "abc,cde->abde",
                "...x,xy->...y",
                "abc,bd->adc",
                illegal=("abc", 3, None, "ab,bc->ad"),
                required=True,
            ),
            "output_shape": listed([None, 4], 4, [None, 3, 2], [3, None], illegal=([], -1, "four"), required=True),
            "activation": activation,
            "bias_axes": listed(None, "d", "c", "de", illegal=("z", 3)),
        },
    ),
    LayerKind(
        "Embedding",
        "keras",
        "dense",
        only(embedded),
        alone((2, 8), (3, 5), (1, 1), (4, 4), (2, 3, 4)),
        {"input_dim": count(8, 1, 20, required=True), "output_dim": count(4, 1, 6, required=True), "mask_zero": flag(False)},
        inputs=(_INTEGERS,),
        result_dtype="float32",
    ),
    LayerKind(
        "ReversibleEmbedding",
        "keras",
        "dense",
        only(embedded),
        alone((2, 8), (3, 5), (1, 1)),
        {
            "input_dim": count(8, 1, 20, required=True),
            "output_dim": count(4, 1, 6, required=True),
            "tie_weights": flag(True),
            "mask_zero": flag(False),
        },
        inputs=(_INTEGERS,),
        result_dtype="float32",
    ),
    LayerKind("Identity", "keras", "dense", only(unchanged), alone(*ANY_RANK)),
    LayerKind(
        "Attention",
        "keras",
        "attention",
        attended,
        _ATTENTION + _UNEVEN,
        {
            "use_scale": flag(False),
            "score_mode": choice("dot", "concat"),
            "dropout": _DROPPED,
            "call:use_causal_mask": flag(False),
        },
        masked=_MASKED,
    ),
    LayerKind(
        "AdditiveAttention",
        "keras",
        "attention",
        added,
        _ATTENTION + _UNEVEN,
        {"use_scale": flag(True), "dropout": _DROPPED, "call:use_causal_mask": flag(False)},
        masked=_MASKED,
    ),
    LayerKind(
        "MultiHeadAttention",
        "keras",
        "attention",
        heads,
        _ATTENTION + _UNEVEN,
        {
            "num_heads": count(2, 1, 3, required=True),
            "key_dim": count(4, 1, 3, required=True),
            "value_dim": count(None, 2, 5),
            "dropout": _DROPPED,
            "use_bias": flag(True),
            "output_shape": listed(None, 6, [2, 3], illegal=(-1, "six", [0])),
            "sliding_window": count(None, 2, 1),
            "use_gate": flag(False),
            "call:use_causal_mask": flag(False),
        },
        masked=((((2, 5, 4), (2, 8, 4)), ((2, 5, 8),)),),
    ),
    LayerKind(
        "GroupQueryAttention",
        "keras",
        "attention",
        grouped_heads,
        _ATTENTION,
        {
            "head_dim": count(4, 1, 3, required=True),
            "num_query_heads": count(4, 2, required=True, illegal=(3,)),
            "num_key_value_heads": count(2, 1, 4, required=True, illegal=(3,)),
            "dropout": _DROPPED,
            "use_bias": flag(True),
            "sliding_window": count(None, 2),
            "use_gate": flag(False),
            "call:use_causal_mask": flag(False),
        },
        masked=((((2, 5, 4), (2, 8, 4)), ((2, 5, 8),)),),
    ),
)
