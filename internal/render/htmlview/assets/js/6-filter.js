// What is shown: outcomes of requests, sources of events, one Pod, one node.

class Filter {
  constructor(data, changed) {
    this.data = data;
    this.outcomes = new Set(data.byOutcome.keys());
    this.sources = new Set();
    for (let i = 0; i < data.eventCount; i++) this.sources.add(data.text(data.e.source(i)));
    this.hiddenOutcomes = new Set();
    this.hiddenSources = new Set();
    this.pod = this.node = "";
    this.changed = changed;
  }

  // element is the row of controls.
  element() {
    const pods = new Set(), nodes = new Set();
    for (const l of this.data.lanes) {
      if (l.pod) pods.add(l.pod);
      if (l.node) nodes.add(l.node);
    }
    for (let i = 0; i < this.data.eventCount; i++) {
      const n = this.data.text(this.data.e.node(i));
      if (n) nodes.add(n);
    }
    const row = make("div.filters", { role: "group", "aria-label": "Filters" });
    if (this.outcomes.size) row.append(this.chips("Failures", [...this.outcomes], this.hiddenOutcomes));
    if (this.sources.size > 1) row.append(this.chips("Events of", [...this.sources], this.hiddenSources));
    if (pods.size > 1) row.append(this.choice("Pod", "pod", [...pods]));
    if (nodes.size > 1) row.append(this.choice("Node", "node", [...nodes]));
    return row;
  }

  chips(label, names, hidden) {
    return make("fieldset", {}, make("legend", {}, label), ...names.map((name) => make("label.chip", {},
      make("input", { type: "checkbox", checked: true, value: name, onchange: (e) => { hidden[e.target.checked ? "delete" : "add"](name); this.changed(); } }), name)));
  }

  choice(label, key, names) {
    return make("label.choice", {}, label, make("select", { "data-filter": key, onchange: (e) => { this[key] = e.target.value; this.changed(); } },
      make("option", { value: "" }, "all"), ...names.map((n) => make("option", { value: n }, n))));
  }

  // open reports whether nothing is hidden.
  open() {
    return !this.hiddenOutcomes.size && !this.hiddenSources.size && !this.pod && !this.node;
  }

  lane(l) {
    if (l.kind === "failures") return !this.hiddenOutcomes.has(l.outcome);
    if (this.pod && l.pod && l.pod !== this.pod) return false;
    if (this.node && l.node && l.node !== this.node) return false;
    return !(this.node && l.pod && ![...l.nodes].includes(this.node));
  }

  event(i) {
    const { data } = this;
    if (this.hiddenSources.has(data.text(data.e.source(i)))) return false;
    if (this.pod && data.text(data.e.pod(i)) && data.text(data.e.pod(i)) !== this.pod) return false;
    return !(this.node && data.text(data.e.node(i)) && data.text(data.e.node(i)) !== this.node);
  }

  // A failure is of a Pod that answered it, or that the events of its cause are of.
  failure(i) {
    const { data } = this;
    if (this.hiddenOutcomes.size && this.hiddenOutcomes.has(data.text(data.f.outcome(i)))) return false;
    if (!this.pod) return true;
    const k = data.f.instance(i);
    if (k !== null) return data.text(k) === this.pod;
    const pods = data.causePods[data.f.cause(i)];
    return pods !== undefined && pods.has(this.pod);
  }
}
