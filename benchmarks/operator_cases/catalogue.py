"""All pairs, by name."""

from __future__ import annotations

from benchmarks.operator_cases.attention import ATTENTION
from benchmarks.operator_cases.brain_floats import BFLOAT16
from benchmarks.operator_cases.derivatives import DERIVATIVES
from benchmarks.operator_cases.half_precision import HALF
from benchmarks.operator_cases.inverse_functions import INVERSES
from benchmarks.operator_cases.loops import LOOPS
from benchmarks.operator_cases.losses import LOSSES
from benchmarks.operator_cases.normalisation import NORMALISATION
from benchmarks.operator_cases.pairs import Pair
from benchmarks.operator_cases.powers import POWERS
from benchmarks.operator_cases.quantisation import QUANTISATION
from benchmarks.operator_cases.ratios import RATIOS
from benchmarks.operator_cases.sampling import SAMPLING
from benchmarks.operator_cases.special_functions import SPECIAL

FAMILIES = (
    POWERS,
    INVERSES,
    SPECIAL,
    RATIOS,
    NORMALISATION,
    HALF,
    BFLOAT16,
    LOOPS,
    ATTENTION,
    QUANTISATION,
    LOSSES,
    SAMPLING,
    DERIVATIVES,
)

PAIRS: dict[str, Pair] = {pair.name: pair for family in FAMILIES for pair in family.pairs}
