// The page: its head, a panel for each report, and what holds for all of them.

/** Findings that are open at first: the worst. */
const OPENED = 3;

function summaryView(report) {
  const tiles = report.verdicts.map(([verdict, count, noun]) => el("li", { class: `tile ${verdictClass(verdict)} ${count === 0 ? "zero" : ""}` }, el("strong", {}, count.toLocaleString("en")), el("span", {}, verdict === "note" && count !== 1 ? "notes" : verdict), el("small", {}, count === 1 ? noun.replace(/s$/, "") : noun)));
  return el(
    "section",
    { class: "block summary", "aria-label": "Summary" },
    el("ul", { class: "tiles" }, tiles),
    el("div", { class: "sheets" }, coverageView(report.coverage, report.setting), assumptionsView(report.assumptions)),
  );
}

function coverageView(coverage, setting) {
  const share = coverage.whole > 0 ? coverage.checked / coverage.whole : 1;
  const bar = svg("svg", { class: coverage.proves ? "meter" : "meter seen", viewBox: "0 0 100 4", preserveAspectRatio: "none", role: "img", "aria-label": `${Math.round(share * 100)} percent` }, svg("rect", { width: 100, height: 4 }), svg("rect", { class: "done", width: share * 100, height: 4 }));
  const reasons = coverage.reasons.map(({ reason, count, nodes }) => el("li", {}, el("strong", {}, counted(count, "node")), ` ${reason}: `, el("span", { class: "mono" }, nodes)));
  if (coverage.more_reasons > 0) reasons.push(el("li", {}, `and ${counted(coverage.more_reasons, "other reason")}`));
  return el(
    "div",
    {},
    el("h3", {}, "Coverage"),
    el("p", {}, coverage.text),
    bar,
    reasons.length > 0 ? part("Not analysed", el("ul", { class: "plain" }, reasons)) : null,
    coverage.errors.length > 0 ? part("Errors", el("ul", { class: "plain" }, coverage.errors.map((error) => el("li", {}, error)))) : null,
    coverage.remarks.length > 0 ? part("Remarks", el("ul", { class: "plain" }, coverage.remarks.map((remark) => el("li", {}, remark)))) : null,
    flowing([
      ...setting,
      ["refinements", coverage.proven_by.map(([step, amount]) => `${step} ${amount}`).join(", ")],
      ["suppressed", coverage.suppressed > 0 ? counted(coverage.suppressed, "finding") : null],
    ]),
  );
}

function assumptionsView(assumptions) {
  return el("div", {}, el("h3", {}, "Assumptions"), flowing(assumptions.map(([label, text]) => [label || "\u00a0", el("span", { class: "mono" }, text)])));
}

function findingsView(report, show, number) {
  const cards = report.families.map((family, index) => findingCard(family, `${number}-${index}`, show));
  for (const card of cards.slice(0, OPENED)) card.open = true;
  const kinds = [...new Set(cards.map((card) => card.dataset.verdict))];
  const list = el("div", { class: "cards" }, cards.length > 0 ? cards : el("p", { class: "quiet" }, "No findings."));
  return el("section", { class: "block", id: `findings-${number}`, "aria-label": "Findings" }, el("h3", {}, "Findings"), kinds.length > 1 ? findingFilter(kinds, cards) : null, list);
}

function findingFilter(kinds, cards) {
  const buttons = ["all", ...kinds].map((kind) => {
    const amount = kind === "all" ? cards.length : cards.filter((card) => card.dataset.verdict === kind).length;
    return el("button", { type: "button", "aria-pressed": String(kind === "all"), onclick: () => apply(kind), "data-kind": kind }, `${kind} ${amount}`);
  });
  const apply = (kind) => {
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.kind === kind));
    for (const card of cards) card.hidden = kind !== "all" && card.dataset.verdict !== kind;
  };
  return el("div", { class: "segments", role: "group", "aria-label": "Show findings" }, buttons);
}

/** Links to the parts of a report, which may be far below. */
function jumps(report, number) {
  const link = (part, text) => el("a", { href: `#${part}-${number}` }, text);
  return el("span", { class: "jumps" }, link("findings", "Findings"), report.change === null ? null : link("repairs", "Repairs"), report.graph === null ? null : link("graph", "Graph"));
}

function reportView(report, number) {
  let graph = null;
  const openFinding = (id) => {
    const card = document.getElementById(id);
    card.hidden = false;
    card.open = true;
  };
  const findingsAt = (node) => report.families.flatMap((family, index) => (family.at === node.index ? [{ id: `finding-${number}-${index}`, code: family.root.rule }] : []));
  const show = (index) => {
    graph.reveal(graph.model.nodes[index]);
    graph.element.scrollIntoView({ block: "start" });
    graph.canvas.focus({ preventScroll: true });
  };
  if (report.graph !== null) {
    graph = new GraphView(report.graph, { findingsAt, openFinding });
    graph.element.id = `graph-${number}`;
  }
  return el(
    "div",
    { class: "report" },
    el("h2", {}, el("span", { class: "mono" }, report.model)),
    el("p", { class: "headline" }, report.headline, jumps(report, number)),
    summaryView(report),
    findingsView(report, show, number),
    report.change === null ? null : el("section", { class: "block", id: `repairs-${number}` }, el("h3", {}, "All applied repairs"), diffView(report.change, "The change of all applied repairs")),
    graph === null ? null : graph.element,
  );
}

// -- panels -----------------------------------------------------------------------------------------------------------

/** Panels are made when they are first shown. */
function panelsOf(data) {
  const panels = data.reports.map((report, number) => ({ label: report.model, make: () => reportView(report, number) }));
  if (data.comparison !== null) panels.unshift({ label: "Comparison", make: () => comparisonView(data.comparison) });
  if (panels.length === 0) panels.push({ label: "Report", make: () => el("p", { class: "quiet" }, "There is nothing to report.") });
  return panels.map((panel, index) => ({ ...panel, element: el("div", { class: "panel", id: `panel-${index}`, role: panels.length > 1 ? "tabpanel" : null, "aria-labelledby": panels.length > 1 ? `tab-${index}` : null, hidden: true }) }));
}

function showPanel(panels, tabs, index) {
  panels.forEach((panel, other) => (panel.element.hidden = other !== index));
  tabs.forEach((tab, other) => {
    tab.setAttribute("aria-selected", String(other === index));
    tab.tabIndex = other === index ? 0 : -1;
  });
  fillPanel(panels[index]);
}

function fillPanel(panel) {
  if (panel.element.childElementCount === 0) panel.element.append(panel.make());
}

function tabsOf(panels) {
  const tabs = panels.map((panel, index) => el("button", { type: "button", role: "tab", id: `tab-${index}`, "aria-controls": `panel-${index}`, onclick: () => showPanel(panels, tabs, index) }, panel.label));
  const bar = el("div", { class: "tabs", role: "tablist", "aria-label": "Reports" }, tabs);
  bar.addEventListener("keydown", (event) => {
    const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!move) return;
    event.preventDefault();
    const next = (tabs.indexOf(document.activeElement) + move + tabs.length) % tabs.length;
    showPanel(panels, tabs, next);
    tabs[next].focus();
  });
  return { tabs, bar: panels.length > 1 ? bar : null };
}

// -- the whole --------------------------------------------------------------------------------------------------------

function onSlash(event) {
  if (event.key !== "/" || /^(INPUT|TEXTAREA)$/.test(event.target.tagName)) return;
  const search = [...document.querySelectorAll(".graph input[type=search]")].find((input) => input.offsetParent !== null);
  if (!search) return;
  event.preventDefault();
  search.focus();
  search.select();
}

/** On paper all reports are there, with every finding open, in light colours. */
function beforePrint(panels) {
  panels.forEach(fillPanel);
  for (const card of document.querySelectorAll("details.card")) card.open = true;
  redrawGraphs();
}

function openPage() {
  const data = JSON.parse(document.getElementById("data").textContent);
  const panels = panelsOf(data);
  const { tabs, bar } = tabsOf(panels);
  document.getElementById("page").append(pageHead(bar), el("main", {}, panels.map((panel) => panel.element)));
  if (data.reports.length > 0) document.title = `${data.reports.map((report) => report.model).join(", ")} - tensorproof`;
  showPanel(panels, tabs, 0);
  document.addEventListener("keydown", onSlash);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawGraphs);
  addEventListener("beforeprint", () => beforePrint(panels));
  addEventListener("afterprint", redrawGraphs);
}

openPage();
