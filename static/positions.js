// What extra positions cost here: the time of every pass against its width, beside what such
// passes take when they are measured alone.
(function (lens) {
  "use strict";

  const { node, setText, words, ticks, whole, Chart, Table, button, areCosts, byWidth, secondsOf, decodePasses, median, settingsOf, emptiness } = lens;
  const text = words.explore.positions;
  const REACH = 14; // px to a dot that is meant

  class Positions {
    // measure: asks the server to measure again; absent in a page that is kept.
    constructor(body, moveTo, measure) {
      this.moveTo = moveTo;
      this.alone = null; // [[width, seconds]], measured since the page was opened
      this.title = body.appendChild(node("h3"));
      this.note = body.appendChild(node("p", "sentence quiet"));
      this.plot = body.appendChild(node("div", "graph"));
      const under = body.appendChild(node("div", "keys"));
      this.keys = {};
      for (const name of ["copied", "other", "plain", "median", "one", "each", "alone"]) {
        this.keys[name] = under.appendChild(node("span", `key-${name}`, text.keys[name]));
      }
      this.reading = body.appendChild(node("p", "sentence quiet reading"));
      this.table = new Table(body);
      const again = body.appendChild(node("div", "buttons"));
      if (measure) again.append(button(text.measure, measure));
      this.told = again.appendChild(node("p", "sentence quiet"));
      this.told.setAttribute("role", "status");
      this.plot.addEventListener("pointermove", (event) => this.#point(event));
      this.plot.addEventListener("pointerleave", () => setText(this.reading, text.hint));
      this.plot.addEventListener("click", (event) => {
        const dot = this.#near(event);
        if (dot?.pass) this.moveTo(dot.pass);
      });
    }

    // What the server tells: {note} while it waits or could not, {seconds, where} in the end.
    measured({ note, seconds, where }) {
      if (seconds) this.alone = seconds;
      if (seconds && this.trace) this.draw(this.trace);
      setText(this.told, note ?? text.alone(seconds, where));
    }

    draw(trace) {
      const { followed: lookup, plain } = trace;
      this.trace = trace;
      this.lane = lookup;
      this.chart = this.ring = null;
      const passes = decodePasses(lookup);
      if (passes.length === 0) {
        this.plot.replaceChildren();
        this.plot.removeAttribute("role");
        setText(this.title, emptiness(trace));
        return setText(this.note, "");
      }
      const plainPasses = decodePasses(plain);
      const widths = [...byWidth(lookup, plain)].map(([width, seconds]) => ({ width, passes: seconds.length, seconds: median(seconds) }));
      const found = finding(passes, plainPasses, settingsOf(lookup).fixed_width);
      setText(this.title, found.title);
      setText(this.note, found.note);
      const recorded = lookup.start.settings.pass_seconds;
      const alone = this.alone ?? (areCosts(recorded) ? recorded : []);
      const drawn = { copied: passes.some(({ copied }) => copied > 0), other: passes.some(({ copied }) => copied === 0), plain: plainPasses.length > 0, one: found.one, each: found.one, alone: alone.length > 0 };
      for (const [name, is] of Object.entries(drawn)) this.keys[name].hidden = !is;
      this.#plot(passes, plainPasses, widths, found.one, alone);
      setText(this.reading, text.hint);
      this.table.draw(
        text.tableHead,
        widths.map(({ width, passes, seconds }) => [words.count(width), words.count(passes), words.duration(seconds), found.one ? text.ratio(seconds / found.one) : words.headline.none]),
        text.tableCaption,
      );
    }

    // A ring round the pass under the cursor.
    move(cursor) {
      if (!this.chart) return;
      const dot = this.dots.find(({ pass }) => pass === cursor);
      this.ring.setAttribute("visibility", dot ? "visible" : "hidden");
      if (!dot) return;
      this.ring.setAttribute("cx", dot.x);
      this.ring.setAttribute("cy", dot.y);
    }

    // alone: [[width, seconds]] of passes that were measured apart from a run.
    #plot(passes, plainPasses, widths, one, alone) {
      const drafted = Math.max(2, ...passes.map((p) => p.event.width));
      const near = alone.filter((_, i) => i === 0 || alone[i - 1][0] < drafted);
      const widest = Math.max(drafted, ...near.map(([width]) => width));
      const all = [...passes, ...plainPasses].map(secondsOf).sort((a, b) => a - b);
      // One slow pass must not flatten all the others: such dots stand at the upper edge.
      const usual = all[Math.floor(0.98 * (all.length - 1))];
      const highest = 1.15 * Math.max(usual, ...widths.filter((w) => w.passes > 2).map((w) => w.seconds), 1.5 * (one ?? 0), ...near.map(([, seconds]) => seconds));
      const milliseconds = ticks(1000 * highest);
      const chart = new Chart(this.plot, {
        height: 300, label: text.summary(widths, one),
        x: { from: 0, to: widest + 0.8, ticks: whole(ticks(widest, 8)), title: text.xTitle },
        y: { to: highest, ticks: milliseconds.map((ms) => ms / 1000), label: (s) => words.count(Math.round(1e6 * s) / 1000), title: text.yTitle },
      });
      const place = (pass, i) => [pass.event.width + 0.5 * (((i * 0.618) % 1) - 0.5), Math.min(secondsOf(pass), highest)];
      if (one) {
        chart.line([[0, one], [widest + 0.8, one]], "one");
        const end = Math.min(widest + 0.8, highest / one);
        chart.line([[1, one], [end, end * one]], "each");
      }
      chart.dots(plainPasses.map(place), "plain");
      this.dots = passes.map((pass, i) => {
        const [x, y] = place(pass, i);
        return { pass: i + 2, record: pass, at: [x, y], x: chart.x(x), y: chart.y(y) };
      });
      chart.dots(this.dots.filter(({ record }) => record.copied > 0).map(({ at }) => at), "copied");
      chart.crosses(this.dots.filter(({ record }) => record.copied === 0).map(({ at }) => at), "other");
      chart.line(widths.map(({ width, seconds }) => [width, Math.min(seconds, highest)]), "median");
      chart.dots(widths.map(({ width, seconds }) => [width, Math.min(seconds, highest)]), "median");
      if (near.length) chart.line(near, "alone");
      this.ring = chart.add("circle", "ring", { r: 7, visibility: "hidden" });
      this.chart = chart;
    }

    #near(event) {
      if (!this.chart) return null;
      const { left, top } = this.chart.svg.getBoundingClientRect();
      const [x, y] = [event.clientX - left, event.clientY - top];
      let best = null;
      let least = REACH ** 2;
      for (const dot of this.dots) {
        const away = (dot.x - x) ** 2 + (dot.y - y) ** 2;
        if (away < least) [best, least] = [dot, away];
      }
      return best;
    }

    #point(event) {
      const dot = this.#near(event);
      this.plot.classList.toggle("aimed", dot !== null);
      setText(this.reading, dot ? text.reading(dot.pass, dot.record, secondsOf(dot.record)) : text.hint);
    }
  }

  // What was measured, in a sentence: the commonest width of passes with a draft against one
  // position. `one` is the median of plain passes, or of this lane's own passes without a draft.
  function finding(passes, plainPasses, fixedWidth) {
    if (fixedWidth > 0) return { one: null, title: text.fixed(fixedWidth), note: text.fixedNote };
    const narrow = plainPasses.length ? plainPasses : passes.filter((p) => p.event.width === 1);
    const one = median(narrow.map(secondsOf));
    const seconds = new Map();
    for (const pass of passes) {
      const { width } = pass.event;
      if (width > 1) seconds.set(width, [...(seconds.get(width) ?? []), secondsOf(pass)]);
    }
    if (seconds.size === 0) return { one, title: text.nothingDrafted, note: "" };
    const [width, taken] = [...seconds].sort(([a, x], [b, y]) => y.length - x.length || b - a)[0];
    const wide = median(taken);
    if (!one) return { one, title: text.noPlain(width - 1, wide), note: text.noPlainNote };
    return { one, title: text.found(width - 1, wide / one), note: text.foundNote(taken.length, wide, narrow.length, one, plainPasses.length > 0, wide / one / width) };
  }

  Object.assign(lens, { Positions });
})((globalThis.pldLens ??= {}));
