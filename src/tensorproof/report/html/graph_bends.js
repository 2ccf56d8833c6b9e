// Where long edges pass the rows between their ends: in each of them a narrow place of their own, so that they cross no box.

const BEND = { w: 10, gap: 14 };
/** Bends of a module, for each of its children; the longest edges beyond that are drawn straight. */
const BENDS_PER_CHILD = 6;

/**
 * Adds bends to the rows of a module. What leaves an item goes down one trunk, which its readers share, to the last row if the edge leaves
 * the module; what comes from outside goes from the first row to the item. Returned are the trunks, and what stands next to each other
 * along edges in rows that follow each other.
 */
function addBends(module, rows, rank) {
  const sources = new Map(module.children.map((item) => [item, []]));
  const readers = new Map(module.children.map((item) => [item, []]));
  const connect = (from, to) => {
    readers.get(from).push(to);
    sources.get(to).push(from);
  };
  const plans = [];
  for (const item of module.children) {
    const below = [...(module.edges.get(item) || [])].filter((to) => rank.get(to) > rank.get(item));
    const last = module.exits.has(item) ? rows.length - 1 : Math.max(...below.map((to) => rank.get(to))) - 1;
    plans.push({ item, below, first: rank.get(item) + 1, last, isEntry: false });
    if (module.entries.has(item)) plans.push({ item, below: [item], first: 0, last: rank.get(item) - 1, isEntry: true });
  }
  plans.sort((one, other) => one.last - one.first - (other.last - other.first));
  const trunks = { out: new Map(), into: new Map() };
  let left = BENDS_PER_CHILD * module.children.length;
  for (const { item, below, first, last, isEntry } of plans) {
    const length = last - first + 1;
    const trunk = length <= left ? Array.from({ length: Math.max(length, 0) }, () => ({ kind: "bend", w: BEND.w, h: 0 })) : [];
    left -= trunk.length;
    trunk.forEach((bend, index) => {
      sources.set(bend, []);
      readers.set(bend, []);
      rows[first + index].push(bend);
      if (index > 0) connect(trunk[index - 1], bend);
    });
    if (trunk.length > 0 && !isEntry) connect(item, trunk[0]);
    for (const to of below) {
      const above = trunk[rank.get(to) - first - 1] || (isEntry ? null : item);
      if (above) connect(above, to);
    }
    (isEntry ? trunks.into : trunks.out).set(item, trunk);
  }
  return { sources, readers, trunks };
}

/** The bends on the way from one visible item to another, with absolute places: out of modules, between siblings, into modules. */
function bendsBetween(from, to) {
  const [before, after] = [[], []];
  let [a, b] = [from, to];
  while (a.parent !== b.parent) {
    const [depthA, depthB] = [depthOf(a), depthOf(b)];
    if (depthA >= depthB) {
      before.push(...placed(a.parent, a.parent.layers.trunks.out.get(a)));
      a = a.parent;
    }
    if (depthB >= depthA) {
      after.unshift(...placed(b.parent, b.parent.layers.trunks.into.get(b) || []));
      b = b.parent;
    }
  }
  const { trunks, rank } = a.parent.layers;
  const rows = Math.max(rank.get(b) - rank.get(a) - 1, 0);
  return [...before, ...placed(a.parent, trunks.out.get(a).slice(0, rows)), ...after];
}

function placed(module, bends) {
  return bends.map((bend) => ({ x: module.ax + bend.x + bend.w / 2, top: module.ay + bend.y, bottom: module.ay + bend.y + bend.h }));
}
