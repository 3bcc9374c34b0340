// The governing equation: what the run's f and L give, and what others would.
(function (lens) {
  "use strict";

  const { node, setText, words, numbers, speedup, button, Figures, Slider, Chart, Table, Grams, textCopyRate, settingsOf } = lens;
  const { relativeCosts, passRatio, timeRatio, passesOf, emptiness } = lens;
  const text = words.explore.equation;
  const CURVES = [1.5, 2, 3, 5, 8, 12];
  const WORKED = { tokens: 1000, f: 0.7, L: 8 };

  class Equation {
    constructor(body) {
      const columns = body.appendChild(node("div", "columns"));
      const left = columns.appendChild(node("div"));
      this.title = left.appendChild(node("h3"));
      this.plot = left.appendChild(node("div", "graph"));
      this.table = new Table(left);
      const right = columns.appendChild(node("div", "stack"));
      this.figures = new Figures(right, text.figures);
      this.reason = right.appendChild(node("p", "sentence"));
      this.sums = right.appendChild(node("p", "sentence quiet"));
      this.rate = right.appendChild(node("p", "sentence quiet"));
      const asked = right.appendChild(node("div", "ask"));
      asked.append(node("h3", "", text.whatIf));
      const moved = () => this.#moved();
      this.f = new Slider(asked, text.f, { min: 0, max: 1, step: 0.01 }, words.percent, moved);
      this.L = new Slider(asked, text.L, { min: 1, max: 24, step: 0.1 }, text.tokensEach, moved);
      this.answer = asked.appendChild(node("p", "sentence"));
      this.answer.setAttribute("role", "status");
      const row = asked.appendChild(node("div", "buttons"));
      row.append(button(text.worked(WORKED), () => this.#ask(WORKED)), (this.back = button(text.back, () => this.#ask(null))));
      this.asked = null;
    }

    draw(trace) {
      const { followed: lookup, plain } = trace;
      const has = lookup && lookup.ids.length > 1;
      if (trace !== this.trace || lookup !== this.lane) this.asked = null;
      this.trace = trace;
      this.lane = lookup;
      this.costs = has && plain ? relativeCosts(lookup, plain) : null;
      if (!has) {
        this.run = null;
        for (const name of Object.keys(text.figures)) this.figures.set(name, words.headline.none);
        for (const line of [this.reason, this.sums, this.rate]) setText(line, "");
        setText(this.reason, emptiness(trace));
      } else {
        const n = numbers(lookup, lookup.passes.length);
        this.run = { tokens: n.tokens, f: n.copyRate, L: n.copyLength ?? 1 };
        this.#compare(n, plain ? speedup(lookup, plain, lookup.passes.length) : null, plain);
        const { n_max } = settingsOf(lookup);
        const rate = textCopyRate(Grams.of(lookup), n_max);
        setText(this.sums, text.sums(this.run, n.passes));
        setText(this.rate, text.rate(rate, n.copyRate, n_max));
        this.rateDrawn = rate;
      }
      if (this.asked === null) this.#set(this.run ?? WORKED);
      this.#answer();
      this.#plot();
    }

    #compare(n, measured, plain) {
      const { run, costs } = this;
      const pass = passRatio(run.f, run.L);
      const predicted = costs ? timeRatio(run.f, run.L, costs) : null;
      this.figures.set("pass", words.headline.times(pass), text.counted, pass < 0.995);
      this.figures.set("predicted", predicted ? words.headline.times(predicted) : words.headline.none, predicted ? text.fromCosts(costs) : text.needsPlain, predicted !== null && predicted < 0.995);
      this.figures.set("measured", measured ? words.headline.times(measured.ratio) : words.headline.none, measured ? (measured.scaled ? words.headline.perToken : text.decodeSeconds) : text.needsPlain, measured !== null && measured.ratio < 0.995);
      setText(this.reason, predicted && measured ? text.reason(pass, predicted, measured.ratio, costs, n.copyPasses) : text.noReason);
    }

    #set({ f, L }) {
      this.f.set(f);
      this.L.set(L);
    }

    #moved() {
      this.asked = { f: this.f.value, L: this.L.value, tokens: this.asked?.tokens ?? this.run?.tokens ?? WORKED.tokens };
      this.#answer();
      this.#plot();
    }

    #ask(asked) {
      this.asked = asked;
      this.#set(asked ?? this.run ?? WORKED);
      this.#answer();
      this.#plot();
    }

    #answer() {
      const { f, L, tokens } = this.asked ?? this.run ?? WORKED;
      setText(this.answer, text.answer(tokens, f, L, passesOf(tokens, f, L), passRatio(f, L), this.costs && timeRatio(f, L, this.costs)));
      this.back.disabled = this.asked === null || !this.run;
    }

    #plot() {
      const { run, asked } = this;
      const highest = Math.max(16, run?.L ?? 0, asked?.L ?? 0) * 1.15;
      const summary = run ? text.summary(run.f, run.L, passRatio(run.f, run.L)) : text.emptySummary;
      setText(this.title, run ? text.found(run.f, run.L, passRatio(run.f, run.L)) : text.title);
      const chart = new Chart(this.plot, {
        height: 320, right: 44, label: summary,
        x: { to: 1, ticks: [0, 0.2, 0.4, 0.6, 0.8, 1], label: words.percent, title: text.xTitle },
        y: { from: 1, to: highest, log: true, ticks: [1, 2, 4, 8, 16, 32, 64].filter((tick) => tick <= highest), title: text.yTitle },
      });
      const shown = CURVES.filter((s) => s < highest);
      for (const s of shown) {
        const points = [];
        for (let f = 1 - 1 / s + 1e-4; f < 1; f += 0.004) points.push([f, f / (1 / s - 1 + f)]);
        points.push([1, s]);
        chart.line(points.filter(([, L]) => L <= highest), "curve");
        chart.note(1, s, words.explore.equation.speed(s), "", { dx: 6, dy: 4 });
      }
      if (asked) chart.add("circle", "point asked", { cx: chart.x(asked.f), cy: chart.y(asked.L), r: 6 });
      if (run) {
        chart.add("circle", "point run", { cx: chart.x(run.f), cy: chart.y(run.L), r: 6 });
        const left = run.f > 0.5;
        const below = run.L > 3;
        chart.note(run.f, run.L, text.thisRun, "strong", { dx: left ? -11 : 11, dy: below ? 5 : -9, "text-anchor": left ? "end" : "start" });
      }
      const rows = shown.map((s) => [text.speed(s), ...[0.4, 0.6, 0.8, 1].map((f) => (f > 1 - 1 / s + 1e-9 ? words.fixed(f / (1 / s - 1 + f), 1) : words.headline.none))]);
      this.table.draw([text.tableCorner, ...[0.4, 0.6, 0.8, 1].map((f) => `f ${words.percent(f)}`)], rows, text.tableCaption);
    }
  }

  Object.assign(lens, { Equation });
})((globalThis.pldLens ??= {}));
