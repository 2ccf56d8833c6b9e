// What is said about the node or module that is selected in the graph.

function graphDetails(item, actions) {
  if (item === null) return el("p", { class: "quiet" }, "Select a node to see its ranges, its headroom and its trail.");
  return item.kind === "node" ? nodeDetails(item, actions) : moduleDetails(item, actions);
}

function nodeDetails(node, actions) {
  const chips = [];
  if (!node.isEnd) chips.push(chip(VERDICTS[node.verdict]));
  chips.push(...actions.findingsAt(node).map(({ id, code }) => el("a", { class: "chip link-chip", href: `#${id}`, onclick: () => actions.openFinding(id) }, code)));
  const steps = nodeTrail(node).map((step, row, all) => ({ ...step, kind: row === all.length - 1 ? "last" : "" }));
  const value = node.outputs[0];
  return el(
    "div",
    {},
    el("h4", { class: "title" }, node.op),
    el("p", { class: "mono wrap" }, node.name),
    el("p", { class: "chips" }, chips),
    definitions([["module", node.parent.path && mono(node.parent.path)], ["source", node.place && mono(node.place)]]),
    node.outputs.length > 0 ? part("Results", node.outputs.map(valueDetails)) : null,
    node.reads.length > 0 ? part("Reads", el("ul", { class: "reads" }, node.reads.map((read) => readDetails(read, actions)))) : null,
    steps.length > 1 ? part("Trail", rangeChart(steps, { largest: value ? largestOf(value.format) : null, format: value ? value.format : "", width: 380, caption: "Trail of the node" })) : null,
  );
}

/** The largest numbers of the common formats (IEEE 754-2019; bfloat16: 8 bits of precision, the exponents of float32). */
function largestOf(format) {
  return { float16: 65504, bfloat16: 3.3895313892515355e38, float32: 3.4028234663852886e38, float64: Number.MAX_VALUE }[format] || null;
}

function valueDetails(value) {
  const type = [value.format, value.shape].filter(Boolean).join(", ");
  return el(
    "div",
    { class: "value" },
    el("p", { class: "mono wrap" }, value.name),
    definitions([
      ["type", type],
      ["range", value.low === null ? "not known" : mono(intervalText(value.low, value.high))],
      ["headroom", value.bits === null ? null : el("span", { class: `bits h${headroomClass(value.bits)}` }, bitsText(value.bits))],
      ["NaN", value.nan ? "a legal value" : null],
    ]),
  );
}

function readDetails(value, actions) {
  const range = value.low === null ? "" : ` ${intervalText(value.low, value.high)}`;
  const name = value.maker === null ? mono(value.name) : el("button", { type: "button", class: "link mono wrap", onclick: () => actions.select(value.maker) }, value.name);
  return el("li", {}, name, el("span", { class: "mono quiet" }, range));
}

function moduleDetails(module, actions) {
  const counts = VERDICT_ORDER.filter((verdict) => module.verdicts[verdict] > 0).map((verdict) => [VERDICTS[verdict], module.verdicts[verdict].toLocaleString("en")]);
  const least = leastHeadroom(module, 8);
  const toggle = el("button", { type: "button", class: "button", onclick: () => actions.toggle(module) }, module.open ? "Fold this module" : "Open this module");
  return el(
    "div",
    {},
    el("h4", { class: "title" }, module.name),
    el("p", { class: "mono wrap quiet" }, module.path),
    el("p", {}, counted(module.size, "node")),
    module.parent === null ? null : el("p", {}, toggle),
    part("Verdicts", definitions(counts)),
    least.length > 0 ? part("Least headroom", el("ul", { class: "reads" }, least.map((node) => el("li", {}, el("button", { type: "button", class: "link mono wrap", onclick: () => actions.select(node) }, node.name), el("span", { class: "mono quiet" }, ` ${bitsText(node.bits)}`))))) : null,
  );
}

function leastHeadroom(module, most) {
  const found = [];
  const visit = (item) => {
    if (item.kind === "module") item.children.forEach(visit);
    else if (item.bits !== null && !item.isEnd) found.push(item);
  };
  visit(module);
  return found.sort((one, other) => one.bits - other.bits || one.index - other.index).slice(0, most);
}
