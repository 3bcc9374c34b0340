// Where the draft of a pass came from, as positions in the context (prompt, then output).
(function (lens) {
  "use strict";

  const range = (from, to) => Array.from({ length: Math.max(0, to - from) }, (_, i) => from + i);

  // Position of the text that draft token i repeats. A match near the end of the context runs
  // on into its own draft, so the draft repeats the last `period` tokens of the context.
  function sourceOf(match, context, i) {
    const behind = match.start + match.n;
    return behind + (i % (context - behind));
  }

  // Marks for pass number `pass` (counted from 0): positions count within the context, those of
  // `reference` within the reference text.
  function sources(lane, pass) {
    const record = lane.passes[pass];
    const { match } = record.event;
    const context = lane.promptLength + record.first;
    const own = range(context, context + record.kept);
    const none = { key: [], source: [], beyond: [] };
    if (!match) return { match: null, ...none, suffix: [], own, period: null, reference: none };
    const behind = match.start + match.n;
    const suffix = range(context - match.n, context);
    if (match.region === "reference") {
      const cut = behind + record.copied;
      const reference = { key: range(match.start, behind), source: range(behind, cut), beyond: range(cut, behind + record.draft.length) };
      return { match, ...none, suffix, own, period: null, reference };
    }
    const unique = (from, to) => [...new Set(range(from, to).map((i) => sourceOf(match, context, i)))];
    const source = unique(0, record.copied);
    const beyond = unique(record.copied, record.draft.length).filter((position) => !source.includes(position));
    return {
      match,
      key: range(match.start, behind),
      suffix,
      source,
      beyond,
      own,
      period: record.draft.length > context - behind ? context - behind : null,
      reference: none,
    };
  }

  // A token of the context or of the reference -> the passes that kept a copy of it.
  class Copies {
    constructor(lane) {
      this.lane = lane;
      this.seen = 0;
      this.at = new Map();
    }

    // pane: "prompt" or "reference".
    of({ pane, at }) {
      for (; this.seen < this.lane.passes.length; this.seen++) {
        const { source, reference } = sources(this.lane, this.seen);
        for (const position of source) this.#add(`prompt ${position}`);
        for (const position of reference.source) this.#add(`reference ${position}`);
      }
      return this.at.get(`${pane} ${at}`) ?? [];
    }

    #add(key) {
      if (!this.at.has(key)) this.at.set(key, []);
      this.at.get(key).push(this.seen);
    }
  }

  Object.assign(lens, { sources, sourceOf, Copies });
})((globalThis.pldLens ??= {}));
