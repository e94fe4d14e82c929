// The curves, drawn by uPlot over the same time as the lanes.

const CURVE_HEIGHT = 132;

class Curve {
  // spec: title, unit, series [{name, colour, values, step, fill, width, dash}], xs in nanoseconds.
  constructor(box, spec, ink) {
    this.box = box;
    this.spec = spec;
    this.ink = ink;
    this.values = make("dl.now");
    box.append(make("div.about", {}, make("b", {}, spec.title), make("span.quiet", {}, spec.sub), this.values));
    for (const s of spec.series) {
      s.now = make("dd", {}, "");
      const swatch = make("span.swatch", { "aria-hidden": true });
      s.swatch = swatch;
      this.values.append(make("div", {}, make("dt", { title: s.name }, swatch, shorten(s.name, 24)), s.now));
    }
    // A legend has room for eight names; more scroll.
    this.height = Math.max(CURVE_HEIGHT, 56 + 17 * Math.min(8, spec.series.length));
    this.plotBox = make("div.plot");
    box.append(this.plotBox);
  }

  // draw makes the plot anew: sizes and colours are fixed when it is made.
  draw(width, scale, view) {
    if (this.plot) this.plot.destroy();
    const { ink, spec } = this;
    for (const s of spec.series) s.swatch.style.background = ink.of(s.colour);
    const font = "11px " + ink.font;
    const stepped = uPlot.paths.stepped({ align: 1 }), linear = uPlot.paths.linear();
    this.plot = new uPlot({
      width, height: this.height, padding: [10, width - scale.right, 8, 0], cursor: { show: false }, legend: { show: false },
      scales: { x: { time: false, auto: false, min: view[0] / 1e9, max: view[1] / 1e9 }, y: { range: (u, min, max) => [0, max > 0 ? max * 1.05 : 1] } },
      axes: [
        { size: 0, values: () => [], ticks: { show: false }, grid: { stroke: ink.line, width: 1 }, splits: () => scale.ticks().map((t) => t / 1e9) },
        { size: scale.left, gap: 6, font, stroke: ink.quiet, ticks: { show: false }, grid: { stroke: ink.line, width: 1 }, values: (u, list) => list.map(spec.unit), space: 26 },
      ],
      series: [{}, ...spec.series.map((s) => ({
        stroke: ink.of(s.colour), width: s.width || 1.5, dash: s.dash, fill: s.fill ? ink.of(s.fill) : undefined, paths: s.step ? stepped : linear, points: this.points(s), spanGaps: false,
      }))],
      hooks: { draw: [(u) => this.zero(u)] },
    }, [spec.xs.map((t) => t / 1e9), ...spec.series.map((s) => s.values)], this.plotBox);
    this.plot.root.setAttribute("role", "img");
    this.plot.root.setAttribute("aria-label", spec.title + " over time");
  }

  // points are drawn where a line could not be: a value between two that are not there.
  points(s) {
    const lonely = s.values.flatMap((v, k) => (!s.step && v !== null && (s.values[k - 1] ?? null) === null && (s.values[k + 1] ?? null) === null ? [k] : []));
    return lonely.length ? { show: true, size: 4, width: 0, fill: this.ink.of(s.colour), filter: () => lonely } : { show: false };
  }

  // zero marks the trigger.
  zero(u) {
    const x = u.valToPos(0, "x", true);
    if (x < u.bbox.left || x > u.bbox.left + u.bbox.width) return;
    u.ctx.fillStyle = this.ink.accent;
    u.ctx.fillRect(x - devicePixelRatio / 2, u.bbox.top, Math.max(1, devicePixelRatio), u.bbox.height);
  }

  zoom(view) {
    this.plot.setScale("x", { min: view[0] / 1e9, max: view[1] / 1e9 });
  }

  // show writes the values at a time; null for none.
  show(t) {
    const k = t === null ? -1 : this.spec.index(t);
    for (const s of this.spec.series) {
      const v = k >= 0 && k < s.values.length ? s.values[k] : undefined;
      s.now.textContent = v === undefined ? "" : v === null ? "no answer" : this.spec.print(v);
    }
  }
}

// curvesOf makes the specs of all curves that the record has numbers for.
function curvesOf(data) {
  const s = data.series;
  if (!s) return [];
  const middles = s.sent.map((_, k) => s.from + (k + 0.5) * s.bucket);
  // A step needs the end of its last bucket.
  const steps = (rates) => (rates.length ? [...rates, rates[rates.length - 1]] : rates);
  const within = (edges) => (t) => (t < edges[0] || t >= edges[edges.length - 1] ? -1 : edges.findLastIndex((e) => e <= t));
  const number = (v) => String(Number(v.toFixed(1)));
  const [sent, failed] = s.rates.lines;
  const list = [{
    title: "Requests a second", sub: wide(s.rates.bucket), xs: s.rates.edges, index: within(s.rates.edges), unit: number, print: number,
    series: [{ name: "sent", colour: "--sent-line", fill: "--sent", values: steps(sent.rates), step: true }, { name: "failed", colour: "--fail", fill: "--fail", values: steps(failed.rates), step: true }],
  }];
  if (s.answers.lines.length) {
    list.push({
      title: "Answers a second, by Pod", sub: wide(s.answers.bucket), xs: s.answers.edges, index: within(s.answers.edges), unit: number, print: number,
      series: s.answers.lines.map((l, k) => ({ name: l.name, colour: `--p${k % 8}`, dash: k >= 8 ? [6, 3] : undefined, width: 1.75, values: steps(l.rates), step: true })),
    });
  }
  if (s.p99.some((v) => v !== null)) {
    list.push({
      title: "Latency, from when due", sub: wide(s.bucket), xs: middles, index: (t) => Math.floor((t - s.from) / s.bucket), unit: length, print: length,
      series: [{ name: "p99", colour: "--p0", values: s.p99 }, { name: "p50", colour: "--p1", values: s.p50, width: 2 }],
    });
  }
  return list;
}

const wide = (bucket) => "in " + tick(bucket, bucket);
