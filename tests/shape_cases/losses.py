"""Losses, as functions and as layers."""

from __future__ import annotations

from tests.shape_cases import Draw, cases

_ELEMENTS = {
    "MSELoss": "mse_loss",
    "L1Loss": "l1_loss",
    "SmoothL1Loss": "smooth_l1_loss",
    "HuberLoss": "huber_loss",
    "SoftMarginLoss": "soft_margin_loss",
    "KLDivLoss": "kl_div",
    "HingeEmbeddingLoss": "hinge_embedding_loss",
    "PoissonNLLLoss": "poisson_nll_loss",
    "BCELoss": "binary_cross_entropy",
    "BCEWithLogitsLoss": "binary_cross_entropy_with_logits",
    "MultiLabelSoftMarginLoss": "multilabel_soft_margin_loss",
}


def _both(*layers_and_functions: tuple[str, str]) -> tuple[str, ...]:
    return tuple(
        name for layer, function in layers_and_functions for name in (f"torch.nn.{layer}", f"torch.nn.functional.{function}")
    )


def _use(draw: Draw, arguments: str, options: str = "") -> str:
    reduction = f"reduction={draw.pick(['mean', 'sum', 'none', 'none'])!r}"
    if "functional" in draw.name:
        return f"{draw.name}({arguments}, {options}{reduction})"
    return f"nn.{draw.short}({options}{reduction})({arguments})"


def _labels(shape: tuple[int, ...]) -> str:
    return f"torch.zeros({shape}, dtype=torch.int64)"


@cases(*_both(*_ELEMENTS.items()))
def _(draw: Draw) -> str:
    least = 1 if "MultiLabelSoft" in draw.name or "multilabel_soft" in draw.name else 0
    shape = draw.shape(least, 3)
    target = draw.varied(shape, 0.4)
    options = ""
    short = draw.short.lower()
    if "binary" in short or "bce" in short:
        options = f"weight={draw.array(draw.varied(shape, 0.3))}, " if draw.chance(0.3) else ""
        if "logits" in short and draw.chance(0.3):
            options += f"pos_weight={draw.array(shape[-1:])}, "
    return _use(draw, f"{draw.array(shape)}, {draw.array(target if len(target) >= least else shape)}", options)


@cases(*_both(("CrossEntropyLoss", "cross_entropy"), ("NLLLoss", "nll_loss")), "torch.nn.NLLLoss2d")
def _(draw: Draw) -> str:
    classes = draw.integer(1, 4)
    if draw.chance(0.2):
        shape, labels = (classes,), ()
    else:
        rest = draw.shape(0, 2)
        batch = draw.integer(1, 4)
        shape, labels = (batch, classes, *rest), (batch, *rest)
    if "cross" in draw.short.lower() and draw.chance(0.2):
        return _use(draw, f"{draw.array(shape)}, {draw.array(shape)}")
    weights = f"weight={draw.array((draw.integer(1, 4) if draw.chance(0.3) else classes,))}, " if draw.chance(0.3) else ""
    wrong = draw.varied(labels, 0.35)
    # Integers in the shape of the scores are refused for their type.
    target = labels if wrong == shape else wrong
    return _use(draw, f"{draw.array(shape)}, {_labels(target)}", weights)


@cases(*_both(("MultiMarginLoss", "multi_margin_loss"), ("MultiLabelMarginLoss", "multilabel_margin_loss")))
def _(draw: Draw) -> str:
    classes = draw.integer(1, 4)
    batch = (draw.integer(1, 4),) if draw.chance(0.8) else ()
    scores = (*batch, classes)
    labels = batch if "ulti_margin" in draw.short or draw.short == "MultiMarginLoss" else scores
    return _use(draw, f"{draw.array(scores)}, {_labels(draw.varied(labels, 0.3))}")


@cases(*_both(("GaussianNLLLoss", "gaussian_nll_loss")))
def _(draw: Draw) -> str:
    shape = draw.shape(1, 3)
    spread = draw.pick([shape, shape[:-1], (*shape[:-1], 1), draw.varied(shape, 0.8)])
    return _use(draw, f"{draw.array(shape)}, {draw.array(shape)}, torch.ones({spread})")


@cases(*_both(("MarginRankingLoss", "margin_ranking_loss"), ("TripletMarginLoss", "triplet_margin_loss")))
def _(draw: Draw) -> str:
    shape = draw.shape(1, 3)
    parts = [draw.array(draw.varied(shape, 0.2)) for _ in range(3)]
    return _use(draw, ", ".join(parts))


@cases(*_both(("CosineEmbeddingLoss", "cosine_embedding_loss")))
def _(draw: Draw) -> str:
    shape = draw.shape(1, 2)
    parts = [draw.array(shape), draw.array(draw.varied(shape, 0.1)), draw.array(draw.varied(shape[:-1], 0.2))]
    return _use(draw, ", ".join(parts))


@cases("torch.nn.CTCLoss", "torch.nn.functional.ctc_loss")
def _(draw: Draw) -> str:
    steps, batch, classes = draw.integer(2, 5), draw.integer(1, 3), draw.integer(2, 4)
    arguments = (
        f"{draw.array((steps, batch, classes))}, torch.ones({(batch, 1)}, dtype=torch.int64), {(steps,) * batch}, {(1,) * batch}"
    )
    return _use(draw, arguments)


@cases("torch.nn.CosineSimilarity", "torch.nn.PairwiseDistance")
def _(draw: Draw) -> str:
    shape = draw.shape(1, 3)
    parts = f"{draw.array(shape)}, {draw.array(draw.varied(shape, 0.3))}"
    option = f"dim={draw.axis(len(shape))}" if draw.short == "CosineSimilarity" else f"keepdim={draw.chance(0.5)}"
    return f"nn.{draw.short}({option})({parts})"
