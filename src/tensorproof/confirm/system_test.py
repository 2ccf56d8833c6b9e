"""System tests: a training example and an inference input on which a model fails only through training (RANUM, ICSE 2023).

From the weights of the model's file, one step of gradient descent on the example (or up to so many on the same one) leads to
weights with which the node of a finding fails on the inference input. A search by gradients through the step looks for both
at once; where it does not get there, a unit test says which weights would fail, and an example is matched to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy.typing as npt

from tensorproof.assumptions import Declarations, resolve
from tensorproof.checking import Analysis
from tensorproof.confirm import system_witness, witness
from tensorproof.confirm.full import SearchProgress
from tensorproof.confirm.matching import Matching
from tensorproof.confirm.objective import Objective
from tensorproof.confirm.observer import CannotObserve, Observer
from tensorproof.confirm.observing import Domains, Watch, can_be_fed, domains_of, legal_specials, special_values, watches_of
from tensorproof.confirm.quick import QuickConfirm
from tensorproof.confirm.sampling import Point, points
from tensorproof.confirm.saturation import Saturation
from tensorproof.confirm.search import Budget, Search, checked_method
from tensorproof.confirm.shrink import shrunk
from tensorproof.confirm.system_objective import SystemObjective, joined, parts
from tensorproof.confirm.system_search import Lead, SystemObserver, SystemSearch
from tensorproof.confirm.training import Training, trainable
from tensorproof.errors import ConfigurationError
from tensorproof.execute.instrument import prefix
from tensorproof.execute.meaning import NotExecutable
from tensorproof.execute.runtime import Runtime
from tensorproof.findings import Finding, Report
from tensorproof.graph import Model

if TYPE_CHECKING:
    import onnx

    from tensorproof.preparing import Prepared

#: How a system test was found.
How = Literal["direct", "matching", "samples"]

#: Replays that go into making a system test plain: each of them trains.
SHRINK_RUNS = 60
#: Examples with active clips in one group, at most.
MOST_STARTS = 50
#: Unit tests whose weights are tried as targets of training.
TARGETS = 2


@dataclass(frozen=True, slots=True)
class SystemTest:
    """Values of the inputs for training and for inference, and the weights in between."""

    training: Mapping[str, npt.NDArray[Any]]
    inference: Mapping[str, npt.NDArray[Any]]
    weights: Mapping[str, npt.NDArray[Any]]
    loss: str
    rate: float
    steps: int
    how: How
    #: Whether the node fails on the inference input with the weights of the file already.
    fails_untrained: bool


def find_system_tests(
    prepared: Prepared,
    *,
    loss: str,
    lr: float = 1.0,
    steps: int = 1,
    batch: int | None = None,
    nodes: Sequence[str] = (),
    seed: int = 0,
    evaluations: int = 600,
    method: str = "full",
    budget: float | None = None,
    shrink: bool = True,
    witnesses: str | Path | None = None,
    progress: Callable[[str, int], None] | None = None,
    search_progress: SearchProgress | None = None,
) -> Report:
    """Check a model, and search a system test for every finding (of `nodes`: names or patterns).

    `loss` names the output that training makes small, with learning rate `lr`, in up to `steps` steps on one example, of `batch`
    samples where the model leaves that open; the node is looked at after each of them. The weights that are ranges by the
    declarations are trained; if there is none, all floating initialisers of more than one element. A finding is confirmed when
    its node failed in ONNX Runtime after training; the trained weights may be outside the declared ranges.
    """
    confirming = SystemConfirm(
        prepared.proto,
        seed=seed,
        time_limit=budget,
        folder=None if witnesses is None else Path(witnesses),
        data_folder=prepared.data_folder,
        nodes=tuple(nodes),
        declared=prepared.declared,
        loss=loss,
        rate=lr,
        steps=steps,
        batch=batch,
        budget=Budget(seed, evaluations, checked_method(method)),
        shrink=shrink,
        search_progress=search_progress,
    )
    report = prepared.checked(confirming, progress=progress)
    report.assumptions["training"] = {"loss": loss, "rate": lr, "steps": steps, "batch": batch}
    return report


@dataclass(slots=True)
class SystemConfirm(QuickConfirm):
    """The search for system tests. An interrupt ends it; what was found until then is kept."""

    declared: Declarations = field(default_factory=Declarations)
    loss: str = ""
    rate: float = 1.0
    steps: int = 1
    batch: int | None = None
    budget: Budget = field(default_factory=Budget)
    #: Whether gradients through the training step lead the search; without, all is left to gradient matching, as RANUM has it.
    direct: bool = True
    shrink: bool = True
    search_progress: SearchProgress | None = None
    #: What was found, by the identities of findings.
    tests: dict[str, SystemTest] = field(default_factory=dict[str, SystemTest])

    def __call__(self, model: Model, analysis: Analysis) -> Iterable[Finding]:
        watches = [w for w in watches_of(model, analysis) if self._is_chosen(w) and _can_be_trained_into(w)]
        unfed = [model.name_of(n) for n in model.graph.inputs if not can_be_fed(model, n, analysis)]
        if watches and unfed:
            self.notes.append(f"no system test: input {unfed[0]!r} has no declared shape, or is not a tensor")
        elif watches:
            self._round_values(model, analysis)
            training = self._training(model, analysis)
            example = self._example_domains(model, analysis)
            with self._runtime(watches) as runtime:
                try:
                    for watch in watches:
                        self._find(watch, lambda watch: _Task(self, watch, model, analysis, training, example, runtime))
                except KeyboardInterrupt:
                    self.notes.append("interrupted: findings that were not reached yet stay possible")
                self._replay(runtime, watches, training.names)
            self._note_ranges(watches, model, analysis)
            self._save_tests(watches, model, analysis)
        settled = {w.index: w.settled() for w in watches}
        return [settled.get(index, finding) for index, finding in enumerate(analysis.findings)]

    def _note_ranges(self, watches: Sequence[Watch], model: Model, analysis: Analysis) -> None:
        """Say where training leads out of the ranges under which the model was scanned: the failure is real all the same."""
        ranged = {model.name_of(n): domain for n, domain in analysis.assumptions.weights.items()}
        for watch in watches:
            test = self.tests.get(watch.finding.identity)
            if test is None:
                continue
            left = [n for n, w in test.weights.items() if n in ranged and (w.min() < ranged[n].low or w.max() > ranged[n].high)]
            if left:
                self.notes.append(f"{watch.finding.node}: training leaves the declared ranges of {', '.join(left)}")

    def _example_domains(self, model: Model, analysis: Analysis) -> Domains:
        """The inputs that the loss needs, with the size of the training example's batch."""
        sizes = dict(analysis.assumptions.sizes)
        for number in model.graph.inputs:
            value = model.values[number]
            if self.batch is not None and value.shape and not isinstance(value.shape[0], int):
                sizes[value.shape[0] or f"{value.name}:0"] = self.batch
        declared = replace(self.declared, dimensions={name: (size, size) for name, size in sizes.items()})
        (assumed, *_), _ = resolve(model, declared)
        return _chosen(domains_of(model, replace(analysis, assumptions=assumed)), needed_inputs(self.proto, [self.loss]))

    def _training(self, model: Model, analysis: Analysis) -> Training:
        try:
            return Training(model, self.loss, trainable(model, analysis.assumptions.weights), rate=self.rate, steps=self.steps)
        except ImportError:
            raise ConfigurationError("training needs the extra `torch`: pip install 'tensorproof[torch]'") from None

    def _find(self, watch: Watch, make_task: Callable[[Watch], _Task]) -> None:
        node = watch.finding.node
        try:
            task = make_task(watch)
            found = task.run()
        except (NotExecutable, CannotObserve) as reason:
            self.notes.append(f"{node}: no system test: {reason}")
            return
        if found is None:
            self.notes.append(f"{node}: no system test was found in {task.evaluations} evaluations")
            return
        self._keep(watch, task, found)
        if self.shrink:
            self._keep(watch, task, task.shrunk(found))

    def _keep(self, watch: Watch, task: _Task, test: SystemTest) -> None:
        self.tests[watch.finding.identity] = test
        watch.point = {**task.other_inputs(), **test.inference, **test.weights}

    def _save_tests(self, watches: Sequence[Watch], model: Model, analysis: Analysis) -> None:
        if self.folder is None:
            return
        legal = legal_specials(model, analysis)
        name = Path(model.path).name if model.path else model.name
        for watch in watches:
            test = self.tests.get(watch.finding.identity)
            if test is None or watch.point is None:
                continue
            if any(array.dtype.kind in "VO" for array in (*test.training.values(), *test.inference.values())):
                self.notes.append(f"{watch.finding.node}: its system test has inputs in a format that numpy files do not hold")
                continue
            leading = prefix(self.proto, [self.loss])
            known = {tensor.name for tensor in leading.graph.initializer}
            # Weights on which the loss does not depend stay what they are, and the node may need them.
            others = [t for t in self.proto.graph.initializer if t.name in test.weights and t.name not in known]
            leading.graph.initializer.extend(others)
            showing = watch.part
            if showing is None:
                produced = {value for node in self.proto.graph.node for value in node.output}
                showing = prefix(self.proto, [v for v in (*watch.operands, *watch.results) if v in produced], test.weights)
            if not all(map(self._embedded, (leading, showing))):
                continue
            operands, results = ((), (witness.FLAG,)) if watch.in_body else (watch.operands, watch.results)
            allowed = {value: special_values(legal.get(value, 0)) for value in (*operands, *results)}
            saved = system_witness.save(
                self.folder, watch.finding, test, (leading, showing), operands, results, allowed, model_name=name
            )
            watch.finding = replace(watch.finding, witness=saved)


class _Task:
    """The search for the system test of one finding."""

    def __init__(
        self,
        options: SystemConfirm,
        watch: Watch,
        model: Model,
        analysis: Analysis,
        training: Training,
        example: Domains,
        runtime: Runtime,
    ) -> None:
        self.watch = watch
        self.evaluations = 0
        self._options = options
        self._model = model
        self._analysis = analysis
        self._training = training
        self._example = example
        self._runtime = runtime
        self._observer = SystemObserver(runtime, options.proto, model, analysis, watch, training)
        names = [info.name for info in options.proto.graph.output] if watch.in_body else [*watch.operands, *watch.results]
        self._inference = _chosen(domains_of(model, analysis), needed_inputs(options.proto, names))
        self._domains: Domains = joined(example, self._inference)

    def run(self) -> SystemTest | None:
        budget = self._options.budget
        found, how = self._search(budget) if self._options.direct else (None, "matching")
        if found is None and budget.method == "full" and not self._runtime.is_over:
            found, how = self._by_matching(budget), "matching"
        return None if found is None else self._test(found, how)

    def shrunk(self, test: SystemTest) -> SystemTest:
        """The same made plain."""
        point = shrunk(joined(test.training, test.inference), self._domains, self._observer.fails, budget=SHRINK_RUNS)
        return self._test(point, test.how)

    def other_inputs(self) -> Point:
        """A value for each input that the node does not need, such as labels: a run of the whole model needs them."""
        every = domains_of(self._model, self._analysis)
        names = {self._model.name_of(n) for n in self._model.graph.inputs} - set(self._inference)
        return next(points(self._options.budget.seed, _chosen(every, sorted(names)), 1))

    def _search(self, budget: Budget, first: Sequence[Point] = ()) -> tuple[Point | None, How]:
        def make_objective(variables: list[str]) -> SystemObjective:
            return SystemObjective(self._model, self.watch.finding, self.watch.node, variables, self._training)

        before = self.evaluations

        def advance(done: int, closest: float) -> None:
            if self._options.search_progress is not None:
                self._options.search_progress(self.watch.finding.node, before + done, closest)

        search = SystemSearch(
            self._observer,
            self._domains,
            make_objective,
            budget,
            first=first,
            more=() if first else self._saturated(budget.seed),
            has_several_steps=self._training.steps > 1,
            report=advance,
            is_over=lambda: self._runtime.is_over,
        )
        search.run()
        self.evaluations += search.evaluations
        return self._observer.found, search.how

    def _saturated(self, seed: int) -> Iterator[list[tuple[Point, Lead]]]:
        """Points whose training examples carry clips beyond their bounds, with what leads them back there when they were moved."""
        saturation = Saturation(self._model, self._training.loss_value, self._example, seed)

        def leading(lead_back: Callable[[Point], Point]) -> Lead:
            return lambda point: joined(lead_back(parts(point)[0]), parts(point)[1])

        for draw in count():
            inputs = points(seed + draw, self._inference, MOST_STARTS, tactics=("uniform",))
            group = [(joined(e, i), leading(lead_back)) for (e, lead_back), i in zip(saturation.examples(draw), inputs)]
            if not group:
                return
            yield group

    def _by_matching(self, budget: Budget) -> Point | None:
        """Weights of a unit test as the target of training; what comes near to them is improved by the search through the step."""
        if not self._analysis.assumptions.weights:
            return None
        share = budget.evaluations // (3 * TARGETS)
        for number in range(TARGETS):
            unit = self._unit_test(replace(budget, seed=budget.seed + number, evaluations=share))
            if unit is None:
                continue
            inference = {name: unit[name] for name in self._inference}
            matching = Matching(self._training, self._example, unit, budget.seed)
            matched = [joined(example, inference) for example in matching.examples(share)]
            self.evaluations += matching.evaluations
            if any(self._observer.note(point) for point in matched) or self._runtime.is_over:
                return self._observer.found
            if self._options.direct and self._search(replace(budget, evaluations=share), matched)[0] is not None:
                return self._observer.found
        return None

    def _unit_test(self, budget: Budget) -> Point | None:
        """An input, and weights within their ranges, that make the node fail."""
        watch = replace(self.watch, point=None)
        observer = Observer(self._runtime, self._options.proto, self._model, self._analysis, watch, self._training.names)
        ranged = domains_of(self._model, self._analysis)
        domains = {**self._inference, **{name: ranged[name] for name in self._training.names if name in ranged}}

        def make_objective(variables: list[str]) -> Objective:
            return Objective(self._model, watch.finding, watch.node, variables)

        search = Search(observer, domains, make_objective, budget, is_over=lambda: self._runtime.is_over)
        found = search.run()
        self.evaluations += search.evaluations
        return found

    def _test(self, point: Point, how: How) -> SystemTest:
        failing = self._observer.failing(point)
        assert failing is not None
        steps, feeds = failing
        training, inference = parts(point)
        weights = {name: feeds[name] for name in self._training.names}
        untrained = Observer(self._runtime, self._options.proto, self._model, self._analysis, replace(self.watch), ())
        return SystemTest(
            training,
            inference,
            weights,
            self._training.loss,
            self._training.rate,
            steps,
            how,
            untrained.fails(inference),
        )


def _can_be_trained_into(watch: Watch) -> bool:
    """Whether a search may lead to the failure. Divisors that are integers do not depend on weights."""
    rule = watch.finding.rule
    return rule.sought is not None and witness.SEEN_AT.get(rule.code) != "stop"


def _chosen(domains: Domains, names: Iterable[str]) -> Domains:
    return {name: domains[name] for name in names if name in domains}


def needed_inputs(proto: onnx.ModelProto, values: Sequence[str]) -> list[str]:
    """The names of the inputs that lead to some values."""
    produced = {name for node in proto.graph.node for name in node.output}
    fed = [info.name for info in proto.graph.input]
    leading = {info.name for info in prefix(proto, [name for name in values if name in produced]).graph.input}
    return [name for name in fed if name in leading or name in values]
