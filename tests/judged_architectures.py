"""Runs in TensorFlow that judge the facts about architectures, in a process of their own:

    python -m tests.judged_architectures RUNS

prints one JSON object, by architecture and form.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from benchmarks.architectures import architectures
from benchmarks.architectures.architecture import Deferred, Family, fails, holds
from benchmarks.architectures.judging import judged

tf: Any = Deferred("tensorflow.compat.v1")
mistaken = Family("mistaken")


@mistaken(
    fails("claimed/Exp", "it does not", {"x": 1.0}),
    holds("denied/Log", "it does"),
    holds("nowhere/Log", "there is none"),
    ranges={"x": (0, 1)},
)
def wrong_on_purpose(fixed: bool) -> Any:
    x = tf.placeholder(tf.float32, [2], name="x")
    with tf.name_scope("claimed"):
        total = tf.exp(x)
    with tf.name_scope("denied"):
        total += tf.log(x)
    with tf.name_scope("forgotten"):
        return total + tf.sqrt(x)


def main(runs: int) -> None:
    entries = (*architectures(), *mistaken.entries.values())
    print(json.dumps({entry.name: {form: judged(entry, form, runs) for form in entry.forms} for entry in entries}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
