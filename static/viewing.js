// Ways to look at the text: rejected drafts in place, tokens with borders, ids and visible
// whitespace. None of it is text: what is selected, copied or searched stays the text alone.
(function (lens) {
  "use strict";

  const { extras, node, setText, visible, Pane, Switch, words } = lens;
  const text = words.viewing;
  const LONGEST_GHOST = 200;
  const MARKS = { " ": "·", "\n": "↵", "\t": "⇥", "\r": "␍" };

  class Viewing {
    constructor(view) {
      this.view = view;
      this.root = view.root;
      this.done = new Map(); // pane -> how far it is dressed
      const bar = node("div", "viewing");
      this.kind = new Switch(bar, text.kind, text.kinds, "text", () => this.#switch());
      this.ghosts = node("input");
      this.ghosts.type = "checkbox";
      this.ghosts.dataset.part = "ghosts";
      const label = node("label", "check");
      label.append(this.ghosts, node("span", "", text.ghosts));
      this.ghosts.addEventListener("change", () => {
        this.root.classList.toggle("with-ghosts", this.ghosts.checked);
        this.view.draw();
      });
      bar.append(label);
      this.root.querySelector(".panes").before(bar);
      this.tip = node("div", "tip");
      this.tip.setAttribute("role", "tooltip");
      this.tip.hidden = true;
      this.root.append(this.tip);
      const panes = this.root.querySelector(".panes");
      panes.addEventListener("pointerover", (event) => this.#tell(event.target));
      panes.addEventListener("pointerleave", () => this.#tell(null));
      panes.addEventListener("scroll", (event) => event.target.contains(this.told) && this.#tell(null), true);
    }

    restart() {
      this.done.clear();
      this.#tell(null);
    }

    draw() {
      const { panes, trace } = this.view;
      if (this.ghosts.checked) {
        this.#dress(panes.lookup, trace.lookup);
        if (panes.rival) this.#dress(panes.rival, trace.rival);
      }
      if (this.inTokens) for (const pane of Object.values(panes)) this.#mark(pane);
    }

    get inTokens() {
      return this.kind.value === "tokens";
    }

    #switch() {
      this.root.classList.toggle("in-tokens", this.inTokens);
      this.#tell(null);
      this.view.draw();
    }

    #progress(pane) {
      if (!this.done.has(pane)) this.done.set(pane, { passes: 0, spans: 0 });
      return this.done.get(pane);
    }

    // A rejected draft stands before the token that came instead of it, in an element without text.
    #dress(pane, lane) {
      if (!lane) return;
      const progress = this.#progress(pane);
      for (; progress.passes < lane.passes.length; progress.passes++) {
        const { event, first, copied, draft, draftPieces } = lane.passes[progress.passes];
        const span = pane.spans[first + copied];
        if (copied >= draft.length || !span || copied >= event.kept.length) continue;
        const ghost = draftPieces.slice(copied).map((piece) => (piece === "" ? "" : visible(piece))).join("").replaceAll("␣", " ");
        const place = node("span", "ghost");
        place.dataset.ghost = ghost.length > LONGEST_GHOST ? ghost.slice(0, LONGEST_GHOST) + "…" : ghost;
        place.setAttribute("aria-hidden", "true");
        span.before(place);
      }
    }

    // Each whitespace character gets an element of its own, for its mark to stand on.
    #mark(pane) {
      const progress = this.#progress(pane);
      for (; progress.spans < pane.spans.length; progress.spans++) {
        const span = pane.spans[progress.spans];
        const piece = span.textContent;
        if (!/[ \n\t\r]/.test(piece)) continue;
        const parts = piece.split(/([ \n\t\r])/).filter((part) => part !== "");
        span.replaceChildren(
          ...parts.map((part) => {
            if (!Object.hasOwn(MARKS, part)) return document.createTextNode(part);
            const space = node("i", "space", part);
            space.dataset.mark = MARKS[part];
            return space;
          }),
        );
      }
    }

    #tell(target) {
      const at = this.inTokens && target ? Pane.at(target) : null;
      const pane = at === null ? null : Object.entries(this.view.panes).find(([, pane]) => pane.element.contains(target));
      this.tip.hidden = !pane;
      this.told = pane ? target : null;
      if (!pane) return;
      setText(this.tip, this.#about(pane[0], at));
      const span = pane[1].spans[at].getClientRects()[0] ?? pane[1].spans[at].getBoundingClientRect();
      const root = this.root.getBoundingClientRect();
      const left = Math.max(0, Math.min(span.left - root.left, root.width - this.tip.offsetWidth));
      this.tip.style.left = `${left}px`;
      this.tip.style.top = `${span.bottom - root.top + 6}px`;
    }

    #about(name, at) {
      const { trace } = this.view;
      const { main } = trace;
      if (name === "prompt" || name === "reference") {
        const prompt = name === "prompt" ? main.start.prompt : main.start.reference;
        return text.token(at + 1, prompt.ids[at], visible(prompt.pieces[at]));
      }
      const lane = { lookup: trace.lookup, rival: trace.rival, plain: trace.plain ?? trace.lookup }[name];
      const pass = lane.passes[lane.passOf[at]];
      const sure = pass.event.probabilities?.[at - pass.first];
      return text.token(at + 1, lane.ids[at], visible(lane.pieces[at]), sure, lane.margins[at]);
    }
  }

  extras.push((view) => new Viewing(view));
})((globalThis.pldLens ??= {}));
