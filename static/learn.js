// How it works, in words: the way into the tour, the terms, and when it does not help.
(function (lens) {
  "use strict";

  const { node, words, button } = lens;
  const text = words.explore.learn;

  class Learn {
    constructor(body, startTour) {
      this.start = button(text.tour, startTour, "primary");
      const lead = body.appendChild(node("div", "lead"));
      lead.append(node("p", "sentence", text.lead), this.start);
      const columns = body.appendChild(node("div", "columns"));
      const left = columns.appendChild(node("div"));
      left.append(node("h3", "", text.limitsTitle));
      const limits = left.appendChild(node("ul", "limits"));
      for (const [name, line] of text.limits) {
        const item = limits.appendChild(node("li"));
        item.append(node("strong", "", name), ` ${line}`);
      }
      const right = columns.appendChild(node("div"));
      right.append(node("h3", "", text.glossaryTitle));
      const list = right.appendChild(node("dl", "glossary"));
      for (const [term, meaning] of text.glossary) list.append(node("dt", "", term), node("dd", "", meaning));
    }

    draw(trace) {
      this.start.disabled = lens.tourStart(trace.lookup) === null;
    }
  }

  Object.assign(lens, { Learn });
})((globalThis.pldLens ??= {}));
