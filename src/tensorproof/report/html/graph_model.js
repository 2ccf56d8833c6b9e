// The graph as the page keeps it: nodes, values, and the tree of modules that it folds by.

const VERDICTS = ["confirmed", "possible", "proven safe", "proven safe if", "not analysed", "not checkable"];
/** From the worst to the best; a module is coloured by the worst of its nodes. */
const VERDICT_ORDER = [0, 1, 4, 3, 2, 5];
/** Upper ends of the classes of headroom, in bits; the last class has none. */
const HEADROOM_ENDS = [0, 1, 4, 8, 16, Infinity];
const HEADROOM_LABELS = ["no bits left", "under 1 bit", "1 to 4 bits", "4 to 8 bits", "8 to 16 bits", "16 bits and more", "no float"];
/** Graphs with more nodes than this are folded at first. */
const FOLDED_ABOVE = 300;

function graphModel(data) {
  const values = data.values.map(([name, format = "", shape = "", low = null, high = null, bits = null, nan = 0]) => ({
    name,
    format,
    shape,
    low: toNumber(low),
    high: toNumber(high),
    bits: toNumber(bits),
    nan: nan === 1,
    maker: null,
  }));
  const root = { kind: "module", name: "model", path: "", parent: null, children: [], depth: 0, open: true, ...noEdges() };
  const modules = new Map([["", root]]);
  const nodes = data.nodes.map((row, index) => graphNode(row, index, data, values, modules));
  for (const node of nodes) node.parent.children.push(node);
  summarise(root);
  for (const node of nodes) for (const source of node.sources) addEdge(nodes[source], node);
  const model = { nodes, values, root, modules: [...modules.values()] };
  const isLarge = nodes.length > FOLDED_ABOVE;
  for (const module of model.modules) module.open = module === root || !isLarge;
  // A model that is wrapped in one module is not shown as a single box.
  for (let only = root; only.children.filter((child) => child.kind === "module").length === 1 && only.children.length < 6; ) {
    only = only.children.find((child) => child.kind === "module");
    only.open = true;
  }
  return model;
}

function graphNode([name, op, scope, verdict, place, sources, outputs, reads], index, data, values, modules) {
  const node = {
    kind: "node",
    index,
    name,
    op: data.ops[op],
    parent: moduleAt(data.scopes[scope], modules),
    verdict,
    place: place < 0 ? "" : data.places[place],
    sources,
    outputs: outputs.map((value) => values[value]),
    reads: reads.map((value) => values[value]),
    isEnd: verdict < 0,
  };
  for (const value of node.outputs) value.maker = node;
  const bits = node.outputs.map((value) => value.bits).filter((value) => value !== null);
  node.bits = bits.length > 0 ? Math.min(...bits) : null;
  node.text = `${name}\n${node.op}\n${data.scopes[scope]}`.toLowerCase();
  return node;
}

function moduleAt(path, modules) {
  const known = modules.get(path);
  if (known) return known;
  const cut = path.lastIndexOf("/");
  const parent = moduleAt(cut < 0 ? "" : path.slice(0, cut), modules);
  const module = { kind: "module", name: path.slice(cut + 1), path, parent, children: [], depth: parent.depth + 1, open: false, ...noEdges() };
  parent.children.push(module);
  modules.set(path, module);
  return module;
}

/** How many nodes a module has, of which verdicts and classes of headroom; and where it begins in the order of computation. */
function summarise(module) {
  module.size = 0;
  module.first = Infinity;
  module.verdicts = new Array(VERDICTS.length).fill(0);
  module.classes = new Array(HEADROOM_ENDS.length + 1).fill(0);
  for (const child of module.children) {
    if (child.kind === "module") {
      summarise(child);
      child.verdicts.forEach((count, verdict) => (module.verdicts[verdict] += count));
      child.classes.forEach((count, index) => (module.classes[index] += count));
      module.size += child.size;
      module.first = Math.min(module.first, child.first);
    } else {
      // A node with a body reads what its body makes, and stands after it.
      child.first = Math.max(child.index, ...child.sources);
      module.first = Math.min(module.first, child.index);
      if (child.isEnd) continue;
      module.size += 1;
      module.verdicts[child.verdict] += 1;
      module.classes[headroomClass(child.bits)] += 1;
    }
  }
  module.children.sort((one, other) => one.first - other.first);
}

/** The class of a headroom; the one after the last is for nodes that have none, such as those of integers. */
function headroomClass(bits) {
  if (bits === null) return HEADROOM_ENDS.length;
  if (bits <= 0) return 0;
  return bits === Infinity ? HEADROOM_ENDS.length - 1 : HEADROOM_ENDS.findIndex((end) => bits < end);
}

/** What the layout of a module needs: edges between its children, and the children that edges leave it from and come in to. */
function noEdges() {
  return { edges: new Map(), exits: new Set(), entries: new Set() };
}

/** Lift an edge to the module in which both ends lie in different children. */
function addEdge(from, to) {
  let a = from;
  let b = to;
  while (a.parent !== b.parent) {
    const [depthA, depthB] = [depthOf(a), depthOf(b)];
    if (depthA >= depthB) {
      a.parent.exits.add(a);
      a = a.parent;
    }
    if (depthB >= depthA) {
      b.parent.entries.add(b);
      b = b.parent;
    }
  }
  if (a === b) return;
  const edges = a.parent.edges;
  if (!edges.has(a)) edges.set(a, new Set());
  edges.get(a).add(b);
}

function depthOf(item) {
  return item.kind === "module" ? item.depth : item.parent.depth + 1;
}

/** What stands for a node: itself, or the outermost module around it that is folded. */
function visibleFor(item) {
  let shown = item;
  for (let module = item.parent; module !== null; module = module.parent) if (!module.open) shown = module;
  return shown;
}

/** Nodes whose name, operator or module holds all words; those whose name begins with the text come first. */
function searchNodes(model, text, most) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return { found: [], total: 0 };
  const found = [];
  let total = 0;
  for (const node of model.nodes) {
    if (!words.every((word) => node.text.includes(word))) continue;
    total += 1;
    if (found.length < most * 4) found.push(node);
  }
  const rank = (node) => (node.text.startsWith(words[0]) ? 0 : node.op.toLowerCase() === words[0] ? 1 : 2);
  found.sort((one, other) => rank(one) - rank(other) || one.index - other.index);
  return { found: found.slice(0, most), total };
}

/** The chain of ranges that explains a node: from its first output back along the widest floating operands. */
function nodeTrail(node, most = 8) {
  const steps = [];
  const seen = new Set();
  let value = node.outputs[0] || node.reads[0];
  while (value && value.low !== null && steps.length < most && !seen.has(value)) {
    seen.add(value);
    steps.unshift({ value: value.name, op: value.maker === null ? "" : value.maker.op, range: [value.low, value.high] });
    value = value.maker === null ? null : widest(value.maker.reads);
  }
  return steps;
}

function widest(values) {
  let best = null;
  let most = -1;
  for (const value of values) {
    if (value.low === null) continue;
    const width = value.bits === null ? Math.min(value.high - value.low, 0.5) : value.high - value.low;
    if (width > most) [best, most] = [value, width];
  }
  return best;
}
