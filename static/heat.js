// How often each prompt token was copied up to a pass: levels for the prompt pane to show.
(function (lens) {
  "use strict";

  const LEVELS = 4;

  class Heat {
    constructor(lane) {
      this.lane = lane;
      this.passes = 0;
      this.prompt = new Int32Array(lane.promptLength);
      this.own = 0;
      this.other = 0;
    }

    // Moves on or back to that pass, one pass at a time.
    to(passes) {
      while (this.passes < passes) this.#count(this.passes++, 1);
      while (this.passes > passes) this.#count(--this.passes, -1);
      return this;
    }

    #count(pass, by) {
      const { event, copied } = this.lane.passes[pass];
      if (copied === 0) return;
      if (!event.match || event.match.region === "reference") return void (this.other += by);
      const { promptLength } = this.lane;
      const context = promptLength + this.lane.passes[pass].first;
      for (let i = 0; i < copied; i++) {
        const at = lens.sourceOf(event.match, context, i);
        if (at < promptLength) this.prompt[at] += by;
        else this.own += by;
      }
    }

    get most() {
      return this.prompt.reduce((a, b) => Math.max(a, b), 0);
    }

    get copied() {
      return this.prompt.reduce((sum, count) => sum + (count > 0), 0);
    }

    // Per prompt token 0 (never copied) to 4; up to four copies each has its own level.
    levels() {
      const most = Math.max(LEVELS, this.most);
      return Array.from(this.prompt, (count) => Math.ceil((count / most) * LEVELS));
    }
  }

  // Puts the levels on a pane's spans; touches only those that change.
  function showHeat(pane, levels) {
    pane.heat ??= [];
    pane.spans.forEach((span, i) => {
      const level = levels?.[i] ?? 0;
      if ((pane.heat[i] ?? 0) === level) return;
      if (pane.heat[i]) span.classList.remove(`heat-${pane.heat[i]}`);
      if (level) span.classList.add(`heat-${level}`);
      pane.heat[i] = level;
    });
    if (pane.spans.length === 0) pane.heat = [];
  }

  Object.assign(lens, { Heat, showHeat });
})((globalThis.pldLens ??= {}));
