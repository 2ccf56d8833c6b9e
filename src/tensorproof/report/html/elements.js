// Elements made from data. Texts become text nodes: nothing that comes from a model is ever read as markup.

/** An HTML element; properties that begin with "on" are listeners, and false or null ones are left out. */
function el(tag, properties = {}, ...children) {
  return furnished(document.createElement(tag), properties, children);
}

function svg(tag, properties = {}, ...children) {
  return furnished(document.createElementNS("http://www.w3.org/2000/svg", tag), properties, children);
}

function furnished(element, properties, children) {
  for (const [key, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Numbers that JSON cannot hold come as text. */
function toNumber(value) {
  if (value === "inf") return Infinity;
  if (value === "-inf") return -Infinity;
  return value === "nan" ? NaN : value;
}

function numberText(value) {
  if (value === Infinity) return "inf";
  if (value === -Infinity) return "-inf";
  if (Number.isNaN(value)) return "nan";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-4) return value.toExponential(3).replace(/\.?0+e/, "e").replace("e+", "e");
  return String(Number(value.toPrecision(5)));
}

function intervalText(low, high) {
  return `[${numberText(low)}, ${numberText(high)}]`;
}

function counted(amount, noun) {
  return `${amount.toLocaleString("en")} ${noun}${amount === 1 ? "" : "s"}`;
}

/** Classes are named after verdicts: "proven safe if" is `v-proven-safe-if`. */
function verdictClass(verdict) {
  return `v-${verdict.replaceAll(" ", "-")}`;
}

function chip(verdict, note = false) {
  return el("span", { class: `chip ${note ? "v-note" : verdictClass(verdict)}` }, note ? `${verdict} (note)` : verdict);
}

function mono(text) {
  return el("span", { class: "mono" }, text);
}

function part(title, ...content) {
  return el("section", { class: "part" }, el("h4", {}, title), ...content);
}

function copyButton(text, what) {
  const button = el("button", { type: "button", class: "copy", "aria-label": `Copy: ${what}` }, "Copy");
  button.addEventListener("click", async () => {
    const done = await copied(text);
    button.textContent = done ? "Copied" : "Press Ctrl+C";
    setTimeout(() => (button.textContent = "Copy"), 1600);
  });
  return button;
}

/** A page opened from a file may have no clipboard; then the text is selected and copied in the old way. */
async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = el("textarea", { class: "off-screen", readonly: true, "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

function definitions(pairs, className = "facts") {
  const rows = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return el("dl", { class: className }, rows.map(([label, value]) => [el("dt", {}, label), el("dd", {}, value)]));
}

/** Definitions that flow into as many columns as there is room for: each pair stays together, and no column is much longer. */
function flowing(pairs) {
  const list = definitions(pairs, "flow");
  const cells = [...list.children];
  list.replaceChildren(...cells.flatMap((cell, place) => (place % 2 === 0 ? [el("div", {}, cell, cells[place + 1])] : [])));
  return list;
}

function table(heads, rows, caption) {
  return el(
    "div",
    { class: "scrolled", tabindex: "0", role: "region", "aria-label": caption },
    el(
      "table",
      {},
      el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col" }, head)))),
      el("tbody", {}, rows.map((cells) => el("tr", {}, cells.map((cell) => (cell instanceof Element && cell.tagName === "TD" ? cell : el("td", {}, cell)))))),
    ),
  );
}

function diffView(lines, caption) {
  const kind = (line) => {
    if (line.startsWith("+++") || line.startsWith("---")) return "file";
    if (line.startsWith("@@")) return "hunk";
    return { "+": "added", "-": "removed", "#": "hunk" }[line[0]] || "";
  };
  const rows = lines.map((line) => el("span", { class: `line ${kind(line)}` }, line || " "));
  return el("pre", { class: "diff", tabindex: "0", role: "region", "aria-label": caption }, rows);
}
