"use strict";

// Words and numbers as the other reports write them. Every text goes into the page as text, never as markup.

const NOT_MEASURED = "not measured";

// precise keeps events apart: 36.1 ms, 25.041 s.
function precise(ns) {
  if (ns === null || ns === undefined) return NOT_MEASURED;
  if (ns === 0) return "0 s";
  const seconds = Math.abs(ns) >= 1e9;
  const text = (ns / (seconds ? 1e9 : 1e6)).toFixed(seconds ? 3 : 1);
  return (/^-0\.0+$/.test(text) ? text.slice(1) : text) + (seconds ? " s" : " ms");
}

// length prints a duration in the unit in which it has two to four digits that matter.
function length(ns) {
  if (ns === null || ns === undefined) return NOT_MEASURED;
  const abs = Math.abs(ns);
  if (ns === 0) return "0 s";
  if (abs < 999.5) return ns.toFixed(0) + " ns";
  if (abs < 999.5e3) return (ns / 1e3).toFixed(0) + " µs";
  if (abs < 9.95e6) return (ns / 1e6).toFixed(1) + " ms";
  if (abs < 999.5e6) return (ns / 1e6).toFixed(0) + " ms";
  if (abs < 99.995e9) return (ns / 1e9).toFixed(2) + " s";
  return (ns / 1e9).toFixed(1) + " s";
}

const count = (n) => String(n).replace(/\B(?=(\d{3})+$)/g, ",");

const SIGNS = { upper: "≤ ", lower: "≥ ", either: "~ " };

// moment is a time with its bound, and the error of its clock where there is one.
function moment(ns, bound, uncertainty) {
  let text = (SIGNS[bound] || "") + precise(ns);
  if (uncertainty === null) text += " ±?";
  else if (uncertainty > 0) text += " ±" + length(uncertainty);
  return text;
}

// tick prints a round time in the unit of its step.
function tick(ns, step) {
  if (ns === 0) return "0";
  if (step >= 1e8) return Number((ns / 1e9).toFixed(1)) + " s";
  if (step >= 1e5) return Number((ns / 1e6).toFixed(1)) + " ms";
  return Number((ns / 1e3).toFixed(1)) + " µs";
}

// make builds an element: make("p.quiet", {title: "…"}, "text", child).
function make(spec, attributes, ...children) {
  const [tag, ...classes] = spec.split(".");
  const el = document.createElement(tag);
  if (classes.length) el.className = classes.join(" ");
  for (const [k, v] of Object.entries(attributes || {})) {
    if (k.startsWith("on")) el.addEventListener(k.slice(2), v);
    else if (v !== undefined && v !== false) el.setAttribute(k, v === true ? "" : v);
  }
  el.append(...children.filter((c) => c !== null && c !== undefined));
  return el;
}

// shorten cuts a name in the middle, where names differ least.
function shorten(text, width) {
  if (text.length <= width) return text;
  const head = Math.floor((width - 1) / 2);
  return text.slice(0, head) + "…" + text.slice(text.length - (width - 1 - head));
}
