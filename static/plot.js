// Tokens against passes of both lanes, drawn by plotly.js and updated in place.
(function (lens) {
  "use strict";

  const { words, setText } = lens;
  const text = words.plot;
  const REDRAW_MS = 100;

  function script(url) {
    return new Promise((resolve, reject) => {
      const tag = document.createElement("script");
      tag.src = url;
      tag.onload = resolve;
      tag.onerror = reject;
      document.head.append(tag);
    });
  }

  class Plot {
    // picked(pass) is called when the visitor clicks on a pass.
    constructor(element, note, url, picked) {
      this.element = element;
      this.note = note;
      this.picked = picked;
      this.points = { lane: null, x: [], y: [] };
      this.timer = null;
      this.drawnAt = 0;
      this.ready = (globalThis.Plotly ? Promise.resolve() : script(url)).then(
        () => (this.loaded = true),
        () => setText(note, text.missing),
      );
      this.ready.then(() => this.#draw());
    }

    draw(trace, cursor, colours) {
      this.trace = trace;
      this.cursor = cursor;
      this.colours = colours;
      if (this.timer !== null) return;
      const wait = Math.max(0, this.drawnAt + REDRAW_MS - performance.now());
      this.timer = setTimeout(() => {
        this.timer = null;
        this.#draw();
      }, wait);
    }

    #draw() {
      if (!this.loaded || !this.trace || !this.element.isConnected) return;
      this.drawnAt = performance.now();
      const { main, lookup, plain } = this.trace;
      const tokens = main ? main.ids.length : 0;
      const passes = main ? main.passes.length : 0;
      const plainPasses = plain ? plain.passes.length : tokens;
      this.#extend(lookup);
      const { colours } = this;
      const lines = [
        {
          x: this.points.x, y: this.points.y, mode: "lines",
          line: { color: colours.copied, width: 2.5, shape: "hv" },
          hovertemplate: `%{y} ${text.tokens}, %{x} ${text.passes}<extra></extra>`,
        },
        {
          x: [0, plainPasses], y: [0, plainPasses], mode: "lines",
          line: { color: colours.plain, width: 2, dash: plain ? "dash" : "dot" }, hoverinfo: "skip",
        },
      ];
      if (main && this.cursor > 0) {
        lines.push({
          x: [this.cursor], y: [main.after(this.cursor).tokens], mode: "markers", showlegend: false, hoverinfo: "skip",
          marker: { size: 9, color: colours.text, line: { color: colours.ground, width: 2 } },
        });
      }
      this.element.setAttribute("aria-label", text.summary(tokens, passes, plainPasses));
      globalThis.Plotly.react(this.element, lines, this.#layout(Math.max(plainPasses, passes, 1)), {
        displayModeBar: false, responsive: true, doubleClick: false,
      });
      if (!this.listening) {
        this.listening = true;
        this.element.on("plotly_click", ({ points }) => this.picked(Math.round(points[0].x)));
      }
    }

    // Points are only added, as passes are.
    #extend(lane) {
      if (this.points.lane !== lane) this.points = { lane, x: [0], y: [0] };
      if (!lane) return;
      const { x, y } = this.points;
      for (let pass = x.length; pass <= lane.passes.length; pass++) {
        x.push(pass);
        y.push(lane.after(pass).tokens);
      }
    }

    #layout(widest) {
      const { colours } = this;
      const axis = { color: colours.muted, gridcolor: colours.grid, zeroline: false, rangemode: "tozero", fixedrange: true };
      return {
        height: 260,
        margin: { l: 48, r: 16, t: 12, b: 40 },
        paper_bgcolor: "rgba(0,0,0,0)",
        plot_bgcolor: "rgba(0,0,0,0)",
        font: { family: "system-ui, sans-serif", size: 12, color: colours.muted },
        showlegend: false,
        hovermode: "x",
        hoverlabel: { bgcolor: colours.ground, bordercolor: colours.muted, font: { color: colours.text } },
        xaxis: { ...axis, title: { text: text.passes }, range: [0, widest * 1.04] },
        yaxis: { ...axis, title: { text: text.tokens } },
        shapes: this.cursor
          ? [{ type: "line", x0: this.cursor, x1: this.cursor, y0: 0, y1: 1, yref: "paper", line: { color: colours.muted, width: 1 } }]
          : [],
      };
    }
  }

  Object.assign(lens, { Plot });
})((globalThis.pldLens ??= {}));
