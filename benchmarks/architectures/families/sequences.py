"""Sequence models: language models, attention with masks, recursions over alignments, transformers, gates that are learned."""

from __future__ import annotations

import math
from typing import Any

from benchmarks.architectures.architecture import Deferred, Family, Seen, fails, holds
from benchmarks.architectures.layers import (
    dense,
    embedded,
    gru,
    hidden,
    layer_normalised,
    lstm,
    mean_cross_entropy,
    placeholder,
    trained,
    weight,
)

tf: Any = Deferred("tensorflow.compat.v1")
family = Family("sequences")

_WORDS = 10
_STEPS = 8


@family(
    fails(
        "perplexity/Exp",
        "the cost of 8 steps, summed, is above 89 where each word is a surprise of 12",
        {
            "targets": 0,
            "words": 1,
            "cell/gates/bias": 1.0,
            "cell/gates/kernel": 0.5,
            "embedding": 0.99,
            "scores/kernel": [[-1.0] + [1.0] * 9] * 6,
            "scores/bias": [-1.0] + [1.0] * 9,
        },
        fixed="a word costs at most the span of the scores, which is below 89 in any box: states are between -1 and 1",
    ),
    holds("perplexity/truediv", "a division by the number of steps", form="fixed"),
    ranges={"words": (0, _WORDS - 1), "targets": (0, _WORDS - 1)},
)
def lstm_language_model(fixed: bool) -> Any:
    """A language model of one recurrent layer that reports its perplexity."""
    words, targets = placeholder("words", 1, _STEPS, integer=True), placeholder("targets", 1, _STEPS, integer=True)
    vectors = embedded(words, _WORDS, 6)
    states = lstm([vectors[:, step] for step in range(_STEPS)], 6, "cell")
    logits = dense(tf.concat(states, 0), _WORDS, "scores")
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.reshape(targets, [-1]), logits=logits)
    cost = tf.reduce_sum(each)
    with tf.name_scope("perplexity"):
        perplexity = tf.exp(cost / float(_STEPS) if fixed else cost)
    return trained(cost, tf.train.GradientDescentOptimizer(1.0)), perplexity


@family(
    holds("attention/Exp", "a difference from the largest score"),
    fails(
        "attention/truediv",
        "a row whose words are all padding has weights that sum to 0",
        {"mask": 0.0},
        fixed="the sum is 0 or more, and 1e-8 is added to it",
    ),
    fails(
        "loss/truediv",
        "a batch whose targets are all padding",
        {"mask": 1.0, "target_mask": 0.0},
        fixed="the sum of weights is 0, or 1 and more; 1e-12 is added to it",
    ),
    ranges={"words": (0, _WORDS - 1), "targets": (0, _WORDS - 1), "mask": "{0,1}", "target_mask": "{0,1}"},
)
def attention_with_masks(fixed: bool) -> Any:
    """A translator: a recurrent encoder, attention over words that are not padding, a loss over targets that are not."""
    words, targets = placeholder("words", 2, 5, integer=True), placeholder("targets", 2, integer=True)
    mask, target_mask = placeholder("mask", 2, 5), placeholder("target_mask", 2)
    vectors = embedded(words, _WORDS, 6)
    memory = tf.stack(gru([vectors[:, step] for step in range(5)], 6, "encoder"), 1)
    query = dense(memory[:, -1], 6, "query")
    with tf.name_scope("attention"):
        scores = tf.reduce_sum(memory * tf.expand_dims(query, 1), 2)
        strength = tf.exp(scores - tf.reduce_max(scores, 1, keepdims=True)) * mask
        total = tf.reduce_sum(strength, 1, keepdims=True)
        weights = strength / (total + 1e-8 if fixed else total)
    context = tf.reduce_sum(tf.expand_dims(weights, 2) * memory, 1)
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=targets, logits=dense(context, _WORDS, "scores"))
    with tf.name_scope("loss"):
        count = tf.reduce_sum(target_mask)
        loss = tf.reduce_sum(each * target_mask) / (count + 1e-12 if fixed else count)
    return trained(loss)


#: Log-probabilities of states that cannot be: small, and finite.
_NEVER = -1e4


@family(
    fails(
        "cost/Log",
        "twelve frames that each say with all their might that the label is another multiply to 0",
        {"frames": 1.0, "frame/kernel": [[-1.0, -1.0, -1.0, 1.0]] * 8, "frame/bias": [-1.0, -1.0, -1.0, 1.0]},
    ),
    holds(
        "paths/while/Exp(_1)?",
        "differences from the larger of the two",
        form="fixed",
        seen=Seen(("paths/below", "paths/below_1"), "paths/powers"),
    ),
    holds(
        "paths/while/Log",
        "one of the two powers is 1",
        form="fixed",
        seen=Seen(("paths/powers",), "paths/logarithm"),
    ),
    ranges={"frames": (-1, 1)},
)
def alignment_recursion(fixed: bool) -> Any:
    """The forward recursion of temporal classification for a label of three signs: with probabilities, or with their logarithms."""
    frames = placeholder("frames", 12, 8)
    logits = dense(frames, 4, "frame")
    if fixed:
        steps = tf.nn.log_softmax(logits)[:, :3]

        def summed(before: Any, step: Any) -> Any:
            alpha = before[0]
            shifted = tf.concat([[_NEVER], alpha[:-1]], 0)
            top = tf.maximum(alpha, shifted)
            one, other = alpha - top, shifted - top
            powers = tf.exp(one) + tf.exp(other)
            logarithm = tf.log(powers)
            return top + logarithm + step, one, other, powers, logarithm

        none = tf.zeros([3])
        start = tf.constant([0.0, _NEVER, _NEVER]), none, none, none, none
        with tf.name_scope("paths") as scope:
            alpha, *shown = tf.scan(summed, steps, initializer=start, name=scope)
            for name, values in zip(("below", "below_1", "powers", "logarithm"), shown):
                tf.identity(values, name)
        cost = -alpha[-1, 2]
    else:
        steps = tf.nn.softmax(logits)[:, :3]
        with tf.name_scope("paths") as scope:
            start = tf.constant([1.0, 0.0, 0.0])
            alpha = tf.scan(lambda a, p: (a + tf.concat([[0.0], a[:-1]], 0)) * p, steps, initializer=start, name=scope)
        with tf.name_scope("cost"):
            cost = -tf.log(alpha[-1, 2])
    return trained(cost, tf.train.GradientDescentOptimizer(0.1))


@family(
    holds(r"(first|second)/Rsqrt", "a mean of squares, and 1e-6 more"),
    fails(
        "loss/truediv",
        "a batch whose targets are all padding",
        {"targets": 0},
        fixed="the number of targets that count is at least 1 by the maximum",
    ),
    holds("rate/Rsqrt", "a number of steps of at least 4000 by the maximum"),
    ranges={"words": (0, _WORDS - 1), "targets": (0, _WORDS - 1), "step": (0, 1e6)},
)
def transformer(fixed: bool) -> Any:
    """An encoder of one layer with smoothed labels; targets of 0 are padding."""
    words, targets = placeholder("words", 2, 5, integer=True), placeholder("targets", 2, 5, integer=True)
    step = placeholder("step")
    x = embedded(words, _WORDS, 8) * math.sqrt(8.0)
    query, key, value = (tf.tensordot(x, weight(name, 8, 8), 1) for name in ("query", "key", "value"))
    attention = tf.nn.softmax(tf.matmul(query, key, transpose_b=True) * (1.0 / math.sqrt(8.0)))
    x = layer_normalised(x + tf.matmul(attention, value), "first")
    flat = tf.reshape(x, [10, 8])
    x = layer_normalised(flat + dense(hidden(flat, 16, "wide"), 8, "narrow"), "second")
    wanted = tf.one_hot(tf.reshape(targets, [-1]), _WORDS, on_value=0.9, off_value=0.1 / (_WORDS - 1))
    each = tf.nn.softmax_cross_entropy_with_logits_v2(labels=wanted, logits=dense(x, _WORDS, "scores"))
    with tf.name_scope("loss"):
        counts = tf.cast(tf.not_equal(tf.reshape(targets, [-1]), 0), tf.float32)
        count = tf.reduce_sum(counts)
        loss = tf.reduce_sum(each * counts) / (tf.maximum(count, 1.0) if fixed else count)
    with tf.name_scope("rate"):
        rate = 0.35 * tf.minimum(1.0, step * (1.0 / 4000.0)) * tf.rsqrt(tf.maximum(step, 4000.0))
    return trained(loss, tf.train.AdamOptimizer(rate)), rate


@family(
    fails(
        "mixture/Log",
        "the word is not in the text, and the softmax of the vocabulary underflows",
        {
            "source": 1,
            "target": 0,
            "text": 1.0,
            "state/kernel": 1.0,
            "scores/kernel": [[-1.0] + [1.0] * 9] * 12,
            "scores/bias": [-1.0] + [1.0] * 9,
        },
        fixed="the probability is at least 1e-10 by the maximum",
    ),
    ranges={"text": (-1, 1), "source": (0, _WORDS - 1), "target": (0, _WORDS - 1)},
)
def pointer_generator(fixed: bool) -> Any:
    """A summariser that generates words or copies them from the text."""
    text, source = placeholder("text", 6, 8), placeholder("source", 6, integer=True)
    target = placeholder("target", 1, integer=True)
    states = hidden(text, 12, "state")
    context = tf.reduce_mean(states, 0, keepdims=True)
    generated = tf.nn.softmax(dense(context, _WORDS, "scores"))
    pointer = tf.nn.softmax(tf.transpose(dense(states, 1, "pointer")))
    copied = tf.matmul(pointer, tf.one_hot(source, _WORDS))
    with tf.name_scope("mixture"):
        share = tf.sigmoid(dense(context, 1, "share"))
        final = tf.reduce_sum((share * generated + (1.0 - share) * copied) * tf.one_hot(target, _WORDS), 1)
        loss = -tf.reduce_mean(tf.log(tf.maximum(final, 1e-10) if fixed else final))
    return trained(loss, tf.train.AdagradOptimizer(0.15))


@family(
    holds("loss/truediv", "the number of symbols is at least 1 by the maximum"),
    ranges={"symbols": (0, _WORDS - 1), "targets": (0, _WORDS - 1), "mask": "{0,1}"},
    resources=True,
)
def neural_gpu(fixed: bool) -> Any:
    """Gates of convolutions, applied again and again to a band of symbols, with sigmoids that are cut off."""
    symbols, targets = placeholder("symbols", 1, 6, integer=True), placeholder("targets", 1, 6, integer=True)
    mask = placeholder("mask", 1, 6)
    start = tf.reshape(embedded(symbols, _WORDS, 4), [1, 6, 1, 4])
    kernels = {name: weight(name, 3, 1, 4, 4) for name in ("update", "reset", "new")}

    def convolved(x: Any, name: str) -> Any:
        return tf.nn.conv2d(x, kernels[name], [1, 1, 1, 1], "SAME")

    def cut(x: Any) -> Any:
        return tf.clip_by_value(1.2 * tf.sigmoid(x) - 0.1, 0.0, 1.0)

    def step(count: Any, band: Any) -> Any:
        update, reset = cut(convolved(band, "update")), cut(convolved(band, "reset"))
        return count + 1, update * band + (1.0 - update) * tf.tanh(convolved(reset * band, "new"))

    _, band = tf.while_loop(lambda count, band: count < 6, step, [tf.constant(0), start])
    logits = dense(tf.reshape(band, [6, 4]), _WORDS, "scores")
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.reshape(targets, [-1]), logits=logits)
    with tf.name_scope("loss"):
        loss = tf.reduce_sum(each * tf.reshape(mask, [-1])) / tf.maximum(tf.reduce_sum(mask), 1.0)
    return trained(loss, tf.train.AdamOptimizer(1e-3, epsilon=1e-4))


@family(
    fails(
        "answer/Log",
        "the softmax of scores that are 90 apart underflows",
        {
            "story": 1,
            "question": 1,
            "memory": 0.99,
            "output": 0.99,
            "query": 0.99,
            "scores/kernel": [[-1.0] + [1.0] * 9] * 16,
        },
    ),
    ranges={"story": (0, _WORDS - 1), "question": (0, _WORDS - 1), "label": (0, _WORDS - 1)},
)
def memory_network(fixed: bool) -> Any:
    """Three hops over the sentences of a story; the logarithms of its answer are shown."""
    story, question = placeholder("story", 3, 5, integer=True), placeholder("question", 5, integer=True)
    label = placeholder("label", 1, integer=True)
    memory = tf.reduce_sum(embedded(story, _WORDS, 16, "memory"), 1)
    output = tf.reduce_sum(embedded(story, _WORDS, 16, "output"), 1)
    state = tf.reduce_sum(embedded(question, _WORDS, 16, "query"), 0, keepdims=True)
    for _ in range(3):
        weights = tf.nn.softmax(tf.matmul(state, memory, transpose_b=True))
        state += tf.matmul(weights, output)
    logits = dense(state, _WORDS, "scores")
    with tf.name_scope("answer"):
        answer = tf.nn.log_softmax(logits) if fixed else tf.log(tf.nn.softmax(logits))
    return trained(mean_cross_entropy(label, logits), tf.train.GradientDescentOptimizer(0.01)), answer
