"""Selection: which findings a user wants to see, by rule code and node name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from tensorproof.errors import ConfigurationError
from tensorproof.findings import Finding, Report
from tensorproof.rules import all_rules
from tensorproof.rules.rule import Rule

ALL = "ALL"

#: Weights that are numbers, not ranges: overflow of linear operators is then a defect.
_DEFINITE = ("fixed", "as trained")

_ENTRY = re.compile(r"(?P<code>[A-Za-z]+[0-9]*)(?:\[(?P<nodes>.+)\])?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Selector:
    """The beginning of rule codes (empty for all rules) and, for an ignore, a pattern of node names."""

    prefix: str
    nodes: str | None = None

    def covers(self, code: str) -> bool:
        return code.startswith(self.prefix)


@dataclass(frozen=True, slots=True)
class Selection:
    """What to show. An empty `select` is the default: all rules, but linear ones only where weights are fixed."""

    select: tuple[Selector, ...] = ()
    ignore: tuple[Selector, ...] = ()

    def shows(self, finding: Finding, *, weights_fixed: bool = True) -> bool:
        """Whether the user wants the finding."""
        return self.shows_rule(finding.rule, _subject(finding), weights_fixed=weights_fixed)

    def shows_rule(self, rule: Rule, subject: str, *, weights_fixed: bool = True) -> bool:
        """Whether the user wants a rule at a node, or in a source file.

        The longer prefix wins (`NUM203` over `NUM2`), and an ignore over its equal.
        """
        code = rule.code
        if any(s.nodes is not None and s.covers(code) and fnmatchcase(subject, s.nodes) for s in self.ignore):
            return False
        default = -1 if rule.linear and not weights_fixed else 0
        chosen = _longest(self.select, code) if self.select else default
        return chosen > _longest((s for s in self.ignore if s.nodes is None), code)


def parse_selection(select: Iterable[str] = (), ignore: Iterable[str] = ()) -> Selection:
    """A selection from options or configuration: codes, prefixes of codes or ALL, in each text one or several.

    An ignore may be limited to nodes, `NUM101[/decoder/*]`, or, in source, to files, `SHP201[legacy/*]`, with the patterns of
    `fnmatch`.
    """
    selectors = tuple(selector for text in select for selector in _parse("select", text))
    for selector in selectors:
        if selector.nodes is not None:
            raise ConfigurationError(f"select: [{selector.nodes}] names nodes, which only ignore can do")
    return Selection(selectors, tuple(selector for text in ignore for selector in _parse("ignore", text)))


def apply_selection(report: Report, selection: Selection) -> Report:
    """The report without the findings that are not wanted, which are counted.

    A consequence goes with its roots: it is dropped when all of them were dropped here.
    """
    fixed = report.assumptions.get("weights", "fixed") in _DEFINITE
    shown = [finding for finding in report.findings if selection.shows(finding, weights_fixed=fixed)]
    roots = {finding.node for finding in report.roots()}
    gone = roots - {finding.node for finding in shown if not finding.consequence_of}
    kept = tuple(f for f in shown if not f.consequence_of or not gone.issuperset(f.consequence_of))
    return report.with_findings(kept, suppressed=len(report.findings) - len(kept))


def _subject(finding: Finding) -> str:
    """What the pattern of an ignore is compared with: the node; the file of a finding in source."""
    file = finding.location.file if finding.is_source and finding.location is not None else None
    return finding.node if file is None else file


def _longest(selectors: Iterable[Selector], code: str) -> int:
    """The length of the longest prefix that covers the code, or -1."""
    return max((len(selector.prefix) for selector in selectors if selector.covers(code)), default=-1)


def _parse(option: str, text: str) -> Iterator[Selector]:
    for part in _split(text):
        match = _ENTRY.fullmatch(part)
        if match is None:
            raise ConfigurationError(f"{option}: {part!r} is not a rule code; write NUM1, NUM101, ALL or NUM101[nodes]")
        code = match["code"].upper()
        if code == ALL:
            yield Selector("", match["nodes"])
        elif any(known.startswith(code) for known in all_rules()):
            yield Selector(code, match["nodes"])
        else:
            raise ConfigurationError(f"{option}: no rule has a code that begins with {code!r}; see {', '.join(all_rules())}")


def _split(text: str) -> list[str]:
    """The parts between commas that are not inside brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character == "[") - (character == "]")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]
