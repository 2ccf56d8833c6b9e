"""`TensorflowSessions`: a program that runs TensorFlow sessions (version 1) under observation, its data moved towards failures.

Sessions of all kinds run through one method, `BaseSession._do_run`, in which fetches and feeds are resolved already. The program's
call is made as it is: the same fetches, and beside them the random numbers and data that the graph itself brought, so that the call
can be looked at again. That happens if a fetched value is not finite, or a variable after a step of training (`health.py`).
Objectives are measured in calls of their own (`objective.py`). In the method `plain` nothing is added to the graph and
nothing is fed that the program does not feed, so that its numbers are those that it has without us.

Not seen: `make_callable`, `partial_run`, and what is inside loops, branches and functions of a graph, except by their results.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from tensorproof.confirm.witness import npz_bytes
from tensorproof.expose.events import Pipe
from tensorproof.expose.search.board import Board
from tensorproof.expose.search.moves import Legal
from tensorproof.expose.sessions.external import Call
from tensorproof.expose.sessions.failure import Told, describe, event, is_known
from tensorproof.expose.sessions.health import Counters, Failed, diagnose, spoilt_by
from tensorproof.expose.sessions.objective import Objectives
from tensorproof.expose.sessions.plan import Numbers, Plan, Site, plan_of
from tensorproof.expose.sessions.search import Search
from tensorproof.expose.sessions.state import Arrays, Direct, State, is_finite
from tensorproof.expose.sessions.static import TensorflowStatics
from tensorproof.expose.settings import Settings
from tensorproof.expose.stopping import Stop
from tensorproof.files import write_bytes
from tensorproof.formats import Array

#: The file with the values of a failure.
_ARRAYS = "values.npz"
#: What TensorFlow says where a program has it look for NaN (CheckNumerics, assertions of `tf.debugging`).
_CHECKED = ("NaN", "Inf", "nan", "inf")
#: How often calls of one kind are looked at without a failure being found: what is not finite there is so on purpose.
_MOST_IN_VAIN = 3


def _hooked() -> tuple[Any, Any]:
    """The classes that are put under observation."""
    from tensorflow.python.client import session
    from tensorflow.python.framework import ops

    return session.BaseSession, ops.Graph


class _Graph:
    """What is known of one graph."""

    def __init__(self, graph: Any) -> None:
        self.numbers = Numbers()
        self.objectives = Objectives(graph)
        self.counters = Counters(graph)
        self.plans: dict[Any, Plan] = {}
        self.in_vain: dict[int, int] = {}
        self.lock = threading.Lock()


class TensorflowSessions:
    """One run of a program of TensorFlow sessions."""

    framework = "tensorflow"
    #: Calls of a session are moved while they are made: a program need not be run again.
    wants_another_run = False

    def __init__(
        self, settings: Settings, board: Board, pipe: Pipe, folder: Path, overrides: Mapping[str, Array] | None = None
    ) -> None:
        self._settings = settings
        self._board = board
        self._pipe = pipe
        self._folder = folder
        self._overrides = dict(overrides or {})
        self._search = Search(settings, board, self._pipe.suspect, self._note)
        self._statics = TensorflowStatics(settings, board, pipe, self._search.externals)
        self._graphs: dict[Any, _Graph] = {}
        self._states: WeakKeyDictionary[Any, State] = WeakKeyDictionary()
        self._hooks: tuple[Callable[..., list[Any]], Callable[..., None]]
        self._process = os.getpid()
        self._stopped = ""
        self._notes: set[str] = set()
        self.moved: dict[str, Array] = {}
        #: Operators of all calls so far.
        self.operators = 0
        #: Steps of training so far, and calls that train nothing.
        self.iterations = 0
        self.calls = 0

    def seed(self) -> None:
        """Fix what random generators give, in the graphs that are there and in all that are made later."""
        import tensorflow as tf

        tf.compat.v1.get_default_graph().seed = self._settings.seed
        tf.random.set_seed(self._settings.seed)
        tf.config.experimental.enable_op_determinism()

    def __enter__(self) -> TensorflowSessions:
        sessions, graphs = _hooked()
        original, made = sessions._do_run, graphs.__init__
        self._hooks = (original, made)
        owner = self

        def run(self: Any, handle: Any, targets: Any, fetches: Any, feeds: Any, options: Any, metadata: Any) -> list[Any]:
            # Workers of the program are left alone: an end of theirs is none of the program's.
            is_ours = os.getpid() == owner._process
            if is_ours and owner._stopped:
                raise Stop(owner._stopped)
            if handle is not None or not is_ours:
                return original(self, handle, targets, fetches, feeds, options, metadata)
            return owner._run(self, targets, fetches, feeds, options, metadata)

        def make(self: Any, *args: Any, **kwargs: Any) -> None:
            made(self, *args, **kwargs)
            if type(self) is graphs:
                self.seed = owner._settings.seed

        sessions._do_run = run
        graphs.__init__ = make
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        sessions, graphs = _hooked()
        sessions._do_run, graphs.__init__ = self._hooks

    def finish(self) -> None:
        """The program is done; every call has been looked at."""

    def legal(self) -> Iterator[tuple[str, str, Legal]]:
        """The inputs that are moved, what the program calls them, and the ranges that they are moved in."""
        for name, legal in self._search.externals.ranges():
            yield name, name.partition(":")[0], legal

    # -- every call -----------------------------------------------------------------------------------------------------

    def _run(self, session: Any, targets: Any, fetches: Any, feeds: Any, options: Any, metadata: Any) -> list[Any]:
        known = (
            self._graphs.setdefault(session.graph, _Graph(session.graph))
            if session.graph not in self._graphs
            else self._graphs[session.graph]
        )
        state = self._states.setdefault(session, State())
        fed = {ref.deref(): np.asarray(array) for ref, array in feeds.items()}
        plan = self._plan(known, session.graph, targets, fetches, list(fed))
        if not plan.is_observed:
            if plan.changes_variables:
                state.forget()
            return self._hooks[0](session, None, targets, fetches, feeds, options, metadata)
        arrays = {tensor.name: array for tensor, array in fed.items()}
        call = Call(Direct(session, self._hooks[0]), plan, state, known.objectives, arrays, dict(arrays), plan.is_training)
        self._prepare(call)
        return self._observed(known, call, options, metadata)

    def _plan(self, known: _Graph, graph: Any, targets: Any, fetches: Any, fed: list[Any]) -> Plan:
        key = (tuple(op.name for op in targets), tuple(t.name for t in fetches), frozenset(t.name for t in fed))
        plan = known.plans.get(key)
        if plan is None:
            with known.lock:
                plan = plan_of(graph, targets, fetches, fed, known.numbers)
                plan.sites = tuple(Site(s.operator, s.weakness, self._board.seen(s.suspect)) for s in plan.sites)
                known.plans[key] = plan
        return plan

    def _prepare(self, call: Call) -> None:
        """Data are taken out of datasets and queues before the call, where they are moved; values that are overridden are set."""
        externals = self._search.externals
        if self._settings.moves_inputs and call.plan.data:
            # The end of the data is met here, as the program's call would meet it.
            fresh = call.direct.fetch(call.plan.data, call.feeds)
            call.fresh.update((tensor.name, np.asarray(array)) for tensor, array in zip(call.plan.data, fresh))
            call.feeds.update(call.fresh)
        externals.observe(call.fresh)
        call.is_training |= not externals.states.isdisjoint(call.fresh)
        if self._settings.moves_inputs:
            self._statics.look(call)
            self._search.before(call)
        if self._overrides:
            self._override(call)

    def _override(self, call: Call) -> None:
        """Values that are given from outside replace what the program brings, the first time that it brings it."""
        outside = {tensor.name: f"draw:{tensor.name}" for tensor in call.plan.drawn}
        inside = {called: name for name, called in {**call.names(set()), **outside}.items() if called in self._overrides}
        arrays = {name: self._overrides.pop(called) for called, name in inside.items()}
        variables = (*call.plan.variables, *call.plan.slots)
        held = {variable.name for variable in variables}
        call.feeds.update((name, array) for name, array in arrays.items() if name not in held)
        call.state.write(call.direct, variables, {name: array for name, array in arrays.items() if name in held})

    def _observed(self, known: _Graph, call: Call, options: Any, metadata: Any) -> list[Any]:
        plan, direct = call.plan, call.direct
        self.operators += len(plan.operators)
        # What optimisers keep may be the first that is not finite: mean squares overflow long before gradients do.
        kept = (*plan.variables, *plan.slots)
        before = call.state.before(direct, kept) if plan.is_training else {}
        results = self._called(known, call, before, options, metadata)
        after: Arrays = {}
        if plan.is_training:
            after = call.state.after(direct, kept)
        elif plan.changes_variables:
            call.state.forget()
        spoilt = [name for name, array in after.items() if not is_finite(array) and is_finite(before.get(name, 0.0))]
        bad = [tensor.name for tensor, array in zip(plan.fetches, results) if not is_finite(array)]
        if (spoilt or bad) and self._look(known, call, before, spoilt, bad):
            call.state.write(direct, kept, before)
            results = self._again(call, results, before, options, metadata)
        elif spoilt or bad:
            call.state.write(direct, kept, after)
        self._count(call)
        self._search.externals.returned(results)
        return results

    def _called(self, known: _Graph, call: Call, before: Arrays, options: Any, metadata: Any) -> list[Any]:
        """The program's call; random numbers and data that it makes itself are fetched beside, and kept."""
        import tensorflow as tf

        plan, direct = call.plan, call.direct
        beside = [tensor for tensor in (*plan.drawn, *plan.data) if tensor.name not in call.feeds]
        fed = {direct.graph.get_tensor_by_name(name).ref(): array for name, array in call.feeds.items()}
        try:
            found = self._hooks[0](direct.session, None, plan.targets, [*plan.fetches, *beside], fed, options, metadata)
        except tf.errors.InvalidArgumentError as error:
            if any(word in str(error.message) for word in _CHECKED):
                # The program looks for NaN itself, and stops.
                self._look(known, call, before, (), None)
            raise
        call.feeds.update((tensor.name, np.asarray(array)) for tensor, array in zip(beside, found[len(plan.fetches) :]))
        return found[: len(plan.fetches)]

    def _again(self, call: Call, results: list[Any], before: Arrays, options: Any, metadata: Any) -> list[Any]:
        """After a known failure the program goes on for the others: with its own data, if it had ours; without the step, if not."""
        self._search.restart()
        call.driven = None
        if all(call.feeds[name] is array for name, array in call.fresh.items()):
            return results
        direct, plan = call.direct, call.plan
        fed = {direct.graph.get_tensor_by_name(name).ref(): array for name, array in call.fresh.items()}
        results = self._hooks[0](direct.session, None, plan.targets, plan.fetches, fed, options, metadata)
        kept = [variable for variable in (*plan.variables, *plan.slots) if variable.name in before]
        if not all(map(is_finite, call.state.after(direct, kept).values())):
            call.state.write(direct, kept, before)
        return results

    def _count(self, call: Call) -> None:
        """Steps of training are counted, and followed by a step of the search."""
        if call.is_training:
            self.iterations += 1
            self._pipe.send("iteration", count=self.iterations)
            if self._settings.moves_inputs:
                self._search.after(call)
        else:
            self.calls += 1
        limit = self._settings.iterations
        if limit and max(self.iterations, 0 if self.iterations else self.calls) >= limit:
            self._stop("the iterations are used up")

    def _stop(self, reason: str) -> None:
        """End the program, whichever thread it is in, and whatever it catches."""
        self._stopped = reason
        raise Stop(reason)

    def _note(self, text: str) -> None:
        if text not in self._notes:
            self._notes.add(text)
            self._pipe.send("note", text=text)

    # -- failures -------------------------------------------------------------------------------------------------------

    def _look(self, known: _Graph, call: Call, before: Arrays, spoilt: Sequence[str], bad: Sequence[str] | None) -> bool:
        """Variables or fetched values are not finite: find the operator that failed, in the state that the call began with.

        A failure that is not known ends the program; whether it is a known one is returned.
        """
        key = id(call.plan)
        if known.in_vain.get(key, 0) >= _MOST_IN_VAIN:
            return False
        plan, direct = call.plan, call.direct
        call.state.write(direct, plan.variables, before)
        diagnosis = diagnose(direct, plan, known.counters, call.feeds, before, bad)
        preferred = None if call.driven is None else call.driven.operator.name
        failed = diagnosis.chosen(preferred) or (spoilt_by(plan, spoilt) if spoilt else None)
        if failed is None:
            known.in_vain[key] = known.in_vain.get(key, 0) + 1
            return False
        if is_known(failed, self._board.settled):
            return True
        self._found(known, call, before, failed)
        return False

    def _found(self, known: _Graph, call: Call, before: Arrays, failed: Failed) -> None:
        """Write what is needed to see a failure again, tell of it, and end the program."""
        plan = call.plan
        # Looking may have changed variables that the forward pass itself updates.
        call.state.write(call.direct, plan.variables, before)
        held = before or call.state.before(call.direct, plan.variables)
        described = describe(call.direct, known.objectives, failed, call.feeds)
        names = call.names(self._search.externals.states)
        arrays = {names[name]: np.asarray(array) for name, array in {**call.feeds, **held}.items()}
        write_bytes(self._folder / _ARRAYS, npz_bytes(arrays))
        labels = {called: name.partition(":")[0] for name, called in names.items() if called in arrays}
        moved = tuple(sorted(names[name] for name in self._search.moved if name in names and names[name] in arrays))
        told = Told(self.iterations, _ARRAYS, self._settings.seed, moved)
        self._pipe.failure(event(described, failed, call, labels, told))
        self._stop("an operator failed")
