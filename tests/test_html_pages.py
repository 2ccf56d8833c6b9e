"""The HTML report in a browser: what a reader sees, clicks and types; large graphs, hostile names, both themes, paper."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from examples.models import transformer_float16, vae_loss
from onnx import TensorProto, helper, numpy_helper

from tensorproof import check, check_shapes
from tensorproof.files import write_text
from tensorproof.report import html
from tests.browser import INSTALL, Browser, chromium, is_installed
from tests.commands import tensorproof
from tests.large_graphs import large_model
from tests.models import model, static
from tests.page_actions import laid_out

pytestmark = pytest.mark.area("html pages")

VAE = {"z": (-4, 4), "x": (0, 1)}
SCORES = {"hidden": (-16, 16), "mask": "mask"}
#: Nodes and modules that are drawn at a time, of 10,000.
FEW = 500


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if not is_installed():
        pytest.fail(INSTALL, pytrace=False)
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="module")
def vae(folder: Path) -> Path:
    return written(folder / "vae.html", check(vae_loss(), ranges=VAE, model_map=True, witnesses=folder / "witnesses"))


@pytest.fixture(scope="module")
def half(folder: Path) -> Path:
    return written(folder / "half.html", static(transformer_float16(), ranges=SCORES, model_map=True))


@pytest.fixture(scope="module")
def large(folder: Path) -> Path:
    return written(folder / "large.html", static(large_model(), model_map=True))


def written(path: Path, *reports: Any) -> Path:
    write_text(path, html.render(reports))
    return path


def at(browser: Browser, name: str) -> dict[str, Any]:
    """Where a node or module of the graph is in the window."""
    browser.js("document.querySelector('.graph').scrollIntoView()")
    browser.frame()
    found = browser.js("document.querySelector('.graph').graphView.locate(arguments[0])", name)
    assert isinstance(found, dict), f"no node {name}"
    return found


def click_node(browser: Browser, name: str) -> None:
    place = at(browser, name)
    browser.click_at(place["x"], place["y"])


def toggle(browser: Browser, module: str) -> None:
    sign = at(browser, module)["sign"]
    browser.click_at(sign["x"], sign["y"])


def shown(browser: Browser) -> int:
    """How many nodes and modules are on the canvas or around it."""
    return int(browser.js("document.querySelector('.graph').graphView.graph.items.length"))


def clean(browser: Browser, page: Path) -> None:
    errors, requests = browser.log()
    assert errors == []
    assert {request for request in requests if not request.startswith("data:")} == {page.as_uri()}


def test_a_page_opens_without_errors_and_asks_for_nothing(browser: Browser, vae: Path) -> None:
    browser.open(vae)
    browser.frame()
    clean(browser, vae)
    assert "vae_loss" in browser.driver.title
    assert "NUM101" in browser.text(".card summary") and "confirmed" in browser.text(".card summary")
    assert "q of Log lies in [0, 1]" in browser.text(".message")
    assert "z" in browser.text(".card table")
    assert browser.js("document.querySelectorAll('svg.chart').length") >= 1
    assert "input" in browser.text(".sheets") and "10 of 10 checkable nodes" in browser.text(".sheets")
    assert browser.js("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_a_click_on_a_node_shows_its_range_and_trail(browser: Browser, vae: Path) -> None:
    browser.open(vae)
    click_node(browser, "/p/Sigmoid")
    details = browser.text(".details")
    assert "Sigmoid" in details and "[0, 1]" in details and "128 bits" in details and "float32, 4 x 32" in details
    assert browser.js("document.querySelector('.details svg.chart').getAttribute('aria-label').includes('decoded')")
    click_node(browser, "/log_q/Log")
    assert "confirmed" in browser.text(".details .chips") and "NUM101" in browser.text(".details .chips")


def test_operands_lead_to_the_nodes_that_made_them(browser: Browser, vae: Path) -> None:
    browser.open(vae)
    click_node(browser, "/log_q/Log")
    browser.click(".details .reads button")
    assert browser.text(".details .title") == "Sub"
    browser.click(".card .link")
    assert browser.text(".details .title") == "Log"
    assert browser.js("document.activeElement.tagName") == "CANVAS"


def test_what_is_drawn_has_the_colour_of_its_headroom(browser: Browser, half: Path) -> None:
    """The band of a node is red where nothing is left, and of the colour of its verdict after the switch."""

    def band(name: str) -> list[int]:
        code = """(() => { const view = document.querySelector('.graph').graphView; view.draw(true);
            const node = view.model.nodes.find((other) => other.name === arguments[0]);
            const x = view.view.x + (node.ax + 4) * view.view.scale, y = view.view.y + (node.ay + node.h / 2) * view.view.scale;
            return [...view.canvas.getContext('2d').getImageData(Math.round(x), Math.round(y), 1, 1).data].slice(0, 3); })()"""
        return list(browser.js(code.replace("arguments[0]", f"'{name}'")))

    browser.open(half)
    at(browser, "/scores/MatMul")
    assert band("/scores/MatMul") == [0xA5, 0x0F, 0x15]
    assert band("/q_flat/MatMul") == [0x6B, 0x9E, 0x3C]
    browser.click("[data-mode=verdict]")
    assert band("/scores/MatMul") == [0x8F, 0x5A, 0x00]
    assert "possible" in browser.text(".legend")


@pytest.mark.parametrize("width", [300, 380, 760])
@pytest.mark.parametrize("end", ["1e5", "1e-3", "40000"])
def test_labels_of_limits_touch_neither_each_other_nor_the_edge(browser: Browser, half: Path, width: int, end: str) -> None:
    browser.open(half)
    code = """(() => {
        const steps = [{ value: 'x', op: 'Exp', range: [-70000, ARG] }, { value: 'y', op: 'Add', range: [-1, 1] }];
        const chart = rangeChart(steps, { largest: 65504, limit: 240, isMagnitude: true, format: 'float16', width: WIDTH });
        document.body.append(chart);
        const whole = chart.getBoundingClientRect();
        const boxes = [...chart.querySelectorAll('.limit text')].map((text) => text.getBoundingClientRect());
        const apart = (a, b) => a.right <= b.left || b.right <= a.left || a.bottom <= b.top + 2 || b.bottom <= a.top + 2;
        return {
            labels: boxes.length,
            apart: boxes.every((a, i) => boxes.slice(i + 1).every((b) => apart(a, b))),
            inside: boxes.every((a) => a.left >= whole.left - 1 && a.right <= whole.right + 1 && a.top >= whole.top - 1),
        };
    })()"""
    assert browser.js(code.replace("ARG", end).replace("WIDTH", str(width))) == {"labels": 4, "apart": True, "inside": True}


def test_one_bit_is_one_bit(browser: Browser, half: Path) -> None:
    browser.open(half)
    told = browser.js("[0, 0.4, 1, 1.04, 1.06, 127.6, Infinity, -Infinity].map(bitsText)")
    assert told == ["0 bits", "0.4 bits", "1 bit", "1 bit", "1.1 bits", "128 bits", "all bits", "0 bits"]


def test_no_room_is_wasted_beside_a_long_list_of_assumptions(browser: Browser, half: Path) -> None:
    """What is left empty of the cards of the summary is less than a few lines."""
    browser.open(half)
    code = """[...document.querySelectorAll('.sheets > div')].map((card) => {
        const box = card.getBoundingClientRect();
        return [Math.round(box.width), Math.round(box.bottom - card.lastElementChild.getBoundingClientRect().bottom)];
    })"""
    cards = browser.js(code)
    assert len({width for width, _ in cards}) == 1 and all(rest < 30 for _, rest in cards), cards


def test_search_jumps_to_the_match(browser: Browser, large: Path) -> None:
    browser.open(large)
    at(browser, "/head/Log")
    browser.keys("/")
    assert browser.js("document.activeElement.type") == "search"
    browser.keys("block321 matmul")
    assert "/stage6/block321/left/MatMul" in browser.text(".results")
    browser.keys("\ue007")
    assert browser.text(".details .title") == "MatMul"
    place = at(browser, "stage6/block321/left")
    assert place["name"] == "left"
    box = browser.js(
        "(({left, right, top, bottom}) => ({left, right, top, bottom}))(document.querySelector('canvas').getBoundingClientRect())"
    )
    selected = browser.js("(() => { const v = document.querySelector('.graph').graphView; return v.locate(v.selected.name); })()")
    assert box["left"] < selected["x"] < box["right"] and box["top"] < selected["y"] < box["bottom"]
    browser.keys("/", "no such node")
    assert "No match" in browser.text(".results")


def test_modules_fold_and_open(browser: Browser, large: Path) -> None:
    browser.open(large)
    folded = shown(browser)
    assert folded < 20
    toggle(browser, "stage0")
    assert shown(browser) == folded + 50
    toggle(browser, "stage0/block3")
    assert shown(browser) > folded + 50
    browser.click_at(at(browser, "stage0/block3/left")["x"], at(browser, "stage0/block3/left")["y"], times=2)
    assert shown(browser) > folded + 58
    toggle(browser, "stage0")
    assert shown(browser) == folded
    click_node(browser, "stage4")
    assert "1,000 nodes" in browser.text(".details") and "Open this module" in browser.text(".details")
    browser.click(".details .button")
    assert shown(browser) == folded + 50
    clean(browser, large)


def test_the_keyboard_is_enough(browser: Browser, large: Path) -> None:
    browser.open(large)
    at(browser, "stage0")
    browser.js("document.querySelector('canvas').focus()")
    view = "(({x, y, scale}) => [x, y, scale])(document.querySelector('.graph').graphView.view)"
    x, y, scale = browser.js(view)
    browser.keys("\ue012")
    browser.keys("\ue013")
    assert browser.js(view)[:2] == [x + 80, y + 80]
    browser.keys("+")
    assert browser.js(view)[2] > scale
    browser.keys("-")
    assert browser.js(view)[2] == pytest.approx(scale)
    before = shown(browser)
    browser.keys("j", "j", "\ue007")
    assert shown(browser) > before
    browser.keys("\ue007")
    assert shown(browser) == before
    browser.keys("\ue00c")
    assert "Select a node" in browser.text(".details")


def test_everything_is_reached_by_tab_and_has_a_ring(browser: Browser, vae: Path) -> None:
    browser.open(vae)
    seen: list[str] = []
    for _ in range(40):
        browser.keys("\ue004")
        seen.append(str(browser.js("`${document.activeElement.tagName}.${document.activeElement.className}`")))
        ring = browser.js(
            "document.activeElement === document.body ? '3px' : getComputedStyle(document.activeElement).outlineWidth"
        )
        assert ring == "3px", seen[-1]
    assert {"BUTTON.button theme", "SUMMARY.", "BUTTON.copy", "INPUT.", "CANVAS.", "ASIDE.details"} <= set(seen)
    unnamed = "[...document.querySelectorAll('button, input, canvas, [role=img]')].filter((e) => !e.textContent.trim() && !e.getAttribute('aria-label')).length"
    assert browser.js(unnamed) == 0


CONTRAST = """(() => {
  const parse = (text) => { const n = text.match(/[\\d.]+/g).map(Number); return n.length > 3 ? n : [...n, 1]; };
  const ground = (element) => {
    let found = [];
    for (let e = element; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c[3] > 0) { found = c; break; } }
    return found.length ? found : [255, 255, 255, 1];
  };
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)).reduce((s, v, i) => s + v * [0.2126, 0.7152, 0.0722][i], 0);
  const poor = [];
  for (const element of document.querySelectorAll('#page *')) {
    if (element.closest('svg') || !element.offsetParent || ![...element.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) continue;
    const [a, b] = [light(parse(getComputedStyle(element).color)), light(ground(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) poor.push(`${element.className || element.tagName} ${ratio.toFixed(2)} ${element.textContent.slice(0, 20)}`);
  }
  return poor;
})()"""


def test_both_themes_are_legible_and_the_choice_is_remembered(browser: Browser, vae: Path) -> None:
    browser.open(vae)
    ground = "getComputedStyle(document.body).backgroundColor"
    assert browser.js(ground) == "rgb(245, 246, 248)"
    assert browser.js(CONTRAST) == []
    browser.click(".theme")
    browser.click(".theme")
    assert browser.text(".theme") == "Theme: dark"
    assert browser.js(ground) == "rgb(15, 18, 23)"
    assert browser.js(CONTRAST) == []
    # What a page remembers reaches the next one through another process, sooner or later.
    for _ in range(10):
        browser.open(vae)
        if browser.js(ground) == "rgb(15, 18, 23)":
            break
        time.sleep(0.2)
    assert browser.text(".theme") == "Theme: dark"
    assert browser.js(ground) == "rgb(15, 18, 23)"
    browser.click(".theme")
    assert browser.text(".theme") == "Theme: auto" and browser.js(ground) == "rgb(245, 246, 248)"


def test_the_theme_of_the_system_is_followed(browser: Browser, vae: Path) -> None:
    browser.open(vae)
    browser.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    assert browser.js("getComputedStyle(document.body).backgroundColor") == "rgb(15, 18, 23)"
    browser.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}])


def test_of_ten_thousand_nodes_few_are_laid_out_at_a_time(browser: Browser, large: Path) -> None:
    """How long actions take is printed by `python -m benchmarks report_page`; this is what the time depends on."""
    browser.open(large)
    browser.frame()
    assert browser.js("document.querySelector('.graph').graphView.model.nodes.length") >= 10_000
    counts = laid_out(browser)
    assert counts["open a module"] > counts["fold a module"] > 0 and counts["jump to a match"] > counts["fold all"]
    for name, count in counts.items():
        assert count < FEW, name


#: Edges, and boxes that one of them runs through: points of its curves against all boxes but its own ends.
CROSSED = """(() => {
  const { items, edges } = document.querySelector('.graph').graphView.graph;
  const boxes = items.filter((item) => item.kind === 'node' || !item.open);
  const curve = (a, b, c, d, t) => (1 - t) ** 3 * a + 3 * (1 - t) ** 2 * t * b + 3 * (1 - t) * t ** 2 * c + t ** 3 * d;
  const crossed = [];
  for (const { from, to, points } of edges) {
    const along = [];
    points.forEach((point, index) => {
      for (let t = 0; t <= 1; t += 0.05) {
        along.push([point.x, point.top + t * (point.bottom - point.top)]);
        if (index === 0) continue;
        const [last, bend] = [points[index - 1], Math.max(Math.min(Math.abs(point.top - points[index - 1].bottom) / 2, 90), 16)];
        along.push([curve(last.x, last.x, point.x, point.x, t), curve(last.bottom, last.bottom + bend, point.top - bend, point.top, t)]);
      }
    });
    const isIn = (box) => ([x, y]) => x > box.ax + 1 && x < box.ax + box.w - 1 && y > box.ay + 1 && y < box.ay + box.h - 1;
    for (const box of boxes) if (box !== from && box !== to && along.some(isIn(box))) crossed.push(`${from.name} to ${to.name}: ${box.name}`);
  }
  return [edges.length, crossed];
})()"""


@pytest.mark.parametrize("name", ["half", "large"])
def test_edges_pass_beside_boxes(browser: Browser, request: pytest.FixtureRequest, name: str) -> None:
    browser.open(request.getfixturevalue(name))
    browser.frame()
    if name == "large":
        reveal = (
            "(() => { const view = document.querySelector('.graph').graphView; view.reveal(view.model.nodes[arguments[0]]); })()"
        )
        for node in (45, 4321, 7777):
            browser.js(reveal.replace("arguments[0]", str(node)))
    edges, crossed = browser.js(CROSSED)
    assert edges > 15 and crossed == []
    bends = browser.js("document.querySelector('.graph').graphView.graph.edges.filter((edge) => edge.points.length > 2).length")
    assert bends >= 2


def test_hostile_names_do_nothing(browser: Browser, folder: Path) -> None:
    bad = [
        "</script><img src=x onerror=document.title='hacked'>",
        "<svg onload=document.title='hacked'>",
        "'\"><b id=bold>",
        "javascript:alert(1)",
    ]
    proto = model("(float[4] x) => (float[4] y)", "a = Log(x)\nb = Exp(a)\nc = Neg(b)\ny = Sqrt(c)")
    for node, name in zip(proto.graph.node, bad):
        node.name = f"{name}/{name}"
    page = written(folder / "hostile.html", static(proto, ranges={"x": (0, 1)}, model_map=True))
    browser.open(page)
    browser.frame()
    browser.keys("/", "img")
    browser.keys("\ue007")
    assert bad[0] in browser.text(".details")
    assert "hacked" not in browser.driver.title
    assert browser.js("document.querySelectorAll('img, #bold, svg[onload]').length") == 0
    clean(browser, page)


def test_a_page_runs_nothing_but_its_own_script(browser: Browser, folder: Path, vae: Path) -> None:
    """Even if markup got in: the policy of the page names its own script, and nothing else."""
    text = vae.read_text().replace(
        '<div id="page"></div>',
        '<div id="page"></div><script>document.title = "hacked"</script><img src="http://127.0.0.1:9/x.png">',
    )
    broken = folder / "broken.html"
    broken.write_text(text)
    browser.open(broken)
    browser.frame()
    assert "hacked" not in browser.driver.title
    errors, _ = browser.log()
    assert any("Content Security Policy" in error for error in errors)


def test_copy_puts_the_command_on_the_clipboard(browser: Browser, vae: Path) -> None:
    browser.open(vae)
    browser.command("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
    browser.click(".copy")
    assert browser.text(".copy").startswith("Copied")
    command = browser.js("document.querySelector('.command code').textContent")
    browser.js("document.querySelector('.search input').focus()")
    browser.command("Input.dispatchKeyEvent", type="keyDown", key="v", code="KeyV", modifiers=2, commands=["paste"])
    assert browser.js("document.querySelector('.search input').value") == command


def test_two_reports_are_compared(browser: Browser, folder: Path) -> None:
    wide, narrow = (static(vae_loss(), ranges=VAE, precision=precision, model_map=True) for precision in (None, "float16"))
    page = written(folder / "two.html", wide, narrow)
    browser.open(page)
    assert "Comparison" in browser.text(".tabs") and "bits lost" in browser.text("table.headroom thead")
    assert "float32 to float16" in browser.text("table.headroom")
    browser.click("#tab-2")
    assert browser.js("document.querySelector('#panel-0').hidden && !document.querySelector('#panel-2').hidden")
    assert "float16" in browser.text("#panel-2 .sheets")
    browser.keys("\ue012")
    assert browser.js("!document.querySelector('#panel-1').hidden")
    clean(browser, page)


def test_paper_has_all_reports_and_findings(browser: Browser, folder: Path) -> None:
    proto = vae_loss()
    page = written(folder / "paper.html", static(proto, ranges=VAE, model_map=True), static(proto, ranges=VAE, model_map=True))
    browser.open(page)
    pdf = base64.b64decode(browser.command("Page.printToPDF", printBackground=True)["data"])
    assert pdf.startswith(b"%PDF") and pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page ") >= 3
    assert browser.js("[...document.querySelectorAll('.panel')].every((panel) => panel.childElementCount > 0)")
    assert browser.js("[...document.querySelectorAll('details.card')].every((card) => card.open)")
    browser.command("Emulation.setEmulatedMedia", media="print")
    hidden = "['.toolbar', '.theme', '.copy', '.tabs'].every((s) => getComputedStyle(document.querySelector(s)).display === 'none')"
    assert browser.js(hidden)
    browser.command("Emulation.setEmulatedMedia", media="")


def test_long_lines_of_a_change_are_not_cut_off(browser: Browser, folder: Path) -> None:
    proto = vae_loss()
    for node in proto.graph.node:
        for names in (node.input, node.output):
            names[:] = [f"{'part/' * 60}{name}" if name in ("p", "q") else name for name in names]
    (folder / "long.onnx").write_bytes(proto.SerializeToString())
    page = folder / "change.html"
    given = ("--range", "z=-4:4", "--range", "x=0:1", "--runs", "20", "--witnesses", str(folder / "long"))
    result = tensorproof("fix", str(folder / "long.onnx"), *given, "--format", "html", "--output", str(page))
    assert result.code == 0, result.err
    browser.open(page)
    browser.frame()
    widths = browser.js("[...document.querySelectorAll('.diff')].map((diff) => [diff.scrollWidth, diff.clientWidth])")
    assert widths and all(scrolled <= shown for scrolled, shown in widths)
    clean(browser, page)


def test_failing_pictures_are_drawn(browser: Browser, folder: Path) -> None:
    value = helper.make_tensor_value_info
    weight = numpy_helper.from_array(np.full((1, 1, 3, 3), 1.0, np.float32), "W")
    nodes = [
        helper.make_node("Conv", ["image", "W"], ["features"], name="/features/Conv"),
        helper.make_node("Sqrt", ["features"], ["y"], name="/head/Sqrt"),
    ]
    graph = helper.make_graph(
        nodes, "g", [value("image", TensorProto.FLOAT, [1, 1, 12, 12])], [value("y", TensorProto.FLOAT, [1, 1, 10, 10])], [weight]
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.checker.check_model(proto)
    page = written(folder / "image.html", check(proto, ranges={"image": (-1, 1)}, model_map=True, witnesses=folder / "pictures"))
    browser.open(page)
    browser.frame()
    sizes = browser.js("[...document.querySelectorAll('.pictures img')].map((image) => [image.naturalWidth, image.naturalHeight])")
    assert sizes == [[12, 12]]
    clean(browser, page)


def test_reports_on_source_have_the_same_style(browser: Browser, folder: Path) -> None:
    file = folder / "net.py"
    file.write_text("import torch\nx = torch.zeros(2, 3)\ny = x @ torch.zeros(4, 5)\n")
    page = folder / "shapes.html"
    write_text(page, html.render((check_shapes(file),), source_root=folder))
    browser.open(page)
    browser.frame()
    assert "y = x @ torch.zeros(4, 5)" in browser.text(".source .meant")
    assert "net.py:3" in browser.text(".card summary")
    clean(browser, page)
