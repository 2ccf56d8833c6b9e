"""Development loop and `make soundness`.

python -m tests.soundness nodes [OPERATOR...]     all node cases, points and widened; closes with the counts
python -m tests.soundness trials [OPERATOR...]    random trials per operator and format
python -m tests.soundness tightness [OPERATOR...] width of the ranges against the hull that a search finds
python -m tests.soundness meanings [OPERATOR...]  meanings on torch against node cases and seeds
python -m tests.soundness missing                 operators of the standard without a block
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter

import numpy as np
import onnx

from tensorproof.formats import BFLOAT16, FLOAT16, FLOAT32, FLOAT64
from tensorproof.operators.table import find_operator
from tests.soundness.node_cases import node_cases
from tests.soundness.seeds import all_seeds
from tests.soundness.suite import run_node_case, seeds_of, small, stable_seed
from tests.soundness.tightness import measure
from tests.soundness.trials import Workbench, admits


def nodes(names: list[str], verbose: bool) -> int:
    counts: Counter[str] = Counter()
    for case in node_cases():
        if names and case.operator not in names:
            continue
        verdict, detail = run_node_case(case)
        counts[verdict] += 1
        if verdict != "passed" and (verbose or verdict == "unsound"):
            print(f"{verdict}: {case.name}: {detail}")
    print(f"{counts['passed']} passed, {counts['unsound']} unsound, {counts['unsupported']} unsupported")
    return 1 if counts["unsound"] else 0


def meanings(names: list[str], verbose: bool) -> int:
    from tests.soundness.meanings import run_meaning

    counts: Counter[str] = Counter()
    for case in [*node_cases(), *all_seeds()]:
        if names and case.label not in names and case.operator not in names:
            continue
        verdict, detail = run_meaning(case)
        counts[verdict] += 1
        if verdict != "passed" and (verbose or verdict == "wrong"):
            print(f"{verdict}: {case.name}: {detail}")
    print(f"{counts['passed']} passed, {counts['wrong']} wrong, {counts['missing']} missing")
    return 1 if counts["wrong"] else 0


def trials(names: list[str], count: int, seed: int) -> int:
    failures = 0
    grouped = seeds_of([*node_cases(), *all_seeds()])
    for label, seeds in sorted(grouped.items()):
        if names and label not in names:
            continue
        start, tally, skipped, bad = time.process_time(), 0, Counter[str](), 0
        for format in (FLOAT32, FLOAT16, FLOAT64, BFLOAT16):
            usable = small([s for s in seeds if admits(s, format)])
            for number in range(max(1, count // max(1, len(usable))) if usable else 0):
                for s in usable[:count]:
                    rng = np.random.default_rng([seed, number, stable_seed(s.name)])
                    try:
                        bench = Workbench(s, format)
                    except Exception as error:  # the oracle does not know the operator in this format
                        skipped[f"{format} oracle: {str(error)[:80]}"] += 1
                        continue
                    try:
                        outcome = bench.trial(rng)
                    except Exception:
                        print(f"CRASH {label} {format} {s.name}\n{traceback.format_exc(limit=-4)}")
                        bad += 1
                        continue
                    tally += outcome.samples
                    if outcome.skipped:
                        skipped[outcome.skipped[:100]] += 1
                    for text in outcome.violations:
                        bad += 1
                        if bad <= 5:
                            print(f"UNSOUND {label} {format} {s.name}: {text[:1500]}")
        failures += bad
        reasons = "; ".join(f"{n}x {why}" for why, n in skipped.most_common(2))
        print(f"{label}: {tally} samples, {bad} bad, {time.process_time() - start:.1f} s {reasons}")
    return 1 if failures else 0


def tightness(names: list[str], count: int, seed: int) -> int:
    grouped = seeds_of([*node_cases(), *all_seeds()])
    for label, seeds in sorted(grouped.items()):
        if label == "expanded" or (names and label not in names):
            continue
        measured = measure(label, small(seeds), count=count, seed=seed)
        print(measured)
    return 0


def missing() -> int:
    names = sorted(s.name for s in onnx.defs.get_all_schemas() if s.domain == "" and find_operator("", s.name) is None)
    print(len(names), " ".join(names))
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=("nodes", "trials", "tightness", "meanings", "missing"))
    parser.add_argument("operators", nargs="*")
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--verbose", "-v", action="store_true")
    arguments = parser.parse_args()
    if arguments.command == "nodes":
        sys.exit(nodes(arguments.operators, arguments.verbose))
    if arguments.command == "meanings":
        sys.exit(meanings(arguments.operators, arguments.verbose))
    if arguments.command == "trials":
        sys.exit(trials(arguments.operators, arguments.count, arguments.seed))
    if arguments.command == "tightness":
        sys.exit(tightness(arguments.operators, arguments.count, arguments.seed))
    sys.exit(missing())
