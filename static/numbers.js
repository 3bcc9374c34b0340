// What a lane's sums mean, and how two lanes compare.
(function (lens) {
  "use strict";

  function numbers(lane, passes) {
    const sum = lane.after(passes);
    return {
      ...sum,
      tokensPerPass: sum.passes ? sum.tokens / sum.passes : null,
      copyRate: sum.tokens ? sum.copyTokens / sum.tokens : 0,
      copyLength: sum.copyPasses ? sum.copyTokens / sum.copyPasses : null,
    };
  }

  // Decode seconds of both lanes for the tokens that `lookup` has after `passes` passes. Plain
  // decoding that is not there yet is scaled by tokens (`scaled`), prefill is left out of both.
  function speedup(lookup, plain, passes) {
    const own = lookup.after(passes);
    const reached = Math.min(own.tokens, plain.passes.length);
    const there = plain.after(reached);
    if (own.tokens < 2 || there.tokens < 2 || own.seconds === 0) return null;
    const scaled = there.tokens < own.tokens;
    const plainSeconds = there.seconds * (scaled ? (own.tokens - 1) / (there.tokens - 1) : 1);
    return { ratio: plainSeconds / own.seconds, plainSeconds, lookupSeconds: own.seconds, scaled };
  }

  // Compares token ids of two growing lanes, each position once.
  class Difference {
    constructor(lookup, plain) {
      this.lanes = [lookup, plain];
      this.compared = 0;
      this.at = null;
    }

    update() {
      const [a, b] = this.lanes;
      const both = Math.min(a.ids.length, b.ids.length);
      while (this.at === null && this.compared < both) {
        if (a.ids[this.compared] !== b.ids[this.compared]) this.at = this.compared;
        else this.compared += 1;
      }
      // A lane that ended by itself while the other went on differs there too.
      const shorter = a.ids.length < b.ids.length ? a : b;
      if (this.at === null && a.ids.length !== b.ids.length && a.end && b.end && !interrupted(a) && !interrupted(b)) {
        this.at = shorter.ids.length;
      }
      return this;
    }

    // The gap between the two best logits where the lanes part, the smaller of both.
    get margin() {
      const known = this.lanes.map((lane) => lane.margins[this.at]).filter((m) => m !== null && m !== undefined);
      return known.length ? Math.min(...known) : null;
    }

    get final() {
      return this.lanes.every((lane) => lane.end);
    }
  }

  const interrupted = (lane) => lane.end.reason === "cancelled" || lane.end.reason === "error";

  Object.assign(lens, { numbers, speedup, Difference });
})((globalThis.pldLens ??= {}));
