// The record as the page carries it: texts by index, and vectors of numbers, all of it packed.

// unpack gives the data of a trial: the length of its JSON, the JSON, and the vectors that it names.
async function unpack(trial) {
  const text = [...document.querySelectorAll(`script[data-of="${trial}"]`)].map((s) => s.textContent).join("");
  const bytes = Uint8Array.fromBase64 ? Uint8Array.fromBase64(text) : Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const all = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
  const length = Number(new DataView(all).getBigUint64(0, true)), begin = 8 + Math.ceil(length / 8) * 8;
  const raw = JSON.parse(new TextDecoder().decode(new Uint8Array(all, 8, length)));
  for (const part of [raw.events, raw.failures]) {
    for (const [name, v] of Object.entries(part)) if (Object.hasOwn(v, "at")) part[name] = vector(v, all, begin, part.n);
  }
  return raw;
}

const NUMBERS = { u8: Uint8Array, u16: Uint16Array, u32: Uint32Array, f64: Float64Array };

// vector gives a function of the index, which reads the numbers where they stand.
function vector(v, bytes, begin, n) {
  if (v.all) {
    const one = v.one ?? null;
    return () => one;
  }
  const list = new NUMBERS[v.type](bytes, begin + v.at, n);
  if (!v.null) return (i) => list[i];
  return v.type === "f64" ? (i) => (Number.isNaN(list[i]) ? null : list[i]) : (i) => (list[i] === 0 ? null : list[i] - 1);
}

class Data {
  constructor(raw) {
    Object.assign(this, raw);
    this.text = (i) => this.strings[i];
    const n = this.failureCount = raw.failures.n;
    this.eventCount = raw.events.n;
    this.causes = raw.failures.causes;
    this.e = raw.events;
    this.f = raw.failures;
    const ends = new Float64Array(n), since = this.f.t;
    for (let i = 0, t = 0; i < n; i++) ends[i] = t += since(i);
    this.f.t = (i) => ends[i];
    this.byID = new Map();
    for (let i = 0; i < this.eventCount; i++) this.byID.set(this.e.id(i), i);
    const lanes = new Map();
    for (let i = 0; i < n; i++) {
      const o = this.f.outcome(i), list = lanes.get(o);
      if (list) list.push(i);
      else lanes.set(o, [i]);
    }
    this.byOutcome = new Map([...lanes].map(([o, list]) => [this.text(o), list]));
    // The Pods that the events of each cause are of: a refused request has no other sign of whose it was.
    this.causePods = this.causes.map((c) => new Set(c.evidence.map((id) => this.byID.get(id)).filter((i) => i !== undefined).map((i) => this.text(this.e.pod(i)))));
  }

  // sentence puts a failure's own numbers back into the form that it shares with others.
  sentence(i) {
    const c = this.causes[this.f.cause(i)];
    if (!c) return "";
    const numbers = this.text(this.f.numbers(i)).split(" ");
    let k = 0;
    return this.text(c.form).replace(/\u2423/g, (mark) => numbers[k++] || mark);
  }

  causeKind(i) {
    const c = this.causes[this.f.cause(i)];
    return c ? this.text(c.kind) : "";
  }

  evidence(i) {
    const c = this.causes[this.f.cause(i)];
    return c ? c.evidence : [];
  }

  error(i) {
    const parts = [];
    if (this.f.status(i) !== null) parts.push("status " + this.f.status(i));
    for (const t of [this.text(this.f.errno(i)), this.text(this.f.message(i))]) if (t) parts.push(t);
    return parts.join(", ");
  }

  instance(i) {
    const k = this.f.instance(i);
    return k === null ? "not known" : this.text(k);
  }

  eventMoment(i) {
    return moment(this.e.t(i), this.text(this.e.bound(i)), this.e.uncertainty(i));
  }

  // about gives what is known of an item: a title and pairs of a name and a text.
  about(item) {
    switch (item.type) {
      case "event": return this.aboutEvent(item.index);
      case "failure": return this.aboutFailure(item.index);
      case "flow": return this.aboutFlow(item.index);
      case "bar": return this.aboutBar(item);
      default: return this.aboutBucket(item.index);
    }
  }

  aboutEvent(i) {
    const e = this.e;
    const pairs = [["time", this.eventMoment(i)], ["source", this.text(e.source(i))], ["subject", this.text(e.subject(i))], ["node", this.text(e.node(i))]];
    if (e.not_before(i) !== null) pairs.push(["not before", precise(e.not_before(i))]);
    pairs.push(["detail", this.text(e.detail(i))]);
    return { title: `#${e.id(i)} ${this.text(e.kind(i))}`, pairs: pairs.filter((p) => p[1] !== "") };
  }

  aboutFailure(i) {
    const f = this.f, t = f.t(i), due = t - f.waited(i);
    const pairs = [
      ["ended", moment(t, "exact", f.uncertainty(i))], ["due", precise(due)], ["sent", f.sent(i) === null ? "never" : precise(due + f.sent(i))],
      ["phase", this.text(f.phase(i))], ["connection", `${this.text(f.connection(i))}, ${length(f.age(i))} old, ${count(f.carried(i))} requests before`],
      ["answered by", this.instance(i)], ["user", String(f.user(i))], ["client", this.text(f.worker(i))], ["error", this.error(i)],
      ["from", [this.text(f.host(i)), f.port(i)].filter((x) => x !== null && x !== "").join(":")], ["to", this.text(f.remote(i))],
      ["received", f.bytes(i) > 0 ? count(f.bytes(i)) + " bytes" : ""], ["retryable", f.retryable(i) ? "yes" : "no"],
      ["cause", this.causeKind(i)], ["why", this.sentence(i)],
    ];
    return { title: this.text(f.outcome(i)), pairs: pairs.filter((p) => p[1] !== ""), evidence: this.evidence(i) };
  }

  aboutFlow(i) {
    const f = this.flows[i];
    const pairs = [
      ["opened", precise(f.opened)], ["ended", f.outcome === "not-measured" ? NOT_MEASURED : f.ended === null ? (f.outcome === "survived" ? "alive at the end" : NOT_MEASURED) : moment(f.ended, "exact", f.uncertainty)],
      ["last sign of life", precise(f.after)], ["first answered by", f.first || "not known"], ["last answered by", f.last || "not known"],
      ["heartbeats", `${count(f.sent)} sent, ${count(f.answered)} answered`], ["raw end", [f.end, f.errno].filter(Boolean).join(", ")], ["from", f.local], ["to", f.remote],
    ];
    if (f.cause) pairs.push(["cause", f.cause.kind], ["why", f.cause.sentence]);
    return { title: [f.id, f.outcome, f.mechanism].filter(Boolean).join(" · "), pairs: pairs.filter((p) => p[1] !== ""), evidence: f.cause ? f.cause.evidence : [] };
  }

  aboutBar({ bar, lane }) {
    const [from, to, state, , event] = bar;
    const pairs = [["from", from === null ? "before what was seen" : precise(from)], ["to", to === null ? "the end of what was seen" : precise(to)]];
    if (event >= 0) pairs.push(["begins with", `#${this.e.id(event)} ${this.text(this.e.kind(event))}, ${this.eventMoment(event)}`]);
    return { title: `${lane.label}: ${STATES[state] || state}`, pairs };
  }

  aboutBucket(k) {
    const s = this.series;
    return {
      title: `${count(s.sent[k])} sent, ${count(s.failed[k])} failed`,
      pairs: [["due", `${precise(s.from + k * s.bucket)} to ${precise(s.from + (k + 1) * s.bucket)}`], ["p50", length(s.p50[k])], ["p99", length(s.p99[k])]],
    };
  }
}

const STATES = {
  present: "there, state not told", pending: "pending", ready: "ready", notready: "not ready", terminating: "terminating", exited: "exited, not yet gone", serving: "terminating, still serving",
  named: "named by the rules", gap: "not listening", disruption: "disruption", alive: "alive", unknown: NOT_MEASURED, "read-timeout": "read timeout",
};
