// What is marked in the panes: a pass and where it copied from, or a token and its copies. What
// was clicked stays marked, wherever the pointer goes, until it is let go.
(function (lens) {
  "use strict";

  const { Pane, Copies, sources } = lens;

  // A place is { lane, pass } in a lookup lane, { pane, at } in a text that is copied from.
  const same = (a, b) => a === b || (a !== null && b !== null && ["lane", "pass", "pane", "at"].every((name) => a[name] === b[name]));

  class Links {
    // pinned(place): it was clicked. changed(): something else is to be marked.
    constructor(view, pinned, changed) {
      this.view = view;
      this.changed = changed;
      const panes = view.root.querySelector(".panes");
      panes.addEventListener("pointerover", (event) => this.#point(this.#placeOf(event.target)));
      panes.addEventListener("pointerleave", () => this.#point(null));
      panes.addEventListener("click", (event) => {
        const place = this.#placeOf(event.target);
        if (place === null || !getSelection().isCollapsed || !this.#leads(place)) return;
        if (same(place, this.pinned)) return this.#pin(null);
        this.#pin(place);
        pinned(place);
      });
      document.addEventListener("keydown", ({ key, target }) => {
        if (key === "Escape" && this.pinned && (target === document.body || view.root.contains(target))) this.#pin(null);
      });
      this.restart();
    }

    restart() {
      this.pointed = this.pinned = this.reveal = null;
      this.copies = new Map(); // lane -> Copies
    }

    // The cursor moved: all that its pass concerns comes into sight.
    moved() {
      this.pinned = null;
      this.reveal = "all";
    }

    get shown() {
      return this.pinned ?? this.pointed;
    }

    // stepped: the place to mark while none is pinned or pointed at, or null.
    draw(stepped) {
      for (const pane of Object.values(this.view.panes)) pane.unmark();
      const place = this.shown ?? stepped;
      if (place?.lane) this.#markPass(place);
      else if (place) this.#markCopies(place);
    }

    #placeOf(target) {
      const at = Pane.at(target);
      if (at === null) return null;
      const [pane] = Object.entries(this.view.panes).find(([, { element }]) => element.contains(target));
      const lane = this.#lanes[pane];
      if (lane) return { lane, pass: lane.passOf[at] };
      return pane === "plain" ? null : { pane, at };
    }

    get #lanes() {
      const { lookup, rival } = this.view.trace;
      return { lookup, rival };
    }

    #leads(place) {
      return Boolean(place.lane) || Object.values(this.#lanes).some((lane) => this.#copiesIn(lane, place).length > 0);
    }

    #point(place) {
      if (same(place, this.pointed)) return;
      this.pointed = place;
      if (this.pinned) return;
      this.reveal = place ? "source" : null;
      this.changed();
    }

    #pin(place) {
      this.pinned = place;
      this.reveal = place ? "source" : null;
      this.changed();
    }

    // The passes that kept a copy of the token.
    #copiesIn(lane, place) {
      if (!lane) return [];
      if (!this.copies.has(lane)) this.copies.set(lane, new Copies(lane));
      return this.copies.get(lane).of(place);
    }

    #markCopies(place) {
      const { panes } = this.view;
      for (const [name, lane] of Object.entries(this.#lanes)) {
        for (const pass of this.#copiesIn(lane, place)) {
          const { first, copied } = lane.passes[pass];
          panes[name].mark("copy", Array.from({ length: copied }, (_, i) => first + i));
        }
      }
      if (this.#leads(place)) panes[place.pane].mark("source", [place.at]);
    }

    #markPass({ lane, pass }) {
      const { panes } = this.view;
      const output = panes[lane === this.#lanes.rival ? "rival" : "lookup"];
      const { promptLength } = lane;
      const { key, suffix, source, beyond, own, reference } = sources(lane, pass);
      for (const [name, positions] of Object.entries({ key, suffix, source, beyond, this: own })) {
        panes.prompt.mark(name, positions.filter((at) => at < promptLength));
        output.mark(name, positions.filter((at) => at >= promptLength).map((at) => at - promptLength));
      }
      for (const [name, positions] of Object.entries(reference)) panes.reference.mark(name, positions);
      this.#show(output, own[0] - promptLength, key[0] < promptLength ? key[0] : undefined, reference.key[0]);
    }

    // Pointing must not move the text under the pointer; going to a pass may.
    #show(output, own, inPrompt, inReference) {
      const { prompt, reference, ...lanes } = this.view.panes;
      if (this.reveal === null) return;
      prompt.reveal(inPrompt);
      reference.reveal(inReference);
      if (this.reveal === "all") for (const pane of Object.values(lanes)) pane.reveal(pane === output ? own : pane.shown - 1);
      this.reveal = null;
    }
  }

  Object.assign(lens, { Links });
})((globalThis.pldLens ??= {}));
