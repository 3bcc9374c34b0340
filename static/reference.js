// The reference text: copied from like the prompt, never read by the model.
(function (lens) {
  "use strict";

  const { extras, node, setText, Pane, words } = lens;

  class Reference {
    constructor(view) {
      this.view = view;
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
    }

    restart() {
      this.pane.hidden = true;
    }

    draw() {
      const { trace, panes } = this.view;
      const reference = trace.main?.start.reference;
      this.pane.hidden = !reference;
      if (!reference || panes.reference.spans.length) return;
      panes.reference.append(reference.pieces.map((piece) => ({ piece, kind: "given" })));
      panes.reference.show(reference.pieces.length);
      setText(this.count, words.paneTokens(reference.pieces.length));
    }
  }

  extras.push((view) => new Reference(view));
})((globalThis.pldLens ??= {}));
