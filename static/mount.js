// The trace view: one trace on screen, drawn into the skeleton of trace_view.html.
(function (lens) {
  "use strict";

  const { Trace, TraceError, Difference, Pane, laneTokens, Links, Headline, Strip, Controls, Plot, Switch, setText, lookupWords, choiceWords, perFrame, paced, words } = lens;

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
      this.links = new Links(this, () => this.controls.pause(), () => this.draw());
      this.headline = new Headline(part.headline, part.details);
      this.strip = new Strip(part.passTitle, part.pass);
      this.controls = new Controls(part, (cursor) => this.moveTo(cursor), (seconds) => this.moveToTime(seconds));
      this.plot = new Plot(part.plot, part.plotNote, options.plotly, (pass) => this.moveTo(pass));
      this.basis = "passes";
      setText(part.plotTitle, words.plot.title);
      new Switch(part.basis, words.plot.basis, words.plot.bases, this.basis, (basis) => {
        this.basis = basis;
        this.clock = null;
        this.draw();
      });
      this.draw = perFrame(() => this.#draw());
      this.drawNews = paced(() => this.#draw(), 4);
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
        this.#problem(words.problems.stream(error.message));
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

    // The visitor asked for a run.
    awaited() {
      for (const extra of this.extras) extra.awaited?.();
    }

    // cursor: a pass counted from 1, or null to stay with the newest.
    moveTo(cursor) {
      const passes = this.trace.main ? this.trace.main.passes.length : 0;
      this.cursor = cursor === null || cursor >= passes ? null : cursor;
      this.clock = null;
      this.links.moved();
      this.draw();
    }

    // Every lane as it stood after so many decode seconds.
    moveToTime(seconds) {
      const { main } = this.trace;
      if (!main) return;
      const before = [this.cursor, this.standing.plain];
      this.clock = seconds;
      this.cursor = main.at(seconds);
      this.standing = this.#stand();
      if (before[0] === this.cursor && before[1] === this.standing.plain) {
        this.plot.tick(seconds);
        return this.controls.tell(seconds);
      }
      this.links.moved();
      this.draw();
    }

    // Where each lane stands, in passes, and at what time, where it is time that they share.
    #stand() {
      const { main, plain } = this.trace;
      const passes = main ? main.passes.length : 0;
      const lookup = this.cursor ?? passes;
      if (this.cursor === null || !plain) return { lookup, plain: plain ? plain.passes.length : null, clock: this.clock };
      const clock = this.clock ?? (this.basis === "seconds" ? main.after(lookup).seconds : null);
      return { lookup, plain: clock === null ? Math.min(lookup, plain.passes.length) : plain.at(clock), clock };
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
      this.standing = { lookup: 0, plain: null, clock: null };
      this.cursor = this.clock = this.difference = null;
      this.parted = false;
      this.rest = new Set();
      this.controls.pause();
      this.links.restart();
      this.strip.forget();
      for (const pane of Object.values(this.panes)) pane.clear();
      for (const extra of this.extras) extra.restart?.();
      this.#problem("");
      this.draw();
    }

    async #load(file) {
      this.opening = true;
      try {
        const trace = await lens.load(file);
        this.#restart(trace);
        this.source.replace(trace.text);
        setText(this.part.status, words.status.loaded(file.name));
      } catch (error) {
        if (!(error instanceof TraceError)) throw error;
        this.#problem(error.message);
      } finally {
        this.opening = false;
      }
    }

    #problem(sentence) {
      setText(this.part.problem, sentence);
      this.part.problem.hidden = sentence === "";
    }

    #listen() {
      const { part } = this;
      part.save.addEventListener("click", () => lens.save(this.trace.text, this.#fileName()));
      part.file.addEventListener("change", () => {
        const [file] = part.file.files;
        part.file.value = "";
        if (file) this.#load(file);
      });
      part.lookup.addEventListener("keydown", (event) => {
        const step = { ArrowLeft: part.back, ArrowRight: part.forward }[event.key];
        if (step && !event.ctrlKey && !event.metaKey && !event.altKey) step.click();
      });
    }

    #fileName() {
      const created = this.trace.main?.start.created ?? "";
      return `pld-trace${created ? "-" + created.replace(/[^0-9A-Za-z]+/g, "-").slice(0, 40) : ""}.ndjson`;
    }

    #draw() {
      const { trace } = this;
      const { main, lookup, plain } = trace;
      this.#append();
      this.standing = this.#stand();
      const cursor = this.standing.lookup;
      this.#show(this.standing);
      if (lookup && plain && !this.difference) this.difference = new Difference(lookup, plain);
      this.headline.draw(trace, this.difference?.update() ?? null, cursor);
      this.#parting(this.difference?.at ?? null);
      this.controls.draw(main, cursor, this.standing.clock, trace.length);
      this.#told(main, cursor);
      this.plot.draw(trace, this.basis, this.standing, this.colours);
      this.#heads(cursor);
      for (const extra of this.extras) extra.draw?.(cursor);
      this.links.draw(lookup && this.cursor > 0 ? { lane: lookup, pass: this.cursor - 1 } : null);
    }

    // "This pass": the one that is pinned or pointed at, else the one where the cursor stands.
    #told(main, cursor) {
      const { shown, pinned } = this.links;
      if (shown?.lane) this.strip.draw(shown.lane, shown.pass, shown === pinned);
      else this.strip.draw(main, cursor ? cursor - 1 : null, false);
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
      const follow = this.cursor === null;
      if (lookup) panes.lookup.append(laneTokens(panes.lookup, lookup), follow);
      panes.plain.append(laneTokens(panes.plain, plain ?? lookup, "plain"), follow);
      for (const [pane, lane] of [[panes.lookup, lookup], [panes.plain, plain ?? lookup]]) {
        if (lane?.end && !this.rest.has(pane)) {
          this.rest.add(pane);
          pane.appendRest((lane.end.pieces ?? []).join(""));
        }
      }
    }

    // Both lanes as they stood after the same number of passes, or at the same time.
    #show({ lookup: cursor, plain: plainPasses }) {
      const { main, lookup, plain } = this.trace;
      if (!main) return;
      const newest = this.cursor === null;
      if (lookup) this.panes.lookup.show(lookup.after(cursor).tokens);
      if (plain) this.panes.plain.show(plain.after(plainPasses).tokens);
      else this.panes.plain.show(newest && lookup.end ? lookup.ids.length : cursor);
    }

    // Marks where the lanes part, in both.
    #parting(at) {
      if (at === null || this.parted) return;
      this.parted = true;
      for (const pane of [this.panes.lookup, this.panes.plain]) pane.spans[at]?.classList.add("parts");
    }

    #heads(cursor) {
      const { main, lookup, rival, plain, reading, finished } = this.trace;
      const { part } = this;
      part.save.disabled = !main;
      setText(part.plainKey, words.plot.plain(!plain));
      part.plainKey.classList.toggle("counted", !plain);
      part.plainNote.hidden = !lookup || Boolean(plain);
      setText(part.plainNote, words.countedNote);
      if (!main) {
        for (const name of ["run", "settings", "promptCount", "lookupCount", "plainCount", "lookupState", "plainState"]) setText(part[name], "");
        return setText(part.status, words.fixedTexts.empty);
      }
      const notices = (main.start.notices ?? []).join(" ");
      setText(part.run, words.run(main.start));
      setText(part.settings, [...(rival ? [] : lookupWords(main)), ...choiceWords(main)].join(" · "));
      setText(part.notices, notices);
      part.notices.hidden = notices === "";
      setText(part.promptCount, words.paneTokens(main.promptLength));
      for (const [name, lane] of [["lookup", lookup], ["plain", plain]]) {
        const shown = this.panes[name].shown;
        const passes = name === "plain" ? shown : cursor;
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
