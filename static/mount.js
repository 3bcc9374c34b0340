// The trace view: one trace on screen, drawn into the skeleton of trace_view.html.
(function (lens) {
  "use strict";

  const { Trace, TraceError, Difference, Pane, laneTokens, Links, Headline, Strip, Controls, Plot, Switch, setText, tell, lookupWords, choiceWords, perFrame, paced, words } = lens;

  // element holds trace_view.html. source: { text() -> the NDJSON so far, watch(changed),
  // replace(text): the visitor loaded another trace }. options: { plotly: address of plotly.js }.
  function mount(element, source, options) {
    const view = new View(element.querySelector(".pld-lens"), source, options);
    const take = () => view.take(source.text() ?? "");
    source.watch(take);
    take();
    return view;
  }

  class View {
    constructor(root, source, options) {
      this.root = root;
      this.source = source;
      this.options = options;
      this.part = {};
      for (const part of root.querySelectorAll("[data-part]")) this.part[part.dataset.part] = part;
      for (const part of root.querySelectorAll("[data-word]")) part.textContent = words.fixedTexts[part.dataset.word];
      for (const part of [root, ...root.querySelectorAll("[data-label]")]) part.setAttribute("aria-label", words.labels[part.dataset.label]);

      const { part } = this;
      this.panes = { prompt: new Pane(part.prompt), lookup: new Pane(part.lookup), plain: new Pane(part.plain) };
      this.links = new Links(this, ({ lane }) => this.#pinned(lane), () => this.draw());
      this.headline = new Headline(part.headline, part.details);
      this.strip = new Strip(part.passTitle, part.pass);
      this.controls = new Controls(part, (cursor) => this.moveTo(cursor), (seconds) => this.moveToTime(seconds));
      this.plot = new Plot(part.plot, part.plotNote, options.plotly, (pass) => this.moveTo(pass));
      this.basis = "passes";
      this.refused = "";
      setText(part.plotTitle, words.plot.title);
      new Switch(part.basis, words.plot.basis, words.plot.bases, this.basis, (basis) => {
        this.basis = basis;
        this.clock = null;
        this.draw();
      });
      this.controls.hear(part.plain);
      this.draw = perFrame(() => this.#draw());
      this.drawNews = paced(() => this.#draw(), 3);
      this.#followTheme();
      this.#listen();
      this.extras = lens.extras.map((make) => make(this));
      this.#restart(new Trace());
    }

    // The stream so far: continues the trace on screen, or is another one. A run that was left
    // for another trace may still send: it stays left.
    take(text) {
      if (this.left?.continues(text)) return;
      if (this.stopped !== null && text.startsWith(this.stopped)) return;
      if (text === this.trace.text) return;
      if (!this.trace.continues(text)) this.#restart(new Trace());
      try {
        this.trace.grow(text);
      } catch (error) {
        if (!(error instanceof TraceError)) throw error;
        this.broken = words.problems.stream(error.message);
        this.#complain();
      }
      this.drawNews();
    }

    // Whether something that was asked for is not on screen yet.
    get pending() {
      return this.opening || Object.values(this.panes).some((pane) => pane.pending) || this.draw.pending || this.drawNews.pending || this.plot.pending || this.extras.some((extra) => extra.pending);
    }

    // What the server tells of a measurement that was asked for: {note} or {seconds, where}.
    measured(told) {
      for (const extra of this.extras) extra.measured?.(told);
    }

    // Scrolls the page to where the view begins.
    show() {
      this.root.scrollIntoView({ behavior: lens.stillness.matches ? "auto" : "smooth" });
    }

    // The visitor asked for something else than the last file: what is wrong with that goes.
    dismiss() {
      this.refused = "";
      this.#complain();
    }

    // The visitor asked for a run.
    awaited() {
      this.dismiss();
      for (const extra of this.extras) extra.awaited?.();
    }

    // The lane that is stepped through.
    get lane() {
      return this.trace.current;
    }

    // Where the run's first lane stands, as moveTo takes it.
    get cursor() {
      return this.stepped === null ? null : (this.standing.lookup ?? this.standing.plain);
    }

    // Steps through this lookup lane from now on, from where it stands; no lane moves.
    follow(lane) {
      if (lane === this.lane) return;
      if (this.stepped !== null) this.stepped = lane === this.trace.rival ? this.standing.rival : this.standing.lookup;
      this.clock = this.standing.clock;
      this.trace.follow(lane);
      this.#draw(); // at once: a key may step in the same moment
    }

    // cursor: a pass of that lane counted from 1, or null to stay with the newest.
    moveTo(cursor) {
      const passes = this.lane ? this.lane.passes.length : 0;
      this.stepped = cursor === null || cursor >= passes ? null : cursor;
      this.clock = null;
      this.links.moved();
      this.draw();
    }

    // Every lane as it stood after so many decode seconds.
    moveToTime(seconds) {
      const { lane } = this;
      if (!lane) return;
      const before = this.standing;
      this.clock = seconds;
      this.stepped = lane.at(seconds);
      this.standing = this.#stand();
      if (["lookup", "rival", "plain"].every((name) => before[name] === this.standing[name])) {
        this.plot.tick(seconds);
        return this.controls.tell(seconds);
      }
      this.links.moved();
      this.draw();
    }

    // Where each lane stands, in passes, null for one that is not there; the cursor, which stands
    // where the followed one does; and the time of that, where it is time that they share.
    #stand() {
      const { trace, lane, stepped } = this;
      const { lookup, rival, plain } = trace;
      const cursor = stepped ?? (lane ? lane.passes.length : 0);
      const timed = stepped !== null && this.basis === "seconds" && trace.lanes.size > 1;
      const clock = this.clock ?? (timed ? lane.after(cursor).seconds : null);
      const at = (other) => {
        if (!other) return null;
        if (other === lane) return cursor;
        if (stepped === null) return other.passes.length;
        return clock === null ? Math.min(cursor, other.passes.length) : other.at(clock);
      };
      return { cursor, lookup: at(lookup), rival: at(rival), plain: at(plain), clock };
    }

    #pinned(lane) {
      this.controls.pause();
      if (lane) this.follow(lane);
    }

    // The visitor stopped the run on screen: its lanes end where they are. What a lane still
    // sends after that is not taken.
    interrupt() {
      const { trace } = this;
      if (!trace.main || trace.finished) return;
      this.stopped = trace.text;
      trace.grow(trace.text + trace.endings("cancelled"));
      this.draw();
    }

    #restart(trace) {
      this.stopped = null;
      this.left = this.trace?.main && !this.trace.finished ? this.trace : null;
      this.trace = trace;
      this.standing = { cursor: 0, lookup: null, rival: null, plain: null, clock: null };
      this.stepped = this.clock = null;
      this.differences = new Map();
      this.rest = new Set();
      this.controls.pause();
      this.links.restart();
      this.strip.forget();
      for (const pane of Object.values(this.panes)) pane.clear();
      for (const extra of this.extras) extra.restart?.();
      this.broken = "";
      this.#complain();
      this.draw();
    }

    async #load(file) {
      this.opening = true;
      try {
        const trace = await lens.load(file);
        this.#restart(trace);
        this.dismiss();
        this.source.replace(trace.text);
        setText(this.part.status, words.status.loaded(file.name));
      } catch (error) {
        if (!(error instanceof TraceError)) throw error;
        this.refused = error.message;
        this.#complain();
      } finally {
        this.opening = false;
      }
    }

    // What is wrong with the file that was to be shown, or else with the trace on screen.
    #complain() {
      tell(this.part.problem, this.refused || this.broken);
    }

    #listen() {
      const { part } = this;
      part.save.addEventListener("click", () => lens.save(this.trace.text, this.#fileName()));
      part.file.addEventListener("change", () => {
        const [file] = part.file.files;
        part.file.value = "";
        if (file) this.#load(file);
      });
    }

    #fileName() {
      const created = this.trace.main?.start.created ?? "";
      return `pld-trace${created ? "-" + created.replace(/[^0-9A-Za-z]+/g, "-").slice(0, 40) : ""}.ndjson`;
    }

    #draw() {
      const { trace } = this;
      const { lane } = this;
      this.#append();
      this.standing = this.#stand();
      const { cursor, clock } = this.standing;
      this.#show(this.standing);
      this.#compare();
      this.headline.draw(trace, this.differences.get(lane)?.update() ?? null, cursor);
      this.controls.draw(lane, cursor, clock, trace.length);
      this.#told(cursor);
      this.plot.draw(trace, this.basis, this.standing, this.colours);
      this.#heads(this.standing);
      for (const extra of this.extras) extra.draw?.(cursor);
      this.links.draw(lane === trace.followed && this.stepped > 0 ? { lane, pass: cursor - 1 } : null);
    }

    // "This pass": the one that is pinned or pointed at, else the one where the cursor stands.
    #told(cursor) {
      const { shown, pinned } = this.links;
      const { lane, pass } = shown?.lane ? shown : { lane: this.lane, pass: cursor ? cursor - 1 : null };
      this.strip.draw(lane, pass, words.versus.name(this.trace, lane), shown !== null && shown === pinned);
    }

    #append() {
      const { main, lookup, plain } = this.trace;
      const { panes } = this;
      if (!main) return;
      const { prompt } = main.start;
      if (panes.prompt.spans.length === 0) {
        panes.prompt.append(prompt.pieces.map((piece, i) => ({ piece, kind: i >= prompt.answer_start ? "begun" : "given" })));
        panes.prompt.show(prompt.pieces.length);
        const begun = panes.prompt.spans[prompt.answer_start];
        if (begun) {
          begun.classList.add("begin");
          begun.dataset.note = words.begun;
        }
      }
      const follow = this.stepped === null;
      if (lookup) panes.lookup.append(laneTokens(panes.lookup, lookup), follow);
      panes.plain.append(laneTokens(panes.plain, plain ?? lookup, "plain"), follow);
      for (const [pane, lane] of [[panes.lookup, lookup], [panes.plain, plain ?? lookup]]) {
        if (lane?.end && !this.rest.has(pane)) {
          this.rest.add(pane);
          pane.appendRest((lane.end.pieces ?? []).join(""));
        }
      }
    }

    // The lanes as they stood after the same number of passes, or at the same time.
    #show(standing) {
      const { main, lookup, plain } = this.trace;
      if (!main) return;
      const newest = this.stepped === null;
      if (lookup) this.panes.lookup.show(lookup.after(standing.lookup).tokens);
      if (plain) this.panes.plain.show(plain.after(standing.plain).tokens);
      else this.panes.plain.show(newest && lookup.end ? lookup.ids.length : standing.cursor);
    }

    // Where a lookup lane and the plain one part is marked in both.
    #compare() {
      const { lookup, rival, plain } = this.trace;
      const { panes } = this;
      for (const [pane, lane] of [[panes.lookup, lookup], [panes.rival, rival]]) {
        if (!lane || !plain) continue;
        if (!this.differences.has(lane)) this.differences.set(lane, new Difference(lane, plain));
        const { at } = this.differences.get(lane).update();
        if (at === null) continue;
        for (const { spans } of [pane, panes.plain]) if (!spans[at]?.classList.contains("parts")) spans[at]?.classList.add("parts");
      }
    }

    #heads(standing) {
      const { main, lookup, rival, plain, reading, finished } = this.trace;
      const { part } = this;
      part.save.disabled = !main;
      tell(part.whose, words.versus.whose(this.trace));
      setText(part.plainKey, words.plot.plain(!plain));
      part.plainKey.classList.toggle("counted", !plain);
      part.plainNote.hidden = !lookup || Boolean(plain);
      setText(part.plainNote, words.countedNote);
      if (!main) {
        for (const name of ["run", "settings", "promptCount", "lookupCount", "plainCount", "lookupState", "plainState"]) setText(part[name], "");
        return setText(part.status, words.fixedTexts.empty);
      }
      setText(part.run, words.run(main.start));
      setText(part.settings, [...(rival ? [] : lookupWords(main)), ...choiceWords(main)].join(" · "));
      tell(part.notices, (main.start.notices ?? []).join(" "));
      setText(part.promptCount, words.paneTokens(main.promptLength));
      for (const [name, lane] of [["lookup", lookup], ["plain", plain]]) {
        const shown = this.panes[name].shown;
        const passes = name === "plain" ? shown : standing.lookup;
        setText(part[`${name}Count`], shown ? words.lanePasses(shown, passes) : "");
        setText(part[`${name}State`], lane ? words.state(lane, reading) : lookup ? words.counted : "");
        part[`${name}State`].dataset.state = lane ? (lane.end?.reason ?? "running") : "counted";
      }
      if (!finished) return this.#announce(reading ? words.status.reading(main.promptLength) : words.status.running);
      const lanes = [[rival ? words.versus.a : words.fixedTexts.lookupName, lookup], [words.versus.b, rival], [words.fixedTexts.plainTitle, plain]];
      const sentences = [words.status.ended(lanes.filter(([, lane]) => lane))];
      if (lookup?.passes.length > 1 && !lookup.copied && !rival?.copied) sentences.push(words.status.nothing);
      this.#announce(sentences.join(" "));
    }

    // One polite line, written when the phase of a run changes and never per token.
    #announce(sentence) {
      if (this.announced === this.trace && this.sentence === sentence) return;
      this.announced = this.trace;
      this.sentence = sentence;
      setText(this.part.status, sentence);
    }

    #followTheme() {
      const scheme = matchMedia("(prefers-color-scheme: dark)");
      const adopt = () => {
        const dark = this.root.closest(".gradio-container") ? this.root.closest(".dark") !== null : scheme.matches;
        this.root.dataset.theme = dark ? "dark" : "light";
        this.colours = paint(this.root);
        if (this.trace) this.draw();
      };
      const observer = new MutationObserver(adopt);
      for (const element of [document.documentElement, document.body]) observer.observe(element, { attributeFilter: ["class"] });
      scheme.addEventListener("change", adopt);
      matchMedia("(forced-colors: active)").addEventListener("change", adopt);
      adopt();
    }
  }

  // The colours of the style sheet as plain rgb, also where the system forces its own.
  function paint(root) {
    const probe = root.appendChild(lens.node("span", "probe"));
    const colours = {};
    for (const name of ["copied", "plain", "rival", "text", "muted", "ground", "grid"]) {
      probe.style.color = `var(--paint-${name})`;
      colours[name] = getComputedStyle(probe).color;
    }
    probe.remove();
    return colours;
  }

  Object.assign(lens, { mount });
})((globalThis.pldLens ??= {}));
