// Small charts as SVG. Colours are the style sheet's, so a theme needs no new drawing; what a
// chart says stands in its label, and its numbers in a table behind it.
(function (lens) {
  "use strict";

  const { node, words } = lens;

  function svg(tag, attributes = {}, text) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  // Round numbers that divide 0..to into at most `most` steps.
  function ticks(to, most = 5) {
    const rough = to / most;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999);
    return Array.from({ length: Math.floor(to / step + 1e-9) + 1 }, (_, i) => i * step);
  }

  const shown = (value) => words.count(Math.round(1000 * value) / 1000);

  const whole = (marks) => marks.filter((mark) => Number.isInteger(mark));

  // One set of axes in `host`. x and y: {from, to, ticks, label(value), title, log}.
  class Chart {
    constructor(host, { x, y, height = 240, right = 14, top = 10, label }) {
      const longest = Math.max(...y.ticks.map((mark) => (y.label ?? shown)(mark).length));
      const left = 32 + 6.5 * longest; // the title, then the widest number
      this.width = Math.max(220, host.clientWidth || 0);
      this.box = { left, top, right: this.width - right, bottom: height - 40 };
      this.x = this.#scale(x, this.box.left, this.box.right);
      this.y = this.#scale(y, this.box.bottom, this.box.top);
      this.svg = svg("svg", { class: "axes", width: this.width, height, viewBox: `0 0 ${this.width} ${height}`, "aria-hidden": "true" });
      this.#axes(x, y, height);
      host.setAttribute("role", "img");
      host.setAttribute("aria-label", label);
      host.replaceChildren(this.svg);
    }

    #scale({ from = 0, to, log }, low, high) {
      const bend = log ? Math.log2 : (v) => v;
      return (value) => low + ((bend(value) - bend(from)) / (bend(to) - bend(from) || 1)) * (high - low);
    }

    #axes(x, y, height) {
      const { box } = this;
      for (const mark of y.ticks) {
        const at = this.y(mark);
        this.add("line", "grid", { x1: box.left, x2: box.right, y1: at, y2: at });
        this.add("text", "tick", { x: box.left - 8, y: at + 4, "text-anchor": "end" }, (y.label ?? shown)(mark));
      }
      let free = -Infinity;
      for (const mark of x.ticks) {
        const at = this.x(mark);
        const label = (x.label ?? shown)(mark);
        const half = 3.6 * label.length;
        if (at - half < free) continue;
        free = at + half + 8;
        this.add("text", "tick", { x: at, y: box.bottom + 17, "text-anchor": "middle" }, label);
      }
      this.add("line", "axis", { x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom });
      this.add("text", "tick title", { x: (box.left + box.right) / 2, y: height - 5, "text-anchor": "middle" }, x.title);
      const middle = (box.top + box.bottom) / 2;
      this.add("text", "tick title", { x: 12, y: middle, "text-anchor": "middle", transform: `rotate(-90 12 ${middle})` }, y.title);
    }

    add(tag, className, attributes, text) {
      const made = svg(tag, { class: className, ...attributes }, text);
      this.svg.append(made);
      return made;
    }

    // points: [[x, y]] in the chart's units.
    line(points, className) {
      const path = points.map(([x, y], i) => `${i ? "L" : "M"}${this.x(x).toFixed(1)} ${this.y(y).toFixed(1)}`).join("");
      return this.add("path", `line ${className}`, { d: path });
    }

    // Any number of dots as one element: a stroke of no length has round ends.
    dots(points, className) {
      return this.add("path", `dots ${className}`, { d: points.map(([x, y]) => `M${this.x(x).toFixed(1)} ${this.y(y).toFixed(1)}h0`).join("") });
    }

    crosses(points, className) {
      return this.add("path", `crosses ${className}`, {
        d: points.map(([x, y]) => `M${(this.x(x) - 3).toFixed(1)} ${(this.y(y) - 3).toFixed(1)}l6 6m0 -6l-6 6`).join(""),
      });
    }

    // A bar from the x-axis up to y, `width` wide in the chart's units.
    bar(x, y, width, className) {
      const left = this.x(x - width / 2);
      return this.add("rect", `bar ${className}`, {
        x: left, width: Math.max(1, this.x(x + width / 2) - left), y: this.y(y), height: Math.max(0, this.box.bottom - this.y(y)),
      });
    }

    note(x, y, text, className = "", attributes = {}) {
      return this.add("text", `mark ${className}`, { x: this.x(x), y: this.y(y), ...attributes }, text);
    }
  }

  // The numbers of a chart, behind a button: head [text], rows [[text]].
  function table(head, rows, caption) {
    const made = node("table");
    made.append(node("caption", "spoken", caption));
    const line = (cells, tag) => {
      const row = node("tr");
      cells.forEach((cell, i) => {
        const made = node(i === 0 ? "th" : tag, "", cell);
        if (i === 0 || tag === "th") made.scope = tag === "th" ? "col" : "row";
        row.append(made);
      });
      return row;
    };
    const top = node("thead");
    top.append(line(head, "th"));
    const body = node("tbody");
    body.append(...rows.map((cells) => line(cells, "td")));
    made.append(top, body);
    return made;
  }

  // What is too wide for a phone scrolls by itself, also by keyboard.
  function scroller(label) {
    const made = node("div", "scroll");
    made.tabIndex = 0;
    made.setAttribute("role", "region");
    made.setAttribute("aria-label", label);
    return made;
  }

  // `details` that keeps being open over drawings.
  class Table {
    constructor(host) {
      this.host = node("details", "numbers");
      this.place = scroller(words.explore.table);
      this.host.append(node("summary", "", words.explore.table), this.place);
      host.append(this.host);
    }

    draw(head, rows, caption) {
      this.place.setAttribute("aria-label", caption);
      this.place.replaceChildren(table(head, rows, caption));
    }
  }

  Object.assign(lens, { svg, ticks, whole, scroller, Chart, Table });
})((globalThis.pldLens ??= {}));
