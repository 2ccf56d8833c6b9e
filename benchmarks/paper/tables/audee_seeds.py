"""AUDEE's table 1: the networks that tests start from, the backends that are compared, and the layers that tests are made of.

The networks are trained on digits once, by Keras on PyTorch; each backend then classifies the digits kept from training with the
same weights. Training takes minutes unless its result is in the user's cache.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from benchmarks.paper.table import Json, Section, Size
from benchmarks.timing import cpu_seconds
from tensorproof.cli.fuzz import DEFAULT_BACKENDS
from tensorproof.compare.catalogue import Coverage, Plan, PlanOptions, kinds, seed_networks
from tensorproof.compare.catalogue.digits import load_digits
from tensorproof.compare.drawing import Array
from tensorproof.compare.spec import Dialect, InputSpec, TestSpec
from tensorproof.compare.workers.backend_id import BackendId
from tensorproof.compare.workers.fleet import Fleet

CATALOGUE = "catalogue"
SEED = 0
_DIALECTS: tuple[Dialect, ...] = ("keras", "onnx")
_QUICK = ("LeNet-5",)
_QUICK_BACKENDS = ("keras:torch", "keras:tensorflow", "onnxruntime", "onnx-reference")


def cases(size: Size) -> Sequence[str]:
    return (CATALOGUE, *(name for name in seed_networks() if size == "full" or name in _QUICK))


def measured(case: str, size: Size) -> Json:
    return catalogue(size) if case == CATALOGUE else network(case, size)


def catalogue(size: Size) -> Json:
    """What tests are made of, and how much of it the first block of a plan has: as many tests as it takes to see every kind."""
    found: Json = {}
    for dialect in _DIALECTS:
        plan = Plan(SEED, PlanOptions(dialects=(dialect,)))
        seen = Coverage().add_all(plan[number] for number in range(plan.block))
        parameters = sum(len(kind.parameters) for kind in kinds(dialect).values())
        named = sum(kind.is_audee for kind in kinds(dialect).values())
        found[dialect] = {"block": plan.block, "parameters": parameters, "of AUDEE": named, **seen.totals(dialect)}
    with Fleet() as fleet:
        versions = {name: dict(fleet.worker(BackendId.parse(name)).versions()) for name in backends("onnx", size)}
    return {"dialects": found, "versions": versions}


def backends(dialect: Dialect, size: Size) -> Sequence[str]:
    """The backends that run networks of a dialect."""
    chosen = _QUICK_BACKENDS if size == "quick" else DEFAULT_BACKENDS
    return tuple(name for name in chosen if name.startswith("keras:") == (dialect == "keras"))


def network(name: str, size: Size) -> Json:
    """One network on all backends, on all digits at once."""
    started = cpu_seconds()
    entry = seed_networks()[name]
    digits = load_digits()
    given = entry.network.inputs[0]
    everything = replace(entry.network, inputs=(_as_many(given, len(digits.held_out_images)),))
    weights = entry.weights()
    arrays = {**weights, **replace(entry, network=everything).examples()}
    outputs: dict[str, Array] = {}
    versions: dict[str, dict[str, str]] = {}
    for backend in backends("keras", size):
        with Fleet() as fleet:
            run = fleet.run(BackendId.parse(backend), TestSpec(everything), arrays=arrays)
            versions[backend] = dict(fleet.worker(BackendId.parse(backend)).versions())
        if run.failure is not None:
            raise RuntimeError(f"{name} on {backend}: {run.failure}")
        outputs[backend] = run.arrays[everything.outputs[-1]].astype(np.float64)
    first = next(iter(outputs.values()))
    return {
        "layers": len(entry.network.layers),
        "kinds": sorted({layer.kind for layer in entry.network.layers}),
        "parameters": sum(array.size for array in weights.values()),
        "digits": len(first),
        "right": {backend: int((out.argmax(1) == digits.held_out_labels).sum()) for backend, out in outputs.items()},
        "other classes": {backend: int((out.argmax(1) != first.argmax(1)).sum()) for backend, out in outputs.items()},
        "difference": {backend: f"{np.abs(out - first).max():.0e}" for backend, out in outputs.items()},
        "versions": versions,
        "seconds": cpu_seconds() - started,
    }


def _as_many(entry: InputSpec, count: int) -> InputSpec:
    return replace(entry, shape=(count, *entry.shape[1:]))


def section(results: Mapping[str, Json], size: Size) -> Section:
    results = {case: results[case] for case in cases(size) if case in results}
    listed = {name: result for name, result in results.items() if name != CATALOGUE}
    names = list(dict.fromkeys(backend for result in listed.values() for backend in result["right"]))
    rows = tuple(_row(name, result, names) for name, result in listed.items())
    used = {kind for result in listed.values() for kind in result["kinds"]}
    figures: dict[str, float | int | str] = {"networks": len(listed), "kinds in networks": len(used)}
    figures["digits with another class"] = sum(sum(result["other classes"].values()) for result in listed.values())
    parted = f"{figures['digits with another class']} digits have another class on some backend"
    lines = [
        f"{len(listed)} networks on {len(names)} backends: {parted}",
        f"{len(used)} kinds of layers in these networks: {', '.join(sorted(used))}",
    ]
    if CATALOGUE in results:
        for dialect, total in results[CATALOGUE]["dialects"].items():
            figures |= {f"{dialect} {what}": total[what] for what in ("kinds", "parameters", "of AUDEE")}
            seen = f"{total['kinds seen']} kinds and {total['pairs seen']} of {total['pairs']} pairs of parameter values"
            named = f", {total['of AUDEE']} of AUDEE's among them," if total["of AUDEE"] else ""
            told = f"{total['kinds']} kinds of layers{named} with {total['parameters']} parameters"
            lines.append(f"catalogue, {dialect}: {told}; the first {total['block']} tests of a plan have {seen}")
    versions = {backend: told for result in reversed(results.values()) for backend, told in result["versions"].items()}
    lines += [f"{backend}: {', '.join(f'{name} {number}' for name, number in told.items())}" for backend, told in versions.items()]
    return Section(
        "AUDEE, table 1: seed networks, backends, layers",
        ("network", "layers", "kinds", "weights", *(f"right on {name}" for name in names), "other class", "largest difference"),
        rows,
        tuple(lines),
        figures,
        paper=("AUDEE: 7 seed networks, 25 kinds of layers; TensorFlow, PyTorch, CNTK and Theano.",),
        setup=(
            "Networks are as deep as the originals and narrower, for digits of 8 by 8, trained here; Transformer is added.",
            "CNTK and Theano are no longer maintained: Keras 3 on five backends, and three runtimes of ONNX, take their place.",
            "Other class, largest difference: against the first backend, over all backends and digits.",
        ),
    )


def _row(name: str, result: Json, names: Sequence[str]) -> tuple[str, ...]:
    right = [f"{result['right'][backend]}/{result['digits']}" for backend in names]
    other = sum(result["other classes"].values())
    counts = result["layers"], len(result["kinds"]), result["parameters"]
    return name, *map(str, counts), *right, str(other), max(result["difference"].values(), key=float)
