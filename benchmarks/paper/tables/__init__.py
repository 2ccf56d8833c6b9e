"""One module per table, in the order of the papers; `benchmarks/paper/table.py` says what each has."""

from __future__ import annotations

#: DEBAR; RANUM's detection, tables I, II and III, and its study of repairs; GRIST; AUDEE; Pythia; and what none of them has.
TABLES = (
    "debar",
    "detection",
    "unit_tests",
    "system_tests",
    "preconditions",
    "repairs",
    "developers",
    "operators",
    "grist",
    "grist_twins",
    "grist_sweep",
    "audee_seeds",
    "audee_levels",
    "audee_findings",
    "audee_localisation",
    "pythia",
)
