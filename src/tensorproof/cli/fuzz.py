"""The `fuzz` command: generated networks on several frameworks, and where these disagree."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

from tensorproof.cli.output import complain, put_out, write_out
from tensorproof.errors import ConfigurationError
from tensorproof.report import FORMATS

if TYPE_CHECKING:
    from collections.abc import Generator

    from tensorproof.compare.catalogue import Coverage, PlanOptions
    from tensorproof.compare.fuzzing.campaign import CampaignResult, Progress
    from tensorproof.compare.workers.backend_id import BackendId

#: What is compared if nothing is said: every backend that is installed takes part.
DEFAULT_BACKENDS = (
    "keras:torch",
    "keras:tensorflow",
    "keras:numpy",
    "keras:openvino",
    "keras:jax",
    "onnxruntime",
    "openvino",
    "onnx-reference",
)
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True)
class FuzzOptions:
    """The command's options as they were given."""

    backends: tuple[str, ...] = ()
    layers: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    phases: tuple[str, ...] = ()
    tests: int | None = None
    budget: str | None = None
    seed: int = 0
    resume: bool = False
    out: Path = Path("tensorproof-fuzz")
    jobs: int | None = None
    engine: str = "pool"
    known_issues: Path | None = None
    time_limit: float = 60.0
    format: str = "terminal"
    output: Path | None = None


def run_fuzz(options: FuzzOptions) -> int:
    """Run a campaign and print what it found: 1 if there is a finding that is not known, 2 if it was interrupted before."""
    from tensorproof.compare.catalogue import Coverage, Plan
    from tensorproof.compare.fuzzing.campaign import CampaignOptions, run_campaign
    from tensorproof.compare.fuzzing.known_issues import read_known_issues

    if options.format not in FORMATS:
        raise ConfigurationError(f"unknown format {options.format!r}; known are {', '.join(FORMATS)}")
    if options.engine not in ("pool", "ray"):
        raise ConfigurationError(f"--engine {options.engine!r}: write pool or ray")
    budget = None if options.budget is None else parse_duration(options.budget)
    if options.tests is not None and options.tests < 1:
        raise ConfigurationError(f"--tests {options.tests}: at least 1")
    backends = _backends(options.backends)
    plan = Plan(options.seed, _plan_options(options, backends))
    settings: dict[str, Any] = {} if options.jobs is None else {"jobs": max(1, options.jobs)}
    campaign = CampaignOptions(
        backends=backends,
        seed=options.seed,
        tests=options.tests if options.tests is not None or budget is not None else 200,
        budget=budget,
        folder=options.out,
        resume=options.resume,
        engine=options.engine,
        known_issues=() if options.known_issues is None else read_known_issues(options.known_issues),
        time_limit=options.time_limit,
        **settings,
    )
    with _progress() as progress:
        result = run_campaign(campaign, plan, progress)
    coverage = Coverage()
    for number in result.numbers:
        coverage.add(plan[number])
    _put_out(result, coverage, options)
    if result.interrupted:
        complain("interrupted; --resume goes on with it")
    return 1 if result.shown else 2 if result.interrupted else 0


def parse_duration(text: str) -> float:
    """Seconds from `90`, `90s`, `10m`, `1h` or `1h30m`."""
    parts = re.findall(r"(\d+(?:\.\d+)?)([smh]?)", text)
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if "".join(number + unit for number, unit in parts) != text or not seconds:
        raise ConfigurationError(f"--budget {text!r}: write 90s, 10m or 1h30m")
    return seconds


def _backends(names: Sequence[str]) -> tuple[BackendId, ...]:
    from tensorproof.compare.fuzzing.discrepancy import backend_of

    return tuple(dict.fromkeys(backend_of(name) for name in names or DEFAULT_BACKENDS))


def _plan_options(options: FuzzOptions, backends: Sequence[BackendId]) -> PlanOptions:
    from tensorproof.compare.catalogue import PlanOptions, kinds
    from tensorproof.compare.spec import Dialect, Phase

    keras = any(backend.name.startswith("keras:") for backend in backends)
    onnx = any(not backend.name.startswith("keras:") for backend in backends)
    dialects = cast("tuple[Dialect, ...]", tuple(name for name, wanted in (("keras", keras), ("onnx", onnx)) if wanted))
    known = {name for dialect in dialects for name in kinds(dialect)}
    unknown = [name for name in options.layers if name not in known]
    if unknown:
        raise ConfigurationError(f"--layer {', '.join(unknown)}: not in the catalogue; there are {', '.join(sorted(known))}")
    wrong = [phase for phase in options.phases if phase not in get_args(Phase)]
    if wrong:
        raise ConfigurationError(f"--phase {', '.join(wrong)}: write {', '.join(get_args(Phase))}")
    chosen = frozenset(options.layers) or None
    return PlanOptions(
        dialects=dialects,
        kinds=chosen,
        dtypes=options.dtypes or None,
        phases=cast("tuple[Phase, ...]", options.phases) or None,
        networks=0.0 if chosen else PlanOptions.networks,
        mutations=0.0 if chosen else PlanOptions.mutations,
    )


def _put_out(result: CampaignResult, coverage: Coverage, options: FuzzOptions) -> None:
    from tensorproof.compare.fuzzing.reporting import to_json, to_report, to_text

    if options.format == "json":
        write_out(to_json(result, coverage.to_json()), options.output)
    elif options.format == "terminal":
        seen = options.output is None and sys.stdout.isatty()
        width = min(os.get_terminal_size().columns, 120) if seen else 100
        text = to_text(result, coverage.to_text().splitlines(), width=width, colour=seen and "NO_COLOR" not in os.environ)
        write_out(text, options.output)
    elif options.format == "html":
        from tensorproof.compare.fuzzing.campaign_page import to_html

        write_out(to_html(result, coverage.to_text().splitlines()), options.output)
    else:
        put_out([to_report(result)], options.format, options.output, Path.cwd())


@contextmanager
def _progress() -> Generator[Progress | None]:
    """Tests done, how fast, and distinct findings, on one line."""
    from tensorproof.cli.progress import shown_campaign

    with shown_campaign("fuzz") as show:
        yield show
