// The page of a campaign: what was tried on which backends, and each finding with its network, both sides and its script.

/** Classes of findings have the colours of verdicts. */
const CLASSES = { defect: "confirmed", difference: "possible", illegal: "possible" };

function campaignView(data) {
  const tiles = data.tiles.filter(([label, count]) => count > 0 || label === "defect").map(([label, count, verdict]) => el("li", { class: `tile ${verdictClass(verdict)} ${count === 0 ? "zero" : ""}` }, el("strong", {}, count.toLocaleString("en")), el("span", {}, count !== 1 && /^(defect|difference|test)$/.test(label) ? `${label}s` : label)));
  const cards = data.findings.map(campaignCard);
  if (cards.length > 0) cards[0].open = true;
  return el(
    "div",
    { class: "report" },
    el("h2", {}, "Campaign"),
    el("p", { class: "headline" }, data.headline),
    el("section", { class: "block summary", "aria-label": "Summary" }, el("ul", { class: "tiles" }, tiles), el("div", { class: "sheets" }, el("div", {}, el("h3", {}, "What was tried"), backendTable(data.backends), part("Course", definitions(data.facts))), data.rules.length > 0 ? el("div", {}, el("h3", {}, "Findings by rule"), table(["rule", "name", "findings", "what it means"], data.rules.map(([code, name, summary, amount]) => [code, name, String(amount), summary]), "Findings by rule")) : null)),
    el("section", { class: "block", "aria-label": "Findings" }, el("h3", {}, "Findings"), el("div", { class: "cards" }, cards.length > 0 ? cards : el("p", { class: "quiet" }, "No findings."))),
  );
}

function backendTable(backends) {
  return table(["backend", "runs", "CPU seconds", "tests not supported"], backends.map(([name, ...numbers]) => [mono(name), ...numbers.map((number) => number.toLocaleString("en"))]), "Backends");
}

function campaignCard(finding) {
  const heading = el("summary", {}, el("span", { class: "code" }, finding.rule), el("span", { class: `chip ${verdictClass(CLASSES[finding.class])}` }, finding.class), el("span", { class: "rule-name" }, finding.name), el("span", { class: "where mono" }, finding.network.filter((row) => row.at_fault).map((row) => row.kind)[0] || ""));
  const body = el("div", { class: "card-body" });
  const card = el("details", { class: `card ${verdictClass(CLASSES[finding.class])}` }, heading, body);
  card.addEventListener("toggle", () => card.open && fillCampaignCard(body, finding), { once: true });
  return card;
}

function fillCampaignCard(body, finding) {
  if (body.childElementCount > 0) return;
  const rows = finding.network.map((row) => [mono(row.name), el("span", { class: row.at_fault ? "chip v-possible" : "" }, row.kind), row.reads ? mono(row.reads) : "", row.told ? mono(row.told) : el("span", { class: "quiet" }, "defaults")]);
  body.append(
    el("p", { class: "message" }, finding.title),
    definitions(finding.facts),
    part("The reduced network", table(["name", "layer", "reads", "parameters"], rows, "Layers of the network")),
    finding.sides.length > 0 ? part("What each side computes", sidesView(finding.sides)) : "",
    part("The script", el("div", { class: "command" }, el("span", { class: "quiet" }, "show it again"), el("code", {}, finding.command), copyButton(finding.command, "the command")), finding.script === null ? "" : scriptView(finding.script)),
    finding.trail.length > 0 ? el("details", { class: "minor" }, el("summary", {}, `How it was reduced: ${counted(finding.trail.length, "step")}`), el("ul", {}, finding.trail.map((step) => el("li", {}, step)))) : "",
  );
}

function scriptView(text) {
  const lines = text.trimEnd().split("\n").map((line) => el("span", { class: "line" }, line || " "));
  return el("div", { class: "script" }, copyButton(text, "the script"), el("pre", { class: "diff", tabindex: "0", role: "region", "aria-label": "The script of the finding" }, lines));
}

/** One column for each side; numbers that are not the same in all of them are marked. */
function sidesView(sides) {
  return el("div", { class: "sides" }, sides.map((side) => el("div", {}, el("h4", {}, `${side.name} (${side.mode})`), side.results.map((result) => resultView(result, sides, side)), side.said.map((line) => el("p", { class: "mono wrap" }, line)))));
}

function resultView(result, sides, side) {
  const others = sides.filter((other) => other !== side).flatMap((other) => other.results.filter((found) => found.name === result.name));
  const differs = (place) => others.some((other) => other.numbers[place] !== result.numbers[place]);
  const numbers = result.numbers.flatMap((number, place) => [place > 0 ? ", " : "", differs(place) ? el("mark", {}, number) : number]);
  return el("div", { class: "value" }, el("p", {}, mono(result.name), " ", el("span", { class: "quiet" }, result.type)), el("p", { class: "mono wrap" }, numbers));
}

document.getElementById("page").append(pageHead(), el("main", {}, campaignView(JSON.parse(document.getElementById("data").textContent))));
