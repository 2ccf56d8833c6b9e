"""The search in TensorFlow sessions: which suspect is driven, and how external values move towards its failure.

A call of training is followed by one measurement of the suspect that is driven, and one step of the batch. Calls that train nothing
are moved for suspects that no call of training reaches, before they run, as long as that helps: there may be no second one. Where
nothing that is fed leads to a suspect, numbers that are drawn are moved, or else first values of variables, before training begins.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tensorproof.expose.search.board import PATIENCE, Board, Suspect
from tensorproof.expose.search.corners import Corners
from tensorproof.expose.search.moves import BLANKS, Batch, Legal, blank, cornered, linear, signed
from tensorproof.expose.search.phases import Phase
from tensorproof.expose.sessions.external import DRAWS, Call, Externals
from tensorproof.expose.sessions.lesson import Lesson, changed, lesson
from tensorproof.expose.sessions.objective import AT_ZERO, Measured, is_reached
from tensorproof.expose.sessions.place import NEAR
from tensorproof.expose.sessions.plan import Plan, Site
from tensorproof.expose.sessions.state import first_values
from tensorproof.expose.settings import Settings
from tensorproof.expose.stopping import Stop
from tensorproof.formats import BY_NAME, FLOAT32, Array
from tensorproof.rules.exponential_overflow import EXPONENTIAL_OVERFLOW

#: Steps of values that are drawn once, or of a call that may be the only one; the first ones of drawn values are linear.
_INNER_STEPS = 60
_LINEAR_STEPS = 5
#: Calls of training that get the same batch when the operator fails by its objective.
_HELD = 2
#: The step of samples that are moved for what they teach, as a part of the legal width.
_LESSON = 0.03
#: How many suspects first values of variables are moved for.
_MOST_LED = 12
#: The slope that stands for an infinite one, in formats that have it.
_STEEPEST = 1e30

Values = dict[str, Array]


@dataclass(frozen=True, slots=True)
class _Aim:
    """What is moved for a suspect: tensors that gradients are taken of, by the names that values go by, and their legal ranges."""

    site: Site
    tensors: Mapping[str, Any]
    legal: Mapping[str, Legal]
    #: Puts values where the next measurement sees them.
    place: Callable[[Values], None]
    is_drawn: bool = False


@dataclass(frozen=True, slots=True)
class _Led:
    """Where values were led to, and whether the operator fails there."""

    values: Values
    has_failed: bool


class Search:
    """Moves external values so that suspects come closer to failing.

    `tell` is called with each suspect that is seen for the first time, and after each measurement of one; `note` with remarks.
    """

    def __init__(self, settings: Settings, board: Board, tell: Callable[[Suspect], None], note: Callable[[str], None]) -> None:
        self._settings = settings
        self._board = board
        self._tell = tell
        self._note = note
        self.externals = Externals(settings)
        self._generator = np.random.default_rng(settings.seed)
        self._surveyed: set[int] = set()
        self._sources: dict[tuple[int, str], frozenset[str]] = {}
        #: Suspects that calls of training reach.
        self._trained: set[str] = set()
        self._has_trained = False
        self._iterations = 0
        self._draws: Values = {}
        #: Tensors whose values are not as the program made them, and variables whose first values are not.
        self._moved: set[str] = set()
        self._led_variables: set[str] = set()
        self._told: set[str] = set()
        #: Suspects that nothing led to so far; measurements in a row in which a suspect failed by its objective.
        self._stranded: set[str] = set()
        self._harmless: dict[str, int] = {}
        self._corners = Corners()
        self._phases: dict[str, Phase] = {}
        self._lessons: dict[Any, Lesson | None] = {}
        #: The values that come nearer while others teach; values that fail by the objective, which the next call gets.
        self._aside: Values = {}
        self._shown: Values = {}
        #: Measurements with gradients so far.
        self.evaluations = 0

    # -- before a call --------------------------------------------------------------------------------------------------

    def before(self, call: Call) -> None:
        """Decide what a call is fed: `call.feeds` is changed."""
        if call.is_training:
            self._trained.update(site.suspect.name for site in call.plan.sites)
        if not self._survey(call):
            return
        site = self._choose(call)
        if site is None:
            return
        sources = self._sources_of(call.plan, site)
        inputs = self.externals.movable(call, sources)
        draws = self.externals.draws(call, sources)
        if inputs:
            batch = self.externals.batch(call)
            if batch is not None:
                call.feeds.update(batch.arrays)
                call.driven = site
                if call.is_training and all(call.feeds[n].shape == a.shape for n, a in self._shown.items() if n in call.feeds):
                    call.feeds.update(self._shown)
                if not call.is_training:
                    self._lead_inputs(call, site, inputs, batch)
        elif draws:
            self._lead_draws(call, site, draws)

    def _survey(self, call: Call) -> bool:
        """Measure all suspects of a plan that is new, or when another one is to be chosen; whether they could be."""
        import tensorflow as tf

        current = self._board.current
        is_due = current is not None and current.idle >= PATIENCE
        is_new = id(call.plan) not in self._surveyed
        if not is_new and not is_due:
            return True
        try:
            distances = call.objectives.survey(call.direct, call.plan.sites, call.feeds)
        except tf.errors.OpError:
            # The program's own call fails as well, and says why.
            return False
        self._surveyed.add(id(call.plan))
        for site in call.plan.sites:
            site.suspect.distance = distances.get(site.suspect.name, np.inf)
        if is_new and not self._has_trained:
            self._lead_variables(call)
        if is_new:
            for site in call.plan.sites:
                self._strand(call, site)
                if site.suspect.name not in self._told and site.suspect.name not in self._stranded:
                    self._noted(site.suspect)
        return True

    def _strand(self, call: Call, site: Site) -> None:
        """A suspect that nothing leads to is not driven: first values of variables have been moved for it, if any."""
        name, sources = site.suspect.name, self._sources_of(call.plan, site)
        if self.externals.movable(call, sources) or self.externals.draws(call, sources):
            if name in self._stranded:
                self._stranded.discard(name)
                site.suspect.is_settled = False
        elif not site.suspect.is_settled:
            self._stranded.add(name)
            site.suspect.is_settled = True

    def _choose(self, call: Call) -> Site | None:
        """The suspect that this call is moved for."""
        before = self._board.current
        current = self._board.choose()
        if current is not before:
            self.restart()
        if current is None:
            return None
        site = next((site for site in call.plan.sites if site.suspect is current), None)
        if site is None:
            if call.is_training or not self._has_trained:
                # It waits for a call that may never come.
                current.idle += 1
            return None
        return site if call.is_training or current.name not in self._trained else None

    def restart(self) -> None:
        """The program gets its own data again."""
        self.externals.restart()
        self._draws.clear()
        self._moved.clear()
        self._aside, self._shown = {}, {}

    @property
    def moved(self) -> set[str]:
        """Tensors and variables whose values are not as the program made them."""
        return self._moved | self._led_variables

    def _sources_of(self, plan: Plan, site: Site) -> frozenset[str]:
        key = id(plan), site.suspect.name
        if key not in self._sources:
            self._sources[key] = plan.sources(site.decisive)
        return self._sources[key]

    # -- after a call of training ---------------------------------------------------------------------------------------

    def after(self, call: Call) -> None:
        """A call of training is done: the suspect is measured, and the batch makes a step."""
        self._has_trained = True
        self._iterations += 1
        site = call.driven
        batch = None if site is None else self.externals.batch(call)
        if site is None or batch is None:
            return
        aim = self._inputs(call, site, batch, self.externals.movable(call, self._sources_of(call.plan, site)))
        phase = self._phases.setdefault(site.suspect.name, Phase())
        measured = self._taught(call, aim, batch) if phase.kind == "lesson" else self._approached(call, aim, batch)
        self._see_harm(site, measured)
        if self._settings.method == "search" and phase.is_over(measured.objective):
            if phase.kind == "approach":
                # What was moved to teach is of no more use: the program's own data are.
                self.externals.restart()
            elif phase.kind == "repeat":
                batch.repeat(call.fresh, self._generator)
        elif self._settings.replaces_samples and self._iterations % self._settings.switch_every == 0:
            batch.replace(call.fresh, self._settings.switch_rate, self._generator)

    def _approached(self, call: Call, aim: _Aim, batch: Batch) -> Measured:
        """The batch that the program trains on comes nearer itself."""
        measured = self._measure(call, aim)
        self._noted(aim.site.suspect, measured)
        if measured.rows is not None and len(measured.rows) == batch.size:
            batch.scores[:] = measured.rows
        values = {name: batch.arrays[name] for name in aim.tensors}
        if not self._is_held(call, aim, values, measured):
            self._moved.update(aim.tensors)
            batch.arrays.update(self._next(call, aim, values, measured))
        return measured

    def _taught(self, call: Call, aim: _Aim, batch: Batch) -> Measured:
        """The batch that comes nearer is kept aside, and the one that the program trains on is moved for what it teaches."""
        self._moved.update(aim.tensors)
        if {name: array.shape for name, array in self._aside.items()} != {name: batch.arrays[name].shape for name in aim.tensors}:
            self._aside = {name: batch.arrays[name].copy() for name in aim.tensors}
        measured = self._measure(call, aim, self._aside, {tensor.name: tensor for tensor in changed(call.plan)})
        self._noted(aim.site.suspect, measured)
        if not self._is_held(call, aim, self._aside, measured):
            self._aside = self._next(call, aim, self._aside, measured)
        key = id(call.plan), *aim.tensors
        if key not in self._lessons:
            self._lessons[key] = lesson(call.plan, list(aim.tensors.values()))
        found = self._lessons[key]
        for name, slope in found.taken(call.direct, measured.gradients, call.feeds).items() if found is not None else ():
            value, legal = batch.arrays[name], aim.legal[name]
            width = legal.high - legal.low if legal.is_bounded else max(1.0, float(np.abs(value).max(initial=0.0)))
            step = _LESSON * width * np.sign(np.nan_to_num(slope))
            batch.arrays[name] = np.asarray(legal.clipped(value - step), value.dtype)
        return measured

    def _noted(self, suspect: Suspect, measured: Measured | None = None) -> None:
        """Tell of a suspect that is seen for the first time, or measured."""
        if measured is not None:
            suspect.note(measured.objective)
        self._told.add(suspect.name)
        self._tell(suspect)

    def _is_held(self, call: Call, aim: _Aim, values: Values, measured: Measured) -> bool:
        """Whether values fail by the objective: the next call gets them, and the same random numbers, and shows whether they do."""
        has_failed = measured.has_failed or is_reached(aim.site, measured.objective)
        self._shown = {}
        if has_failed and aim.site.suspect.idle < _HELD:
            drawn = {tensor.name: call.feeds[tensor.name] for tensor in call.plan.drawn if tensor.name in call.feeds}
            self._shown = {**values, **drawn}
        return bool(self._shown)

    def _see_harm(self, site: Site, measured: Measured) -> None:
        """A suspect that fails by its objective again and again, while the program's calls show nothing, is driven no more."""
        name = site.suspect.name
        self._harmless[name] = self._harmless.get(name, 0) + 1 if measured.has_failed else 0
        if self._harmless[name] > _HELD:
            where = f"{site.suspect.file}:{site.suspect.line}"
            self._note(f"{where}: {site.operator.type} failed, and nothing that the program uses shows it")
            site.suspect.is_settled = True

    def _next(self, call: Call, aim: _Aim, values: Values, measured: Measured) -> Values:
        """Where a batch goes from here: a step of the sign, or the corner of the legal range if that is nearer to the failure.

        GRIST takes the step alone. The corner is where a network that is nearly linear fails first; it is tried less often as long
        as it does not pay.
        """
        step = self._stepped(aim, values, measured)
        suspect = aim.site.suspect
        if self._settings.method != "search" or not self._corners.are_due(suspect):
            return step
        corner = {
            name: np.asarray(cornered(value, measured.gradients[name], aim.legal[name]), value.dtype)
            for name, value in values.items()
            if name in measured.gradients
        }
        if all(np.array_equal(corner[name], values[name]) for name in corner):
            return step
        reached = [call.objectives.value(call.direct, aim.site, {**call.feeds, **point}) for point in (corner, step)]
        if suspect.evaluations <= 1:
            # A sample that is the same everywhere: deviations are zero there, and no steps lead to it.
            flat = [{name: blank(value, aim.legal[name], part) for name, value in values.items()} for part in BLANKS]
            nearest, number = min(
                (call.objectives.value(call.direct, aim.site, {**call.feeds, **point}), index) for index, point in enumerate(flat)
            )
            if nearest < min(reached):
                return flat[number]
        pays = reached[0] < reached[1]
        self._corners.note(suspect, pays=pays)
        return {**values, **corner} if pays else step

    def _stepped(self, aim: _Aim, values: Values, measured: Measured) -> Values:
        found: Values = {}
        for name, value in values.items():
            gradient = measured.gradients.get(name, np.zeros_like(value))
            moved = signed(value, gradient, aim.legal[name], self._settings.epsilon, self._generator)
            found[name] = np.asarray(moved, value.dtype)
        return found

    def _measure(self, call: Call, aim: _Aim, values: Values | None = None, weights: Mapping[str, Any] | None = None) -> Measured:
        """The objective at what the call was fed, or other values, with gradients; also by weights, if they are given."""
        if self.evaluations >= self._settings.evaluations:
            raise Stop("the evaluations are used up")
        self.evaluations += 1
        # GRIST moves the sample that is nearest. Beside it we move the next ones, each towards its own failure: the nearest may
        # be where the legal range lets it go no further, and most of the batch stays what the program learns.
        several = self._settings.method == "search" and not aim.is_drawn
        tensors = {**aim.tensors, **(weights or {})}
        names = {tensor.name: name for name, tensor in tensors.items()}
        feeds = {**call.feeds, **(values or {})}
        measured = call.objectives.measure(call.direct, aim.site, list(tensors.values()), feeds, several=several)
        gradients = {names[tensor]: _finite(slope) for tensor, slope in measured.gradients.items()}
        return replace(measured, gradients=gradients)

    # -- values that are moved more than once before a call -------------------------------------------------------------

    def _inputs(self, call: Call, site: Site, batch: Batch, names: list[str]) -> _Aim:
        def place(values: Values) -> None:
            batch.arrays.update(values)
            call.feeds.update(values)

        tensors = {name: call.direct.graph.get_tensor_by_name(name) for name in names}
        return _Aim(site, tensors, {name: self.externals.legal(name) for name in names}, place)

    def _lead_inputs(self, call: Call, site: Site, names: list[str], batch: Batch) -> None:
        aim = self._inputs(call, site, batch, names)
        self._lead(call, aim, {name: batch.arrays[name] for name in names}, 1 if self._has_trained else _INNER_STEPS)

    def _lead_draws(self, call: Call, site: Site, names: list[str]) -> None:
        """Numbers that the call would draw are fed instead, moved."""
        tensors = {name: call.direct.graph.get_tensor_by_name(name) for name in names}
        if self._draws.keys() != set(names):
            drawn = call.direct.fetch(list(tensors.values()), call.feeds)
            self._draws = {name: np.asarray(array) for name, array in zip(names, drawn)}
        legal = {name: self.externals.legal(name, DRAWS[tensor.op.type]) for name, tensor in tensors.items()}
        aim = _Aim(site, tensors, legal, call.feeds.update, is_drawn=True)
        self._draws = self._lead(call, aim, self._draws, 1 if self._has_trained else _INNER_STEPS).values

    def _lead_variables(self, call: Call) -> None:
        """First values of variables are moved for suspects that nothing else leads to, the nearest first."""
        led = 0
        legal: dict[str, Legal | None] = {}
        for site in sorted(call.plan.sites, key=lambda site: site.suspect.rank):
            sources = self._sources_of(call.plan, site)
            if site.suspect.is_settled or self.externals.movable(call, sources) or self.externals.draws(call, sources):
                continue
            start = call.state.before(call.direct, call.plan.variables)
            chosen = [variable for variable in call.plan.variables if variable.name in sources and variable.name in start]
            for variable in chosen:
                if variable.name not in legal:
                    legal[variable.name] = first_values(call.direct, variable, start[variable.name])
            moved = {v.name: self.externals.legal(v.name, span) for v in chosen if (span := legal[v.name]) is not None}
            if not moved or led == _MOST_LED:
                continue
            led += 1
            tensors = {variable.name: variable.operator.outputs[0] for variable in chosen if variable.name in moved}
            aim = _Aim(site, tensors, moved, lambda v: call.state.write(call.direct, call.plan.variables, v), is_drawn=True)
            has_failed = self._lead(call, aim, {name: start[name] for name in moved}, _INNER_STEPS).has_failed
            self._moved.difference_update(moved)
            if has_failed:
                self._led_variables.update(moved)
                return
            call.state.write(call.direct, call.plan.variables, {name: start[name] for name in moved})

    def _lead(self, call: Call, aim: _Aim, values: Values, steps: int) -> _Led:
        """Move values as long as that helps; the nearest ones to the failure are in place at the end."""
        nearest, best, has_failed = np.inf, values, False
        self._moved.update(values)
        for number in range(steps):
            aim.place(values)
            measured = self._measure(call, aim)
            has_failed = measured.has_failed
            if has_failed or measured.objective < nearest:
                nearest, best = measured.objective, values
            if has_failed:
                break
            values = self._led(aim, values, measured, is_linear=aim.is_drawn and number < _LINEAR_STEPS)
        if steps == 1 and not has_failed:
            # One step for each call: the next call measures it.
            best = values
        aim.place(best)
        suspect = aim.site.suspect
        if suspect.name not in self._told:
            self._noted(suspect)
        self._noted(suspect, Measured(nearest, {}))
        return _Led(best, has_failed)

    def _led(self, aim: _Aim, values: Values, measured: Measured, *, is_linear: bool) -> Values:
        if not is_linear or not measured.gradients:
            return self._stepped(aim, values, measured)
        distance, factor = _distance(aim.site, measured.objective)
        return {
            name: np.asarray(linear(value, distance, factor * measured.gradients[name], aim.legal[name]), value.dtype)
            if name in measured.gradients
            else value
            for name, value in values.items()
        }


def _distance(site: Site, objective: float) -> tuple[float, float]:
    """The distance of an operand from its failure, and its derivative by the objective.

    Objectives are logarithms of the distance, down to `NEAR`, and straight lines below it (`place.py`); that of
    an exponential is the exponent.
    """
    if site.weakness.rule is EXPONENTIAL_OVERFLOW:
        return objective - site.suspect.floor, 1.0
    if objective <= math.log(NEAR):
        return objective - AT_ZERO, 1.0
    size = math.exp(min(objective, 80.0))
    return size, size


def _finite(slope: Array) -> Array:
    """A gradient with large numbers in place of infinite ones, in its own format: float16 ends at 65504."""
    steepest = min(_STEEPEST, float(BY_NAME.get(slope.dtype.name, FLOAT32).high))
    return np.nan_to_num(slope, posinf=steepest, neginf=-steepest)
