"""Networks with planted faults in them: one layer, or 10 and more with one or two faults among healthy layers and branches."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from tensorproof.compare.spec import InputSpec, LayerSpec, NetworkSpec, TestSpec
from tests.planted_faults.planting import Trigger

BATCH = 3
#: Activations that no planted fault touches.
_HEALTHY = ("tanh", "sigmoid", "softsign", "relu")


@dataclass(frozen=True)
class Case:
    """A test, and the layers with a fault, in order, by what was planted there."""

    test: TestSpec
    faulty: tuple[tuple[str, str], ...]


def one_layer(name: str, trigger: Trigger, seed: int = 0) -> Case:
    layer = LayerSpec("planted_0", trigger.kind, trigger.parameters, ("x",))
    network = NetworkSpec("keras", (InputSpec("x", (BATCH, *trigger.shape)),), (layer,), ("planted_0",))
    return Case(TestSpec(network, seed, phase=trigger.phase), (("planted_0", name),))


def deep(planted: Sequence[tuple[str, Trigger]], seed: int = 0) -> Case:
    """Healthy layers and a branch before each planted one; at least ten in all. The same seed gives the same network."""
    choose = random.Random(seed)
    grown = _Grown(planted[0][1].shape)
    faulty: list[tuple[str, str]] = []
    for index, (name, trigger) in enumerate(planted):
        if index:
            grown.reshape(trigger.shape)
        for _ in range(choose.randint(1, 3)):
            grown.healthy(choose)
        grown.branch(choose)
        # Both signs, so that faults on negative numbers are reached.
        grown.add(f"signs_{index}", "Dense", {"units": trigger.shape[-1], "activation": "tanh"})
        grown.add(f"planted_{index}", trigger.kind, dict(trigger.parameters))
        faulty.append((f"planted_{index}", name))
    while len(grown.layers) < 9:
        grown.dense(5, choose)
    grown.flatten()
    grown.dense(6, choose)
    grown.add("outputs", "Dense", {"units": 4})
    network = NetworkSpec("keras", (InputSpec("x", (BATCH, *planted[0][1].shape)),), tuple(grown.layers), ("outputs",))
    phase = "training" if any(trigger.phase == "training" for _, trigger in planted) else "inference"
    return Case(TestSpec(network, seed, phase=phase), tuple(faulty))


def healthy(seed: int) -> TestSpec:
    """A network of ten layers that no fault touches."""
    choose = random.Random(seed)
    grown = _Grown(choose.choice([(6,), (5, 4), (5, 5, 3)]))
    shape = grown.shape
    grown.healthy(choose)
    grown.branch(choose)
    while len(grown.layers) < 9:
        grown.healthy(choose)
    grown.add("outputs", "Dense", {"units": 4})
    return TestSpec(NetworkSpec("keras", (InputSpec("x", (BATCH, *shape)),), tuple(grown.layers), ("outputs",)), seed)


@dataclass
class _Grown:
    """A network that grows at its end. `shape` is that of its last healthy layer."""

    shape: tuple[int, ...]
    last: str = "x"
    layers: list[LayerSpec] = field(default_factory=list)

    def add(self, name: str, kind: str, parameters: dict[str, object], inputs: Sequence[str] = ()) -> None:
        self.layers.append(LayerSpec(name, kind, parameters, tuple(inputs) or (self.last,)))
        self.last = name

    def _name(self, kind: str) -> str:
        return f"{kind.lower()}_{len(self.layers)}"

    def dense(self, units: int, choose: random.Random) -> None:
        self.add(self._name("Dense"), "Dense", {"units": units, "activation": choose.choice(_HEALTHY)})

    def flatten(self) -> None:
        self.add(self._name("Flatten"), "Flatten", {})

    def reshape(self, shape: tuple[int, ...]) -> None:
        self.flatten()
        self.add(self._name("Dense"), "Dense", {"units": math.prod(shape), "activation": "tanh"})
        self.add(self._name("Reshape"), "Reshape", {"target_shape": list(shape)})
        self.shape = shape

    def healthy(self, choose: random.Random) -> None:
        """A layer that keeps the shape."""
        if len(self.shape) == 3 and choose.random() < 0.5:
            parameters = {"filters": self.shape[-1], "kernel_size": 3, "padding": "same", "activation": choose.choice(_HEALTHY)}
            self.add(self._name("Conv2D"), "Conv2D", parameters)
        elif choose.random() < 0.3:
            self.add(self._name("Activation"), "Activation", {"activation": choose.choice(_HEALTHY)})
        else:
            self.dense(self.shape[-1], choose)

    def branch(self, choose: random.Random) -> None:
        """Two ways that meet again."""
        start = self.last
        self.healthy(choose)
        way = self.last
        self.last = start
        self.healthy(choose)
        kind = choose.choice(("Add", "Multiply", "Average"))
        self.add(self._name(kind), kind, {}, (way, self.last))
