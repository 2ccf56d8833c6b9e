"""Plans for float16: how many nodes stay in float32 on networks with planted overflow, sampled and proven."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from tests import low_precision_models

from benchmarks.timing import cpu_seconds
from tensorproof import plan

#: The networks, with the ranges of their inputs.
NETWORKS: dict[str, dict[str, Any]] = {
    "bert": {"ids": (0, low_precision_models.WORDS - 1), "mask": "mask@-1"},
    "diffusion": {"x": (-4, 4), "time": (0, 1000)},
}


def main(arguments: Sequence[str] = ()) -> None:
    """The table of all networks and guarantees."""
    console = Console(width=150)
    columns = ("network", "guarantee", "stay in float32", "of floating nodes", "share", "float16 alone fails on", "check", "CPU s")
    table = Table(*columns, title="plans for float16")
    for name, ranges in NETWORKS.items():
        proto = getattr(low_precision_models, name)()
        for guarantee in ("sampled", "proven"):
            started = cpu_seconds()
            found = plan(proto, precision="float16", guarantee=guarantee, ranges=ranges)
            stays = len(found.kept) + len(found.fixed)
            failures = f"{found.plain_failures} of {found.samples} samples"
            check = "passed" if found.passed else "failed"
            numbers = (
                str(stays),
                str(found.floating_nodes),
                f"{found.share:.1%}",
                failures,
                check,
                f"{cpu_seconds() - started:.0f}",
            )
            table.add_row(name, guarantee, *numbers)
            console.print(f"{name} {guarantee}: {', '.join(numbers)}", style="dim", highlight=False)
    console.print(table)


if __name__ == "__main__":
    main(sys.argv[1:])
