// The tables of the papers: plots, then each table with what the paper says, sortable by every column.

function paperView(data) {
  return el(
    "div",
    { class: "report" },
    el("h2", {}, "The tables of the papers, repeated"),
    el("p", { class: "headline" }, data.made.replaceAll("`", ""), el("span", { class: "jumps" }, data.sections.map((section) => el("a", { href: `#${section.name}` }, section.name.replaceAll("_", " "))))),
    data.plots.map(([name, uri]) => el("section", { class: "block" }, el("img", { class: "plot", src: uri, alt: name }))),
    data.sections.map(sectionView),
  );
}

function sectionView(section) {
  const told = (label, lines) => (lines.length > 0 ? [[label, el("ul", { class: "plain" }, lines.map((line) => el("li", {}, line)))]] : []);
  return el(
    "section",
    { class: "block", id: section.name },
    el("h3", {}, section.title),
    definitions([...told("here", section.lines), ...told("in the paper", section.paper), ...told("set-up", section.setup)]),
    el("div", { class: "command" }, el("span", { class: "quiet" }, "measure it again"), el("code", {}, section.command), copyButton(section.command, "the command")),
    sortable(table(section.columns, section.rows.map((row) => row.map(mono)), section.title)),
  );
}

/** Make the columns of a table sortable: by number where cells begin with one, else by text; again for the other direction. */
function sortable(region) {
  const body = region.querySelector("tbody");
  const heads = [...region.querySelectorAll("th")];
  const rows = [...body.rows];
  heads.forEach((head, column) => {
    const button = el("button", { type: "button", class: "sort" }, head.textContent);
    button.addEventListener("click", () => {
      const isDown = head.getAttribute("aria-sort") === "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", isDown ? "descending" : "ascending");
      const sign = isDown ? -1 : 1;
      body.append(...rows.slice().sort((one, other) => sign * compared(one.cells[column].textContent, other.cells[column].textContent)));
    });
    head.replaceChildren(button);
  });
  return region;
}

/** Cells without a number come after those with one. */
function compared(one, other) {
  const [a, b] = [parseFloat(one.replaceAll(",", "")), parseFloat(other.replaceAll(",", ""))];
  if (Number.isNaN(a) !== Number.isNaN(b)) return Number.isNaN(a) ? 1 : -1;
  return a - b || one.localeCompare(other, "en", { numeric: true });
}

document.getElementById("page").append(pageHead(), el("main", {}, paperView(JSON.parse(document.getElementById("data").textContent))));
