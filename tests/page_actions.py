"""What readers do in the graph of a page, and how long it keeps the page busy."""

from __future__ import annotations

from tests.browser import Browser

#: What the steps below speak of, in the page of `tests.large_graphs`.
_NAMES = """
const view = document.querySelector('.graph').graphView;
const stage = view.model.modules.find((module) => module.path === 'stage3');
const far = view.model.nodes[7777];
"""

#: For each action, what comes before it and the action itself.
ACTIONS = {
    "open a module": ("stage.open && view.toggle(stage)", "view.toggle(stage)"),
    "fold a module": ("stage.open || view.toggle(stage)", "view.toggle(stage)"),
    "search": ("", "view.search.value = 'block321 tanh'; view.showResults()"),
    "jump to a match": ("view.setAll(false)", "view.reveal(far)"),
    "select a node": ("view.select(null)", "view.select(far)"),
    "zoom": ("", "view.zoom(1.1)"),
    "pan": ("", "view.pan(30, 30)"),
    "colour by verdict": ("view.setMode('headroom')", "view.setMode('verdict')"),
    "fold all": ("view.reveal(far)", "view.setAll(false)"),
}


def actions(browser: Browser, rounds: int = 3) -> dict[str, float]:
    """Milliseconds of each action, drawing included; the best of some rounds, because the machine may be busy."""
    timed = "const start = performance.now(); {step}; view.draw(true); return performance.now() - start;"
    return {name: min(_done(browser, name, timed) for _ in range(rounds)) for name in ACTIONS}


def laid_out(browser: Browser) -> dict[str, int]:
    """How many nodes and modules have a place after each action: what it costs grows with them, on any machine."""
    counted = "{step}; view.draw(true); return view.graph.items.length;"
    return {name: int(_done(browser, name, counted)) for name in ACTIONS}


def _done(browser: Browser, name: str, script: str) -> float:
    before, step = ACTIONS[name]
    return float(browser.js(f"(() => {{ {_NAMES} {before}; view.draw(true); {script.replace('{step}', step)} }})()"))
