"""`make bench`: the tables by which speed, memory and precision are judged. Names of tables as arguments choose some of them.

The tables of the papers are made by `benchmarks.paper`.
"""

from __future__ import annotations

import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")

import importlib

TABLES = (
    "speed",
    "memory",
    "scale",
    "tensorflow_scale",
    "float16",
    "abstractions",
    "watch",
    "torch_models",
    "framework_models",
    "shapes",
    "fuzzing",
    "report_page",
)
#: Tables that take longer, and are made when they are named.
LONG_TABLES = (
    "plans",
    "program_repairs",
    "installed_sources",
    "localisation",
)


def main(names: list[str]) -> int:
    known = (*TABLES, *LONG_TABLES)
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"benchmarks: no table {', '.join(unknown)}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    for name in names or TABLES:
        importlib.import_module(f"benchmarks.{name}").main()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
