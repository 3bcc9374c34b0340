// What passes of a run took, by their width, and what passes of other widths would take.
(function (lens) {
  "use strict";

  const secondsOf = ({ event }) => event.seconds.lookup + event.seconds.forward + event.seconds.accept;

  const decodePasses = (lane) => (lane ? lane.passes.slice(1) : []);

  function mean(values) {
    return values.length ? values.reduce((a, b) => a + b, 0) / values.length : null;
  }

  function median(values) {
    if (values.length === 0) return null;
    const sorted = [...values].sort((a, b) => a - b);
    const half = sorted.length >> 1;
    return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
  }

  // Width -> the seconds of its passes, narrowest first.
  function byWidth(...lanes) {
    const found = new Map();
    for (const pass of lanes.flatMap(decodePasses)) {
      const { width } = pass.event;
      if (!found.has(width)) found.set(width, []);
      found.get(width).push(secondsOf(pass));
    }
    return new Map([...found].sort(([a], [b]) => a - b));
  }

  // Seconds of a pass by width: the mean of the run's own passes of that width; between two
  // widths that were run a straight line, beyond them the line through the two next ones.
  class Costs {
    constructor(lookup, plain) {
      this.measured = [...byWidth(lookup, plain)].map(([width, seconds]) => [width, mean(seconds)]);
      this.known = new Map(this.measured);
    }

    // null when one width alone was run and this is another.
    at(width) {
      if (this.known.has(width)) return this.known.get(width);
      const { measured } = this;
      if (measured.length < 2) return null;
      let upper = measured.findIndex(([w]) => w > width);
      if (upper < 0) upper = measured.length - 1;
      const [[w0, s0], [w1, s1]] = measured.slice(Math.max(0, upper - 1), Math.max(0, upper - 1) + 2);
      const slope = Math.max(0, (s1 - s0) / (w1 - w0));
      return width > w1 ? s1 + slope * (width - w1) : s0 + slope * (width - w0);
    }

    // Decode seconds of replayed passes, null when a width cannot be told.
    of(passes, fixedWidth = 0) {
      let sum = 0;
      for (const { drafted } of passes) {
        const seconds = this.at(fixedWidth || 1 + drafted);
        if (seconds === null) return null;
        sum += seconds;
      }
      return sum;
    }
  }

  // Mean time of a copy pass (r_c) and of any other pass (r_m) over a plain pass; null without
  // a plain lane. Like pld_core.trace.speedups, 1 where there is no such pass.
  function relativeCosts(lookup, plain) {
    const plainPass = mean(decodePasses(plain).map(secondsOf));
    if (!plainPass || lookup.passes.length < 2) return null;
    const passes = decodePasses(lookup);
    const of = (some) => (some.length ? mean(some.map(secondsOf)) / plainPass : 1);
    return { copy: of(passes.filter((p) => p.copied > 0)), other: of(passes.filter((p) => p.copied === 0)) };
  }

  const passesOf = (tokens, f, L) => (f * tokens) / L + (1 - f) * tokens;
  const passRatio = (f, L) => 1 / (f / L + 1 - f);
  const timeRatio = (f, L, { copy, other }) => 1 / ((f / L) * copy + (1 - f) * other);

  Object.assign(lens, { Costs, byWidth, secondsOf, decodePasses, mean, median, relativeCosts, passesOf, passRatio, timeRatio });
})((globalThis.pldLens ??= {}));
