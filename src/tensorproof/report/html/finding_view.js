// One finding as a card: what, where, why, the input that fails, the repair, and what to run next.

/** `show` leads to the finding's node in the graph. */
function findingCard(family, index, show) {
  const finding = family.root;
  if (finding === null) return orphanCard(family);
  const id = `finding-${index}`;
  const heading = el(
    "summary",
    {},
    el("span", { class: "code" }, finding.rule),
    chip(finding.verdict, finding.note),
    el("span", { class: "rule-name" }, finding.name),
    el("span", { class: "where mono" }, finding.place && finding.range === null ? finding.place : `${finding.op} ${finding.node}`),
  );
  const body = el("div", { class: "card-body" });
  const card = el("details", { class: `card ${finding.note ? "v-note" : verdictClass(finding.verdict)}`, id, "data-verdict": finding.note ? "note" : finding.verdict }, heading, body);
  card.addEventListener("toggle", () => card.open && fillCard(body, family, show), { once: true });
  return card;
}

function orphanCard(family) {
  const body = el("div", { class: "card-body" }, consequences(family));
  return el("details", { class: "card v-note", "data-verdict": "note" }, el("summary", {}, el("span", { class: "rule-name" }, "Consequences of defects that are not shown")), body);
}

/** Cards are filled when they are first opened: a report may have thousands. */
function fillCard(body, family, show) {
  if (body.childElementCount > 0) return;
  const finding = family.root;
  body.append(
    el("p", { class: "message" }, finding.message),
    el("div", { class: "twins" }, facts(finding, family, show), trail(finding)),
    ...[excerpt(finding), witness(finding), repair(finding), consequences(family), related(finding), commands(finding)].filter(Boolean),
  );
}

function facts(finding, family, show) {
  if (finding.range === null) return definitions([["source", mono(finding.place)], ["call", mono(finding.op)]]);
  const node = el("span", { class: "mono" }, `${finding.op} ${finding.node}`);
  const link = family.at === null || family.at === undefined ? null : el("button", { type: "button", class: "link", onclick: () => show(family.at) }, "Show in graph");
  return definitions([
    ["node", el("span", {}, node, finding.phase === "backward" ? " in the backward pass " : " ", link)],
    ["operand", el("span", {}, mono(finding.operand), finding.format ? ` in ${finding.format}` : "")],
    ["bound", finding.is_bound ? mono(finding.range_text) : null],
    ["reached by runs", finding.reached_text === null ? "no runs" : mono(finding.reached_text)],
    ["limit", finding.limit_text === null ? null : mono(finding.limit_text)],
    ["seen in", finding.reaches],
    ["module", finding.module && mono(finding.module)],
    ["source", finding.place && mono(finding.place)],
  ]);
}

function excerpt(finding) {
  if (finding.excerpt.length === 0) return null;
  const lines = finding.excerpt.map(([number, text, isMeant]) =>
    el("span", { class: isMeant ? "line meant" : "line" }, el("span", { class: "number" }, String(number)), text || " "),
  );
  return el("pre", { class: "source", tabindex: "0", role: "region", "aria-label": `Source at ${finding.place || "the line"}` }, lines);
}

function trail(finding) {
  if (finding.range === null || !finding.is_bound) return null;
  const last = { value: finding.operand, op: finding.op, range: finding.range };
  const steps = (finding.trail.length > 0 ? finding.trail : [last]).map((step, row, all) => ({ ...step, kind: row === all.length - 1 ? "last" : "" }));
  if (finding.reached !== null) steps.push({ value: "reached by runs", op: "", range: finding.reached, kind: "reached" });
  const options = { largest: toNumber(finding.largest), limit: toNumber(finding.limit), isMagnitude: finding.rule.startsWith("NUM2"), format: finding.format, caption: "Trail of ranges" };
  return part("How it gets there", el("div", { class: "scrolled" }, rangeChart(steps, options)));
}

function witness(finding) {
  if (finding.witness === null) return null;
  const heads = ["array", "shape", "type", "smallest", "largest", "first numbers"];
  const rows = finding.arrays.map((array) => [
    mono(array.name),
    array.shape,
    array.dtype,
    mono(array.low),
    mono(array.high),
    mono(array.first.join(", ") + (array.more > 0 ? ` and ${array.more.toLocaleString("en")} more` : "")),
  ]);
  const drawn = finding.arrays.flatMap((array) =>
    array.pictures.map((uri, index) => el("figure", {}, el("img", { src: uri, alt: `${array.name}, picture ${index + 1}` }), el("figcaption", {}, `${array.name} ${index + 1}`))),
  );
  return part(
    "The input that fails",
    el("p", { class: "quiet mono" }, finding.witness),
    rows.length > 0 ? table(heads, rows, "Arrays of the failing input") : null,
    drawn.length > 0 ? el("div", { class: "pictures" }, drawn) : null,
  );
}

function repair(finding) {
  const edits = finding.edits.map((edit) => el("div", {}, el("p", {}, edit.title), edit.diff && diffView(edit.diff, edit.title)));
  if (finding.fix === null) return edits.length > 0 ? part("What mends it", edits) : null;
  const fix = finding.fix;
  const badge = fix.found ? el("span", { class: `chip ${fix.safe ? "v-proven-safe" : "v-possible"}` }, fix.safe ? "safe" : "changes values") : null;
  const declined = fix.declined.length > 0 ? el("details", { class: "minor" }, el("summary", {}, `Not taken: ${counted(fix.declined.length, "repair")}`), el("ul", {}, fix.declined.map((reason) => el("li", {}, reason)))) : null;
  return part("Repair", fix.found ? el("p", {}, badge) : el("p", {}, "None was found that passes its verification."), definitions(fix.rows), declined, edits);
}

function consequences(family) {
  if (family.consequences.length === 0) return null;
  const rows = family.consequences.map((finding) => [finding.rule, chip(finding.verdict, true), mono(`${finding.op} ${finding.node}`), finding.from]);
  const rest = family.left_out > 0 ? el("p", { class: "quiet" }, `and ${counted(family.left_out, "more consequence")}`) : null;
  return part("What follows from it", table(["rule", "verdict", "node", "from"], rows, "Consequences"), rest);
}

function related(finding) {
  if (finding.related.length === 0) return null;
  return part("See also", el("ul", {}, finding.related.map((entry) => el("li", {}, mono(entry.place || ""), ` ${entry.message}`))));
}

function commands(finding) {
  const rows = finding.commands.map(([what, command]) => el("div", { class: "command" }, el("span", { class: "quiet" }, what), el("code", {}, command), copyButton(command, what)));
  return part("Next", rows);
}
