"""Distributions and spectra."""

from __future__ import annotations

from tests.shape_cases import Draw, cases

_TWO = ("Normal", "Uniform", "Beta")


def _spelled(*names: str) -> tuple[str, ...]:
    return tuple(full for name in names for full in (f"torch.distributions.{name}", f"torch.distributions.{name.lower()}.{name}"))


def _made(draw: Draw, name: str, shape: tuple[int, ...], other: tuple[int, ...]) -> str:
    if name in ("Bernoulli", "Categorical"):
        return f"torch.distributions.{name}({draw.pick(['probs', 'logits'])}=torch.full({shape}, 0.5))"
    parameters = f"torch.zeros({shape}), torch.ones({other})" if name != "Beta" else f"torch.ones({shape}), torch.ones({other})"
    return f"torch.distributions.{name}({parameters})"


@cases(*_spelled(*_TWO, "Bernoulli", "Categorical"))
def _(draw: Draw) -> str:
    shape = draw.shape(1, 3)
    made = _made(draw, draw.short, shape, draw.varied(shape, 0.3))
    use = draw.integer(0, 2)
    if use == 0:
        return f"{made}.sample({draw.shape(0, 2)})"
    if use == 1 and draw.short != "Uniform":
        batch = shape[:-1] if draw.short == "Categorical" else shape
        value = f"torch.zeros({draw.varied(batch, 0.3)})" if draw.short != "Beta" else f"torch.full({draw.varied(batch, 0.3)}, 0.5)"
        return f"{made}.log_prob({value})"
    return f"{made}.entropy()"


@cases("torch.distributions.kl_divergence", "torch.distributions.kl.kl_divergence")
def _(draw: Draw) -> str:
    name = draw.pick(["Normal", "Categorical"])
    shape = draw.shape(1, 3)
    other = shape if name == "Categorical" else draw.varied(shape, 0.3)
    return f"torch.distributions.kl_divergence({_made(draw, name, shape, shape)}, {_made(draw, name, other, other)})"


@cases("torch.stft", "torch.Tensor.stft")
def _(draw: Draw) -> str:
    size = draw.integer(4, 10)
    samples = draw.integer(2, 30)
    shape = (*draw.shape(0, 1), samples) if draw.chance(0.9) else (2, 2, samples)
    options = [f"hop_length={draw.integer(1, 4)}"] if draw.chance(0.6) else []
    options += [f"center={draw.chance(0.5)}"] if draw.chance(0.5) else []
    options.append(f"window=torch.ones({size if draw.chance(0.85) else size + 1})")
    options.append("return_complex=True")
    arguments = ", ".join([str(size), *options])
    return f"{draw.array(shape)}.stft({arguments})" if draw.is_method else f"torch.stft({draw.array(shape)}, {arguments})"
