"""Sizes: integers that may hold symbols, in a normal form that can be compared.

A size is a Python `int`, or a `Polynomial`: a sum of products of atoms with rational coefficients. An atom is a `Symbol`
(an integer nobody has fixed, such as the batch size) or the quotient or extreme of sizes that has no simpler form.
Comparison has three answers: equal, different, unknown. Only what is *different* for all values is ever reported.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import count
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from tensorproof.shapes.problems import Place

Role = Literal["batch", "time", "size", "unknown"]
#: More terms than this are not kept: the result is a fresh unknown.
MOST_TERMS = 24

_serials = count()


@dataclass(frozen=True, slots=True, eq=False)
class Symbol:
    """An integer that is not known, within bounds. Two symbols are equal only if they are the same one."""

    name: str
    role: Role = "size"
    low: float = 1
    high: float = math.inf
    origin: Place | None = None
    serial: int = field(default_factory=lambda: next(_serials))

    def __str__(self) -> str:
        return "?" if self.role == "unknown" else self.name


@dataclass(frozen=True, slots=True)
class Quotient:
    """`numerator // denominator` where nothing cancels."""

    numerator: Size
    denominator: Size

    def __str__(self) -> str:
        return f"{_bracketed(self.numerator)}//{_bracketed(self.denominator)}"


@dataclass(frozen=True, slots=True)
class Remainder:
    """`numerator % denominator` where it is not decided."""

    numerator: Size
    denominator: Size

    def __str__(self) -> str:
        return f"{_bracketed(self.numerator)}%{_bracketed(self.denominator)}"


@dataclass(frozen=True, slots=True)
class Extreme:
    """The least or greatest of several sizes whose order is not decided."""

    kind: Literal["min", "max"]
    of: frozenset[Size]

    def __str__(self) -> str:
        return f"{self.kind}({', '.join(sorted(map(str, self.of)))})"


Atom: TypeAlias = Symbol | Quotient | Remainder | Extreme
#: Atoms with their powers, in a fixed order.
Monomial: TypeAlias = tuple[tuple[Atom, int], ...]
Coefficient: TypeAlias = int | Fraction


class Polynomial:
    """A sum of at least one product of atoms; what has no atoms is an `int`."""

    __slots__ = ("_hash", "terms")

    def __init__(self, terms: Mapping[Monomial, Coefficient]) -> None:
        self.terms = dict(terms)
        self._hash = hash(frozenset(self.terms.items()))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Polynomial) and self.terms == other.terms

    def __add__(self, other: Size) -> Size:
        return _sum(self, other)

    __radd__ = __add__

    def __neg__(self) -> Size:
        return Polynomial({monomial: -coefficient for monomial, coefficient in self.terms.items()})

    def __sub__(self, other: Size) -> Size:
        return _sum(self, -other)

    def __rsub__(self, other: Size) -> Size:
        return _sum(-self, other)

    def __mul__(self, other: Size) -> Size:
        return _product(self, other)

    __rmul__ = __mul__

    def __floordiv__(self, other: Size) -> Size:
        return quotient(self, other)

    def __rfloordiv__(self, other: Size) -> Size:
        return quotient(other, self)

    def __mod__(self, other: Size) -> Size:
        return remainder(self, other)

    def __rmod__(self, other: Size) -> Size:
        return remainder(other, self)

    def __str__(self) -> str:
        text = ""
        for monomial, coefficient in sorted(self.terms.items(), key=_reading_order):
            sign = "-" if coefficient < 0 else "+" if text else ""
            text += sign + _term(monomial, abs(coefficient))
        return text

    def __repr__(self) -> str:
        return f"Polynomial({self})"

    def atoms(self) -> Iterator[Atom]:
        for monomial in self.terms:
            for atom, _ in monomial:
                yield atom

    @property
    def is_whole(self) -> bool:
        """Whether all coefficients are integers."""
        return all(isinstance(coefficient, int) for coefficient in self.terms.values())


Size: TypeAlias = int | Polynomial


def symbol(name: str, role: Role = "size", low: float = 1, high: float = math.inf, origin: Place | None = None) -> Polynomial:
    """A new size that nobody knows."""
    return _of_atom(Symbol(name, role, low, high, origin))


def unknown(low: float = 1, high: float = math.inf) -> Polynomial:
    """A size about which nothing is known but its bounds; equal to no other."""
    return symbol("?", "unknown", low, high)


def symbols(size: Size) -> frozenset[Symbol]:
    """All symbols inside."""
    if isinstance(size, int):
        return frozenset()
    found: set[Symbol] = set()
    for atom in size.atoms():
        if isinstance(atom, Symbol):
            found.add(atom)
        elif isinstance(atom, Extreme):
            for part in atom.of:
                found |= symbols(part)
        else:
            found |= symbols(atom.numerator) | symbols(atom.denominator)
    return frozenset(found)


def is_unknown(size: Size) -> bool:
    """Whether the size is nothing but an unknown."""
    return isinstance(size, Polynomial) and all(s.role == "unknown" for s in symbols(size))


def product(sizes: Iterable[Size]) -> Size:
    """All sizes multiplied; 1 if there are none."""
    result: Size = 1
    for size in sizes:
        result = result * size
    return result


# -- comparison -------------------------------------------------------------------------------------------------------


def same(left: Size, right: Size) -> bool | None:
    """Whether two sizes are equal: yes for all values, no for all values, or unknown."""
    if isinstance(left, int) and isinstance(right, int):
        return left == right
    difference = left - right
    if isinstance(difference, int):
        return difference == 0
    low, high = bounds(difference)
    if low > 0 or high < 0:
        return False
    return False if _never_zero(difference) else None


def less(left: Size, right: Size) -> bool | None:
    """Whether `left < right`, for all values, for none, or unknown."""
    low, high = bounds(right - left)
    if low > 0:
        return True
    return False if high <= 0 else None


def bounds(size: Size) -> tuple[float, float]:
    """The least and the greatest value that a size can have."""
    if isinstance(size, int):
        return size, size
    low = high = 0.0
    for monomial, coefficient in size.terms.items():
        term_low, term_high = 1.0, 1.0
        for atom, power in monomial:
            atom_low, atom_high = _atom_bounds(atom)
            for _ in range(power):
                corners = [_times(a, b) for a in (term_low, term_high) for b in (atom_low, atom_high)]
                term_low, term_high = min(corners), max(corners)
        scaled = sorted((_times(term_low, float(coefficient)), _times(term_high, float(coefficient))))
        low, high = low + scaled[0], high + scaled[1]
    return low, high


def _atom_bounds(atom: Atom) -> tuple[float, float]:
    if isinstance(atom, Symbol):
        return atom.low, atom.high
    if isinstance(atom, Extreme):
        ends = [bounds(part) for part in atom.of]
        choose = min if atom.kind == "min" else max
        return choose(low for low, _ in ends), choose(high for _, high in ends)
    denominator_low, denominator_high = bounds(atom.denominator)
    if denominator_low <= 0:
        return -math.inf, math.inf
    if isinstance(atom, Remainder):
        return 0, denominator_high - 1
    low, high = bounds(atom.numerator)
    least = low / (denominator_low if low < 0 else denominator_high) if math.isfinite(low) else low
    most = high / (denominator_high if high < 0 else denominator_low) if math.isfinite(high) else high
    return _floor(least), _floor(most)


def _never_zero(difference: Polynomial) -> bool:
    """Whether no integers solve `difference = 0`: the common divisor of the other terms does not divide the constant."""
    common = math.lcm(*(c.denominator for c in difference.terms.values()))
    scaled = {monomial: int(c * common) for monomial, c in difference.terms.items()}
    constant = scaled.pop((), 0)
    return constant % math.gcd(*scaled.values()) != 0


def _floor(value: float) -> float:
    return math.floor(value) if math.isfinite(value) else value


def _times(left: float, right: float) -> float:
    """A product in which zero times infinity is zero: bounds of a term that can be zero."""
    return 0.0 if left == 0 or right == 0 else left * right


# -- arithmetic -------------------------------------------------------------------------------------------------------


def quotient(left: Size, right: Size) -> Size:
    """`left // right`, with what cancels taken out. The divisor is assumed to be at least 1 where it is not known."""
    if isinstance(left, int) and isinstance(right, int):
        return unknown(-math.inf) if right == 0 else left // right
    if isinstance(right, int):
        if right <= 0:
            return unknown(-math.inf)
        whole, rest = _split_multiples(left, right)
        return whole if rest == 0 else whole + _atomic(Quotient(rest, right), isinstance(rest, int))
    exact = divide_exactly(left, right)
    if isinstance(exact, Fraction):
        return math.floor(exact)
    if isinstance(exact, int) or (exact is not None and exact.is_whole):
        return exact
    return _of_atom(Quotient(left, right))


def remainder(left: Size, right: Size) -> Size:
    """`left % right`."""
    if isinstance(left, int) and isinstance(right, int):
        return unknown(-math.inf) if right == 0 else left % right
    if isinstance(right, int) and right > 0:
        _, rest = _split_multiples(left, right)
        return rest % right if isinstance(rest, int) else _of_atom(Remainder(rest, right))
    exact = divide_exactly(left, right)
    if isinstance(exact, int) or (isinstance(exact, Polynomial) and exact.is_whole):
        return 0
    return _of_atom(Remainder(left, right))


def divide_exactly(left: Size, right: Size) -> int | Fraction | Polynomial | None:
    """The quotient without rounding, or None where it is no polynomial. Coefficients may be fractions: 16N/49."""
    if right == 0:
        return None
    rest, result = left, {}
    divisor = _terms(right)
    lead = max(divisor, key=_division_order)
    for _ in range(MOST_TERMS):
        terms = _terms(rest)
        if not terms:
            break
        head = max(terms, key=_division_order)
        monomial = _monomial_quotient(head, lead)
        if monomial is None:
            return None
        coefficient = _whole_if_possible(Fraction(terms[head]) / Fraction(divisor[lead]))
        result[monomial] = coefficient
        rest = _sum(rest, -_product(_rational({monomial: coefficient}), right))
    else:
        return None
    if set(result) <= {()}:
        return result.get((), 0)
    return Polynomial(result)


def smallest(sizes: Iterable[Size]) -> Size:
    """The least of several sizes."""
    return _extreme("min", list(sizes))


def largest(sizes: Iterable[Size]) -> Size:
    """The greatest of several sizes."""
    return _extreme("max", list(sizes))


def _extreme(kind: Literal["min", "max"], sizes: list[Size]) -> Size:
    kept: list[Size] = []
    for size in sizes:
        if any(_dominates(kind, other, size) for other in kept):
            continue
        kept = [other for other in kept if not _dominates(kind, size, other)]
        kept.append(size)
    return kept[0] if len(kept) == 1 else _of_atom(Extreme(kind, frozenset(kept)))


def _dominates(kind: Literal["min", "max"], winner: Size, loser: Size) -> bool:
    low, high = bounds(loser - winner)
    return low >= 0 if kind == "min" else high <= 0


def substitute(size: Size, values: Mapping[Symbol, Size]) -> Size:
    """The size with symbols replaced."""
    if isinstance(size, int):
        return size
    total: Size = 0
    for monomial, coefficient in size.terms.items():
        term: Size = _rational({(): coefficient})
        for atom, power in monomial:
            for _ in range(power):
                term = term * _substituted(atom, values)
        total = total + term
    return total


def _substituted(atom: Atom, values: Mapping[Symbol, Size]) -> Size:
    if isinstance(atom, Symbol):
        return values.get(atom, _of_atom(atom))
    if isinstance(atom, Quotient):
        return quotient(substitute(atom.numerator, values), substitute(atom.denominator, values))
    if isinstance(atom, Remainder):
        return remainder(substitute(atom.numerator, values), substitute(atom.denominator, values))
    return _extreme(atom.kind, [substitute(part, values) for part in atom.of])


# -- normal form ------------------------------------------------------------------------------------------------------


def _of_atom(atom: Atom) -> Polynomial:
    return Polynomial({((atom, 1),): 1})


def _atomic(atom: Quotient, constant: bool) -> Size:
    if constant:
        assert isinstance(atom.numerator, int)
        assert isinstance(atom.denominator, int)
        return atom.numerator // atom.denominator
    return _of_atom(atom)


def _terms(size: Size | Fraction) -> dict[Monomial, Coefficient]:
    if isinstance(size, Polynomial):
        return size.terms
    return {(): size} if size else {}


def _rational(terms: dict[Monomial, Coefficient]) -> Size:
    """A size out of terms; a constant fraction stays a polynomial of the empty product."""
    kept = {monomial: coefficient for monomial, coefficient in terms.items() if coefficient}
    if not kept:
        return 0
    if len(kept) == 1 and () in kept:
        constant = kept[()]
        if isinstance(constant, int):
            return constant
    return Polynomial(kept)


def _sum(left: Size, right: Size) -> Size:
    terms = dict(_terms(left))
    for monomial, coefficient in _terms(right).items():
        terms[monomial] = _whole_if_possible(terms.get(monomial, 0) + coefficient)
    return _normal(terms)


def _product(left: Size, right: Size) -> Size:
    terms: dict[Monomial, Coefficient] = {}
    for first, first_coefficient in _terms(left).items():
        for second, second_coefficient in _terms(right).items():
            monomial = _monomial_product(first, second)
            terms[monomial] = _whole_if_possible(terms.get(monomial, 0) + first_coefficient * second_coefficient)
    return _normal(terms)


def _normal(terms: dict[Monomial, Coefficient]) -> Size:
    if len(terms) > MOST_TERMS:
        return unknown(-math.inf)
    return _rational(terms)


def _whole_if_possible(value: Coefficient) -> Coefficient:
    return value.numerator if isinstance(value, Fraction) and value.denominator == 1 else value


def _split_multiples(size: Size, divisor: int) -> tuple[Size, Size]:
    """`size` as `divisor * whole + rest`, with all that is divisible in the whole."""
    whole: dict[Monomial, Coefficient] = {}
    rest: dict[Monomial, Coefficient] = {}
    for monomial, coefficient in _terms(size).items():
        if isinstance(coefficient, Fraction):
            rest[monomial] = coefficient
            continue
        times, left = divmod(coefficient, divisor)
        whole[monomial] = times
        rest[monomial] = left
    return _rational(whole), _rational(rest)


def _monomial_product(left: Monomial, right: Monomial) -> Monomial:
    if not left or not right:
        return left or right
    powers = dict(left)
    for atom, power in right:
        powers[atom] = powers.get(atom, 0) + power
    return tuple(sorted(powers.items(), key=lambda pair: _atom_order(pair[0])))


def _monomial_quotient(left: Monomial, right: Monomial) -> Monomial | None:
    powers = dict(left)
    for atom, power in right:
        powers[atom] = powers.get(atom, 0) - power
    if any(power < 0 for power in powers.values()):
        return None
    return tuple(sorted(((a, p) for a, p in powers.items() if p), key=lambda pair: _atom_order(pair[0])))


def _atom_order(atom: Atom) -> tuple[int, str]:
    return (atom.serial, "") if isinstance(atom, Symbol) else (1 << 60, str(atom))


def _division_order(monomial: Monomial) -> tuple[int, list[tuple[tuple[int, str], int]]]:
    return sum(power for _, power in monomial), [(_atom_order(atom), power) for atom, power in monomial]


def _reading_order(term: tuple[Monomial, Coefficient]) -> tuple[bool, int, str]:
    monomial, coefficient = term
    return coefficient < 0, -sum(power for _, power in monomial), "*".join(str(atom) for atom, _ in monomial)


def _term(monomial: Monomial, coefficient: Coefficient) -> str:
    factors = [_factor(atom) for atom, power in monomial for _ in range(power)]
    return "*".join(([str(coefficient)] if coefficient != 1 or not factors else []) + factors)


def _factor(atom: Atom) -> str:
    return f"({atom})" if isinstance(atom, Quotient | Remainder) else str(atom)


def _bracketed(size: Size) -> str:
    text = str(size)
    return f"({text})" if isinstance(size, Polynomial) and len(size.terms) > 1 else text
