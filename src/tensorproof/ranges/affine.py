"""Affine forms: elements of a tensor as sums of multiples of the elements of other tensors.

A symbol is a whole tensor: its elements are unknown numbers within a range. A term is a view of a symbol (moved, repeated or
summed elements) with an interval as its coefficient per cell, and a form is an interval plus a sum of terms:

    x[i] = centre[i] + sum over k of coefficient_k[i] * term_k[i]      for every element i.

Terms of the same symbol under the same view are the same numbers: their coefficients add up, which is how x - x becomes 0.
This is what DEBAR keeps of affine relations (Zhang et al., Detecting numerical bugs in neural network architectures,
ESEC/FSE 2020, section 4.2), with two differences. Relations hold for what is computed, not for real numbers: every rounding
is a symbol of its own, which cancels only against the same rounding of the same tensor. And its axioms on the parts of a
number, x = max(x, 0) - max(-x, 0), are kept as a second way to write the symbol of a maximum (`Hinge`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import count
from typing import NamedTuple, TypeAlias

import numpy as np

from tensorproof.formats import FLOAT64
from tensorproof.ranges.fields import (
    MINUS_ONE,
    ONE,
    ZERO,
    Field,
    added,
    are_affordable,
    bounds_of,
    hull,
    is_zero,
    meet,
    midpoint,
    multiplied,
    negated,
    reciprocal,
    sum_of,
)
from tensorproof.ranges.range import Range, align
from tensorproof.ranges.views import Broadcast, Map, Sizes, Sliced, Summed, View, followed, shape_after, sliced_shape

#: Forms of more terms are forgotten, after all that stand for roundings were put into the centre.
MOST_TERMS = 12
#: So many maxima of a form are looked at, the newest first.
_MOST_HINGES = 3

#: Symbols and forms are numbered as they are made: where an order is needed, it is the same in every run.
_numbers = count()


class Symbol:
    """One tensor, known by its identity. Its range is made when it is asked for."""

    __slots__ = ("_arguments", "_ranges", "_source", "hinge", "is_rounding", "number", "parts", "shape")

    def __init__(self, shape: Sizes, source: Range | Callable[[], Range], *, is_rounding: bool = False) -> None:
        self.shape = shape
        self.number = next(_numbers)
        self.is_rounding = is_rounding
        #: The second way to write a symbol that is the positive part of something.
        self.hinge: Hinge | None = None
        #: What a tensor is joined from, along an axis: where each part starts and ends, and its form.
        self.parts: tuple[int, tuple[tuple[int, int, Form], ...]] | None = None
        self._source = source
        self._ranges: dict[View, Range] = {}
        self._arguments: dict[View, Form | None] = {}

    def range(self, view: View) -> Range:
        """The bounds of a view of the tensor."""
        known = self._ranges.get(view)
        if known is None:
            if view:
                known = view[-1](self.range(view[:-1]))
            else:
                known = self._source if isinstance(self._source, Range) else self._source()
            self._ranges[view] = known
        return known

    def argument(self, view: View) -> Form | None:
        """What a view of this symbol is the positive part of (or the sum of positive parts of); None if it is of nothing."""
        if self.hinge is None:
            return None
        if view not in self._arguments:
            summed = any(isinstance(step, Summed) for step in view)
            self._arguments[view] = None if summed and not self.hinge.form.is_uniform else self.hinge.form.viewed_as(view)
        return self._arguments[view]


Key: TypeAlias = tuple[Symbol, View]


class Hinge(NamedTuple):
    """max(d, 0) = d + max(-d, 0): the form of d, and the symbol of max(-d, 0)."""

    form: Form
    rest: Symbol


class Form:
    """The elements of one tensor as an affine form. Immutable."""

    __slots__ = ("_excesses", "centre", "is_related", "number", "shape", "terms")

    def __init__(self, shape: Sizes, centre: Field, terms: Mapping[Key, Field], *, is_related: bool = False) -> None:
        self.shape = shape
        self.number = next(_numbers)
        self.centre = centre
        self.terms = terms
        #: Whether terms met that are not independent: only then can the form know more than the intervals it is made from.
        self.is_related = is_related
        #: max(this - other, 0) where it was asked for before.
        self._excesses: dict[Hashable, Form] = {}

    @classmethod
    def symbol(cls, symbol: Symbol) -> Form:
        return cls(symbol.shape, ZERO, {(symbol, ()): ONE})

    # -- what the engine asks ------------------------------------------------------------------------------------------

    def tighten(self, x: Range) -> Range:
        """The range where no element lies outside of the bounds of its form."""
        if not self.is_related:
            return x
        bounds = self._narrowest()
        if isinstance(bounds, tuple):
            low, high = np.maximum(x.low, bounds[0]), np.minimum(x.high, bounds[1])
        else:
            if not are_affordable(x, bounds):
                return x
            aligned = align(x, bounds)
            x = aligned.result(x.format, aligned.lows[0], aligned.highs[0])
            low, high = np.maximum(x.low, aligned.lows[1]), np.minimum(x.high, aligned.highs[1])
        # What misses a cell altogether holds only if a hazard fired that was cut off there.
        missed = low > high
        if missed.any():
            low, high = np.where(missed, x.low, low), np.where(missed, x.high, high)
        return x.replace(low, high, None)

    def rounded(self, x: Range, relative: float, absolute: float) -> Form | None:
        """The form of x after each element was rounded: an error of relative * |element| + absolute, a fresh symbol."""
        if relative == 0.0 == absolute:
            return _limited(self)

        def error() -> Range:
            radius = np.nextafter(relative * x.magnitude() + absolute, np.inf) * (1.0 + 2.0**-50)
            return Range(FLOAT64, x.shape, x.grid, -radius, radius)

        rounding = Symbol(self.shape, error, is_rounding=True)
        return _limited(Form(self.shape, self.centre, {**self.terms, (rounding, ()): ONE}))

    def bounds(self) -> Field:
        """The bounds of all elements."""
        return sum_of((self.centre, *self._products()))

    def _products(self) -> list[Field]:
        return [multiplied(coefficient, bounds_of(symbol.range(view))) for (symbol, view), coefficient in self.terms.items()]

    # -- other ways to write it ----------------------------------------------------------------------------------------

    def _narrowest(self, *, cases: bool = True) -> Field:
        """Bounds of all elements, also by the axioms of the maxima in the form; with `cases`, both of each are told apart."""
        maxima = self._hinges()[:_MOST_HINGES]
        if not maxima:
            return self.bounds()
        related, others = self._parted(maxima)
        return sum_of((related._narrowest_by(maxima, cases=cases), *others._products()))

    def _parted(self, maxima: Sequence[Key]) -> tuple[Form, Form]:
        """The form as a sum: what these maxima may say more about, and terms that add the same to every way to write it.

        Those terms are no maxima, and stand neither in an argument of one nor, since cases write the arguments of these maxima
        out, in an argument of a maximum there. Bounds of large tensors are mostly among them, and need not be added up anew
        for each way to write the rest.
        """
        arguments = _arguments(self.terms)
        for argument in _arguments(maxima):
            arguments += _arguments(argument.terms)
        met = {term for argument in arguments for term in argument.terms}
        related = {key: c for key, c in self.terms.items() if key in met or key[0].hinge is not None}
        others = {key: c for key, c in self.terms.items() if key not in related}
        return Form(self.shape, self.centre, related), Form(self.shape, ZERO, others)

    def _narrowest_by(self, maxima: Sequence[Key], *, cases: bool) -> Field:
        """The same, by the axioms of these maxima."""
        found = self.bounds()
        for key in maxima:
            symbol, view = key
            argument = symbol.argument(view)
            assert symbol.hinge is not None and argument is not None
            itself, rest = Form(self.shape, ZERO, {key: ONE}), Form.symbol(symbol.hinge.rest).viewed_as(view)
            # max(d, 0) = d + max(-d, 0)
            found = meet(found, self._cancelled(argument, (ONE, rest), (MINUS_ONE, itself)).bounds())
            if not cases or any(isinstance(step, Summed) for step in view):
                continue
            others = Form(self.shape, self.centre, {term: c for term, c in self.terms.items() if term != key})
            above = combined(self.shape, [(ONE, others), (self.terms[key], argument)])
            # d >= 0, where d = max(d, 0); or d <= 0, where d = -max(-d, 0).
            upper = meet(above._narrowest(cases=False), above._cancelled(argument, (MINUS_ONE, itself)).bounds())
            lower = meet(others._narrowest(cases=False), others._cancelled(argument, (ONE, rest)).bounds())
            found = meet(found, hull(upper, lower))
        return found

    def _cancelled(self, argument: Form, *parts: tuple[Field, Form]) -> Form:
        """The same numbers with a multiple of 0 = argument + parts added, so that a term of the argument cancels."""
        common = next((term for term in argument.terms if term in self.terms), None)
        slope = None if common is None else reciprocal(midpoint(argument.terms[common]))
        if common is None or slope is None:
            return self
        # Any multiple keeps the numbers: that its factor is rounded does no harm.
        times = midpoint(negated(multiplied(midpoint(self.terms[common]), slope)))
        zero = [(ONE, argument), *parts]
        return combined(self.shape, [(ONE, self), *((multiplied(times, factor), form) for factor, form in zero)])

    @property
    def is_uniform(self) -> bool:
        """Whether each term has one coefficient for all elements."""
        return all(isinstance(coefficient, tuple) for coefficient in self.terms.values())

    @property
    def has_related_maxima(self) -> bool:
        return bool(self._hinges())

    def _hinges(self) -> list[Key]:
        """Terms that are maxima of something that other terms stand for as well, the newest first."""
        found: list[Key] = []
        for symbol, view in self.terms:
            argument = symbol.argument(view)
            if argument is not None and not argument.terms.keys().isdisjoint(self.terms):
                found.append((symbol, view))
        return sorted(found, key=lambda key: -key[0].number)

    # -- movement ------------------------------------------------------------------------------------------------------

    def viewed(self, step: Map) -> Form:
        """The form after its tensor went through a linear map; sums need coefficients that are the same for all elements."""
        if isinstance(step, Broadcast):
            # Terms that have fewer axes, or axes of size 1, are repeated wherever they are read.
            return Form(step.shape, self.centre, self.terms)
        parts: list[tuple[Field, Form]] = [(ONE, Form(step.shape, _moved(self.centre, self.shape, step), {}))]
        for (symbol, view), coefficient in self.terms.items():
            if shape_after(symbol.shape, view) != self.shape:
                view = followed(symbol.shape, view, Broadcast(self.shape))
            view = followed(symbol.shape, view, step)
            form = _part(symbol, view) or Form(step.shape, ZERO, {(symbol, view): ONE})
            if isinstance(step, Summed):
                assert isinstance(coefficient, tuple)
                parts.append((coefficient, form))
            else:
                parts.append((_moved(coefficient, self.shape, step), form))
        return combined(step.shape, parts)

    def viewed_as(self, view: View) -> Form:
        """The form after all maps of a view."""
        form = self
        for step in view:
            form = form.viewed(step)
        return form

    def excess(self, key: Hashable, make: Callable[[], tuple[Form, Range]]) -> Form:
        """max(this - other, 0), by what the other is; on the first call from the form and the bounds of the difference.

        The key must tell bounds apart, too: inside a branch they may be narrower than outside, and mean no other tensor.
        """
        known = self._excesses.get(key)
        if known is None:
            argument, difference = make()
            low, high = difference.low, difference.high
            if bool((low >= 0).all()):
                known = argument
            elif bool((high <= 0).all()):
                known = Form(argument.shape, ZERO, {})
            else:
                symbol = Symbol(argument.shape, difference.replace(np.maximum(low, 0.0), np.maximum(high, 0.0), None))
                rest = Symbol(argument.shape, difference.replace(np.maximum(-high, 0.0), np.maximum(-low, 0.0), None))
                symbol.hinge = Hinge(argument, rest)
                known = Form.symbol(symbol)
            self._excesses[key] = known
        return known


def combined(shape: Sizes, parts: Iterable[tuple[Field, Form]], error: Field = ZERO) -> Form:
    """The sum of multiples of forms whose shapes broadcast to `shape`, and of an error between two ends."""
    centre: Field = error
    terms: dict[Key, Field] = {}
    related = has_maxima = False
    for factor, form in parts:
        centre = added(centre, multiplied(factor, form.centre))
        for key, coefficient in form.terms.items():
            coefficient = multiplied(factor, coefficient)
            has_maxima = has_maxima or key[0].hinge is not None
            if key in terms:
                related = True
                coefficient = added(terms[key], coefficient)
            terms[key] = coefficient
    if related:
        terms = {key: coefficient for key, coefficient in terms.items() if not is_zero(coefficient)}
    result = Form(shape, centre, terms, is_related=related)
    if has_maxima and not related:
        result.is_related = result.has_related_maxima
    return result


def _arguments(terms: Iterable[Key]) -> list[Form]:
    """What the maxima among some terms are the positive parts of."""
    return [argument for symbol, view in terms if (argument := symbol.argument(view)) is not None]


def _limited(form: Form) -> Form | None:
    """The form with few enough terms, roundings put into the centre, the oldest first; None if there are too many others."""
    if len(form.terms) <= MOST_TERMS:
        return form
    roundings = sorted((key for key in form.terms if key[0].is_rounding), key=lambda key: key[0].number)
    excess = len(form.terms) - MOST_TERMS // 2
    if len(form.terms) - len(roundings) > MOST_TERMS:
        return None
    centre, terms = form.centre, dict(form.terms)
    for symbol, view in roundings[:excess]:
        centre = added(centre, multiplied(terms.pop((symbol, view)), bounds_of(symbol.range(view))))
    return Form(form.shape, centre, terms)


def _moved(x: Field, shape: Sizes, step: Map) -> Field:
    """A field over a tensor of some shape, after the tensor went through a linear map."""
    if isinstance(x, tuple):
        if not isinstance(step, Summed):
            return x
        length = float(math.prod(shape[axis] for axis in step.axes))
        return multiplied((length, length), x)
    return bounds_of(step(x if x.shape == shape else Broadcast(shape)(x)))


def _part(symbol: Symbol, view: View) -> Form | None:
    """The form of a slice of a tensor that was joined from parts, where it lies inside one of them."""
    slices = [step for step in view if isinstance(step, Sliced)]
    if symbol.parts is None or len(slices) < len(view):
        return None
    axis, pieces = symbol.parts
    for along in slices:
        if along.axis != axis:
            continue
        ends = along.start, along.start + (along.shape[axis] - 1) * along.step
        for start, stop, form in pieces:
            if start <= min(ends) and max(ends) < stop:
                for step in slices:
                    shape = sliced_shape(form.shape, step.axis, step.shape[step.axis])
                    first = step.start - start if step.axis == axis else step.start
                    form = form.viewed(Sliced(shape, step.axis, first, step.step))
                return form
    return None
