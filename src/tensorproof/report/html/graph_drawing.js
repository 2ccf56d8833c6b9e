// The graph on a canvas: only what is in view is drawn, and texts only where they can be read.

const READABLE = 0.42;
const FONT = '"Inter", system-ui, -apple-system, "Segoe UI", sans-serif';

function paintOf(element) {
  const style = getComputedStyle(element);
  const colour = (name) => style.getPropertyValue(name).trim();
  return {
    ink: colour("--ink"),
    muted: colour("--muted"),
    line: colour("--line-strong"),
    edge: colour("--edge"),
    surface: colour("--surface"),
    module: colour("--module"),
    accent: colour("--accent"),
    verdicts: ["--red", "--amber", "--green", "--teal", "--violet", "--grey"].map(colour),
    classes: ["--h0", "--h1", "--h2", "--h3", "--h4", "--h5", "--grey"].map(colour),
  };
}

/** The colour of a node or a module: of the class of its headroom, or of its verdict; of a module, the worst. */
function colourOf(item, mode, paint) {
  if (item.kind === "node") {
    if (item.isEnd) return paint.muted;
    return mode === "verdict" ? paint.verdicts[item.verdict] : paint.classes[headroomClass(item.bits)];
  }
  if (mode === "verdict") return paint.verdicts[VERDICT_ORDER.find((verdict) => item.verdicts[verdict] > 0) ?? 5];
  const worst = item.classes.findIndex((count) => count > 0);
  return paint.classes[worst < 0 ? HEADROOM_ENDS.length : worst];
}

function drawGraph(context, graph, view, options) {
  const { width, height, ratio, mode, paint, selected } = options;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.setTransform(ratio * view.scale, 0, 0, ratio * view.scale, ratio * view.x, ratio * view.y);
  const box = { left: -view.x / view.scale, top: -view.y / view.scale, right: (width - view.x) / view.scale, bottom: (height - view.y) / view.scale };
  const isIn = (item) => item.ax < box.right && item.ax + item.w > box.left && item.ay < box.bottom && item.ay + item.h > box.top;
  const seen = graph.items.filter(isIn);
  const isReadable = view.scale >= READABLE;
  for (const item of seen) if (item.kind === "module" && item.open && item.parent !== null) drawOpenModule(context, item, paint, view.scale);
  drawEdges(context, graph.edges, box, paint, selected, view.scale);
  for (const item of seen) {
    if (item.kind === "node") drawNode(context, item, colourOf(item, mode, paint), paint, isReadable);
    else if (!item.open) drawFolded(context, item, mode, paint, isReadable);
  }
  if (selected && isIn(selected)) {
    context.strokeStyle = paint.accent;
    context.lineWidth = Math.max(3, 2 / view.scale);
    outline(context, selected.ax - 4, selected.ay - 4, selected.w + 8, selected.h + 8, 11);
    context.stroke();
  }
  return seen.length;
}

function outline(context, x, y, w, h, radius) {
  context.beginPath();
  context.roundRect(x, y, w, h, radius);
}

function drawOpenModule(context, module, paint, scale) {
  outline(context, module.ax, module.ay, module.w, module.h, 12);
  context.fillStyle = paint.module;
  context.fill();
  context.strokeStyle = paint.line;
  context.lineWidth = 1;
  context.stroke();
  if (scale < READABLE / 2) return;
  drawSign(context, module, "\u2212", paint);
  context.fillStyle = paint.muted;
  context.font = `600 13px ${FONT}`;
  context.fillText(fitted(context, module.name, module.w - 60), module.ax + 14, module.ay + 20);
}

/** The corner that opens or folds a module when it is clicked. */
function signOf(module) {
  return { x: module.ax + module.w - 28, y: module.ay + 7, size: 20 };
}

function drawSign(context, module, sign, paint) {
  const { x, y, size } = signOf(module);
  outline(context, x, y, size, size, 5);
  context.fillStyle = paint.surface;
  context.fill();
  context.strokeStyle = paint.line;
  context.lineWidth = 1;
  context.stroke();
  context.fillStyle = paint.ink;
  context.font = `600 15px ${FONT}`;
  context.textAlign = "center";
  context.fillText(sign, x + size / 2, y + 15);
  context.textAlign = "left";
}

function drawEdges(context, edges, box, paint, selected, scale) {
  const marked = [];
  context.strokeStyle = paint.edge;
  context.lineWidth = Math.max(1.3, 0.7 / scale);
  context.beginPath();
  for (const edge of edges) {
    if (edge.left > box.right || edge.right < box.left || edge.top > box.bottom || edge.bottom < box.top) continue;
    if (edge.from === selected || edge.to === selected) marked.push(edge);
    else traceEdge(context, edge.points);
  }
  context.stroke();
  context.strokeStyle = paint.accent;
  context.lineWidth = Math.max(2.2, 1.4 / scale);
  context.beginPath();
  for (const { points } of marked) traceEdge(context, points);
  context.stroke();
}

/** Curves between rows, and straight down where the edge passes one. */
function traceEdge(context, points) {
  context.moveTo(points[0].x, points[0].top);
  context.lineTo(points[0].x, points[0].bottom);
  for (let index = 1; index < points.length; index += 1) {
    const [before, point] = [points[index - 1], points[index]];
    const bend = Math.max(Math.min(Math.abs(point.top - before.bottom) / 2, 90), 16);
    context.bezierCurveTo(before.x, before.bottom + bend, point.x, point.top - bend, point.x, point.top);
    context.lineTo(point.x, point.bottom);
  }
  const { x, top } = points.at(-1);
  context.moveTo(x - 4, top - 6);
  context.lineTo(x, top);
  context.lineTo(x + 4, top - 6);
}

function drawNode(context, node, colour, paint, isReadable) {
  outline(context, node.ax, node.ay, node.w, node.h, node.isEnd ? node.h / 2 : 8);
  context.fillStyle = isReadable ? paint.surface : colour;
  context.fill();
  context.strokeStyle = isReadable ? colour : paint.line;
  context.lineWidth = 1.4;
  context.stroke();
  if (!isReadable) return;
  if (node.isEnd) {
    context.fillStyle = paint.muted;
    context.font = `12px ${FONT}`;
    context.textAlign = "center";
    context.fillText(fitted(context, node.name, node.w - 24), node.ax + node.w / 2, node.ay + 21);
    context.textAlign = "left";
    return;
  }
  context.save();
  outline(context, node.ax, node.ay, node.w, node.h, 8);
  context.clip();
  context.fillStyle = colour;
  context.fillRect(node.ax, node.ay, 8, node.h);
  context.restore();
  context.fillStyle = paint.ink;
  context.font = `600 13px ${FONT}`;
  context.fillText(fitted(context, node.op, node.w - 84), node.ax + 18, node.ay + 20);
  context.fillStyle = paint.muted;
  context.font = `11px ${FONT}`;
  context.fillText(fitted(context, ownName(node), node.w - 30), node.ax + 18, node.ay + 36);
  if (node.bits === null) return;
  context.textAlign = "right";
  context.fillText(bitsText(node.bits), node.ax + node.w - 10, node.ay + 20);
  context.textAlign = "left";
}

/** The last part of a name that is not the operator again, as in `/decoder/scores/MatMul`. */
function ownName(node) {
  const parts = node.name.split("/").filter(Boolean);
  return parts.length > 1 && parts.at(-1) === node.op ? parts.at(-2) : parts.at(-1) || node.name;
}

function bitsText(bits) {
  if (bits === Infinity) return "all bits";
  return bits === -Infinity ? "0 bits" : counted(bits >= 100 ? Math.round(bits) : Number(bits.toFixed(1)), "bit");
}

function drawFolded(context, module, mode, paint, isReadable) {
  const colour = colourOf(module, mode, paint);
  outline(context, module.ax + 4, module.ay + 4, module.w, module.h, 10);
  context.fillStyle = paint.module;
  context.fill();
  context.strokeStyle = paint.line;
  context.lineWidth = 1;
  context.stroke();
  outline(context, module.ax, module.ay, module.w, module.h, 10);
  context.fillStyle = isReadable ? paint.surface : colour;
  context.fill();
  context.strokeStyle = colour;
  context.lineWidth = 1.6;
  context.stroke();
  if (!isReadable) return;
  drawSign(context, module, "+", paint);
  context.fillStyle = paint.ink;
  context.font = `600 13px ${FONT}`;
  context.fillText(fitted(context, module.name, module.w - 52), module.ax + 14, module.ay + 22);
  context.fillStyle = paint.muted;
  context.font = `11px ${FONT}`;
  context.fillText(counted(module.size, "node"), module.ax + 14, module.ay + 39);
  drawShares(context, module, mode, paint);
}

/** How the nodes of a folded module are distributed: a bar of shares. */
function drawShares(context, module, mode, paint) {
  const counts = mode === "verdict" ? VERDICT_ORDER.map((verdict) => [module.verdicts[verdict], paint.verdicts[verdict]]) : module.classes.map((count, index) => [count, paint.classes[index]]);
  const width = module.w - 28;
  let x = module.ax + 14;
  for (const [count, colour] of counts) {
    if (count === 0) continue;
    const part = (count / Math.max(module.size, 1)) * width;
    context.fillStyle = colour;
    context.fillRect(x, module.ay + 48, Math.max(part - 1, 1.5), 6);
    x += part;
  }
}

/** The text, cut so that it fits; measured with widths that are kept by font. */
const fittedTexts = new Map();

function fitted(context, text, width) {
  const key = `${context.font}|${Math.round(width)}|${text}`;
  const known = fittedTexts.get(key);
  if (known !== undefined) return known;
  let shown = text;
  if (context.measureText(text).width > width) {
    let low = 0;
    let high = text.length;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (context.measureText(`${text.slice(0, middle)}\u2026`).width <= width) low = middle;
      else high = middle - 1;
    }
    shown = `${text.slice(0, low)}\u2026`;
  }
  if (fittedTexts.size > 20000) fittedTexts.clear();
  fittedTexts.set(key, shown);
  return shown;
}
