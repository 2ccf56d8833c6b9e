"""The HTML format: one page that works offline, from a file, without anything from elsewhere.

Style and script are files of this package and are written into the page; what comes from models stands in it as JSON, in an element
that no browser runs, and reaches the reader as text. The page's own policy names the hashes of its style and script: nothing
else is applied, run or loaded, whatever a model calls its nodes.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from tensorproof.findings import Report
from tensorproof.report.html.page_data import page_data
from tensorproof.report.json_report import strict

#: In the order in which they are written into the page; later ones use what earlier ones define.
SCRIPTS = (
    "elements.js",
    "head.js",
    "range_chart.js",
    "finding_view.js",
    "comparison_view.js",
    "graph_model.js",
    "graph_bends.js",
    "graph_layout.js",
    "graph_drawing.js",
    "graph_details.js",
    "graph_view.js",
    "page.js",
)

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<noscript><p>This report is drawn by a script of its own; allow scripts for it.</p></noscript>
<div id="page"></div>
<script type="application/json" id="data">{data}</script>
<script>{script}</script>
</body>
</html>
"""


def render(reports: Sequence[Report], *, source_root: Path | None = None) -> str:
    """Findings, assumptions, coverage and, where the reports keep their models, graphs; two reports are compared, too."""
    return assembled(map(packaged, SCRIPTS), page_data(reports, source_root))


def assembled(scripts: Iterable[str], data: Any, title: str = "tensorproof report") -> str:
    """A page in the style of reports, which its scripts draw out of `data`; `title` is no text of a model."""
    style = packaged("page.css")
    script = '"use strict";\n' + "\n".join(scripts)
    policy = f"default-src 'none'; img-src data:; style-src '{_hash(style)}'; script-src '{_hash(script)}'"
    policy += "; base-uri 'none'; form-action 'none'"
    return _PAGE.format(policy=policy, title=title, style=style, script=script, data=embedded(data))


def embedded(value: Any) -> str:
    """JSON that can stand in a script element: no `<` ends it or opens a comment, and no character in it is invisible."""
    text = json.dumps(strict(value), separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    for character in "<>&\x7f":
        text = text.replace(character, f"\\u{ord(character):04x}")
    # GitHub's runner obeys `##[command]` in the log of a build that prints the page.
    return text.replace("##[", "#\\u0023[")


def packaged(name: str) -> str:
    """A file of this package: a script of the page, or its style sheet."""
    return resources.files(__name__).joinpath(name).read_text("utf-8")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
