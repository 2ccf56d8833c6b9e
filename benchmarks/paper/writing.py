"""What `make paper` leaves in `docs/paper`: the journal, results, the pages and the plots; and the headline of the README."""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from benchmarks.paper import plots
from benchmarks.paper.journal import Journal
from benchmarks.paper.page import page
from benchmarks.paper.table import Json, Section, Size
from benchmarks.paper.tables import TABLES

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs" / "paper"
README = ROOT / "README.md"
_VERSIONED = ("numpy", "onnx", "onnxruntime", "torch", "tensorflow-cpu", "jax", "keras")
_BEGIN, _END = "<!-- headline: written by `make paper` -->", "<!-- end of headline -->"


def write(sections: Mapping[str, Section], journal: Journal, size: Size) -> None:
    """All of it, each file at once or not at all."""
    conditions = made_on() | {
        "minutes": {name: journal.minutes(name) for name in sections},
        "sources": sorted(journal.sources()),
    }
    tables = {name: asdict(section) for name, section in sections.items()}
    DOCS.mkdir(parents=True, exist_ok=True)
    results = {**conditions, "size": size, "tables": tables}
    _replace(DOCS / "results.json", json.dumps(results, indent=1, sort_keys=True) + "\n")
    _replace(DOCS / "journal.jsonl", journal.path.read_text("utf-8"))
    drawn = dict(_plots(sections, journal))
    for name, text in drawn.items():
        _replace(DOCS / f"{name}.svg", text)
    _replace(DOCS / "README.md", "\n".join(_page(sections, conditions, size, drawn)))
    _replace(DOCS / "tables.html", page(sections, _made(conditions, size), drawn))
    headline = _headline(sections, conditions)
    before = README.read_text("utf-8")
    pattern = re.compile(re.escape(_BEGIN) + ".*?" + re.escape(_END), re.DOTALL)
    _replace(README, pattern.sub(lambda _: f"{_BEGIN}\n{headline}\n{_END}", before))


def made_on() -> Json:
    """When, and on what machine with what versions."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": {"processor": _processor(), "cores": os.cpu_count(), "system": platform.system()},
        "versions": {"python": platform.python_version(), **{name: version(name) for name in _VERSIONED}},
    }


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def _page(sections: Mapping[str, Section], conditions: Json, size: Size, drawn: Mapping[str, str]) -> Iterator[str]:
    yield "# The tables of the papers, repeated"
    yield ""
    yield (
        f"{_made(conditions, size)} The figures are in [results.json](results.json), the result of every case in "
        "[journal.jsonl](journal.jsonl); [tables.html](tables.html) is this page with tables that can be sorted."
    )
    yield ""
    for name in drawn:
        yield f"![{name.replace('_', ' ')}]({name}.svg)"
        yield ""
    for name, section in sections.items():
        yield f"## {section.title}"
        yield ""
        yield f"`python -m benchmarks.paper {name}`{_taken(conditions['minutes'][name])}"
        yield ""
        for line in section.lines:
            yield f"- {_markdown(line)}"
        for word, lines in (("Paper", section.paper), ("Set-up", section.setup)):
            for line in lines:
                yield f"- *{word}:* {_markdown(line)}"
        yield ""
        yield f"| {' | '.join(map(_markdown, section.columns))} |"
        yield "|" + " --- |" * len(section.columns)
        for row in section.rows:
            yield f"| {' | '.join(map(_markdown, row))} |"
        yield ""


def _made(conditions: Json, size: Size) -> str:
    return f"Written by `make paper` ({size}) on {conditions['date']}: {_machine(conditions)}.{_mixed(conditions)}"


def _machine(conditions: Json) -> str:
    """The machine, and the versions that were installed."""
    machine, versions = conditions["machine"], conditions["versions"]
    listed = ", ".join(f"{name} {number}" for name, number in sorted(versions.items()))
    return f"{machine['cores']} cores of {machine['processor']}, {listed}"


def _mixed(conditions: Json) -> str:
    """What has to be said of results that are not of one run."""
    states = len(conditions["sources"])
    if states < 2:
        return ""
    return f" Not one run: the results of {states} states of the sources are taken together, and some may be older than that day."


def _taken(minutes: float | None) -> str:
    return "" if minutes is None else f" ({minutes:.1f} minutes of one worker)"


def _markdown(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def _headline(sections: Mapping[str, Section], conditions: Json) -> str:
    """One line per table that has one, with the paper's figures beside ours."""
    rows = [f"| {section.title} | {section.lines[0]} | {' '.join(section.paper) or '-'} |" for section in sections.values()]
    minutes = [conditions["minutes"].get(name) for name in TABLES]
    taken = "" if None in minutes else f", {sum(minutes) / 60:.1f} hours of one worker"
    made = (
        f"Measured by `make paper` on {conditions['date']}, {_machine(conditions)}{taken}: "
        f"[tables](docs/paper/README.md).{_mixed(conditions)}"
    )
    missing = [name for name in TABLES if name not in sections]
    told = [f"Not measured yet: {', '.join(missing)}."] if missing else []
    return "\n".join(["| table | here | in the paper |", "| --- | --- | --- |", *rows, "", *told, made])


def _plots(sections: Mapping[str, Section], journal: Journal) -> Iterator[tuple[str, str]]:
    if "detection" in sections:
        figures = sections["detection"].figures
        counts = {word: {"bugs": float(figures[key])} for word, key in _DETECTED.items() if key in figures} | _OTHERS
        yield "detection", plots.bars("Bugs of GRIST's benchmark that a scan finds", counts, most=79)
    timed = {
        "unit test": [run["seconds"] for result in journal.results("unit_tests").values() for run in result["full"]],
        "detection": [result["seconds"] for result in journal.results("detection").values()],
    }
    if all(timed.values()):
        yield "seconds", plots.spread("CPU time per case", timed, axis="CPU seconds")
    shares = {
        at: [row["share"] for result in journal.results("preconditions").values() if (row := result["full"][at])["share"]]
        for at in ("both", "weights", "inputs")
    }
    if all(shares.values()):
        yield "spans", plots.spread("Share of the declared intervals that a precondition keeps", shares, axis="share")


#: What the plot of detection shows: ours under three boxes; DEBAR by GRIST's count, and RANUM's released code on the real graphs.
_DETECTED = {"ours": "found", "ours, ranum's weights": "found ranum", "ours, debar's weights": "found debar"}
_OTHERS = {"DEBAR (as GRIST counts)": {"bugs": 48.0}, "RANUM as released (forward)": {"bugs": 47.0}}


def _replace(path: Path, text: str) -> None:
    fresh = path.with_suffix(path.suffix + ".new")
    fresh.write_text(text, "utf-8")
    fresh.replace(path)
