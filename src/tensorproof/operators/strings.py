"""Text: shapes and counts. The characters themselves are known only where a constant of the file holds them.

TfIdfVectorizer is where text and token numbers become floating numbers: counts of n-grams, bounded by the places at which
each n-gram can and must stand.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorproof.errors import NotAnalysed
from tensorproof.formats import BOOL, FLOAT32, INT64, STRING, Array
from tensorproof.operators.table import CORRECT, Call, operator
from tensorproof.ranges.elementwise import corners, product
from tensorproof.ranges.grid import Size, Span, broadcast_shapes, largest
from tensorproof.ranges.range import CELL_BUDGET, Range
from tensorproof.rules.arithmetic_overflow import ARITHMETIC_OVERFLOW

#: Comparisons of tokens with n-grams that one call may spend; beyond, only the number of places counts.
_COMPARISONS = 1 << 22


def _some_text(shape: tuple[Size, ...] | None) -> Range:
    return Range.uniform(shape, STRING, 0.0, 0.0)


@operator("StringConcat")
def string_concat(op: Call, a: Range, b: Range) -> Range:
    """Text after text, with broadcasting."""
    if a.array is not None and b.array is not None:
        return Range.constant(np.asarray(a.array + b.array, object), STRING)
    if a.shape is None or b.shape is None:
        return _some_text(None)
    return _some_text(broadcast_shapes(a.shape, b.shape))


@operator("StringNormalizer")
def string_normalizer(op: Call, x: Range) -> Range:
    """At most as many texts as before, and at least one (ONNX StringNormalizer-10)."""
    if x.shape is None:
        return _some_text(None)
    last = largest(x.shape[-1])
    return _some_text((*x.shape[:-1], Span(1, None if last is None else max(last, 1))))


@operator("StringSplit")
def string_split(op: Call, x: Range) -> tuple[Range, Range]:
    """Parts, and how many of them each text has; an empty text has none or one."""
    separator, most = op.attribute("delimiter") or None, op.attribute("maxsplit")
    if x.array is not None:
        return _split_constant(x.array, separator, -1 if most is None else int(most))
    shape = None if x.shape is None else (*x.shape, Span(0, None if most is None else int(most) + 1))
    high = INT64.high if most is None else float(most) + 1.0
    return _some_text(shape), Range.uniform(x.shape, INT64, 0.0, high)


def _split_constant(texts: npt.NDArray[Any], separator: str | None, most: int) -> tuple[Range, Range]:
    parts = [str(text).split(separator, most) for text in texts.reshape(-1)]
    high = np.array([len(p) for p in parts], np.float64).reshape(texts.shape)
    low = np.where(texts == "", 0.0, high)
    longest, certain = int(high.max(initial=0.0)), int(low.max(initial=0.0))
    last: Size = longest if longest == certain else Span(certain, longest)
    return _some_text((*texts.shape, last)), Range.elements(INT64, low, high)


@operator("RegexFullMatch")
def regex_full_match(op: Call, x: Range) -> Range:
    """True or false: patterns of the file are not executed."""
    return Range.uniform(x.shape, BOOL, 0.0, 1.0)


@operator(
    "TfIdfVectorizer",
    error=CORRECT,
    overflow=ARITHMETIC_OVERFLOW,
    coarse="n-grams are counted one by one, as if they did not compete for places",
)
def tfidf_vectorizer(op: Call, x: Range) -> Range:
    """Weighted counts of n-grams: between the places where each must stand and those where it can."""
    if x.shape is None or len(x.shape) > 2:
        raise NotAnalysed("the rank is not known")
    indexes = np.array(op.integers("ngram_indexes"), np.int64)
    size = int(indexes.max(initial=-1)) + 1
    least, most = _counts(op, x, indexes, size)
    if op.attribute("mode") == "IDF":
        least, most = np.minimum(least, 1.0), np.minimum(most, 1.0)
    weights = op.attribute("weights")
    if weights and op.attribute("mode") != "TF":
        light, heavy = _weights(np.array(weights, np.float64), indexes, size)
        least, most = corners(product)(least, most, light, heavy)
    rows = x.shape[:-1] if len(x.shape) == 2 else ()
    shape = (*rows, size)
    least, most = (np.broadcast_to(a, (1, size)) if a.ndim == 1 else a for a in (least, most))
    if not rows:
        return Range.elements(FLOAT32, least.reshape(size), most.reshape(size))
    if isinstance(rows[0], int):
        each = rows[0], size
        return Range.elements(FLOAT32, np.broadcast_to(least, each), np.broadcast_to(most, each))
    return Range.uniform(shape, FLOAT32, float(least.min(initial=0.0)), float(most.max(initial=0.0)))


def _weights(weights: Array, indexes: npt.NDArray[np.int64], size: int) -> tuple[Array, Array]:
    """The weight of each output: by its own number, as runtimes read it, or by its n-gram's, as the standard says."""
    low, high = np.full(size, np.inf), np.full(size, -np.inf)
    known = min(size, len(weights))
    low[:known], high[:known] = weights[:known], weights[:known]
    if len(weights) == len(indexes):
        np.minimum.at(low, indexes, weights)
        np.maximum.at(high, indexes, weights)
    unknown = low > high
    return np.where(unknown, weights.min(), low), np.where(unknown, weights.max(), high)


def _counts(op: Call, x: Range, indexes: npt.NDArray[np.int64], size: int) -> tuple[Array, Array]:
    """Bounds of the counts, one row per text (one row for all where the tokens are not known)."""
    assert x.shape is not None
    length = largest(x.shape[-1]) if x.shape else 1
    if length is None:
        raise NotAnalysed("the number of tokens is not known")
    tokens = _tokens(x)
    rows = 1 if tokens is None else tokens[0].shape[0]
    least, most = np.zeros((rows, size)), np.zeros((rows, size))
    pool = np.array(op.attribute("pool_int64s") or op.attribute("pool_strings") or [], None)
    pool = pool.astype(object) if pool.dtype.kind in "US" else pool
    shortest, longest = int(op.attribute("min_gram_length", 1)), int(op.attribute("max_gram_length", 1))
    skips = int(op.attribute("max_skip_count", 0)) + 1
    starts = [*(op.integers("ngram_counts") or []), len(pool)]
    first = 0
    for n, (start, end) in enumerate(pairwise(starts), start=1):
        grams = pool[start : start + (end - start) // n * n].reshape(-1, n)
        targets = indexes[first : first + len(grams)]
        first += len(grams)
        if not shortest <= n <= longest:
            continue
        # Single tokens are counted once, whatever may be skipped (ONNX TfIdfVectorizer-9).
        for step in range(1, (1 if n == 1 else skips) + 1):
            places = length - step * (n - 1)
            if places > 0 and len(grams):
                low, high = _matches(tokens, grams, step, places)
                np.add.at(least.T, targets, low.T)
                np.add.at(most.T, targets, high.T)
    return least, most


def _tokens(x: Range) -> tuple[npt.NDArray[Any], npt.NDArray[Any]] | None:
    """Lowest and highest token at each place, one row per text; None where nothing is known."""
    if not x.has_known_shape or x.size > CELL_BUDGET or x.size == 0:
        return None
    rows = x.sizes[0] if len(x.sizes) == 2 else 1
    if x.format is STRING:
        if x.array is None:
            return None
        texts = x.array.reshape(rows, -1)
        return texts, texts
    low, high, _ = x.expanded()
    return low.reshape(rows, -1), high.reshape(rows, -1)


def _matches(
    tokens: tuple[npt.NDArray[Any], npt.NDArray[Any]] | None, grams: npt.NDArray[Any], step: int, places: int
) -> tuple[Array, Array]:
    """At how many places each n-gram must and can stand, its tokens `step` apart."""
    if tokens is None or len(tokens[0]) * len(grams) * places > _COMPARISONS:
        return np.zeros((1, len(grams))), np.full((1, len(grams)), float(places))
    low, high = tokens
    must, can = np.full((), True), np.full((), True)
    for k in range(grams.shape[1]):
        wanted = grams[:, k][None, :, None]
        lowest, highest = (a[:, None, k * step : k * step + places] for a in (low, high))
        if low.dtype == object:
            here = np.asarray(lowest == wanted, np.bool_)
            must, can = must & here, can & here
        else:
            can = can & (lowest <= wanted) & (wanted <= highest)
            must = must & (lowest == wanted) & (highest == wanted)
    # An n-gram that the pool holds twice counts under one of its numbers only.
    if len({tuple(gram) for gram in grams.tolist()}) < len(grams):
        must = np.zeros_like(must)
    return must.sum(axis=-1).astype(np.float64), can.sum(axis=-1).astype(np.float64)
