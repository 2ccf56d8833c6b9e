"""The page of a rule for the terminal: `tensorproof explain CODE`."""

from __future__ import annotations

import re

from tensorproof.report.terminal import WIDTH, Page
from tensorproof.rules.rule import Rule

_BLANK = re.compile(r"\n[ \t]*\n")


def render_rule(rule: Rule, *, width: int = WIDTH, colour: bool = False) -> str:
    """Code, name and page. Paragraphs are wrapped, code is kept as it is written."""
    page = Page(width, colour)
    page.line((rule.code, "bold"), f" {rule.name} ({rule.severity})")
    if rule.linear:
        page.line("Off by default where weights are ranges; select its code to turn it on.", style="dim")
    for block in _BLANK.split(rule.page.strip()):
        heading, _, body = block.partition("\n") if block.startswith("## ") else ("", "", block)
        page.blank()
        if heading:
            page.line(heading.removeprefix("## "), style="bold")
        _body(page, body)
    return page.text()


def _body(page: Page, body: str) -> None:
    paragraph: list[str] = []
    for line in [*body.split("\n"), ""]:
        if line.startswith("    ") or not line.strip():
            if paragraph:
                page.line(" ".join(paragraph), indent=2, hang=0)
                paragraph = []
            if line.strip():
                page.line(line[4:], indent=4, hang=4)
        else:
            paragraph.append(line.strip())
