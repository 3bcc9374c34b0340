// Tokens of both lanes against passes or seconds, drawn by plotly.js and updated in place. The
// cursor is a layer of its own: moving it draws nothing else again.
(function (lens) {
  "use strict";

  const { words, setText, node } = lens;
  const text = words.plot;
  const REDRAW_MS = 100;
  const HEIGHT = 260;
  const LEAST = 5; // passes and tokens on the axes, so that they are counted in whole ones
  const MARGIN = { l: 48, r: 16, t: 12, b: 40 };

  function script(url) {
    return new Promise((resolve, reject) => {
      const tag = document.createElement("script");
      tag.src = url;
      tag.onload = resolve;
      tag.onerror = reject;
      document.head.append(tag);
    });
  }

  // The points of one lane; they are only added, as passes are.
  class Points {
    constructor(lane, basis) {
      this.lane = lane;
      this.basis = basis;
      this.x = basis === "seconds" ? [] : [0];
      this.y = basis === "seconds" ? [] : [0];
      this.passes = 0;
    }

    extend() {
      for (; this.passes < this.lane.passes.length; this.passes++) {
        const { seconds, tokens } = this.lane.passes[this.passes].after;
        this.x.push(this.basis === "seconds" ? seconds : this.passes + 1);
        this.y.push(tokens);
      }
      return this;
    }
  }

  class Plot {
    // picked(pass) is called when the visitor clicks on a pass.
    constructor(element, note, url, picked) {
      this.element = element;
      this.note = note;
      this.picked = picked;
      this.points = new Map();
      this.timer = null;
      this.drawnAt = 0;
      this.layer = element.parentElement.appendChild(node("div", "plot-cursor"));
      this.layer.setAttribute("aria-hidden", "true");
      this.marks = { line: node("i", "line-at"), lookup: node("i", "dot lookup"), rival: node("i", "dot rival"), plain: node("i", "dot plain") };
      this.layer.append(...Object.values(this.marks));
      new ResizeObserver(() => this.#place()).observe(element);
      this.loading = true;
      this.ready = (globalThis.Plotly ? Promise.resolve() : script(url)).then(
        () => (this.loaded = true),
        () => setText(note, text.missing),
      );
      this.ready.then(() => {
        this.loading = false;
        this.#draw();
      });
    }

    get pending() {
      return this.loading || this.timer !== null;
    }

    // at: where the cursor and each lane stand, {cursor, lookup, rival, plain} in passes, null for
    // a lane without a place, and clock, in seconds, null where lanes are compared by passes.
    draw(trace, basis, at, colours) {
      Object.assign(this, { trace, basis, at, colours });
      if (this.drawn === this.#state()) return this.#place();
      if (this.timer !== null) return; // the cursor is placed when its lines are there
      const wait = Math.max(0, this.drawnAt + REDRAW_MS - performance.now());
      this.timer = setTimeout(() => {
        this.timer = null;
        this.#draw();
      }, wait);
    }

    // The clock alone has moved.
    tick(clock) {
      this.at = { ...this.at, clock };
      this.#place();
    }

    // All that the lines depend on.
    #state() {
      const lanes = [...this.trace.lanes.values()].map((lane) => `${lane.name} ${lane.start.created} ${lane.passes.length}`);
      return JSON.stringify([lanes, this.trace.followed?.name, this.basis, this.colours]);
    }

    #draw() {
      if (!this.loaded || !this.trace || !this.element.isConnected) return;
      this.drawnAt = performance.now();
      this.drawn = this.#state();
      const { colours, basis } = this;
      const { main, lookup, rival, plain, followed } = this.trace;
      const seconds = basis === "seconds";
      const tokens = main ? main.ids.length : 0;
      const plainPasses = plain ? plain.passes.length : tokens;
      const of = (lane) => {
        const key = `${lane?.name} ${basis}`;
        if (this.points.get(key)?.lane !== lane) this.points.set(key, new Points(lane, basis));
        return this.points.get(key).extend();
      };
      const own = lookup ? of(lookup) : { x: [], y: [] };
      const other = seconds ? (plain ? of(plain) : { x: [], y: [] }) : { x: [0, plainPasses], y: [0, plainPasses] };
      // A click goes to a pass of the lane that is stepped through: its line alone answers.
      const hover = (lane) =>
        lane === followed ? { hovertemplate: `%{y} ${text.tokens}, ${seconds ? "%{x:.3~f} s" : `%{x} ${text.passes}`}<extra></extra>` } : { hoverinfo: "skip" };
      const lines = [
        {
          x: own.x, y: own.y, mode: "lines",
          line: { color: colours.copied, width: 2.5, shape: "hv" },
          ...hover(lookup),
        },
        { x: other.x, y: other.y, mode: "lines", line: { color: colours.plain, width: 2, dash: plain ? "dash" : "dot" }, hoverinfo: "skip" },
      ];
      if (rival) {
        const second = of(rival);
        lines.push({ x: second.x, y: second.y, mode: "lines", line: { color: colours.rival, width: 2.5, shape: "hv", dash: "dot" }, ...hover(rival) });
      }
      const time = (lane) => (lane ? lane.after(lane.passes.length).seconds : 0);
      const reach = seconds ? Math.max(time(lookup), time(rival), time(plain)) : Math.max(plainPasses, main ? main.passes.length : 0, LEAST);
      this.widest = (reach || 1) * 1.04;
      this.tallest = Math.max(tokens, plain ? plain.ids.length : 0, LEAST) * 1.06;
      this.element.setAttribute(
        "aria-label",
        seconds ? text.inSeconds(lookup && [lookup.ids.length, time(lookup)], plain && [plain.ids.length, time(plain)]) : text.summary(tokens, main ? main.passes.length : 0, plainPasses),
      );
      setText(this.note, seconds ? (plain ? text.fromPrefill : text.noPlainSeconds) : "");
      globalThis.Plotly.react(this.element, lines, this.#layout(), { displayModeBar: false, responsive: true, doubleClick: false });
      if (!this.listening) {
        this.listening = true;
        this.element.on("plotly_click", ({ points }) => this.#pick(points[0].x));
      }
      this.#place();
    }

    #pick(x) {
      const lane = this.#lane;
      if (lane) this.picked(this.basis === "seconds" ? Math.max(1, lane.at(x)) : Math.max(1, Math.round(x)));
    }

    get #lane() {
      return this.trace?.current;
    }

    // The cursor's line and a dot on each lane.
    #place() {
      const { line, lookup, rival, plain } = this.marks;
      const { trace, at } = this;
      const shown = Boolean(this.drawn && this.#lane && at && at.cursor > 0);
      this.layer.hidden = !shown;
      if (!shown) return;
      const seconds = this.basis === "seconds";
      const width = this.element.clientWidth - MARGIN.l - MARGIN.r;
      const X = (x) => MARGIN.l + (Math.min(x, this.widest) / this.widest) * width;
      const Y = (y) => HEIGHT - MARGIN.b - (Math.min(y, this.tallest) / this.tallest) * (HEIGHT - MARGIN.t - MARGIN.b);
      const here = seconds ? (at.clock ?? this.#lane.after(at.cursor).seconds) : at.cursor;
      const put = (mark, lane, passes) => {
        mark.hidden = lane === null || passes === null;
        if (mark.hidden) return;
        const { tokens, seconds: spent } = lane.after(passes);
        const x = !seconds ? passes : passes === lane.passes.length ? spent : here;
        mark.dataset.at = `${passes} ${tokens}`;
        mark.style.transform = `translate(${X(x).toFixed(1)}px, ${Y(tokens).toFixed(1)}px)`;
      };
      line.style.transform = `translate(${X(here).toFixed(1)}px, 0)`;
      line.dataset.at = here;
      put(lookup, trace.main, at.lookup ?? at.plain);
      put(rival, trace.rival, at.rival);
      put(plain, trace.lookup && trace.plain, at.plain);
    }

    #layout() {
      const { colours, basis } = this;
      const axis = { color: colours.muted, gridcolor: colours.grid, zeroline: false, fixedrange: true };
      return {
        height: HEIGHT,
        margin: MARGIN,
        paper_bgcolor: "rgba(0,0,0,0)",
        plot_bgcolor: "rgba(0,0,0,0)",
        font: { family: "system-ui, sans-serif", size: 12, color: colours.muted },
        showlegend: false,
        hovermode: "x",
        hoverlabel: { bgcolor: colours.ground, bordercolor: colours.muted, font: { color: colours.text } },
        xaxis: { ...axis, title: { text: basis === "seconds" ? text.seconds : text.passes }, range: [0, this.widest] },
        yaxis: { ...axis, title: { text: text.tokens }, range: [0, this.tallest] },
      };
    }
  }

  Object.assign(lens, { Plot });
})((globalThis.pldLens ??= {}));
