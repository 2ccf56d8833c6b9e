// Two reports side by side: findings that are gone, new or changed, and the headroom of nodes that both models have.

const COMPARED_ROWS = 100;

function comparisonView(comparison) {
  const told = `${counted(comparison.gone.length, "finding")} gone, ${comparison.new.length} new, ${comparison.changed.length} changed, ${comparison.same} the same`;
  return el(
    "div",
    { class: "report" },
    el("h2", {}, "Comparison"),
    definitions([["before", mono(comparison.before)], ["after", mono(comparison.after)], ["findings", told]]),
    changedFindings("Gone", comparison.gone, "No finding went away."),
    changedFindings("New", comparison.new, "No finding is new."),
    comparison.changed.length > 0 ? changes(comparison.changed) : null,
    headroomTable(comparison),
  );
}

function changedFindings(title, findings, none) {
  const rows = findings.map((finding) => [finding.rule, chip(finding.verdict, finding.note), finding.name, mono(`${finding.op} ${finding.node}`)]);
  const content = rows.length > 0 ? table(["rule", "verdict", "name", "node"], rows, `${title} findings`) : el("p", { class: "quiet" }, none);
  return el("section", { class: "block" }, el("h3", {}, `${title} (${findings.length})`), content);
}

function changes(findings) {
  const rows = findings.map((finding) => [finding.rule, mono(`${finding.op} ${finding.node}`), mono(finding.before), mono(finding.after)]);
  return el("section", { class: "block" }, el("h3", {}, `Changed (${findings.length})`), table(["rule", "node", "before", "after"], rows, "Changed findings"));
}

function headroomTable(comparison) {
  const rows = comparison.headroom;
  if (!comparison.has_maps || rows.length === 0) {
    const why = comparison.has_maps ? "The two models have no floating node of the same name." : "The reports keep no map of their models.";
    return el("section", { class: "block" }, el("h3", {}, "Headroom"), el("p", { class: "quiet" }, why));
  }
  const most = Math.max(...rows.map((row) => Math.abs(row[4] === null ? 0 : row[4])), 1);
  const body = el("tbody");
  const more = el("button", { type: "button", class: "button" });
  let shown = 0;
  const extend = () => {
    body.append(...rows.slice(shown, shown + COMPARED_ROWS).map((row) => headroomRow(row, most)));
    shown = Math.min(shown + COMPARED_ROWS, rows.length);
    more.textContent = `Show more (${(rows.length - shown).toLocaleString("en")} left)`;
    more.hidden = shown >= rows.length;
  };
  more.addEventListener("click", extend);
  extend();
  const heads = ["node", "operator", "format", "before", "after", "bits lost"];
  const whole = el("table", { class: "headroom" }, el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col" }, head)))), body);
  const rest = comparison.unlisted > 0 ? el("p", { class: "quiet" }, `${counted(comparison.unlisted, "node")} that lost less are not listed.`) : null;
  return el(
    "section",
    { class: "block" },
    el("h3", {}, "Headroom, the greatest loss first"),
    el("p", { class: "quiet" }, "Bits between the bound of a value and the largest number of its format."),
    el("div", { class: "scrolled", tabindex: "0", role: "region", "aria-label": "Headroom of nodes" }, whole),
    more,
    rest,
  );
}

function headroomRow([name, op, before, after, lost, format], most) {
  const part = lost === null ? 1 : Math.abs(lost) / most;
  const bar = svg("svg", { class: "loss", width: 90, height: 10, "aria-hidden": "true" }, svg("rect", { class: lost !== null && lost <= 0 ? "gain" : "", width: Math.max(part * 90, 1), height: 10, rx: 2 }));
  const cell = el("td", { class: "lost" }, bar, el("span", { class: "mono" }, lost === null ? "all" : numberText(lost)));
  return el("tr", {}, el("td", {}, mono(name)), el("td", {}, op), el("td", {}, format), el("td", { class: "mono" }, before), el("td", { class: "mono" }, after), cell);
}
