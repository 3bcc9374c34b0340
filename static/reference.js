// The reference text: copied from like the prompt, never read by the model.
(function (lens) {
  "use strict";

  const { extras, node, setText, Pane, sources, words } = lens;

  class Reference {
    constructor(view) {
      this.view = view;
      this.pointed = null;
      this.revealed = null;
      this.pane = node("div", "pane reference");
      this.pane.hidden = true;
      const head = node("div", "pane-head");
      this.count = node("span", "count");
      head.append(node("h2", "", words.reference.title), this.count, node("span", "state", words.reference.unread));
      const text = node("div", "text");
      text.dataset.part = "reference";
      text.tabIndex = 0;
      text.setAttribute("role", "region");
      text.setAttribute("aria-label", words.reference.title);
      this.pane.append(head, text);
      view.root.querySelector(".pane.prompt").after(this.pane);
      view.panes.reference = new Pane(text);
      text.addEventListener("pointerover", (event) => this.#point(Pane.at(event.target)));
      text.addEventListener("pointerleave", () => this.#point(null));
    }

    restart() {
      this.pointed = this.revealed = null;
      this.pane.hidden = true;
    }

    draw() {
      const { trace, panes } = this.view;
      const reference = trace.main?.start.reference;
      this.pane.hidden = !reference;
      panes.reference.unmark();
      if (!reference) return;
      if (panes.reference.spans.length === 0) {
        panes.reference.append(reference.pieces.map((piece) => ({ piece, kind: "given" })));
        panes.reference.show(reference.pieces.length);
        setText(this.count, words.paneTokens(reference.pieces.length));
      }
      if (trace.lookup) this.#link(trace.lookup);
    }

    #link(lane) {
      const { panes, chosen } = this.view;
      if (this.pointed !== null) {
        let any = false;
        lane.passes.forEach(({ event, first, copied }, pass) => {
          if (event.match?.region !== "reference" || !sources(lane, pass).reference.source.includes(this.pointed)) return;
          any = true;
          panes.lookup.mark("copy", Array.from({ length: copied }, (_, i) => first + i));
        });
        panes.reference.mark("source", any ? [this.pointed] : []);
        return;
      }
      if (chosen === null || chosen >= lane.passes.length) return;
      const { reference } = sources(lane, chosen);
      for (const [name, positions] of Object.entries(reference)) panes.reference.mark(name, positions);
      if (this.revealed !== chosen && reference.key.length) panes.reference.reveal(reference.key[0]);
      this.revealed = chosen;
    }

    #point(position) {
      if (position === this.pointed) return;
      this.pointed = position;
      this.view.draw();
    }
  }

  extras.push((view) => new Reference(view));
})((globalThis.pldLens ??= {}));
