"""Restricted Boltzmann machines on images, trained by contrastive divergence in one step."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from benchmarks.zoo.builder import Builder, Tensor
from benchmarks.zoo.entry import Bug, Entry, Optimiser, Repair
from benchmarks.zoo.families.parts import PIXEL_COUNT, PIXELS
from benchmarks.zoo.initial import normal, zeros

FAMILY = "restricted Boltzmann machine"

_BATCH = 64
_HIDDEN = 500


def entries() -> Iterator[Entry]:
    programs = (
        (22, "git1_rbm", Optimiser("SGD", 0.1)),
        (51, "RBM", Optimiser("SGD", 0.1)),
        (62, "gongdols.denoising_RBM", Optimiser("Adam", 0.005)),
        (63, "gongdols.main", Optimiser("Adam", 0.005)),
    )
    why = "exp overflows above 88.7; the two free energies are then infinite, and their difference is NaN"
    repair = Repair(
        "softplus in place of log(1 + exp(.)), the stable form; upstream has no repair", partial(_describe, stable=True)
    )
    for program, project, optimiser in programs:
        bugs = (Bug(str(program), "Exp", "energy_of_sample/exp", why, also=("energy_of_data/exp",)),)
        yield Entry(str(program), program, project, "pytorch", FAMILY, _describe, optimiser, bugs, repair)


def _describe(b: Builder, stable: bool = False) -> None:
    """The loss is the free energy of the data less that of a sample. The uniform numbers that sampling draws are inputs."""
    v = b.input("v", [_BATCH, PIXEL_COUNT], PIXELS)
    weight = b.weight("W", [_HIDDEN, PIXEL_COUNT], normal(0.01))
    visible_bias = b.weight("v_bias", [PIXEL_COUNT], zeros())
    hidden_bias = b.weight("h_bias", [_HIDDEN], zeros())
    towards_hidden = b.transpose(weight)

    def sample(probabilities: Tensor, name: str) -> Tensor:
        draws = b.input(name, probabilities.shape, "0:1", "random")
        return b.relu(b.sign(probabilities - draws))

    def free_energy(units: Tensor, name: str) -> Tensor:
        with b.scope(name):
            drive = units @ towards_hidden + hidden_bias
            hidden = b.softplus(drive, name="exp") if stable else b.log(1.0 + b.exp(drive, name="exp"))
            visible = b.reshape(units @ b.reshape(visible_bias, [PIXEL_COUNT, 1]), [_BATCH])
            return b.mean(-b.sum(hidden, [1]) - visible)

    hidden = sample(b.sigmoid(v @ towards_hidden + hidden_bias), "hidden_draws")
    sampled = sample(b.sigmoid(hidden @ weight + visible_bias), "visible_draws")
    b.output("loss", free_energy(v, "energy_of_data") - free_energy(sampled, "energy_of_sample"))
