// The record as the page carries it: columns of numbers, texts by index.

class Data {
  constructor(raw) {
    Object.assign(this, raw);
    this.text = (i) => this.strings[i];
    this.eventCount = raw.events.n;
    this.failureCount = raw.failures.n;
    // A column is a list, or one value for all.
    const read = (column) => (Array.isArray(column) ? (i) => column[i] : () => column);
    const all = (columns) => Object.fromEntries(Object.entries(columns).map(([k, v]) => [k, read(v)]));
    this.e = all(raw.events);
    this.f = all(raw.failures);
    this.causes = raw.failures.causes;
    this.byID = new Map();
    for (let i = 0; i < this.eventCount; i++) this.byID.set(this.e.id(i), i);
    this.byOutcome = new Map();
    for (let i = 0; i < this.failureCount; i++) {
      const o = this.text(this.f.outcome(i));
      if (!this.byOutcome.has(o)) this.byOutcome.set(o, []);
      this.byOutcome.get(o).push(i);
    }
    // The Pods that the events of each cause are of: a refused request has no other sign of whose it was.
    this.causePods = this.causes.map((c) => new Set(c.evidence.map((id) => this.byID.get(id)).filter((i) => i !== undefined).map((i) => this.text(this.e.pod(i)))));
  }

  // sentence puts a failure's own numbers back into the form that it shares with others.
  sentence(i) {
    const c = this.causes[this.f.cause(i)];
    if (!c) return "";
    const numbers = this.f.numbers(i).split(" ");
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
      ["opened", precise(f.opened)], ["ended", f.ended === null ? (f.outcome === "survived" ? "alive at the end" : NOT_MEASURED) : moment(f.ended, "exact", f.uncertainty)],
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
