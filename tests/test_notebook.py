"""A report in a notebook: what it shows of models and of source, that nothing of a model becomes markup, and how it looks."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path

import pytest
from examples.models import transformer_float16, vae_loss

from tensorproof import Report, check_shapes
from tensorproof.files import write_text
from tensorproof.findings import Coverage, Unanalysed
from tensorproof.model_map import KEPT_NODES, MappedNode, MappedValue, ModelMap, NodeVerdict
from tensorproof.report.html.palette import palette
from tensorproof.report.notebook import SHOWN
from tensorproof.report.notebook.drawing import HEADROOM_ENDS, bits_text, headroom_class
from tensorproof.report.notebook.groups import OUTSIDE, grouped
from tensorproof.report.notebook.headroom_bars import MOST_BARS, headroom_bars
from tensorproof.report.notebook.module_graph import COLUMNS, MOST_BOXES, module_graph
from tensorproof.report.notebook.style import style
from tests.browser import INSTALL, Browser, chromium, is_installed
from tests.large_graphs import large_model
from tests.models import model, static

pytestmark = pytest.mark.area("notebook")

VAE = {"z": (-4, 4), "x": (0, 1)}
SCORES = {"hidden": (-16, 16), "mask": "mask"}
HOSTILE = "</style></title><script>alert('x')</script><img src=x onerror=alert(1)>\"&"


class Parsed(HTMLParser):
    """The elements of a piece of HTML, in order, and all its text; it has to be well nested."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("br", "img"):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open[-1] != "style":
            self.text += data + "\n"

    def count(self, tag: str, name: str = "") -> int:
        return (
            sum(found == tag and name in (attributes.get("class") or "").split() for found, attributes in self.tags)
            if name
            else [found for found, _ in self.tags].count(tag)
        )


def chain(names: list[str], bits: float | None = 3.0) -> ModelMap:
    """A map of nodes that read each other in turn, with the modules that their names say."""
    value = MappedValue("v", "float16", None, 0.0, 1.0, False, bits)
    nodes = [
        MappedNode(name, "Relu", name.rpartition("/")[0], None, (), (place - 1,) if place else (), (value,), NodeVerdict.SAFE)
        for place, name in enumerate(names)
    ]
    return ModelMap((), (), tuple(nodes))


# -- what is shown -----------------------------------------------------------------------------------------------------


def test_a_report_on_a_model() -> None:
    report = static(transformer_float16(), ranges=SCORES)
    page = Parsed(report._repr_html_())
    assert page.count("tr") == min(len(report.findings), SHOWN) + 1
    assert (
        f"checked, {report.coverage.nodes} nodes in all" in page.text
        and f"{len(report.proven_safe)} nodes proven safe" in page.text
    )
    worst = report.findings[0]
    assert worst.rule.code in page.text and worst.node in page.text and worst.message in page.text
    assert "Headroom per layer" in page.text and "largest float16" in page.text and "no bits left" in page.text
    assert page.count("svg") == 2 and not {"script", "iframe", "link", "img"} & {tag for tag, _ in page.tags}
    for tag, attributes in page.tags:
        assert not any(key.startswith("on") or "://" in (value or "") for key, value in attributes.items()), tag


def test_a_report_on_source(tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    file.write_text("import torch\nx = torch.zeros(2, 3)\ny = x @ torch.zeros(4, 5)\n")
    page = Parsed(check_shapes(file)._repr_html_())
    assert "net.py:3" in page.text and "1 certain" in page.text and "whose shape is fully known" in page.text
    assert page.count("svg") == 0 and "model_map" not in page.text
    assert page.count("th") == 4, "source has no ranges"


def test_a_report_without_findings() -> None:
    page = Parsed(static(model("(float[4] x) => (float[4] y)", "y = Relu(x)"), ranges={"x": (0, 1)})._repr_html_())
    assert "0 confirmed" in page.text and page.count("table") == 0 and page.count("svg") == 1


def test_the_first_findings_are_shown_and_the_others_counted() -> None:
    report = static(vae_loss(), ranges=VAE)
    many = replace(report, findings=report.findings[:1] * (SHOWN + 3))
    page = Parsed(many._repr_html_())
    assert page.count("tr") == SHOWN + 1 and "and 3 more findings" in page.text


def test_nothing_that_a_model_says_becomes_markup() -> None:
    proto = model("(float[4] x) => (float[4] y)", "a = Log(x)\nb = Exp(a)\ny = Sqrt(b)")
    for node in proto.graph.node:
        node.name = f"{HOSTILE}/{HOSTILE}/{node.op_type}"
    report = static(proto, ranges={"x": (0, 1)})
    finding = replace(report.findings[0], node=HOSTILE, op=HOSTILE, operand=HOSTILE, message=HOSTILE)
    coverage = Coverage(1, 1, 1, (Unanalysed(HOSTILE, HOSTILE, HOSTILE),), (HOSTILE,))
    hostile = replace(
        report,
        model=HOSTILE,
        target=HOSTILE,
        precision=HOSTILE,
        findings=(finding, *report.findings),
        coverage=coverage,
        errors=(HOSTILE,),
    )
    page = Parsed(hostile._repr_html_())
    assert HOSTILE in page.text and page.count("svg") >= 1
    assert {tag for tag, _ in page.tags} <= {
        *("div", "style", "strong", "span", "table", "thead", "tbody", "tr", "th", "td", "br", "h4"),
        *("svg", "g", "title", "text", "line", "rect", "path"),
    }


# -- the model in a report -----------------------------------------------------------------------------------------------


def test_small_models_are_kept_and_large_ones_when_asked() -> None:
    small, large = vae_loss(), large_model(KEPT_NODES + 40)
    assert static(small, ranges=VAE).model_map() is not None
    assert static(small, ranges=VAE, model_map=False).model_map() is None
    told = static(large)
    assert told.model_map() is None and "check(..., model_map=True)" in told._repr_html_()
    page = Parsed(static(large, model_map=True)._repr_html_())
    assert page.count("svg") == 2 and "model_map" not in page.text


def test_a_report_holds_on_to_no_arrays() -> None:
    kept = static(vae_loss(), ranges=VAE).analysed
    assert kept is not None and kept.model.constants == {}
    assert all(summary.without_array() is summary for found in kept.summaries for summary in found.values())


def test_a_watched_run_is_not_told_to_keep_a_model() -> None:
    report = Report("run", "torch-cpu", None, {}, Coverage(1, 1, 1), (), (), {})
    assert "model_map" not in report._repr_html_()


# -- groups --------------------------------------------------------------------------------------------------------------


def labels(mapped: ModelMap, most: int) -> list[str]:
    return [group.label for group in grouped(mapped, most)]


def test_modules_go_as_deep_as_there_is_room() -> None:
    names = [f"/net/stage{a}/block{b}/{op}" for a in range(3) for b in range(4) for op in ("Conv", "Relu")] + ["Softmax"]
    mapped = chain(names)
    assert labels(mapped, 40) == [f"net/stage{a}/block{b}" for a in range(3) for b in range(4)] + ["Softmax"]
    assert labels(mapped, 5) == ["net/stage0", "net/stage1", "net/stage2", "Softmax"]
    assert labels(mapped, 2) == ["net", "Softmax"]


def test_nodes_without_modules_are_bars_of_their_own_or_runs() -> None:
    flat = chain([f"n{place}" for place in range(100)])
    assert labels(flat, 100)[:2] == ["n0", "n1"]
    runs = grouped(flat, 40)
    assert len(runs) == 40 and [index for group in runs for index in group.nodes] == list(range(100))
    assert runs[0].label == "n0 to n1"
    mixed = chain([f"n{place}" for place in range(50)] + [f"/m{place % 3}/x{place}" for place in range(30)])
    assert labels(mixed, 10) == [OUTSIDE, "m0", "m1", "m2"]
    assert grouped(chain([]), 10) == []


def test_plots_stay_small() -> None:
    many = chain([f"/block{place}/{op}" for place in range(500) for op in ("a", "b")])
    assert Parsed(f"<div>{headroom_bars(many)}</div>").count("rect", "fill") == MOST_BARS
    assert Parsed(f"<div>{module_graph(many)}</div>").count("rect", "box") == MOST_BOXES
    assert headroom_bars(chain(["a", "b"], None)) == ""
    assert module_graph(chain(["a"])) == ""


def test_modules_that_take_turns_are_drawn() -> None:
    drawn = module_graph(chain(["/a/1", "/b/1", "/a/2", "/b/2", "/a/3", "c"]))
    assert Parsed(f"<div>{drawn}</div>").count("rect", "box") == 3


def test_many_modules_go_on_in_a_line_below() -> None:
    page = Parsed(f"<div>{module_graph(chain([f'/m{place}/x' for place in range(COLUMNS + 2)]))}</div>")
    boxes = [attributes for tag, attributes in page.tags if tag == "rect" and "box" in (attributes["class"] or "").split()]
    places = [(float(box["x"] or ""), float(box["y"] or "")) for box in boxes]
    assert [x for x, _ in places[COLUMNS:]] == [x for x, _ in places[:2]], "lines share their columns"
    assert len({y for _, y in places[:COLUMNS]}) == 1 and places[COLUMNS][1] > places[0][1]


# -- the same as on the page ---------------------------------------------------------------------------------------------


def test_classes_and_colours_are_those_of_the_page() -> None:
    files = resources.files("tensorproof.report.html")
    found = re.search(r"HEADROOM_ENDS = (\[.*?\])", files.joinpath("graph_model.js").read_text())
    assert found is not None
    assert [float(end) for end in found[1].strip("[]").split(",")] == list(HEADROOM_ENDS)
    assert palette("light")["h0"] == "#a50f15" and palette("dark")["h0"] == "#ff6b63"
    assert palette("light").keys() == palette("dark").keys()


@pytest.mark.parametrize(
    ("bits", "kind", "told"),
    [
        (-math.inf, "h0", "no bits left"),
        (0.0, "h0", "no bits left"),
        (0.5, "h1", "0.5 bits"),
        (1.0, "h2", "1 bit"),
        (15.96, "h4", "16 bits"),
        (127.6, "h5", "128 bits"),
        (math.inf, "h5", "all bits"),
        (None, "h6", ""),
    ],
)
def test_headroom_as_words_and_as_a_class(bits: float | None, kind: str, told: str) -> None:
    assert (headroom_class(bits), bits_text(bits)) == (kind, told)


# -- in a browser --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if not is_installed():
        pytest.fail(INSTALL, pytrace=False)
    with chromium() as opened:
        yield opened


#: How hosts say that they are dark, and what their ground is then.
HOSTS = {
    "light": ('data-jp-theme-light="true" style="background: #ffffff; color: #111111"', "light"),
    "dark": ('data-jp-theme-light="false" style="background: #111111; color: #e0e0e0"', "dark"),
    "vscode": ('class="vscode-dark" style="background: #1f1f1f; color: #cccccc"', "dark"),
}


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("system", ["light", "dark"])
def test_notebooks_light_and_dark(browser: Browser, tmp_path: Path, host: str, system: str) -> None:
    """The theme of the notebook counts, not that of the system; nothing overlaps, nothing is asked for."""
    body, theme = HOSTS[host]
    page = tmp_path / "notebook.html"
    report = static(transformer_float16(), ranges=SCORES)._repr_html_()
    write_text(page, f"<!doctype html><meta charset='utf-8'><body {body}>{report}</body>")
    browser.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": system}])
    browser.open(page)
    expected = palette("dark" if theme == "dark" else "light")
    colour = browser.js("getComputedStyle(document.querySelector('rect.fill.h0')).fill")
    assert colour == f"rgb({', '.join(str(int(expected['h0'][place : place + 2], 16)) for place in (1, 3, 5))})"
    assert browser.js("getComputedStyle(document.querySelector('svg text.mono')).fill === getComputedStyle(document.body).color")
    overlaps = """(() => {
        const boxes = [...document.querySelectorAll('.bars text')].map((text) => text.getBoundingClientRect());
        const apart = (a, b) => a.right <= b.left + 1 || b.right <= a.left + 1 || a.bottom <= b.top + 5 || b.bottom <= a.top + 5;
        return boxes.flatMap((a, i) => boxes.slice(i + 1).filter((b) => !apart(a, b))).length;
    })()"""
    assert browser.js(overlaps) == 0
    assert browser.js("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    errors, requests = browser.log()
    assert errors == [] and requests == [page.as_uri()]


def test_a_wide_graph_fits_and_edges_between_lines_cross_no_box(browser: Browser, tmp_path: Path) -> None:
    mapped = chain([f"/m{place}/x" for place in range(MOST_BOXES)])
    far = [(2 * COLUMNS, (1, 2 * COLUMNS - 1)), (MOST_BOXES - 1, (0, COLUMNS + 2, MOST_BOXES - 2))]
    nodes = list(mapped.nodes)
    for place, sources in far:
        nodes[place] = replace(nodes[place], sources=sources)
    drawn = module_graph(replace(mapped, nodes=tuple(nodes)))
    page = tmp_path / "graph.html"
    body = f'<div class="tensorproof-report"><div class="scrolled">{drawn}</div></div>'
    write_text(page, f"<!doctype html><meta charset='utf-8'><style>{style()}</style><body>{body}")
    browser.open(page)
    crossed = """(() => {
        const boxes = [...document.querySelectorAll('rect.box')].map((box) => box.getBBox());
        const isIn = (point, box) => point.x > box.x && point.x < box.x + box.width && point.y > box.y && point.y < box.y + box.height;
        return [...document.querySelectorAll('path.edge')].map((edge) => {
            const length = edge.getTotalLength();
            const points = [...Array(500).keys()].map((step) => edge.getPointAtLength(length * step / 499));
            return boxes.filter((box) => points.some((point) => isIn(point, box))).length;
        });
    })()"""
    edges = MOST_BOXES - 1 + 3
    assert browser.js(crossed) == [0] * edges
    assert browser.js(
        "(() => { const around = document.querySelector('.scrolled'); return around.scrollWidth <= around.clientWidth; })()"
    )


def test_the_system_counts_where_the_host_says_nothing(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "plain.html"
    write_text(page, f"<!doctype html><meta charset='utf-8'><body>{static(vae_loss(), ranges=VAE)._repr_html_()}</body>")
    browser.open(page)
    tones: list[str] = []
    for system in ("light", "dark"):
        browser.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": system}])
        tones.append(browser.js("getComputedStyle(document.querySelector('.tensorproof-report')).getPropertyValue('--red')"))
    assert tones == [palette("light")["red"], palette("dark")["red"]]
