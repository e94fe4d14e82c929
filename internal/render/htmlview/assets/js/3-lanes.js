// The lanes: where each stands, what it draws, and what lies under a point.

const GROUP = 30, GAP = 7;
// Up to FEW failures in sight are drawn each and exactly; more in spots of so many pixels. Up to MANY in a lane show how long they waited.
const FEW = 400, MANY = 5000, SPOT = 2;
function laneHeight(lane) {
  const between = (low, v, high) => Math.max(low, Math.min(v, high));
  switch (lane.kind) {
    case "rows": return between(18, lane.rows * 5, 120);
    case "failures": return between(22, lane.rows * 2, 56);
    case "counts": return 30;
    default: return 18;
  }
}

class Lanes {
  constructor(data) {
    this.data = data;
    this.all = data.lanes;
    for (const l of this.all) {
      l.bars = l.bars || [];
      l.marks = l.marks || [];
      l.nodes = new Set(l.marks.map((i) => data.text(data.e.node(i))));
    }
    this.laneOf = new Map();
    for (const l of this.all) for (const i of l.marks) this.laneOf.set(i, l);
  }

  // arrange places the lanes that the filter leaves.
  arrange(filter) {
    this.filter = filter;
    this.shown = [];
    this.groups = [];
    let y = 0, group = "";
    for (const l of this.all) {
      if (!filter.lane(l)) continue;
      if (l.group !== group) {
        group = l.group;
        this.groups.push({ text: group, y });
        y += GROUP;
      }
      l.y = y;
      l.h = laneHeight(l);
      y += l.h + GAP;
      this.shown.push(l);
    }
    this.height = y;
    return this;
  }

  at(y) {
    return this.shown.find((l) => y >= l.y - GAP / 2 && y < l.y + l.h + GAP / 2);
  }

  // items of a lane in order of time, for the keyboard.
  items(lane) {
    if (lane.kind === "failures") {
      return (this.data.byOutcome.get(lane.outcome) || []).filter((i) => this.filter.failure(i)).map((i) => ({ type: "failure", index: i, t: this.data.f.t(i), lane }));
    }
    if (lane.kind === "counts") {
      const s = this.data.series;
      return s.sent.map((_, k) => ({ type: "bucket", index: k, t: s.from + (k + 0.5) * s.bucket, lane }));
    }
    const list = lane.marks.filter((i) => this.filter.event(i)).map((i) => ({ type: "event", index: i, t: this.data.e.t(i), lane }));
    for (const b of lane.bars) {
      const item = this.ofBar(lane, b);
      if (item.type === "flow" ? b[2] !== "alive" || this.data.flows[b[5]].ended === null : b[4] < 0) list.push(item);
    }
    return list.sort((a, b) => a.t - b.t);
  }

  ofBar(lane, b) {
    const t = b[0] === null ? this.data.all[0] : b[0];
    return b[5] >= 0 ? { type: "flow", index: b[5], t, lane } : { type: "bar", bar: b, t, lane };
  }

  // hit finds what lies under a point, or null.
  hit(x, y, scale) {
    const lane = this.at(y);
    if (!lane || x < scale.left - 4) return null;
    if (lane.kind === "counts") {
      const s = this.data.series, k = Math.floor((scale.t(x) - s.from) / s.bucket);
      return k >= 0 && k < s.sent.length ? { type: "bucket", index: k, t: s.from + (k + 0.5) * s.bucket, lane } : null;
    }
    if (lane.kind === "failures") return this.nearestFailure(lane, x, y, scale);
    let best = null, near = 6;
    if (lane.kind !== "rows" || lane.group === "Nodes") {
      for (const i of lane.marks) {
        const d = Math.abs(scale.x(this.data.e.t(i)) - x);
        if (d < near && this.filter.event(i)) [best, near] = [{ type: "event", index: i, t: this.data.e.t(i), lane }, d];
      }
    }
    if (best) return best;
    const row = Math.floor((y - lane.y) / lane.h * (lane.rows || 1)), t = scale.t(x);
    for (let k = lane.bars.length - 1; k >= 0; k--) {
      const b = lane.bars[k];
      if ((lane.kind !== "rows" || b[3] === row) && (b[0] === null || b[0] <= t) && (b[1] === null || t <= b[1])) return this.ofBar(lane, b);
    }
    return null;
  }

  nearestFailure(lane, x, y, scale) {
    const list = this.data.byOutcome.get(lane.outcome) || [];
    const [from, to] = this.inView(list, [scale.t(x - 6), scale.t(x + 6)]);
    let best = null, near = Infinity;
    for (let k = from; k < to; k++) {
      const i = list[k];
      if (!this.filter.failure(i)) continue;
      const d = Math.abs(scale.x(this.data.f.t(i)) - x) + 0.5 * Math.abs(this.failureY(lane, i) + 1 - y);
      if (d < near) [best, near] = [i, d];
    }
    return best === null ? null : { type: "failure", index: best, t: this.data.f.t(best), lane };
  }

  failureY(lane, i) {
    return lane.y + 1 + (this.data.f.user(i) % lane.rows) / lane.rows * (lane.h - 3);
  }

  // point of an item, or null where its lane is filtered away.
  point(item, scale) {
    const lane = item.lane;
    if (!this.shown.includes(lane)) return null;
    const y = item.type === "failure" ? this.failureY(lane, item.index) + 1 : lane.y + lane.h / 2;
    return { x: scale.x(item.t), y };
  }

  item(type, index) {
    if (type === "failure") {
      const outcome = this.data.text(this.data.f.outcome(index));
      return { type, index, t: this.data.f.t(index), lane: this.all.find((l) => l.kind === "failures" && l.outcome === outcome) };
    }
    return { type, index, t: this.data.e.t(index), lane: this.laneOf.get(index) };
  }

  // draw paints the lanes between two heights; lit are the events to point out.
  draw(g, ink, scale, top, bottom, lit) {
    this.marks = 0;
    for (const l of this.shown) {
      if (l.y + l.h < top || l.y > bottom) continue;
      g.fillStyle = ink.bed;
      g.fillRect(scale.left, l.y, scale.right - scale.left, l.h);
      g.save();
      g.beginPath();
      g.rect(scale.left, l.y - 3, scale.right - scale.left, l.h + 6);
      g.clip();
      if (l.kind === "counts") this.drawCounts(g, ink, scale, l);
      else if (l.kind === "failures") this.drawFailures(g, ink, scale, l);
      else this.drawBars(g, ink, scale, l);
      g.restore();
    }
    for (const i of lit) {
      const l = this.laneOf.get(i);
      if (l && this.shown.includes(l)) this.light(g, ink, scale, l, i);
    }
  }

  light(g, ink, scale, l, i) {
    const x = scale.x(this.data.e.t(i));
    if (x < scale.left || x > scale.right) return;
    g.fillStyle = ink.accent;
    g.fillRect(x - 1, l.y - 3, 2, l.h + 6);
    const text = "#" + this.data.e.id(i), wide = g.measureText(text).width + 8;
    const left = Math.min(x + 3, scale.right - wide);
    g.fillRect(left, l.y, wide, 15);
    g.fillStyle = ink.onaccent;
    g.fillText(text, left + 4, l.y + 11.5);
  }

  drawCounts(g, ink, scale, l) {
    const s = this.data.series, most = Math.max(1, ...s.sent);
    for (const [values, colour] of [[s.sent, ink.sent], [s.failed, ink.fail]]) {
      g.fillStyle = colour;
      for (let k = 0; k < values.length; k++) {
        if (!values[k]) continue;
        const x = scale.x(s.from + k * s.bucket), w = scale.x(s.from + (k + 1) * s.bucket) - x;
        if (x + w < scale.left || x > scale.right) continue;
        const h = Math.max(1, values[k] / most * l.h);
        g.fillRect(x, l.y + l.h - h, Math.max(w - (w > 4 ? 1 : 0), 0.6), h);
      }
    }
  }

  // inView gives where the failures in sight begin and end among those of a lane, which are in order of time.
  inView(list, view) {
    const first = (t) => {
      let low = 0, high = list.length;
      while (low < high) {
        const mid = (low + high) >> 1;
        if (this.data.f.t(list[mid]) < t) low = mid + 1;
        else high = mid;
      }
      return low;
    };
    return [first(view[0]), first(view[1] + 1)];
  }

  // A few failures are drawn each. Of many those that fall on one spot are one: a hundred thousand cost what the pixels cost.
  drawFailures(g, ink, scale, l) {
    const list = this.data.byOutcome.get(l.outcome) || [], f = this.data.f, [from, to] = this.inView(list, scale.view);
    const height = Math.max(to - from <= FEW ? 5 : 2.5, l.h / l.rows - 0.5), top = (i) => Math.min(this.failureY(l, i), l.y + l.h - height);
    if (list.length <= MANY) this.drawWaits(g, ink, scale, l, list, height);
    g.fillStyle = ink.fail;
    if (to - from <= FEW) {
      for (let k = from; k < to; k++) {
        const i = list[k];
        if (this.filter.failure(i)) this.mark(g, scale.x(f.t(i)) - 1.75, top(i), 3.5, height);
      }
      return;
    }
    const columns = Math.ceil((scale.right - scale.left) / SPOT) + 1, rows = Math.ceil(l.h), tall = Math.ceil(height), seen = new Uint8Array(columns * (rows + tall));
    for (let k = from; k < to; k++) {
      const i = list[k], spot = Math.floor((scale.x(f.t(i)) - scale.left) / SPOT) * (rows + tall) + Math.floor(top(i) - l.y);
      if (this.filter.failure(i)) seen.fill(1, spot, spot + tall);
    }
    for (let c = 0; c < columns; c++) {
      for (let y = 0; y < rows; y++) {
        const begin = y;
        while (seen[c * (rows + tall) + y]) y++;
        if (y > begin) this.mark(g, scale.left + c * SPOT, l.y + begin, SPOT + 0.5, y - begin);
      }
    }
  }

  // drawWaits draws a line from when each was due to its end, where that is long enough to be seen.
  drawWaits(g, ink, scale, l, list, height) {
    const f = this.data.f;
    g.fillStyle = ink.wait;
    for (const i of list) {
      const from = Math.max(scale.left, scale.x(f.t(i) - f.waited(i))), to = Math.min(scale.right, scale.x(f.t(i)));
      if (to - from > 3 && this.filter.failure(i)) this.mark(g, from, this.failureY(l, i) + height / 2 - 0.5, to - from, 1);
    }
  }

  mark(g, x, y, w, h) {
    this.marks++;
    g.fillRect(x, y, w, h);
  }

  drawBars(g, ink, scale, l) {
    const rows = l.kind === "rows", each = rows ? l.h / l.rows : l.h;
    const free = new Words(g, scale, l.y + 12.5), states = [];
    for (const b of l.bars) {
      const from = Math.max(scale.left, b[0] === null ? scale.left : scale.x(b[0])), to = Math.min(scale.right, b[1] === null ? scale.right : scale.x(b[1]));
      if (to < from) continue;
      const y = l.y + b[3] * each, h = rows && each > 2.5 ? each - 1 : each, colours = ink.state(b[2]);
      g.fillStyle = rows ? (b[5] >= 0 && b[2] !== "alive" && b[2] !== "unknown" ? colours.fill : colours.edge) : colours.fill;
      g.fillRect(from, y, Math.max(to - from, 1), h);
      if (!rows || (b[5] >= 0 && b[2] !== "alive")) {
        g.fillStyle = colours.edge;
        if (b[0] !== null && scale.x(b[0]) >= scale.left) {
          g.fillRect(from - (rows ? 1.5 : 0), y, rows ? 4 : 2, h);
          free.taken.push([from, from + 2]);
        }
      }
      if (!rows) states.push([from + 6, to - 4, shortState(b[2])]);
    }
    // What happened matters more than the state that it led to.
    if (!rows || l.group === "Nodes") this.drawMarks(g, ink, scale, l, free);
    for (const [from, to, text] of states) free.within(from, to, text, ink.ink);
  }

  drawMarks(g, ink, scale, l, free) {
    const e = this.data.e;
    const loud = [];
    let last = -1;
    for (const i of l.marks) {
      const x = scale.x(e.t(i));
      if (x < scale.left - 1 || x > scale.right + 1 || !this.filter.event(i)) continue;
      const word = this.data.text(e.word(i));
      if (word) loud.push([x, word]);
      else if (x - last >= 1) {
        last = x;
        g.fillStyle = ink.quiet;
        g.fillRect(x - 0.5, l.y + l.h - 3, 1.5, 3);
      }
      if (e.not_before(i) !== null) {
        const from = scale.x(e.not_before(i));
        g.fillStyle = ink.quiet;
        if (x - from > 2) g.fillRect(from, l.y + l.h / 2, x - from, 1);
      }
    }
    for (const [x] of loud) {
      g.fillStyle = ink.ink;
      g.fillRect(x - 0.75, l.y - 2, 1.5, l.h + 4);
      free.taken.push([x - 1, x + 1]);
    }
    free.besides(loud, ink.ink);
  }
}

const shortState = (s) => ({ present: "there", exited: "exited", serving: "serving", named: "", gap: "no news", disruption: "disruption" })[s] ?? STATES[s] ?? "";

// Words are written where they have room, and left out where they have none.
class Words {
  constructor(g, scale, y) {
    Object.assign(this, { g, scale, y, taken: [] });
  }

  free(from, to) {
    return from >= this.scale.left && to <= this.scale.right && !this.taken.some(([a, b]) => from < b + 2 && to > a - 2);
  }

  put(from, to, text, colour) {
    this.taken.push([from, to]);
    this.g.fillStyle = colour;
    this.g.fillText(text, from, this.y);
  }

  // besides writes words to the right of their marks, or else to the left. Marks that leave no room between them have their words together.
  besides(marks, colour) {
    for (let k = 0; k < marks.length; k++) {
      const [first] = marks[k], texts = [];
      let last = first;
      for (; ; k++) {
        texts.push(marks[k][1]);
        last = marks[k][0];
        if (k + 1 === marks.length || marks[k + 1][0] - last > this.g.measureText(marks[k][1]).width + 10) break;
      }
      this.beside(first, last, [...new Set(texts)].join(", "), colour);
    }
  }

  beside(first, last, text, colour) {
    const w = this.g.measureText(text).width;
    for (const from of [last + 4, first - 4 - w]) {
      if (this.free(from, from + w)) return this.put(from, from + w, text, colour);
    }
    return undefined;
  }

  // within writes at the first room between two places.
  within(from, to, text, colour) {
    if (!text) return;
    for (const w = this.g.measureText(text).width; from + w <= to; from += 4) {
      if (!this.free(from, from + w)) continue;
      this.put(from, from + w, text, colour);
      return;
    }
  }
}
