// A table that makes only the rows in sight, so that a hundred thousand cost no more than thirty.

const ROW = 32;

class LongTable {
  // columns: [{name, number, wide, text(i)}]; pick is called with the index of a chosen row.
  constructor(box, { label, columns, pick }) {
    this.columns = columns;
    this.pick = pick;
    this.rows = null;
    this.body = make("tbody");
    this.table = make("table.long", { "aria-label": label },
      make("thead", {}, make("tr", {}, ...columns.map((c) => make("th" + (c.number ? ".n" : ""), { scope: "col" }, c.name)))), this.body);
    for (const [k, c] of columns.entries()) this.table.rows[0].cells[k].style.width = c.wide;
    this.scroller = make("div.scroll.tall", { tabindex: 0, role: "region", "aria-label": label, onscroll: () => this.draw() }, this.table);
    this.note = make("p.more", { role: "status" });
    box.replaceChildren(this.scroller, this.note);
    // Nobody waits for rows that are out of sight.
    new IntersectionObserver((seen, observer) => {
      if (!seen.some((s) => s.isIntersecting)) return;
      observer.disconnect();
      this.seen = true;
      this.draw();
    }, { rootMargin: "300px" }).observe(this.scroller);
  }

  // set shows those rows of all, or all of them.
  set(rows, total, noun) {
    this.rows = rows;
    this.length = rows ? rows.length : total;
    this.table.setAttribute("aria-rowcount", this.length + 1);
    this.note.textContent = this.length === total ? `${count(total)} ${noun}` : `${count(this.length)} of ${count(total)} ${noun}: the filter hides the others`;
    this.scroller.style.minHeight = Math.min(this.length + 1, 12) * ROW + 2 + "px";
    this.first = -1;
    this.draw();
  }

  draw() {
    if (!this.seen) return;
    const view = this.scroller.clientHeight || 400;
    const first = Math.max(0, Math.min(Math.floor(this.scroller.scrollTop / ROW) - 6, this.length));
    const last = Math.min(this.length, first + Math.ceil(view / ROW) + 14);
    if (first === this.first && last === this.last) return;
    Object.assign(this, { first, last });
    const space = (n) => {
      const td = make("td", { colspan: this.columns.length });
      td.style.height = n * ROW + "px";
      return make("tr.space", { "aria-hidden": true }, td);
    };
    const list = first > 0 ? [space(first)] : [];
    for (let k = first; k < last; k++) list.push(this.row(k));
    if (last < this.length) list.push(space(this.length - last));
    this.body.replaceChildren(...list);
  }

  row(k) {
    const i = this.rows ? this.rows[k] : k;
    const cells = this.columns.map((c, n) => {
      const text = c.text(i);
      const inner = n === 0 ? make("button.link", { type: "button", onclick: (e) => { e.stopPropagation(); this.pick(i); } }, text) : text;
      return make("td" + (c.number ? ".n" : "") + (text === NOT_MEASURED ? ".none" : ""), { title: text.length > 12 ? text : undefined }, inner);
    });
    return make("tr", { "aria-rowindex": k + 2, onclick: () => this.pick(i) }, ...cells);
  }
}
