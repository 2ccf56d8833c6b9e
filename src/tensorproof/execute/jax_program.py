"""`JaxRunner`: a function of JAX, run on arrays: its jaxpr equation by equation, values visible, and the user's own, compiled.

Equation by equation JAX computes what is written; compiled as a whole, XLA simplifies and fuses: what fails in the one need not
fail in the other. Bodies of loops are run by Python, so that their values are visible, too: those of the first iteration in which
something is not finite, or of the last one.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorproof.frontends.framework_model import Arrays, RunFailed
from tensorproof.frontends.jax_arguments import Arguments
from tensorproof.frontends.jax_jaxpr import CALLS, INPUTS, EquationPlace, is_key, split_linear_solve
from tensorproof.frontends.user_frames import described_failure
from tensorproof.frontends.user_program import speaking_aside

if TYPE_CHECKING:
    from tensorproof.frontends.jax_program import JaxTrace

#: A loop that runs longer than this, observed, is given up.
MOST_ITERATIONS = 1 << 12


class JaxRunner:
    """Runs one traced function. Names are those of our graph."""

    def __init__(self, traced: JaxTrace, arguments: Arguments) -> None:
        self._traced = traced
        self._arguments = arguments
        self._model = traced.graph.model
        self._numbers = {value.name: number for number, value in enumerate(self._model.values)}
        self._made = {number for numbers in traced.graph.made.values() for number in numbers}
        self._compiled: dict[str | None, Callable[..., Any]] = {}

    def shows(self, name: str) -> bool:
        """Whether a value of our graph is one of the jaxpr."""
        number = self._numbers.get(name)
        return number is not None and (
            number in self._made or number in self._model.constants or number in self._model.graph.inputs
        )

    def values(self, point: Arrays, names: Sequence[str]) -> Arrays:
        """Values of the jaxpr on a point, by name; what it does not show is left out."""
        found: dict[str, npt.NDArray[Any]] = {}
        wanted: dict[int, str] = {}
        for name in names:
            number = self._numbers.get(name)
            if name in point:
                found[name] = point[name]
            elif number is not None and number in self._model.constants:
                found[name] = self._model.constants[number]
            elif number is not None and number in self._made:
                wanted[number] = name
        if wanted:
            evaluation = Evaluation(self._traced.graph.made, frozenset(wanted), opens_bodies=True)
            self._guarded(lambda: evaluation.run(self._traced.closed, self._arrays(point)))
            found |= {wanted[number]: array for number, array in evaluation.found.items()}
        return found

    def replayed(self, point: Arrays, name: str | None) -> Arrays:
        """The outputs of the user's own function, compiled, and the value `name` of the compiled jaxpr if it shows it."""
        import jax

        arrays = self._arrays(point)
        if None not in self._compiled:
            self._compiled[None] = jax.jit(self._traced.flat)
        outputs = self._guarded(lambda: jax.tree_util.tree_leaves(self._compiled[None](*arrays)))
        found = {
            self._model.name_of(number): np.asarray(output)
            for number, output in zip(self._traced.graph.outputs, outputs, strict=True)
            if not is_key(output)
        }
        if name is not None and name not in found and self.shows(name):
            found |= self._observed(name, arrays, point)
        return found

    def _observed(self, name: str, arrays: Sequence[Any], point: Arrays) -> Arrays:
        """One value inside of the compiled jaxpr; nothing for one inside of a body."""
        import jax

        number = self._numbers[name]
        if number not in self._made:
            return self.values(point, [name])

        def observed(*given: Any) -> dict[int, Any]:
            evaluation = Evaluation(self._traced.graph.made, frozenset({number}), opens_bodies=False)
            evaluation.run(self._traced.closed, given)
            return evaluation.found

        compiled = self._compiled.setdefault(name, jax.jit(observed))
        values: dict[int, Any] = self._guarded(lambda: compiled(*arrays))
        return {name: np.asarray(values[number])} if number in values else {}

    def _arrays(self, point: Mapping[str, npt.NDArray[Any]]) -> list[Any]:
        """What the jaxpr is run on: the point, and the example for what it leaves out. Keys are those of the example."""
        import jax

        variables = self._traced.closed.jaxpr.invars
        found: list[Any] = []
        for leaf, variable in zip(self._arguments.leaves, variables, strict=True):
            if leaf.is_key:
                found.append(leaf.value)
            else:
                found.append(jax.numpy.asarray(point.get(leaf.name, leaf.value), dtype=variable.aval.dtype))
        return found

    def _guarded(self, run: Callable[[], Any]) -> Any:
        """A run of the user's code: what stops it is one message."""
        try:
            with speaking_aside(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return run()
        except RunFailed:
            raise
        except Exception as error:
            raise RunFailed(described_failure(self._model.name, "stops", error)) from None


class Evaluation:
    """One evaluation of a jaxpr, equation by equation, that keeps the wanted values of our graph, by number."""

    def __init__(self, made: Mapping[EquationPlace, tuple[int, ...]], wanted: frozenset[int], *, opens_bodies: bool) -> None:
        self.found: dict[int, Any] = {}
        self._made = made
        self._wanted = wanted
        self._opens_bodies = opens_bodies

    def run(self, closed: Any, arguments: Sequence[Any], place: EquationPlace = ()) -> list[Any]:
        """The results of a jaxpr, closed or open, whose equations stand after `place`."""
        jaxpr, constants = (closed.jaxpr, closed.consts) if hasattr(closed, "jaxpr") else (closed, ())
        values: dict[Any, Any] = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*constants, *arguments), strict=True))

        def read(item: Any) -> Any:
            return item.val if hasattr(item, "val") else values[item]

        self._keep((*place, INPUTS), arguments)
        for index, equation in enumerate(jaxpr.eqns):
            here = (*place, index)
            results = self._apply(equation, [read(item) for item in equation.invars], here)
            values.update(zip(equation.outvars, results, strict=True))
            self._keep(here, results)
        return [read(item) for item in jaxpr.outvars]

    def _keep(self, place: EquationPlace, results: Sequence[Any]) -> None:
        for number, result in zip(self._made.get(place, ()), results):
            if number in self._wanted and not is_key(result):
                self.found[number] = np.asarray(result) if self._opens_bodies else result

    def _apply(self, equation: Any, operands: list[Any], place: EquationPlace) -> list[Any]:
        name, parameters = str(equation.primitive.name), equation.params
        if name in CALLS:
            return self._called(parameters[CALLS[name]], operands, place)
        if name == "custom_linear_solve":
            return self._called(parameters["jaxprs"].solve, split_linear_solve(parameters, operands), place)
        if self._opens_bodies and not self._wanted.isdisjoint(self._inside(place)):
            if name == "cond":
                chosen = min(max(int(operands[0]), 0), len(parameters["branches"]) - 1)
                return self._called(parameters["branches"][chosen], operands[1:], place)
            if name == "while":
                return self._repeated(parameters, operands, place)
            if name == "scan":
                return self._scanned(parameters, operands, place)
        bound = equation.primitive.get_bind_params(parameters)
        functions, parameters = bound if isinstance(bound, tuple) else ((), bound)
        results = equation.primitive.bind(*functions, *operands, **parameters)
        return list(results) if equation.primitive.multiple_results else [results]

    def _inside(self, place: EquationPlace) -> set[int]:
        """The values of our graph that are made in the bodies of an equation."""
        inner = (numbers for other, numbers in self._made.items() if len(other) > len(place) and other[: len(place)] == place)
        return {number for numbers in inner for number in numbers}

    def _called(self, closed: Any, operands: Sequence[Any], place: EquationPlace) -> list[Any]:
        jaxpr = getattr(closed, "jaxpr", closed)
        return self.run(closed, operands, (*place, id(jaxpr)))

    def _repeated(self, parameters: Mapping[str, Any], operands: list[Any], place: EquationPlace) -> list[Any]:
        asked, repeated = parameters["cond_nconsts"], parameters["body_nconsts"]
        of_condition, of_body, state = operands[:asked], operands[asked : asked + repeated], operands[asked + repeated :]
        iterations = _Iterations(self)
        while True:
            (goes_on,) = self._called(parameters["cond_jaxpr"], [*of_condition, *state], place)
            if not bool(goes_on):
                return state
            with iterations:
                state = self._called(parameters["body_jaxpr"], [*of_body, *state], place)

    def _scanned(self, parameters: Mapping[str, Any], operands: list[Any], place: EquationPlace) -> list[Any]:
        import jax

        constants, carried, length = parameters["num_consts"], parameters["num_carry"], parameters["length"]
        fixed, state, scanned = operands[:constants], operands[constants : constants + carried], operands[constants + carried :]
        order = range(length - 1, -1, -1) if parameters["reverse"] else range(length)
        collected: dict[int, list[Any]] = {}
        iterations = _Iterations(self)
        for step in order:
            with iterations:
                results = self._called(parameters["jaxpr"], [*fixed, *state, *(x[step] for x in scanned)], place)
            state, collected[step] = results[:carried], results[carried:]
        if not collected:
            raise RunFailed("a scan over nothing cannot be observed")
        return [*state, *(jax.numpy.stack(items) for items in zip(*(collected[step] for step in range(length))))]


class _Iterations:
    """The iterations of one loop: what is kept is the first in which something is not finite, or the last one."""

    def __init__(self, evaluation: Evaluation) -> None:
        self._evaluation = evaluation
        self._outer: dict[int, Any] = {}
        self._count = 0
        self._has_failed = False

    def __enter__(self) -> None:
        self._count += 1
        if self._count > MOST_ITERATIONS:
            raise RunFailed(f"a loop has more than {MOST_ITERATIONS} iterations")
        self._outer, self._evaluation.found = self._evaluation.found, {}

    def __exit__(self, *reason: object) -> None:
        inner, self._evaluation.found = self._evaluation.found, self._outer
        if not self._has_failed:
            self._evaluation.found.update(inner)
            self._has_failed = not all(map(_is_finite, inner.values()))


def _is_finite(array: npt.NDArray[Any]) -> bool:
    is_floating = array.dtype.kind in "fc" or array.dtype.name == "bfloat16"
    return not is_floating or bool(np.isfinite(array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)).all())
