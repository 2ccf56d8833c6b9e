// Layered layout of open modules. Layers and the order in them depend on the graph alone and are found when a module is first
// opened; places depend on what is open below, and are found again for the modules around a change.

const BOX = { node: [168, 46], end: [132, 34], module: [196, 66], gapX: 26, gapY: 38, pad: 20, head: 30 };
/** Rows are broken that would be longer. */
const LONGEST_ROW = 10;

function layOut(module) {
  if (!module.layers) module.layers = layersOf(module);
  for (const child of module.children) sizeOf(child);
  placeRows(module);
}

function sizeOf(item) {
  if (item.kind === "node") [item.w, item.h] = item.isEnd ? BOX.end : BOX.node;
  else if (!item.open) [item.w, item.h] = BOX.module;
  else if (item.stale !== false) layOut(item);
}

/** After folding: the places of the modules around it are to be found again. */
function markStale(module) {
  for (let around = module; around !== null; around = around.parent) around.stale = true;
}

function layersOf(module) {
  const items = module.children;
  const order = new Map(items.map((item, index) => [item, index]));
  const readers = new Map(items.map((item) => [item, []]));
  const sources = new Map(items.map((item) => [item, []]));
  for (const [from, targets] of module.edges) {
    for (const to of targets) {
      // Modules that take turns make cycles; an edge against the order of computation does not decide a layer.
      if (order.get(from) >= order.get(to)) continue;
      readers.get(from).push(to);
      sources.get(to).push(from);
    }
  }
  const layer = new Map();
  for (const item of items) layer.set(item, Math.max(-1, ...sources.get(item).map((source) => layer.get(source))) + 1);
  for (const item of [...items].reverse()) {
    // What reads nothing stands just above its first reader.
    if (sources.get(item).length === 0 && readers.get(item).length > 0) layer.set(item, Math.min(...readers.get(item).map((reader) => layer.get(reader))) - 1);
  }
  const lowest = Math.min(0, ...layer.values());
  const layers = [];
  for (const item of items) (layers[layer.get(item) - lowest] ||= []).push(item);
  const rows = layers.filter(Boolean);
  const rank = new Map(rows.flatMap((row, index) => row.map((item) => [item, index])));
  const near = addBends(module, rows, rank);
  untangle(rows, near.sources, near.readers);
  return { rows: rows.flatMap(broken), rank, sources: near.sources, trunks: near.trunks };
}

/** Order each row by the mean place of its neighbours in the row before, down and up. */
function untangle(rows, sources, readers) {
  const place = new Map();
  const note = (row) => row.forEach((item, index) => place.set(item, index - row.length / 2));
  rows.forEach(note);
  const sweep = (row, neighbours) => {
    const mean = new Map(row.map((item) => [item, average(neighbours.get(item).map((other) => place.get(other)), place.get(item))]));
    row.sort((one, other) => mean.get(one) - mean.get(other));
    note(row);
  };
  for (let round = 0; round < 3; round += 1) {
    rows.forEach((row) => sweep(row, sources));
    [...rows].reverse().forEach((row) => sweep(row, readers));
  }
}

function average(numbers, otherwise) {
  return numbers.length === 0 ? otherwise : numbers.reduce((sum, number) => sum + number, 0) / numbers.length;
}

function broken(row) {
  const rows = [[]];
  let boxes = 0;
  for (const item of row) {
    if (isBox(item) && boxes === LONGEST_ROW) {
      rows.push([]);
      boxes = 0;
    }
    rows.at(-1).push(item);
    if (isBox(item)) boxes += 1;
  }
  return rows;
}

function isBox(item) {
  return item.kind !== "bend";
}

/** Places relative to the module's corner: each item below the middle of what it reads, as far as its row allows; bends give way. */
function placeRows(module) {
  const { rows, sources } = module.layers;
  let y = BOX.head + BOX.pad;
  let left = Infinity;
  let right = -Infinity;
  const middle = new Map();
  for (const row of rows) {
    const wanted = new Map(row.map((item) => [item, wantedMiddle(sources.get(item), middle)]));
    let end = null;
    row.forEach((item, index) => {
      const gap = index > 0 && isBox(item) && isBox(row[index - 1]) ? BOX.gapX : BEND.gap;
      const start = wanted.get(item) === null ? null : wanted.get(item) - item.w / 2;
      item.x = end === null ? (start ?? 0) : Math.max(end + gap, start ?? -Infinity);
      end = item.x + item.w;
    });
    const boxes = row.filter(isBox);
    const known = boxes.filter((item) => wanted.get(item) !== null);
    const [first, last] = [boxes[0], boxes.at(-1)];
    const drift = known.length > 0 ? average(known.map((item) => item.x + item.w / 2 - wanted.get(item)), 0) : (first.x + last.x + last.w) / 2;
    const height = Math.max(...row.map((item) => item.h));
    for (const item of row) {
      item.x -= drift;
      item.y = y;
      item.room = height;
      middle.set(item, item.x + item.w / 2);
      left = Math.min(left, item.x);
      right = Math.max(right, item.x + item.w);
    }
    for (const item of row) if (!isBox(item)) item.h = height;
    y += height + BOX.gapY;
  }
  const label = Math.min(module.name.length * 7.5 + 60, 360);
  const extra = Math.max(0, (label - (right - left)) / 2);
  for (const row of rows) for (const item of row) item.x += BOX.pad + extra - left;
  module.w = right - left + 2 * (BOX.pad + extra);
  module.h = y - BOX.gapY + BOX.pad;
  module.stale = false;
}

/** Below the boxes that it reads, or else the bends. */
function wantedMiddle(sources, middle) {
  const known = sources.filter((source) => middle.has(source));
  const boxes = known.filter(isBox);
  return average((boxes.length > 0 ? boxes : known).map((source) => middle.get(source)), null);
}

/** All that is drawn, with absolute places: open modules before what they hold; and the edges between what is visible. */
function visibleGraph(model) {
  if (model.root.stale !== false) layOut(model.root);
  const items = [];
  const visit = (item, x, y) => {
    [item.ax, item.ay] = [x, y];
    items.push(item);
    if (item.kind === "module" && item.open) for (const child of item.children) visit(child, x + child.x, y + child.y);
  };
  visit(model.root, 0, 0);
  const shown = new Map();
  const standIn = (node) => {
    if (!shown.has(node.parent)) shown.set(node.parent, visibleFor(node.parent));
    const around = shown.get(node.parent);
    return around.open ? node : around;
  };
  const edges = [];
  const known = new Map();
  for (const node of model.nodes) {
    const to = standIn(node);
    for (const source of node.sources) {
      const from = standIn(model.nodes[source]);
      if (from === to) continue;
      if (!known.has(from)) known.set(from, new Set());
      if (known.get(from).has(to)) continue;
      known.get(from).add(to);
      edges.push(routed(from, to));
    }
  }
  return { items, edges };
}

/** An edge with the points that it passes, from the lower side of one box, down its row, to the upper side of another; and its extent. */
function routed(from, to) {
  const start = { x: from.ax + from.w / 2, top: from.ay + from.h, bottom: from.ay + (from.ay < to.ay ? from.room : from.h) };
  const end = { x: to.ax + to.w / 2, top: to.ay, bottom: to.ay };
  const points = [start, ...bendsBetween(from, to), end];
  const [xs, ys] = [points.map((point) => point.x), points.flatMap((point) => [point.top, point.bottom])];
  return { from, to, points, left: Math.min(...xs), right: Math.max(...xs), top: Math.min(...ys), bottom: Math.max(...ys) };
}
