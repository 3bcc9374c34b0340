// Other lookup settings on the run's own text: every number counted again at once, and a map of
// them over n and k.
(function (lens) {
  "use strict";

  const { node, setText, words, ticks, whole, speedup, button, Figures, Slider, Switch, Menu, Chart, Table, Grams, Costs, scroller } = lens;
  const { settingsOf, canReplay, areCosts, replay, countReplay, decodePasses, emptiness } = lens;
  const text = words.explore.whatIf;
  const LENGTHS = [1, 2, 3, 4, 5, 6, 8];
  const DRAFTS = [1, 2, 4, 6, 8, 10, 12, 16, 20, 32];
  const CHOSEN = ["n_max", "n_min", "k", "branches", "policy", "search", "adaptive"];
  const FRAME_MS = 8; // of each frame for the map; the rest is the page's

  class WhatIf {
    constructor(body) {
      this.lead = body.appendChild(node("p", "sentence"));
      const columns = (this.columns = body.appendChild(node("div", "columns wide")));
      const left = columns.appendChild(node("div", "stack settings"));
      const moved = () => this.#moved();
      this.n_max = new Slider(left, text.n_max, { min: 1, max: 12 }, text.tokens, () => this.#moved("n_max"));
      this.n_min = new Slider(left, text.n_min, { min: 1, max: 12 }, text.tokens, () => this.#moved("n_min"));
      this.k = new Slider(left, text.k, { min: 0, max: 48 }, text.draft, moved);
      this.branches = new Slider(left, text.branches, { min: 1, max: 8 }, text.branchesEach, moved);
      this.policy = new Menu(row(left, text.policy), text.policy, text.policies, "nearest", moved);
      this.search = new Switch(row(left, text.search), text.search, text.searches, "context", moved);
      const cut = row(left, text.cut);
      this.cut = cut;
      this.adaptive = new Switch(cut, text.cut, text.cuts, "fixed", moved);
      const buttons = left.appendChild(node("div", "buttons"));
      this.best = button(text.useBest, () => this.#take(this.found));
      this.back = button(text.back, () => this.#take(this.recorded));
      buttons.append(this.best, this.back);
      const right = columns.appendChild(node("div", "stack"));
      this.figures = new Figures(right, text.figures);
      this.graph = right.appendChild(node("div", "graph"));
      const keys = right.appendChild(node("div", "keys"));
      for (const name of ["asked", "run", "plain"]) keys.append(node("span", `key-${name}`, text.keys[name]));
      this.check = right.appendChild(node("p", "sentence quiet"));
      this.check.setAttribute("role", "status");
      const map = (this.mapBody = body.appendChild(node("div", "map-body")));
      const head = map.appendChild(node("div", "map-head"));
      this.mapTitle = head.appendChild(node("h3"));
      this.measure = new Switch(head, text.measure, text.measures, "tokensPerPass", () => this.#map());
      this.map = map.appendChild(scroller(text.mapRegion));
      this.mapNote = map.appendChild(node("p", "sentence quiet"));
      this.work = 0;
    }

    draw(trace) {
      const { followed: lookup, plain } = trace;
      const ready = lookup && lookup.ids.length > 1 && canReplay(lookup);
      this.columns.hidden = this.mapBody.hidden = !ready;
      this.work += 1;
      if (!ready) {
        this.trace = null;
        this.pending = false;
        return setText(this.lead, lookup?.ids.length > 1 ? text.otherLookup : emptiness(trace));
      }
      setText(this.lead, text.lead);
      const other = this.trace !== trace || this.lookup !== lookup;
      this.trace = trace;
      this.lookup = lookup;
      this.plain = plain;
      this.grams = Grams.of(lookup);
      this.costs = new Costs(lookup, plain);
      this.recorded = settingsOf(lookup);
      // The costs that drafts can be cut by: those of the run, else those its passes show.
      const { pass_seconds } = this.recorded;
      this.passSeconds = pass_seconds.length ? pass_seconds : areCosts(this.costs.measured) ? this.costs.measured : [];
      this.cut.hidden = this.passSeconds.length === 0;
      if (other) this.#set(this.recorded);
      this.#show();
      this.#fill();
    }

    // What the controls ask for, on top of what the run recorded.
    get settings() {
      return {
        ...this.recorded,
        n_max: this.n_max.value, n_min: this.n_min.value, k: this.k.value,
        branches: this.branches.value,
        policy: this.policy.value, search: this.search.value,
        adaptive: this.adaptive.value === "adaptive",
        pass_seconds: this.passSeconds,
      };
    }

    #set(settings) {
      for (const name of ["n_max", "n_min", "k", "branches"]) {
        this[name].input.max = Math.max(this[name].input.max, settings[name]);
        this[name].set(settings[name]);
      }
      this.policy.set(settings.policy);
      this.search.set(settings.search === "prompt" ? "prompt" : "context");
      this.adaptive.set(settings.adaptive ? "adaptive" : "fixed");
    }

    #take(settings) {
      if (!settings) return;
      this.#set(settings);
      this.#moved();
    }

    #moved(by) {
      const { n_max, n_min } = this;
      if (by === "n_min" && n_min.value > n_max.value) n_max.set(n_min.value);
      else if (n_min.value > n_max.value) n_min.set(n_max.value);
      this.#show();
      // The map depends on all but n and k: it is counted again only when one of those changes.
      if (this.mapKey !== this.#key()) this.#fill();
      else this.#map();
    }

    #key() {
      const { n_min, branches, policy, search, adaptive } = this.settings;
      return `${n_min} ${branches} ${policy} ${search} ${adaptive}`;
    }

    #replayed(settings) {
      const passes = replay(this.grams, settings, this.lookup.start);
      const sums = countReplay(passes);
      // In strict mode every pass has room for the longest draft.
      const { k, fixed_width } = this.recorded;
      const width = fixed_width && settings.k !== k ? settings.k + 1 : fixed_width;
      return { settings, passes, sums, seconds: this.costs.of(passes, width) };
    }

    #show() {
      const { lookup, plain, recorded } = this;
      const asked = this.#replayed(this.settings);
      const was = lookup.after(lookup.passes.length);
      const { sums, seconds } = asked;
      const compare = (now, then) => (now === then ? text.asRecorded : text.recordedWas(then));
      const F = this.figures;
      F.set("passes", words.count(sums.passes), compare(words.count(sums.passes), words.count(was.passes)));
      const perPass = ({ tokens, passes }) => words.fixed(tokens / passes, 2);
      F.set("tokensPerPass", perPass(sums), compare(perPass(sums), perPass(was)));
      const share = ({ accepted, drafted }) => (drafted ? words.percent(accepted / drafted) : words.headline.none);
      F.set("accepted", share(sums), `${text.ofDrafted(sums.accepted, sums.drafted)}`);
      F.set("undrafted", words.count(sums.undrafted), compare(words.count(sums.undrafted), words.count(was.undrafted)));
      F.set("seconds", seconds === null ? words.headline.none : words.duration(seconds), seconds === null ? text.unknownWidth : text.measuredWas(was.seconds));
      // As in the headline: the time in which plain decoding has as many tokens.
      const measured = plain && speedup(lookup, plain, lookup.passes.length);
      const ratio = seconds && measured && !measured.scaled ? measured.plainSeconds / seconds : null;
      F.set("ratio", ratio ? words.headline.times(ratio) : words.headline.none, ratio ? (ratio < 0.995 ? words.headline.slower : text.overPlain) : plain ? (seconds ? text.shorterPlain : text.unknownWidth) : text.needsPlain, ratio !== null && ratio < 0.995);
      const same = CHOSEN.every((name) => asked.settings[name] === recorded[name]);
      const equal = same && samePasses(asked.passes, decodePasses(lookup));
      setText(this.check, same ? (equal ? text.exact(asked.passes.length) : text.inexact) : text.changed(asked.settings, recorded));
      this.check.classList.toggle("against", same && !equal);
      this.back.disabled = same;
      this.#plot(asked.passes);
    }

    #plot(passes) {
      const { lookup } = this;
      const { tokens } = countReplay(passes);
      const points = (list) => {
        let sum = 1;
        return [[0, 0], [1, 1], ...list.map(({ kept }, i) => [i + 2, (sum += kept)])];
      };
      const chart = new Chart(this.graph, {
        height: 230, label: text.summary(passes.length + 1, lookup.passes.length, tokens),
        x: { to: tokens * 1.02, ticks: whole(ticks(tokens)), title: words.plot.passes },
        y: { to: tokens * 1.05, ticks: whole(ticks(tokens, 4)), title: words.plot.tokens },
      });
      chart.line([[0, 0], [tokens, tokens]], "plain");
      chart.line(points(decodePasses(lookup)), "run");
      chart.line(points(passes), "asked");
    }

    // Counts every cell, a slice of each frame; a new trace or setting starts it anew.
    #fill() {
      const work = ++this.work;
      this.mapKey = this.#key();
      const base = this.settings;
      const lengths = [...new Set([...LENGTHS, this.recorded.n_max])].filter((n) => n >= base.n_min).sort((a, b) => a - b);
      const drafts = [...new Set([...DRAFTS, this.recorded.k])].filter((k) => k > 0).sort((a, b) => a - b);
      const cells = [];
      const count = (row, column, settings) => {
        const { sums, seconds } = this.#replayed(settings);
        (cells[row] ??= [])[column] = { settings, tokensPerPass: sums.tokens / sums.passes, passes: sums.passes, seconds };
      };
      const jobs = lengths.flatMap((n_max, row) => [
        () => this.grams.level(n_max),
        ...drafts.map((k, column) => () => count(row, column, { ...base, n_max, k })),
      ]);
      this.pending = true; // until every cell is counted
      const slice = () => {
        if (work !== this.work) return;
        const began = performance.now();
        while (jobs.length && performance.now() - began < FRAME_MS) jobs.shift()();
        if (jobs.length) return void requestAnimationFrame(slice);
        this.pending = false;
        this.cells = { lengths, drafts, rows: cells };
        this.#map();
      };
      slice();
    }

    #map() {
      const { cells } = this;
      if (!cells) return;
      const timed = this.measure.value === "seconds";
      const all = cells.rows.flat();
      const worth = ({ tokensPerPass, seconds }) => (timed ? (seconds === null ? -Infinity : -seconds) : tokensPerPass);
      // Of equals the shorter draft, then the shorter match: less work for the same.
      const best = all.reduce((a, b) => {
        const gain = worth(b) - worth(a);
        if (Math.abs(gain) > 1e-12) return gain > 0 ? b : a;
        return [b.settings.k - a.settings.k, b.settings.n_max - a.settings.n_max].find((d) => d !== 0) < 0 ? b : a;
      });
      const known = all.map(worth).filter(Number.isFinite);
      this.found = known.length ? best.settings : null;
      this.best.disabled = !this.found;
      const [low, high] = [Math.min(...known), Math.max(...known)];
      const table = node("table", "map");
      table.append(node("caption", "spoken", text.mapCaption(timed)));
      const head = node("tr");
      head.append(node("th", "corner", text.corner));
      head.firstChild.scope = "col";
      for (const k of cells.drafts) {
        const cell = node("th", "", `k ${k}`);
        cell.scope = "col";
        head.append(cell);
      }
      table.append(node("thead"), node("tbody"));
      table.tHead.append(head);
      const { n_max, k } = this.settings;
      for (const [r, row] of cells.rows.entries()) {
        const line = node("tr");
        const name = node("th", "", `n ${cells.lengths[r]}`);
        name.scope = "row";
        line.append(name);
        for (const cell of row) {
          const value = worth(cell);
          const made = node("td", "", !Number.isFinite(value) ? words.headline.none : timed ? words.duration(cell.seconds) : words.fixed(cell.tokensPerPass, 2));
          made.style.setProperty("--heat", high > low && Number.isFinite(value) ? ((value - low) / (high - low)).toFixed(3) : 0);
          if (cell === best && this.found) {
            made.classList.add("best");
            made.append(node("span", "spoken", ` (${text.bestCell})`));
          }
          if (cell.settings.n_max === n_max && cell.settings.k === k) {
            made.classList.add("chosen");
            made.append(node("span", "spoken", ` (${text.chosenCell})`));
          }
          made.addEventListener("click", () => this.#take({ ...this.settings, n_max: cell.settings.n_max, k: cell.settings.k }));
          line.append(made);
        }
        table.tBodies[0].append(line);
      }
      this.map.replaceChildren(table);
      const widths = new Set(this.costs.known.keys());
      setText(this.mapTitle, this.found ? text.bestIs(timed, best) : text.noSeconds);
      setText(this.mapNote, timed ? text.predictedHow([...widths], this.recorded.fixed_width > 0) : text.mapHow);
    }
  }

  function samePasses(replayed, recorded) {
    return (
      replayed.length === recorded.length &&
      replayed.every(({ kept, drafted, accepted }, i) => kept === recorded[i].kept && drafted === recorded[i].drafted && accepted === recorded[i].copied)
    );
  }

  function row(host, label) {
    const made = host.appendChild(node("div", "choice"));
    const name = made.appendChild(node("span", "name", label));
    name.setAttribute("aria-hidden", "true"); // the control says it
    return made;
  }

  Object.assign(lens, { WhatIf });
})((globalThis.pldLens ??= {}));
