// Ranges as bars, one below the other, on an axis that is logarithmic on both sides of zero.

const CHART = { row: 30, head: 26, foot: 22, mark: 14, letter: 6.6 };

/**
 * The scale of a chart: where a number stands between `left` and `right`.
 * Magnitudes far below the smallest one that is shown are near zero; the ends of infinite ranges lie at the edges.
 */
function rangeScale(numbers, left, right) {
  const finite = numbers.filter(Number.isFinite);
  const sizes = finite.map(Math.abs).filter((size) => size > 0);
  const knee = Math.min(Math.max(Math.min(...sizes, 1), 1e-6), 1e6) / 2;
  const bent = (value) => Math.sign(value) * Math.log10(1 + Math.abs(value) / knee);
  const low = Math.min(0, ...finite.map(bent), numbers.includes(-Infinity) ? -1 : 0);
  const high = Math.max(0, ...finite.map(bent), numbers.includes(Infinity) ? 1 : 0);
  const pad = (high - low || 1) * 0.06;
  const from = low - pad;
  const width = high + pad - from;
  const place = (value) => {
    if (value === Infinity) return right;
    if (value === -Infinity) return left;
    return left + ((bent(value) - from) / width) * (right - left);
  };
  return { place, ticks: chartTicks(place, knee, finite, left, right) };
}

/** Zero and powers of ten, from the outside in, as far as their labels have room. */
function chartTicks(place, knee, finite, left, right) {
  const largest = Math.max(...finite.map(Math.abs), knee);
  const ticks = [0];
  const top = Math.floor(Math.log10(largest));
  const bottom = Math.ceil(Math.log10(knee));
  const stride = Math.max(1, Math.ceil((top - bottom) / 6));
  for (let power = top; power >= bottom; power -= stride) {
    for (const tick of [10 ** power, -(10 ** power)]) {
      const x = place(tick);
      if (x > left + 8 && x < right - 8 && ticks.every((other) => Math.abs(place(other) - x) > 40)) ticks.push(tick);
    }
  }
  return ticks;
}

/**
 * A chart of `steps` ({value, op, range, kind}) against the ends of a format (`largest`) and the edge of a domain (`limit`).
 * The ends of the format are drawn where the ranges come near them; else the axis would show nothing but them.
 */
function rangeChart(steps, { largest = null, limit = null, isMagnitude = false, format = "", width = 760, caption = "Ranges" }) {
  const labels = Math.min(Math.round(width * 0.3), 230);
  const values = Math.min(Math.round(width * 0.24), 170);
  const left = labels + 10;
  const right = width - values - 10;
  const ranges = steps.map((step) => step.range.map(toNumber));
  const ends = ranges.filter(([low, high]) => low <= high).flat();
  const isNear = largest !== null && ends.some((end) => !Number.isFinite(end) || Math.abs(end) > Math.sqrt(largest));
  const lines = isNear ? [largest, -largest].filter((end) => end > 0 || ends.some((other) => other < 0)) : [];
  // A limit that is a magnitude, as that of a narrower format, holds on both sides.
  const edges = limit !== null && Math.abs(limit) < Math.sqrt(largest || Infinity) ? (isMagnitude ? [limit, -limit] : [limit]) : [];
  const { place, ticks } = rangeScale([...ends, ...lines, ...edges], left, right);
  const marks = marksOnLines([...lines.map((end) => [end, limitText(end, format, right - left)]), ...edges.map((end) => [end, `limit ${numberText(end)}`])], place, width);
  const head = CHART.head + CHART.mark * Math.max(0, ...marks.map((mark) => mark.line));
  const bottom = head + steps.length * CHART.row;
  const parts = [
    ...ticks.map((tick) => svg("line", { class: tick === 0 ? "zero" : "grid", x1: place(tick), x2: place(tick), y1: head, y2: bottom })),
    ...ticks.map((tick) => svg("text", { class: "tick", x: place(tick), y: bottom + 15, "text-anchor": "middle" }, powerText(tick))),
    ...marks.map((mark) => limitMark(mark, head, bottom)),
    ...steps.map((step, row) => chartRow(step, ranges[row], head + row * CHART.row, { place, left, right, labels, width, values })),
  ];
  const height = bottom + CHART.foot;
  const told = steps.map((step, row) => `${step.value} ${intervalText(...ranges[row])}`).join("; ");
  return svg("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": `${caption}: ${told}` }, parts);
}

function powerText(tick) {
  if (tick === 0 || (Math.abs(tick) < 1e4 && Math.abs(tick) > 1e-3)) return String(Number(tick.toPrecision(3)));
  return tick.toExponential(0).replace("e+", "e");
}

function limitText(end, format, room) {
  if (room < 240) return end > 0 ? "max" : "-max";
  return `${end > 0 ? "largest" : "lowest"} ${format}`;
}

/** Labels of limits, centred over their lines as far as the chart has room; one that would touch another goes to the line above it. */
function marksOnLines(limits, place, width) {
  const marks = [];
  for (const [end, label] of limits) {
    const half = (label.length * CHART.letter) / 2;
    const x = place(end);
    const middle = Math.min(Math.max(x, half), width - half);
    let line = 0;
    while (marks.some((other) => other.line === line && Math.abs(other.middle - middle) < other.half + half + 6)) line += 1;
    marks.push({ x, middle, half, label, line });
  }
  return marks;
}

function limitMark({ x, middle, label, line }, head, bottom) {
  const top = head - 6 - line * CHART.mark;
  return svg("g", { class: "limit" }, svg("line", { x1: x, x2: x, y1: top, y2: bottom }), svg("text", { x: middle, y: top - 5, "text-anchor": "middle" }, label));
}

function chartRow(step, [low, high], y, { place, left, right, labels, width, values }) {
  const middle = y + CHART.row / 2;
  const from = place(low);
  const to = place(high);
  // What is never a number, as the mean of nothing, has an empty range.
  const isEmpty = !(low <= high);
  const bar = isEmpty ? null : svg("rect", { class: `bar ${step.kind || ""}`, x: from, y: y + 8, width: Math.max(to - from, 3), height: CHART.row - 16, rx: 3 });
  const arrows = [];
  if (!isEmpty && low === -Infinity) arrows.push(svg("path", { class: `bar ${step.kind || ""}`, d: `M${left - 7} ${middle}l9 -8v16z` }));
  if (!isEmpty && high === Infinity) arrows.push(svg("path", { class: `bar ${step.kind || ""}`, d: `M${right + 7} ${middle}l-9 -8v16z` }));
  const room = Math.floor(labels / 6.4);
  const label = svg("text", { class: "label", x: 0, y: middle + 4 }, shortened(step.value, Math.max(room - step.op.length - 2, 8)));
  label.append(svg("tspan", { class: "op" }, ` ${shortened(step.op, 14)}`), svg("title", {}, step.op ? `${step.value} (${step.op})` : step.value));
  const text = svg("text", { class: "value", x: width, y: middle + 4, "text-anchor": "end" }, isEmpty ? "no number" : shortened(intervalText(low, high), Math.floor(values / 6)));
  return svg("g", {}, label, bar, arrows, text);
}

function shortened(text, room) {
  return text.length <= room ? text : `${text.slice(0, 3)}\u2026${text.slice(text.length - Math.max(room - 4, 3))}`;
}
