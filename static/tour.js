// The guided tour: four cards over the view. Each card says what to watch, one press then does
// exactly one pass, and the part it talks about is outlined.
(function (lens) {
  "use strict";

  const { node, setText, words, button } = lens;
  const text = words.tour;
  const OUTLINE = 9; // px, as in explore.css
  const GAP = 4;
  // What each step speaks of; what comes first is shown, whatever the window's height.
  const PARTS = [["prompt", "lookup"], ["pass"], ["pass"], ["pass", "lookup"]];

  // The pass before the four that show most: all with a match and something kept, the last of
  // them with something rejected. null where no pass drafted anything.
  function tourStart(lane) {
    if (!lane) return null;
    const { passes } = lane;
    let best = null;
    let most = 0;
    for (let before = 1; before + text.steps.length <= passes.length; before++) {
      const four = passes.slice(before, before + text.steps.length);
      const worth = four.reduce((sum, { draft, copied }) => sum + (draft.length > 0) + 2 * (copied > 0), 0) + (four[3].copied > 0 && four[3].copied < four[3].draft.length);
      if (worth > most) [best, most] = [before, worth];
    }
    return best;
  }

  class Tour {
    // parts: the view's elements by name. moveTo(pass) goes there.
    constructor(card, parts, moveTo) {
      this.card = card;
      this.parts = parts;
      this.moveTo = moveTo;
      card.hidden = true;
      card.setAttribute("role", "group");
      const top = card.appendChild(node("div", "tour-head"));
      this.number = top.appendChild(node("span", "quiet"));
      this.name = top.appendChild(node("h2"));
      this.name.tabIndex = -1;
      this.words = card.appendChild(node("p", "sentence"));
      this.saw = card.appendChild(node("p", "sentence saw"));
      this.saw.setAttribute("role", "status");
      const row = card.appendChild(node("div", "buttons"));
      this.press = button("", () => this.#press(), "primary");
      row.append(this.press, (this.leaving = button(text.leave, () => this.leave())));
      card.addEventListener("keydown", (event) => event.key === "Escape" && this.leave());
    }

    get running() {
      return !this.card.hidden;
    }

    start(lane) {
      const start = tourStart(lane);
      if (start === null) return;
      this.lane = lane;
      this.from = document.activeElement;
      this.pass = start;
      this.card.hidden = false;
      this.moveTo(start);
      this.#show(0);
    }

    leave() {
      if (!this.running) return;
      this.card.hidden = true;
      this.#outline([]);
      if (this.from?.isConnected) this.from.focus({ preventScroll: true });
    }

    #show(step) {
      this.step = step;
      this.advanced = false;
      setText(this.number, text.title(step + 1));
      setText(this.name, text.steps[step].name);
      setText(this.words, text.steps[step].text);
      setText(this.saw, "");
      setText(this.press, text.advance);
      this.leaving.hidden = false;
      this.#point();
      this.card.setAttribute("aria-label", `${text.title(step + 1)}: ${text.steps[step].name}`);
      this.name.focus({ preventScroll: true });
    }

    #press() {
      if (!this.advanced) {
        this.pass += 1;
        this.advanced = true;
        this.moveTo(this.pass);
        setText(this.saw, text.saw[this.step](this.lane.passes[this.pass - 1]));
        this.#point();
        const last = this.step === text.steps.length - 1;
        setText(this.press, last ? text.done : text.next);
        this.leaving.hidden = last;
      } else if (this.step === text.steps.length - 1) this.leave();
      else this.#show(this.step + 1);
    }

    #outline(parts) {
      for (const part of Object.values(this.parts)) part.classList.toggle("toured", parts.includes(part));
    }

    // A move of the cursor is drawn in this frame, and what it draws may move the parts.
    #point() {
      requestAnimationFrame(() => this.running && this.#reveal(PARTS[this.step].map((name) => this.parts[name])));
    }

    // The first part and whatever fits beside it, with their outlines, come between the card, which
    // stays in sight, and the lower edge of the window; of a part taller than that the top.
    #reveal(parts) {
      const upper = parseFloat(getComputedStyle(this.card).top) + this.card.offsetHeight + GAP;
      const lower = innerHeight - GAP;
      const shown = [];
      let [top, bottom] = [Infinity, -Infinity];
      for (const part of parts) {
        const box = part.getBoundingClientRect();
        const both = [Math.min(top, box.top - OUTLINE), Math.max(bottom, box.bottom + OUTLINE)];
        if (shown.length && both[1] - both[0] > lower - upper) continue;
        shown.push(part);
        [top, bottom] = both;
      }
      this.#outline(shown);
      const above = top - upper;
      const by = above < 0 ? above : Math.min(above, Math.max(0, bottom - lower));
      if (by) scrollBy({ top: by, behavior: lens.stillness.matches ? "auto" : "smooth" });
    }
  }

  Object.assign(lens, { Tour, tourStart });
})((globalThis.pldLens ??= {}));
