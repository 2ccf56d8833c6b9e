"""How a report looks in a notebook, whatever its theme.

Texts have the colour of the notebook, so that they can be read on any ground. Chips bring their own ground, and plots are in
colours of the page: its dark ones where a notebook says that it is dark (JupyterLab, VS Code, Colab), or else the system.
"""

from __future__ import annotations

from importlib import resources

from tensorproof.report.html.palette import Theme, palette

#: Everything stands in an element of this class. It is written twice in selectors: notebooks have styles for tables, too.
NAME = "tensorproof-report"
_SCOPE = f".{NAME}.{NAME}"

_DARK = (
    '[data-jp-theme-light="false"]',
    ".vscode-dark",
    ".vscode-high-contrast:not(.vscode-high-contrast-light)",
    '[theme="dark"]',
)
_KNOWN = ("[data-jp-theme-light]", '[class*="vscode-"]', '[theme="light"]')
_USED = ("red", "amber", "green", "teal", "violet", "grey", "h0", "h1", "h2", "h3", "h4", "h5")
#: The colour of each verdict, as on the page.
VERDICTS = {
    "confirmed": "red",
    "certain": "red",
    "possible": "amber",
    "proven safe": "green",
    "proven safe if": "teal",
    "not analysed": "violet",
    "note": "grey",
}


def style() -> str:
    """The style sheet, for all reports of a notebook the same."""
    rules = resources.files("tensorproof.report.notebook").joinpath("notebook.css").read_text("utf-8")
    dark = ", ".join(f"{host} {_SCOPE}" for host in _DARK)
    other = f":root:not({', '.join(_KNOWN)}) body:not({', '.join(_KNOWN)}) {_SCOPE}"
    return "\n".join(
        [
            f"{_SCOPE} {{ {_colours('light')} }}",
            f"@media (prefers-color-scheme: dark) {{ {other} {{ {_colours('dark')} }} }}",
            f"{dark} {{ {_colours('dark')} }}",
            rules.replace(f".{NAME}", _SCOPE).strip(),
        ]
    )


def _colours(theme: Theme) -> str:
    """The properties that the style sheet uses."""
    return " ".join(f"--{name}: {colour};" for name, colour in palette(theme).items() if name.startswith(_USED))
