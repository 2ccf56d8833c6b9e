"""The tables of the papers as one page in the style of reports: self-contained, with its plots, and sortable tables."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path

from benchmarks.paper.table import Section
from tensorproof.report.html import assembled, packaged

_SCRIPT = Path(__file__).with_name("page.js")


def page(sections: Mapping[str, Section], made: str, plots: Mapping[str, str]) -> str:
    """The page; `made` says when and on what, `plots` are SVG texts by name.

    A plot is an image of its own: its style stays in it, and it follows the theme of the page.
    """
    data = {
        "made": made,
        "plots": [[name.replace("_", " "), _image(text)] for name, text in plots.items()],
        "sections": [
            {
                "name": name,
                "title": section.title,
                "command": f"python -m benchmarks.paper {name}",
                "columns": section.columns,
                "rows": section.rows,
                "lines": section.lines,
                "paper": section.paper,
                "setup": section.setup,
            }
            for name, section in sections.items()
        ],
    }
    scripts = (packaged("elements.js"), packaged("head.js"), _SCRIPT.read_text("utf-8"))
    return assembled(scripts, data, "The tables of the papers - tensorproof")


def _image(drawn: str) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(drawn.encode()).decode()}"
