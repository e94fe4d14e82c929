// Puts life into the page: a trial when it is first seen, the theme, the way to a trial that a link names.

const ink = new Ink();
const stages = [];

async function enliven(trial) {
  if (trial.dataset.live) return;
  trial.dataset.live = "yes";
  const data = new Data(await unpack(trial.dataset.trial));
  const box = trial.querySelector(".live");
  const stage = box ? new Stage(box, data, ink) : null;
  if (stage) stages.push(stage);
  longTables(trial, data, stage);
}

// alive shows a trial with its script or, where that fails, without it.
function alive(trial) {
  return enliven(trial).catch((e) => {
    document.documentElement.classList.remove("js");
    document.getElementById("top").prepend(make("p.notice", { role: "alert" }, `The timeline cannot be moved here (${e.message}): zoom, evidence on hover, filters and the full tables are missing. Everything that matters is below.`));
  });
}

// unfold makes elements of a trial of a set when it is first opened: two hundred trials at once would be half a million. Without a
// script they are elements from the start. It is the page's own HTML, escaped when it was written.
function unfold(fold) {
  const packed = fold.querySelector("noscript");
  if (packed) {
    const t = document.createElement("template");
    t.innerHTML = packed.textContent;
    packed.replaceWith(t.content);
  }
  return fold.querySelector(".trial");
}

// longTables give the tables of failures and events all their rows.
function longTables(trial, data, stage) {
  const plain = (name) => trial.querySelector(`[data-table="${name}"] .plain`);
  const below = (box) => {
    const el = make("div.full");
    box.after(el);
    return el;
  };
  const fill = (name, label, columns, n, keep, noun) => {
    const box = plain(name);
    if (!box || !n) return;
    const table = new LongTable(below(box), { label, columns, pick: (i) => stage && stage.choose(name === "events" ? "event" : "failure", i) });
    const set = () => {
      const rows = stage && !stage.filter.open() ? Array.from({ length: n }, (_, i) => i).filter(keep) : null;
      table.set(rows, n, noun);
    };
    set();
    if (stage) stage.listeners.push(set);
    const details = box.closest("details");
    if (details) details.addEventListener("toggle", () => { table.first = -1; table.draw(); });
  };
  const { f, e } = data;
  fill("failures", "Requests that failed", [
    { name: "ended", number: true, wide: "6rem", text: (i) => precise(f.t(i)) }, { name: "due", number: true, wide: "6rem", text: (i) => precise(f.t(i) - f.waited(i)) },
    { name: "outcome", wide: "11rem", text: (i) => data.text(f.outcome(i)) }, { name: "phase", wide: "6rem", text: (i) => data.text(f.phase(i)) },
    { name: "connection", wide: "6rem", text: (i) => data.text(f.connection(i)) }, { name: "instance", wide: "9rem", text: (i) => data.instance(i) },
    { name: "user", number: true, wide: "4rem", text: (i) => String(f.user(i)) }, { name: "error", wide: "9rem", text: (i) => data.error(i) },
    { name: "cause", wide: "32rem", text: (i) => [data.causeKind(i), data.sentence(i)].filter(Boolean).join(": ") },
  ], data.failureCount, (i) => stage.filter.failure(i), "failed requests");
  fill("events", "Events", [
    { name: "id", number: true, wide: "4rem", text: (i) => "#" + e.id(i) }, { name: "time", number: true, wide: "8rem", text: (i) => data.eventMoment(i) },
    { name: "source", wide: "6.5rem", text: (i) => data.text(e.source(i)) }, { name: "kind", wide: "11rem", text: (i) => data.text(e.kind(i)) },
    { name: "subject", wide: "18rem", text: (i) => data.text(e.subject(i)) }, { name: "node", wide: "9rem", text: (i) => data.text(e.node(i)) },
    { name: "detail", wide: "30rem", text: (i) => data.text(e.detail(i)) },
  ], data.eventCount, (i) => stage.filter.event(i), "events");
}

function theme() {
  const root = document.documentElement;
  const buttons = [...document.querySelectorAll("[data-theme-to]")];
  const press = () => {
    for (const b of buttons) b.setAttribute("aria-pressed", String(b.dataset.themeTo === (root.dataset.theme || "")));
  };
  const redraw = () => {
    for (const s of stages) s.themed();
  };
  for (const b of buttons) {
    b.addEventListener("click", () => {
      const to = b.dataset.themeTo;
      if (to) root.dataset.theme = to;
      else delete root.dataset.theme;
      try {
        if (to) localStorage.setItem("drainproof-theme", to);
        else localStorage.removeItem("drainproof-theme");
      } catch { /* a file that may keep nothing */ }
      press();
      redraw();
    });
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  press();
}

// follow opens the trial that the address names.
function follow() {
  const el = location.hash && document.getElementById(location.hash.slice(1));
  if (!el) return;
  if (el.tagName === "DETAILS") el.open = true;
  el.scrollIntoView();
}

theme();
const first = [...document.querySelectorAll(".trial")].map(alive);
for (const fold of document.querySelectorAll("details.one")) {
  fold.addEventListener("toggle", () => { if (fold.open) alive(unfold(fold)); });
}
addEventListener("hashchange", follow);
follow();
Promise.all(first).then(() => { document.documentElement.dataset.ready = String(Math.round(performance.now())); });
