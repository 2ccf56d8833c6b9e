// The graph view: pointer, keyboard and search on top of model, layout and drawing.

const ZOOM = { least: 0.02, most: 3, step: 1.25, read: 0.9 };
const PAN = 80;
const RESULTS = 40;
/** Above this many nodes there is no button that opens all modules. */
const OPENED_AT_ONCE = 2000;

class GraphView {
  /** `findingsAt` gives the findings of a node, `openFinding` shows one. */
  constructor(data, { findingsAt, openFinding }) {
    this.model = graphModel(data);
    this.mode = "headroom";
    this.selected = null;
    this.view = { x: 0, y: 0, scale: 1 };
    this.actions = { findingsAt, openFinding, select: (node) => this.reveal(node), toggle: (module) => this.toggle(module) };
    this.element = this.build();
    this.element.graphView = this;
    this.graph = visibleGraph(this.model);
    this.hasView = false;
    new ResizeObserver(() => this.resize()).observe(this.canvas);
  }

  build() {
    this.canvas = el("canvas", { tabindex: "0", role: "application", "aria-roledescription": "graph", "aria-label": `Graph of ${counted(this.model.root.size, "node")}. Arrow keys pan, plus and minus zoom, J and K go from node to node, Enter opens or folds a module, slash searches.` });
    this.details = el("aside", { class: "details", "aria-live": "polite", "aria-label": "Selected node", tabindex: "0" });
    this.legend = el("div", { class: "legend", "aria-label": "Colours" });
    this.listen();
    const stage = el("div", { class: "stage" }, this.canvas, this.zoomButtons(), this.legend);
    const whole = el("section", { class: "graph block", "aria-label": "Graph" }, el("h3", {}, "Graph"), this.toolbar(), el("div", { class: "panes" }, stage, this.details));
    this.showDetails();
    this.showLegend();
    return whole;
  }

  // -- tools ------------------------------------------------------------------------------------------------------------

  toolbar() {
    const mode = (name, label) => el("button", { type: "button", "aria-pressed": String(this.mode === name), "data-mode": name, onclick: () => this.setMode(name) }, label);
    this.modes = el("div", { class: "segments", role: "group", "aria-label": "Colour nodes by" }, mode("headroom", "Headroom"), mode("verdict", "Verdict"));
    const fold = el("button", { type: "button", class: "button", onclick: () => this.setAll(false) }, "Fold all");
    const open = this.model.nodes.length <= OPENED_AT_ONCE ? el("button", { type: "button", class: "button", onclick: () => this.setAll(true) }, "Open all") : null;
    const hasModules = this.model.modules.length > 1;
    return el("div", { class: "toolbar" }, this.searchBox(), this.modes, hasModules ? fold : null, hasModules ? open : null);
  }

  zoomButtons() {
    const button = (label, text, action) => el("button", { type: "button", "aria-label": label, title: label, onclick: action }, text);
    return el("div", { class: "zoom", role: "group", "aria-label": "Zoom" }, button("Zoom in", "+", () => this.zoom(ZOOM.step)), button("Zoom out", "\u2212", () => this.zoom(1 / ZOOM.step)), button("Fit the graph", "\u2922", () => this.fit()));
  }

  searchBox() {
    this.results = el("ul", { class: "results", role: "listbox", id: `results-${Math.random().toString(36).slice(2)}`, "aria-label": "Matches", hidden: true });
    this.search = el("input", {
      type: "search",
      placeholder: "Search name, operator or module  ( / )",
      "aria-label": "Search nodes",
      role: "combobox",
      "aria-expanded": "false",
      "aria-controls": this.results.id,
      autocomplete: "off",
      spellcheck: "false",
    });
    this.search.addEventListener("input", () => this.showResults());
    this.search.addEventListener("keydown", (event) => this.onSearchKey(event));
    this.search.addEventListener("blur", () => setTimeout(() => this.closeResults(), 150));
    return el("div", { class: "search" }, this.search, this.results);
  }

  showResults() {
    const { found, total } = searchNodes(this.model, this.search.value, RESULTS);
    this.found = found;
    this.chosen = 0;
    const rows = found.map((node, index) => el("li", { role: "option", id: `${this.results.id}-${index}`, "aria-selected": String(index === 0), onmousedown: (event) => (event.preventDefault(), this.choose(index)) }, el("strong", {}, node.op), el("span", { class: "mono" }, node.name)));
    if (total > found.length) rows.push(el("li", { class: "quiet", role: "presentation" }, `and ${(total - found.length).toLocaleString("en")} more`));
    if (total === 0) rows.push(el("li", { class: "quiet", role: "presentation" }, "No match"));
    this.results.replaceChildren(...rows);
    this.results.hidden = this.search.value.trim() === "";
    this.search.setAttribute("aria-expanded", String(!this.results.hidden));
  }

  closeResults() {
    this.results.hidden = true;
    this.search.setAttribute("aria-expanded", "false");
  }

  onSearchKey(event) {
    const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (move && this.found && this.found.length > 0) {
      this.chosen = (this.chosen + move + this.found.length) % this.found.length;
      [...this.results.children].forEach((row, index) => row.setAttribute("aria-selected", String(index === this.chosen)));
      this.results.children[this.chosen].scrollIntoView({ block: "nearest" });
      this.search.setAttribute("aria-activedescendant", `${this.results.id}-${this.chosen}`);
    } else if (event.key === "Enter" && this.found && this.found.length > 0) this.choose(this.chosen);
    else if (event.key === "Escape") this.canvas.focus();
    else return;
    event.preventDefault();
  }

  choose(index) {
    this.closeResults();
    this.reveal(this.found[index]);
    this.canvas.focus({ preventScroll: true });
  }

  // -- what is open, selected and coloured ------------------------------------------------------------------------------

  setMode(mode) {
    this.mode = mode;
    for (const button of this.modes.children) button.setAttribute("aria-pressed", String(button.dataset.mode === mode));
    this.showLegend();
    this.draw();
  }

  setAll(open) {
    for (const module of this.model.modules) {
      if (module.parent !== null) module.open = open;
      module.stale = true;
    }
    if (this.selected) this.selected = visibleFor(this.selected);
    this.graph = visibleGraph(this.model);
    this.showDetails();
    this.fit();
  }

  /** Open or fold a module; what was under the pointer stays where it is. */
  toggle(module) {
    if (module.kind !== "module" || module.parent === null) return;
    const before = { x: module.ax, y: module.ay };
    module.open = !module.open;
    markStale(module);
    this.graph = visibleGraph(this.model);
    this.view.x += (before.x - module.ax) * this.view.scale;
    this.view.y += (before.y - module.ay) * this.view.scale;
    if (this.selected) this.selected = visibleFor(this.selected);
    this.showDetails();
    this.draw();
  }

  select(item) {
    this.selected = item;
    this.showDetails();
    this.draw();
  }

  /** Open all modules around an item, select it and bring it into the middle. */
  reveal(item) {
    let changed = false;
    for (let module = item.parent; module !== null; module = module.parent) {
      if (!module.open) {
        module.open = true;
        changed = true;
      }
    }
    if (changed) {
      markStale(item.parent);
      for (let module = item.parent; module !== null; module = module.parent) module.stale = true;
      this.graph = visibleGraph(this.model);
    }
    this.selected = item;
    this.view.scale = Math.max(this.view.scale, ZOOM.read);
    this.centre(item);
    this.hasView = true;
    this.showDetails();
    this.draw();
  }

  centre(item) {
    this.view.x = this.canvas.clientWidth / 2 - (item.ax + item.w / 2) * this.view.scale;
    this.view.y = this.canvas.clientHeight / 2 - (item.ay + item.h / 2) * this.view.scale;
  }

  showDetails() {
    this.details.replaceChildren(graphDetails(this.selected, this.actions));
    this.details.scrollTop = 0;
  }

  showLegend() {
    const entries = this.mode === "verdict" ? VERDICT_ORDER.map((verdict) => [VERDICTS[verdict], verdictClass(VERDICTS[verdict])]) : HEADROOM_LABELS.map((label, index) => [label, `h${index}`]);
    this.legend.replaceChildren(...entries.map(([label, name]) => el("span", {}, el("i", { class: `swatch ${name}` }), label)));
  }

  // -- the view ---------------------------------------------------------------------------------------------------------

  fit() {
    const { w, h } = this.model.root;
    const [width, height] = [this.canvas.clientWidth, this.canvas.clientHeight - this.legend.offsetHeight - 12];
    if (width === 0) return;
    const whole = Math.min(width / (w + 40), height / (h + 40));
    // A graph that is much taller than the view is shown from its top, at a size that can be read.
    const scale = whole < READABLE ? Math.max(whole, Math.min(READABLE + 0.2, width / (w + 40))) : Math.min(whole, 1.1);
    const isTall = h * scale > height;
    const top = this.model.root.layers.rows[0];
    const middle = isTall ? (top[0].x + top.at(-1).x + top.at(-1).w) / 2 : w / 2;
    this.view = { scale, x: width / 2 - middle * scale, y: isTall ? 10 : (height - h * scale) / 2 };
    this.hasView = true;
    this.draw();
  }

  zoom(factor, x = this.canvas.clientWidth / 2, y = this.canvas.clientHeight / 2) {
    const scale = Math.min(Math.max(this.view.scale * factor, ZOOM.least), ZOOM.most);
    this.view.x = x - ((x - this.view.x) * scale) / this.view.scale;
    this.view.y = y - ((y - this.view.y) * scale) / this.view.scale;
    this.view.scale = scale;
    this.draw();
  }

  pan(x, y) {
    this.view.x += x;
    this.view.y += y;
    this.draw();
  }

  resize() {
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(this.canvas.clientWidth * ratio);
    this.canvas.height = Math.round(this.canvas.clientHeight * ratio);
    if (!this.hasView) this.fit();
    this.draw(true);
  }

  draw(now = false) {
    if (now) return this.drawNow();
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => this.drawNow());
  }

  drawNow() {
    cancelAnimationFrame(this.waiting);
    this.waiting = null;
    if (this.canvas.clientWidth === 0) return;
    const options = { width: this.canvas.clientWidth, height: this.canvas.clientHeight, ratio: window.devicePixelRatio || 1, mode: this.mode, paint: paintOf(this.canvas), selected: this.selected };
    this.drawn = drawGraph(this.canvas.getContext("2d"), this.graph, this.view, options);
  }

  // -- pointer and keyboard ---------------------------------------------------------------------------------------------

  /** The topmost item at a place of the canvas; an open module only by its head and border, which is all that is its own. */
  itemAt(x, y) {
    const px = (x - this.view.x) / this.view.scale;
    const py = (y - this.view.y) / this.view.scale;
    for (let index = this.graph.items.length - 1; index >= 0; index -= 1) {
      const item = this.graph.items[index];
      if (item.parent === null || px < item.ax || px > item.ax + item.w || py < item.ay || py > item.ay + item.h) continue;
      if (item.kind === "module") {
        const sign = signOf(item);
        const isSign = px >= sign.x && px <= sign.x + sign.size && py >= sign.y && py <= sign.y + sign.size;
        if (item.open && py > item.ay + BOX.head) continue;
        return { item, isSign };
      }
      return { item, isSign: false };
    }
    return null;
  }

  /** Where a node or module is in the window, by its name: for those who drive the page. */
  locate(name) {
    const item = [...this.model.nodes, ...this.model.modules].find((other) => other.name === name || other.path === name);
    if (!item) return null;
    const shown = visibleFor(item);
    const box = this.canvas.getBoundingClientRect();
    const sign = shown.kind === "module" ? signOf(shown) : null;
    const at = (x, y) => ({ x: box.left + this.view.x + x * this.view.scale, y: box.top + this.view.y + y * this.view.scale });
    return { ...at(shown.ax + shown.w / 2, shown.ay + Math.min(shown.h / 2, 15)), name: shown.name, sign: sign && at(sign.x + sign.size / 2, sign.y + sign.size / 2) };
  }

  listen() {
    let start = null;
    const place = (event) => {
      const box = this.canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    this.canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      start = { x: event.clientX, y: event.clientY, moved: false };
      this.canvas.setPointerCapture(event.pointerId);
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (start === null) {
        this.canvas.classList.toggle("over", this.itemAt(...place(event)) !== null);
        return;
      }
      const [dx, dy] = [event.clientX - start.x, event.clientY - start.y];
      if (!start.moved && Math.hypot(dx, dy) < 4) return;
      start = { x: event.clientX, y: event.clientY, moved: true };
      this.pan(dx, dy);
    });
    this.canvas.addEventListener("pointerup", (event) => {
      const wasClick = start !== null && !start.moved;
      start = null;
      if (!wasClick) return;
      const hit = this.itemAt(...place(event));
      if (hit && hit.isSign) this.toggle(hit.item);
      else this.select(hit ? hit.item : null);
    });
    this.canvas.addEventListener("pointercancel", () => (start = null));
    this.canvas.addEventListener("dblclick", (event) => {
      const hit = this.itemAt(...place(event));
      if (hit && !hit.isSign) this.toggle(hit.item);
    });
    this.canvas.addEventListener("wheel", (event) => this.onWheel(event, ...place(event)), { passive: false });
    this.canvas.addEventListener("keydown", (event) => this.onKey(event));
  }

  /** The wheel scrolls the page until the graph was chosen; then, or with Ctrl, it zooms. */
  onWheel(event, x, y) {
    if (!event.ctrlKey && document.activeElement !== this.canvas) return;
    event.preventDefault();
    this.zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0016)), x, y);
  }

  onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const actions = {
      ArrowLeft: () => this.pan(PAN, 0),
      ArrowRight: () => this.pan(-PAN, 0),
      ArrowUp: () => this.pan(0, PAN),
      ArrowDown: () => this.pan(0, -PAN),
      "+": () => this.zoom(ZOOM.step),
      "=": () => this.zoom(ZOOM.step),
      "-": () => this.zoom(1 / ZOOM.step),
      0: () => this.fit(),
      j: () => this.step(1),
      k: () => this.step(-1),
      Enter: () => this.selected && this.toggle(this.selected),
      Escape: () => this.select(null),
    };
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }

  /** Select the next item that is visible, in the order of computation. */
  step(by) {
    const items = this.graph.items.filter((item) => item.parent !== null);
    const at = items.indexOf(this.selected);
    const next = items[(at + by + items.length) % items.length];
    this.selected = next;
    this.centre(next);
    this.showDetails();
    this.draw();
  }
}
