// The panels below the view, the tour over it and the heat in its prompt pane.
(function (lens) {
  "use strict";

  const { node, setText, words, button, Explore, Equation, Positions, Drafts, WhatIf, Gallery, Learn, Tour, Heat, showHeat } = lens;

  class Understand {
    constructor(view) {
      this.view = view;
      const { part, options } = view;
      this.#addHeat();
      const card = node("div", "tour");
      this.controls = part.range.closest(".controls");
      this.controls.after(card);
      this.tour = new Tour(
        card,
        { prompt: part.prompt.closest(".pane"), lookup: part.lookup.closest(".pane"), pass: part.pass.closest(".pass") },
        (pass) => {
          view.follow(view.trace.lookup);
          view.moveTo(pass);
        },
      );
      const { gallery } = options;
      const openRecorded = (id) => {
        view.dismiss();
        options.openRecorded(id);
        view.show();
      };
      this.explore = new Explore(part.explore, {
        whatIf: (body) => new WhatIf(body),
        equation: (body) => new Equation(body),
        positions: (body) => (this.positions = new Positions(body, (pass) => view.moveTo(pass), options.measure)),
        drafts: (body) => new Drafts(body),
        ...(gallery?.length ? { gallery: (body) => new Gallery(body, gallery, openRecorded) } : {}),
        learn: (body) => new Learn(body, () => this.#startTour()),
      });
    }

    restart() {
      this.tour.leave();
      this.heat = null;
      if (this.view.trace.main) this.explore.update(this.view.trace, 0);
    }

    measured(told) {
      this.positions?.measured(told);
    }

    draw(cursor) {
      const { trace } = this.view;
      this.explore.update(trace, cursor);
      this.#drawHeat(trace, cursor);
    }

    get pending() {
      return this.explore.pending;
    }

    #startTour() {
      this.tour.start(this.view.trace.lookup);
    }

    #addHeat() {
      const { part } = this.view;
      this.toggle = button(words.heat.toggle, () => {
        this.toggle.setAttribute("aria-pressed", this.toggle.getAttribute("aria-pressed") !== "true");
        this.view.draw();
      }, "toggle");
      this.toggle.setAttribute("aria-pressed", false);
      this.toggle.dataset.part = "heat";
      part.promptCount.after(this.toggle);
      this.note = node("p", "pane-note");
      this.note.hidden = true;
      part.prompt.after(this.note);
    }

    #drawHeat({ followed: lookup }, cursor) {
      const { prompt } = this.view.panes;
      const on = this.toggle.getAttribute("aria-pressed") === "true" && lookup !== null;
      this.note.hidden = !on;
      if (!on) return showHeat(prompt, null);
      if (this.heat?.lane !== lookup) this.heat = new Heat(lookup);
      const heat = this.heat.to(Math.min(cursor, lookup.passes.length));
      showHeat(prompt, heat.levels());
      setText(this.note, words.heat.note(heat.copied, lookup.promptLength, heat.most, heat.own, heat.other));
    }
  }

  lens.extras.push((view) => new Understand(view));
})((globalThis.pldLens ??= {}));
