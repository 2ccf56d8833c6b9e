"""Words, documents and features as vectors: counts, frequencies, and what is divided by them."""

from __future__ import annotations

from typing import Any

from benchmarks.architectures.architecture import Deferred, Family, fails, holds
from benchmarks.architectures.layers import (
    SIGMOID_LOSS,
    dense,
    embedded,
    hidden,
    placeholder,
    sigmoid_cross_entropy,
    trained,
    zeros,
)

tf: Any = Deferred("tensorflow.compat.v1")
family = Family("embeddings")

_WORDS = 8


@family(
    holds("noise/Pow", "a count of 0 or more, to the power of 0.75"),
    fails(
        "noise/truediv",
        "no word was counted",
        {"counts": 0.0},
        fixed="counts are at least 1: their powers sum to at least 8",
    ),
    fails(
        "noise/Log",
        "a word that was not counted",
        {"counts": [0.0] + [1.0] * 7},
        fixed="each word has a share of at least 1 in 8 * 10001**0.75",
    ),
    holds("similar/Sqrt", "a sum of squares is 0 or more"),
    fails(
        "similar/truediv",
        "a vector of zeros has the length 0",
        {"counts": 1.0, "embedding": 0.0},
        fixed="a length of at least 1e-6 by the maximum",
    ),
    SIGMOID_LOSS,
    ranges={"word": (0, _WORDS - 1), "context": (0, _WORDS - 1), "drawn": (0, _WORDS - 1), "counts": (0, 10000)},
)
def skip_gram(fixed: bool) -> Any:
    """Words by their neighbours, told from noise that is drawn by smoothed counts; similar words by the cosine."""
    word, context = placeholder("word", 2, integer=True), placeholder("context", 2, integer=True)
    drawn, counts = placeholder("drawn", 4, integer=True), placeholder("counts", _WORDS)
    vectors = embedded(word, _WORDS, 5)
    outputs = tf.get_variable("outputs", [_WORDS, 5], initializer=tf.truncated_normal_initializer(stddev=0.5))
    with tf.name_scope("noise"):
        smoothed = tf.pow(counts + 1.0 if fixed else counts, 0.75)
        expected = tf.log(4.0 * (smoothed / tf.reduce_sum(smoothed)))
    real = tf.reduce_sum(vectors * tf.gather(outputs, context), 1) - tf.gather(expected, context)
    noise = tf.matmul(vectors, tf.gather(outputs, drawn), transpose_b=True) - tf.gather(expected, drawn)
    told = sigmoid_cross_entropy(tf.ones_like(real), real), sigmoid_cross_entropy(tf.zeros_like(noise), noise)
    with tf.name_scope("similar"), tf.variable_scope("", reuse=True):
        table = tf.get_variable("embedding", [_WORDS, 5])
        length = tf.sqrt(tf.reduce_sum(tf.square(table), 1, keepdims=True))
        unit = table / (tf.maximum(length, 1e-6) if fixed else length)
        similar = tf.matmul(unit, unit, transpose_b=True)
    return trained(tf.reduce_sum(told[0]) + tf.reduce_sum(told[1]), tf.train.GradientDescentOptimizer(1.0)), similar


@family(
    fails(
        "shared/Log",
        "two words that never occur together",
        {"together": 0.0, "alone": 5.0},
        fixed="counts are at least 1 by the maximum",
    ),
    holds("shared/Log_1", "1 and a count of 0 or more"),
    holds("trust/Pow", "a count of 0 or more, to the power of 0.5"),
    ranges={"together": (0, 10000), "alone": (0, 10000)},
)
def co_occurrences(fixed: bool) -> Any:
    """Two tables of vectors whose products are to be the mutual information of words."""
    together, alone = placeholder("together", _WORDS, _WORDS), placeholder("alone", _WORDS)
    rows = embedded(tf.range(_WORDS), _WORDS, 4, "rows")
    columns = embedded(tf.range(_WORDS), _WORDS, 4, "columns")
    with tf.name_scope("shared"):
        joint = tf.log(tf.maximum(together, 1.0) if fixed else together)
        single = tf.log(1.0 + alone)
        wanted = joint - tf.expand_dims(single, 0) - tf.expand_dims(single, 1)
    with tf.name_scope("trust"):
        trust = 0.1 + 0.25 * tf.pow(together, 0.5)
    error = tf.matmul(rows, columns, transpose_b=True) + zeros("bias", _WORDS) - wanted
    return trained(tf.reduce_mean(trust * tf.square(error)), tf.train.AdagradOptimizer(0.1))


@family(
    holds("rarity/truediv", "1 and a count of 0 or more"),
    holds("rarity/Log", "a quotient of 1000 and at most 1001"),
    fails(
        "balance/truediv",
        "a class that does not occur",
        {"frequency": 0.0},
        fixed="a frequency of at least 0.001 by the maximum",
    ),
    holds("kept/truediv", "a probability of 0.5 to be kept"),
    ranges={"words": (0, _WORDS - 1), "documents": (0, 1000), "label": (0, 2), "frequency": (0, 1)},
)
def text_network(fixed: bool) -> Any:
    """Convolutions over words that are weighted by their rarity, with a loss that is balanced over classes."""
    words, label = placeholder("words", 1, 6, integer=True), placeholder("label", 1, integer=True)
    documents, frequency = placeholder("documents", 1, 6), placeholder("frequency", 3)
    with tf.name_scope("rarity"):
        rarity = tf.log(1000.0 / (1.0 + documents))
    vectors = tf.expand_dims(embedded(words, _WORDS, 4) * tf.expand_dims(rarity, 2), 3)
    with tf.variable_scope("windows"):
        kernel = tf.get_variable("kernel", [3, 4, 1, 5], initializer=tf.truncated_normal_initializer(stddev=0.1))
        windows = tf.nn.relu(tf.nn.conv2d(vectors, kernel, [1, 1, 1, 1], "VALID"))
    with tf.name_scope("kept"):
        pooled = tf.reshape(tf.nn.max_pool2d(windows, [1, 4, 1, 1], [1, 1, 1, 1], "VALID"), [1, 5])
        kept = pooled / 0.5 * tf.floor(0.5 + tf.random_uniform([1, 5]))
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=dense(kept, 3, "classes"))
    with tf.name_scope("balance"):
        balance = 1.0 / (tf.maximum(frequency, 1e-3) if fixed else frequency)
    return trained(tf.reduce_sum(each * tf.gather(balance, label)))


#: 1 - 1e-8 is 1 in float32, and 1 - 1e-7 is the largest number but one below it.
_LOST, _KEPT = 1e-8, 1e-7


@family(
    holds("scaled/Log1p", "of a count of 0 or more"),
    holds("loss/Log", "a probability is clipped to 1e-8 and more"),
    fails(
        "loss/Log_1",
        "1 - 1e-8 is 1 in float32: the clipped probability is 1",
        {"dense": 1.0, "deep/kernel": 1.0, "out/kernel": 1.0},
        fixed="1 - 1e-7 is a number below 1",
    ),
    ranges={"counts": (0, 1000), "dense": (-1, 1), "id": (0, _WORDS - 1), "click": "{0,1}"},
)
def wide_and_deep(fixed: bool) -> Any:
    """Clicks from crossed ids and from a network, with a log loss on clipped probabilities."""
    counts, features = placeholder("counts", 2, 3), placeholder("dense", 2, 6)
    number, click = placeholder("id", 2, integer=True), placeholder("click", 2, 1)
    with tf.name_scope("scaled"):
        scaled = 0.1 * tf.log1p(counts)
    deep = dense(hidden(tf.concat([features, scaled], 1), 8, "deep"), 1, "out")
    wide = embedded(number, _WORDS, 1, "wide")
    with tf.name_scope("loss"):
        guard = _KEPT if fixed else _LOST
        p = tf.clip_by_value(tf.sigmoid(deep + wide), guard, 1.0 - guard)
        loss = -tf.reduce_mean(click * tf.log(p) + (1.0 - click) * tf.log(1.0 - p))
    return trained(loss, tf.train.FtrlOptimizer(0.1))
