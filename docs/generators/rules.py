"""One page per rule, which is its docstring, and their list."""

from __future__ import annotations

import re

from docs.generators.markdown import page, table
from tensorproof.rules import all_rules

#: Families of codes, in the words of the list.
FAMILIES = {
    "NUM1": "Outside of an operator's domain",
    "NUM2": "Overflow",
    "NUM3": "Constants that vanish or round away",
    "NUM4": "Gradients",
    "NUM5": "Expressions in source",
    "NUM6": "Against what was once measured",
    "SHP1": "Shapes that cannot fit",
    "SHP2": "Shapes that are hardly meant",
    "CMP1": "Two models that part",
    "CMP2": "Frameworks that disagree",
}


def pages() -> dict[str, str]:
    rules = all_rules()
    lines = ["# Rules", "", "`tensorproof explain CODE` shows the same pages in the terminal."]
    for family, title in FAMILIES.items():
        rows = [
            (f"[{rule.code}](rules/{rule.code}.md)", rule.name, rule.severity, rule.summary)
            for rule in rules.values()
            if rule.code.startswith(family)
        ]
        lines += ["", f"## {title}", "", *table(("code", "name", "severity", "what"), rows)]
    result = {"rules.md": page(*lines)}
    for rule in rules.values():
        assert any(rule.code.startswith(family) for family in FAMILIES), f"{rule.code}: add its family to the list"
        body = rule.page.strip().split("\n", 1)[1].strip()
        # An indented block needs an empty line before it in some renderers.
        body = re.sub(r"^(## .*)\n", r"\1\n\n", body, flags=re.MULTILINE)
        result[f"rules/{rule.code}.md"] = page(f"# {rule.code} {rule.name}", "", f"{rule.summary}.", "", body)
    return result
