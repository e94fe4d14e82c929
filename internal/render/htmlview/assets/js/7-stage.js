// The stage: lanes and curves over one time, which zoom and pan together.

const AXIS = 34;

// Ink reads the colours of the theme that is on.
class Ink {
  constructor() {
    this.probe = make("span", { hidden: true });
    document.body.append(this.probe);
    this.read();
  }

  read() {
    this.font = getComputedStyle(document.body).fontFamily;
    this.known = new Map();
    for (const name of ["ink", "quiet", "line", "accent", "onaccent", "bed", "fail", "sent", "wait"]) this[name] = this.of("--" + name);
  }

  of(name) {
    if (!this.known.has(name)) {
      this.probe.style.color = "";
      this.probe.style.color = `var(${name}, gray)`;
      this.known.set(name, getComputedStyle(this.probe).color);
    }
    return this.known.get(name);
  }

  state(name) {
    const known = /^[a-z-]+$/.test(name) ? name : "unknown";
    return { fill: this.of("--s-" + known), edge: this.of("--e-" + known) };
  }
}

// Scale maps times to the pixels of the stage.
class Scale {
  constructor(view, left, right) {
    Object.assign(this, { view, left, right });
  }

  x(t) {
    return this.left + (t - this.view[0]) / (this.view[1] - this.view[0]) * (this.right - this.left);
  }

  t(x) {
    return this.view[0] + (x - this.left) / (this.right - this.left) * (this.view[1] - this.view[0]);
  }

  step() {
    const ideal = (this.view[1] - this.view[0]) / Math.max(1, (this.right - this.left) / 96);
    const power = 10 ** Math.floor(Math.log10(ideal));
    return Math.max(1, [1, 2, 5, 10].find((m) => m * power >= ideal) * power);
  }

  ticks() {
    const step = this.step(), list = [];
    for (let t = Math.ceil(this.view[0] / step) * step; t <= this.view[1]; t += step) list.push(Math.round(t));
    return list;
  }
}

class Stage {
  constructor(box, data, ink) {
    Object.assign(this, { data, ink });
    this.lanes = new Lanes(data);
    this.filter = new Filter(data, () => this.filtered());
    this.view = [...data.view];
    this.lit = new Set();
    this.picked = this.hovered = null;
    this.listeners = [];
    this.build(box);
    this.lanes.arrange(this.filter);
    this.labels();
    this.resize();
    // The first news is of the size that was just drawn.
    new ResizeObserver(() => { if (this.el.clientWidth !== this.width) this.resize(); }).observe(this.el);
  }

  build(box) {
    const button = (text, label, act) => make("button", { type: "button", "aria-label": label, title: label, onclick: act }, text);
    this.range = make("span.range", { "aria-live": "polite" });
    const hintID = "hint-" + Math.random().toString(36).slice(2);
    this.axis = make("canvas.axis", { "aria-hidden": true });
    this.canvas = make("canvas", { "aria-hidden": true });
    this.labelBox = make("div.labels");
    this.laneBox = make("div.lanebox", { onscroll: () => this.paint() }, this.canvas, this.labelBox);
    this.curveBox = make("div.curves");
    this.cross = make("div.cross", { hidden: true });
    this.brush = make("div.brush", { hidden: true });
    this.tip = make("div.tip", { hidden: true, role: "tooltip" });
    this.el = make("div.stage", {
      tabindex: 0, role: "application", "aria-roledescription": "timeline", "aria-label": `Timeline with ${this.data.lanes.length} lanes`, "aria-describedby": hintID,
    }, this.axis, this.laneBox, this.curveBox, this.cross, this.brush);
    this.evidence = make("div.evidence", { hidden: true });
    this.said = make("p.sr", { "aria-live": "polite" });
    box.replaceChildren(
      make("div.tools", {},
        make("div.zoom", { role: "group", "aria-label": "Zoom" }, button("+", "Zoom in (+)", () => this.zoomBy(0.5)), button("−", "Zoom out (−)", () => this.zoomBy(2)), button("All", "Show all (0)", () => this.show(this.data.view))),
        this.range),
      this.filter.element(), this.el,
      make("p.hint", { id: hintID }, "Drag to zoom in, Shift and drag to move. The wheel zooms with Ctrl, or once the timeline has the focus. Keys: + − 0 zoom, ← → go from mark to mark, ↑ ↓ from lane to lane, Enter keeps the evidence, Shift with ← → moves, Esc lets go."),
      this.evidence, this.said, this.tip);
    this.curves = curvesOf(this.data).map((spec) => {
      const el = make("div.curve");
      this.curveBox.append(el);
      return new Curve(el, spec, this.ink);
    });
    this.listen();
  }

  listen() {
    const on = (name, act, options) => this.el.addEventListener(name, act, options);
    on("pointerdown", (e) => this.down(e));
    on("pointermove", (e) => this.move(e));
    on("pointerup", (e) => this.up(e));
    on("pointercancel", () => { this.drag = null; this.brush.hidden = true; });
    on("pointerleave", () => this.hover(null));
    on("wheel", (e) => this.wheel(e), { passive: false });
    on("keydown", (e) => this.key(e));
    on("blur", () => { if (this.byKey) this.hover(null); });
    on("dblclick", () => this.show(this.data.view));
  }

  // labels are text of the page, so that they can be read out, searched and marked.
  labels() {
    const { lanes } = this;
    const list = lanes.groups.map((g) => place(make("div.group", {}, g.text), g.y));
    let before = "";
    for (const l of lanes.shown) {
      const repeated = l.label === before;
      before = l.label;
      const name = make("span.name", { title: l.label }, make("bdi", {}, repeated ? "" : l.label));
      const swatch = l.kind === "bars" && l.pod && !repeated ? this.podSwatch(l.pod) : null;
      list.push(place(make("div.label" + (repeated ? ".again" : "") + (l.pod || l.node ? ".tail" : ""), {}, swatch, name, make("span.sub", {}, l.sub || "")), l.y, l.h));
    }
    this.labelBox.replaceChildren(...list);
    this.labelBox.style.height = lanes.height + "px";
  }

  // podSwatch ties a Pod's lane to its curve.
  podSwatch(pod) {
    const k = this.data.series ? this.data.series.answers.lines.findIndex((i) => i.name === pod) : -1;
    if (k < 0) return null;
    const el = make("span.swatch", { "aria-hidden": true });
    el.style.background = `var(--p${k % 8})`;
    return el;
  }

  filtered() {
    this.lanes.arrange(this.filter);
    this.labels();
    this.resize();
    for (const act of this.listeners) act();
  }

  resize() {
    const width = this.el.clientWidth;
    if (!width) return;
    this.width = width;
    const gutter = width >= 900 ? 270 : width >= 620 ? 180 : 108;
    this.el.style.setProperty("--gutter", gutter + "px");
    this.scale = new Scale(this.view, gutter, width - 12);
    this.laneView = Math.min(this.lanes.height + 4, Math.max(360, Math.round(innerHeight * 0.72)));
    this.laneBox.style.height = this.laneView + "px";
    fit(this.axis, width, AXIS);
    fit(this.canvas, width, this.laneView);
    this.labelBox.style.marginTop = -this.laneView + "px";
    for (const c of this.curves) c.draw(width, this.scale, this.view);
    this.paint();
  }

  themed() {
    this.ink.read();
    this.resize();
  }

  // soon draws once before the next frame, however often it is asked.
  soon() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      for (const c of this.curves) c.zoom(this.view);
      this.paint();
    });
  }

  paint() {
    if (!this.scale) return;
    this.scale.view = this.view;
    const g = pen(this.canvas, this.ink), top = this.laneBox.scrollTop;
    g.translate(0, -top);
    g.fillStyle = this.ink.line;
    for (const t of this.scale.ticks()) g.fillRect(Math.round(this.scale.x(t)), top, 1, this.laneView);
    this.lanes.draw(g, this.ink, this.scale, top, top + this.laneView, this.lit);
    g.fillStyle = this.ink.accent;
    if (this.inView(0)) g.fillRect(this.scale.x(0) - 0.5, top, 1, this.laneView);
    for (const item of [this.picked, this.hovered]) if (item) this.ring(g, item);
    this.paintAxis();
    this.range.textContent = `${precise(Math.round(this.view[0]))} to ${precise(Math.round(this.view[1]))}`;
  }

  ring(g, item) {
    const p = this.lanes.point(item, this.scale);
    if (!p || p.x < this.scale.left || p.x > this.scale.right) return;
    g.strokeStyle = this.ink.accent;
    g.lineWidth = 2;
    g.beginPath();
    g.arc(p.x, p.y, 7, 0, 2 * Math.PI);
    g.stroke();
  }

  paintAxis() {
    const g = pen(this.axis, this.ink), { scale } = this, step = scale.step();
    g.textAlign = "center";
    for (const t of scale.ticks()) {
      const x = scale.x(t);
      g.fillStyle = this.ink.line;
      g.fillRect(Math.round(x), AXIS - 6, 1, 6);
      g.fillStyle = t === 0 ? this.ink.accent : this.ink.quiet;
      const text = t === 0 ? this.data.zero : tick(t, step), half = g.measureText(text).width / 2;
      g.fillText(text, Math.max(scale.left + half - 8, Math.min(x, scale.right - half + 8)), AXIS - 12);
    }
  }

  inView(t) {
    return t >= this.view[0] && t <= this.view[1];
  }

  // show sets the view, kept within what the record spans and above a microsecond.
  show([from, to]) {
    const [low, high] = this.data.all, room = (high - low) * 0.02;
    const wide = Math.max(1000, Math.min(to - from, high - low + 2 * room));
    let start = Math.max(low - room, Math.min(from, high + room - wide));
    if (to - from < 1000) start = (from + to) / 2 - 500;
    this.view = [start, start + wide];
    this.soon();
  }

  zoomBy(factor, at = (this.view[0] + this.view[1]) / 2) {
    this.show([at - (at - this.view[0]) * factor, at + (this.view[1] - at) * factor]);
  }

  panBy(share) {
    const d = (this.view[1] - this.view[0]) * share;
    this.show([this.view[0] + d, this.view[1] + d]);
  }

  at(e) {
    const r = this.el.getBoundingClientRect(), lanes = this.laneBox.getBoundingClientRect();
    const inLanes = e.clientY >= lanes.top && e.clientY < lanes.bottom;
    return { x: e.clientX - r.left, y: inLanes ? e.clientY - lanes.top + this.laneBox.scrollTop : -1, axis: e.clientY < lanes.top };
  }

  down(e) {
    if (e.button !== 0) return;
    const p = this.at(e);
    if (p.x < this.scale.left - 6) return;
    this.drag = { x: p.x, view: [...this.view], pan: e.shiftKey || p.axis || e.pointerType === "touch", far: false };
    if (e.pointerType !== "touch") this.el.setPointerCapture(e.pointerId);
  }

  move(e) {
    const p = this.at(e);
    if (!this.drag) {
      this.byKey = false;
      this.hover(p.y >= 0 ? this.lanes.hit(p.x, p.y, this.scale) : null, p.x, e);
      return;
    }
    const d = this.drag;
    d.far = d.far || Math.abs(p.x - d.x) > 4;
    if (!d.far) return;
    this.hover(null);
    if (d.pan) {
      const t = (d.x - p.x) / (this.scale.right - this.scale.left) * (d.view[1] - d.view[0]);
      this.show([d.view[0] + t, d.view[1] + t]);
      return;
    }
    this.brush.hidden = false;
    const from = Math.max(this.scale.left, Math.min(d.x, p.x)), to = Math.min(this.scale.right, Math.max(d.x, p.x));
    this.brush.style.left = from + "px";
    this.brush.style.width = to - from + "px";
  }

  up(e) {
    const d = this.drag, p = this.at(e);
    this.drag = null;
    this.brush.hidden = true;
    if (!d) return;
    if (!d.far) {
      this.pick(p.y >= 0 ? this.lanes.hit(p.x, p.y, this.scale) : null);
    } else if (!d.pan) {
      const x = (v) => this.scale.t(Math.max(this.scale.left, Math.min(v, this.scale.right)));
      this.show([x(Math.min(d.x, p.x)), x(Math.max(d.x, p.x))]);
    }
  }

  wheel(e) {
    const p = this.at(e);
    if (p.x < this.scale.left) return;
    if (Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
      e.preventDefault();
      this.panBy(e.deltaX / 800);
    } else if (e.ctrlKey || e.metaKey || document.activeElement === this.el) {
      e.preventDefault();
      this.zoomBy(Math.exp(Math.max(-1, Math.min(1, e.deltaY / 300))), this.scale.t(p.x));
    }
  }

  key(e) {
    if (e.target !== this.el || e.altKey || e.ctrlKey || e.metaKey) return;
    const at = this.hovered && this.byKey ? this.hovered.t : undefined;
    const acts = {
      "+": () => this.zoomBy(0.5, at), "=": () => this.zoomBy(0.5, at), "-": () => this.zoomBy(2, at), "_": () => this.zoomBy(2, at), "0": () => this.show(this.data.view),
      ArrowLeft: () => (e.shiftKey ? this.panBy(-0.1) : this.step(-1)), ArrowRight: () => (e.shiftKey ? this.panBy(0.1) : this.step(1)),
      ArrowUp: () => this.climb(-1), ArrowDown: () => this.climb(1), Enter: () => this.pick(this.hovered), " ": () => this.pick(this.hovered),
      Escape: () => { this.pick(null); this.hover(null); this.el.blur(); },
    };
    const act = acts[e.key];
    if (!act) return;
    e.preventDefault();
    act();
  }

  // step goes to the next mark of the lane, or to the first in view.
  step(by) {
    const lane = this.lane && this.lanes.shown.includes(this.lane) ? this.lane : this.lanes.shown[0];
    if (!lane) return;
    const items = this.lanes.items(lane);
    if (!items.length) {
      this.say(`${lane.label} ${lane.sub || ""}: nothing here`);
      this.lane = lane;
      return;
    }
    let k = this.byKey && this.hovered && this.hovered.lane === lane ? items.findIndex((i) => same(i, this.hovered)) : -1;
    k = k < 0 ? Math.max(0, items.findIndex((i) => this.inView(i.t))) : Math.max(0, Math.min(items.length - 1, k + by));
    this.go(items[k]);
  }

  climb(by) {
    const list = this.lanes.shown;
    const k = this.lane ? list.indexOf(this.lane) + by : 0;
    this.lane = list[Math.max(0, Math.min(list.length - 1, k))];
    const items = this.lanes.items(this.lane), t = this.hovered ? this.hovered.t : 0;
    if (!items.length) {
      this.say(`${this.lane.label} ${this.lane.sub || ""}: nothing here`);
      return;
    }
    this.go(items.reduce((a, b) => (Math.abs(b.t - t) < Math.abs(a.t - t) ? b : a)));
  }

  // go moves to an item, and the view with it where it must.
  go(item) {
    this.lane = item.lane;
    this.byKey = true;
    this.reveal(item.t);
    this.scale.view = this.view;
    const p = this.lanes.point(item, this.scale);
    if (!p) return;
    const box = this.laneBox;
    if (item.lane.y < box.scrollTop || item.lane.y + item.lane.h > box.scrollTop + this.laneView) box.scrollTop = item.lane.y - 40;
    const r = box.getBoundingClientRect();
    this.hover(item, p.x, { clientX: r.left + p.x, clientY: r.top + p.y - box.scrollTop });
    const about = this.data.about(item);
    this.say(`${item.lane.label} ${item.lane.sub || ""}: ${about.title}, ${about.pairs.map(([k, v]) => k + " " + v).join(", ")}`);
  }

  reveal(t) {
    if (this.inView(t)) return;
    const wide = this.view[1] - this.view[0];
    this.show([t - wide / 2, t + wide / 2]);
  }

  say(text) {
    this.said.textContent = text;
  }

  hover(item, x, e) {
    const changed = !same(item, this.hovered);
    this.hovered = item;
    if (item) this.lane = item.lane;
    const on = x !== undefined && x >= this.scale.left && x <= this.scale.right;
    this.cross.hidden = !on;
    if (on) this.cross.style.transform = `translateX(${x}px)`;
    for (const c of this.curves) c.show(on ? this.scale.t(x) : null);
    if (changed) {
      this.tip.hidden = !item;
      if (item) this.tip.replaceChildren(...this.card(item, true));
      this.soon();
    }
    if (item) beside(this.tip, e);
  }

  // card tells what is known of an item; a brief one leaves out what only the kept evidence needs.
  card(item, brief) {
    const { title, pairs, evidence } = this.data.about(item);
    const list = make("dl", {}, ...pairs.map(([k, v]) => make("div", {}, make("dt", {}, k), make("dd" + (v === NOT_MEASURED ? ".none" : ""), {}, v))));
    const parts = [make(brief ? "b" : "h4", {}, title), list];
    if (evidence && evidence.length && brief) parts.push(make("p.quiet", {}, "Click: the events that its cause names"));
    return parts;
  }

  // pick keeps an item: its evidence stands below, and the events that its cause names are pointed out.
  pick(item) {
    this.picked = item;
    this.lit = new Set();
    this.evidence.hidden = !item;
    if (item) {
      const { evidence = [] } = this.data.about(item);
      const parts = this.card(item, false);
      if (evidence.length) parts.push(make("h5", {}, "Events that the cause names"), this.named(evidence));
      if (item.type === "event") {
        this.lit.add(item.index);
        parts.push(...this.namedBy(this.data.e.id(item.index)));
      }
      for (const id of evidence) if (this.data.byID.has(id)) this.lit.add(this.data.byID.get(id));
      this.evidence.replaceChildren(make("button.close", { type: "button", "aria-label": "Close the evidence", onclick: () => this.pick(null) }, "×"), ...parts);
      this.say(`${this.data.about(item).title}: ${evidence.length} events are pointed out`);
    }
    this.soon();
  }

  named(ids) {
    return make("ol", {}, ...ids.map((id) => {
      const i = this.data.byID.get(id);
      if (i === undefined) return make("li", {}, `#${id} is not in the record`);
      const { title, pairs } = this.data.aboutEvent(i);
      return make("li", {}, make("button.link", { type: "button", onclick: () => this.go(this.lanes.item("event", i)) }, title), " " + pairs.map(([k, v]) => (k === "time" ? v : `${k} ${v}`)).join(" · "));
    }));
  }

  namedBy(id) {
    const causes = new Set(this.data.causes.flatMap((c, k) => (c.evidence.includes(id) ? [k] : [])));
    let n = 0;
    for (let i = 0; i < this.data.failureCount; i++) if (causes.has(this.data.f.cause(i))) n++;
    return n ? [make("p", {}, `The causes of ${count(n)} failed request${n === 1 ? "" : "s"} name this event.`)] : [];
  }

  // choose picks an item from a table, and brings it into view.
  choose(type, index) {
    const item = this.lanes.item(type, index);
    if (!item.lane) return;
    this.reveal(item.t);
    this.pick(item);
    this.el.scrollIntoView({ block: "nearest" });
  }
}

const same = (a, b) => a === b || (a && b && a.type === b.type && a.index === b.index && a.bar === b.bar && a.lane === b.lane);

function place(el, y, h) {
  el.style.top = y + "px";
  if (h) el.style.height = h + "px";
  return el;
}

// fit gives a canvas the pixels of the screen.
function fit(canvas, width, height) {
  canvas.width = Math.round(width * devicePixelRatio);
  canvas.height = Math.round(height * devicePixelRatio);
  canvas.style.width = width + "px";
  canvas.style.height = height + "px";
}

function pen(canvas, ink) {
  const g = canvas.getContext("2d");
  g.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
  g.clearRect(0, 0, canvas.width, canvas.height);
  g.font = "11px " + ink.font;
  return g;
}

// beside puts a card next to a point, inside of the window.
function beside(el, e) {
  const gap = 14, w = el.offsetWidth, h = el.offsetHeight;
  const x = e.clientX + gap + w > innerWidth ? Math.max(4, e.clientX - gap - w) : e.clientX + gap;
  const y = e.clientY + gap + h > innerHeight ? Math.max(4, e.clientY - gap - h) : e.clientY + gap;
  el.style.transform = `translate(${x}px, ${y}px)`;
}
