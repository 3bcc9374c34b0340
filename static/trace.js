// A growing NDJSON text -> lanes. Only the new tail is parsed.
(function (lens) {
  "use strict";

  const { problems } = lens.words;
  const { TraceError, readEvent, treeOf, pathOf, keptBranch } = lens;
  const MOST_TOKENS = 100_000;
  const MOST_LANES = 16;

  // One run of one decoder: its tokens, and its passes with the sums up to each of them.
  class Lane {
    constructor(start) {
      this.start = start;
      this.promptLength = start.prompt.ids.length;
      this.ids = [];
      this.pieces = [];
      this.margins = [];
      this.passOf = [];
      this.passes = [];
      this.end = null;
      this.prefillSeconds = 0;
    }

    get name() {
      return this.start.lane;
    }

    after(passes) {
      return passes > 0 ? this.passes[passes - 1].after : NOTHING;
    }

    // Whether any draft token was kept.
    get copied() {
      return this.after(this.passes.length).copyPasses > 0;
    }

    // How many passes are done after so many decode seconds; the prefill is, at once.
    at(seconds) {
      let low = Math.min(1, this.passes.length);
      let high = this.passes.length;
      while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (this.passes[middle - 1].after.seconds <= seconds) low = middle;
        else high = middle - 1;
      }
      return low;
    }

    // Whether output token i stood in a draft.
    isCopied(i) {
      const pass = this.passes[this.passOf[i]];
      return i - pass.first < pass.copied;
    }

    addPass(event) {
      const prefill = event.type === "prefill";
      const first = this.ids.length;
      const tree = prefill ? null : treeOf(event);
      // Of a tree what is shown as the draft is the branch that was kept.
      const line = tree && pathOf(tree.parents, keptBranch(tree, tree.path).leaf);
      const draft = prefill ? [] : line ? line.map((node) => event.draft[node]) : event.draft;
      const draftPieces = line ? line.map((node) => event.draft_pieces[node]) : event.draft_pieces;
      const copied = prefill ? 0 : event.accepted;
      const seconds = prefill ? null : event.seconds;
      const places = { reference: this.start.reference?.ids.length ?? 0 };
      const inside = ({ start, n, region }) => start + n < (places[region] ?? this.promptLength + first);
      if (![event.match, ...(tree?.branches ?? []).map(({ match }) => match)].every((match) => !match || inside(match))) {
        throw new TraceError(problems.match);
      }
      if (first + event.kept.length > MOST_TOKENS) throw new TraceError(problems.tooLong(MOST_TOKENS));
      if (prefill) this.prefillSeconds = event.seconds;

      const before = this.after(this.passes.length);
      this.passes.push({
        event, first, draft, draftPieces, tree, line, copied,
        drafted: prefill ? 0 : event.draft.length,
        kept: event.kept.length,
        after: {
          tokens: first + event.kept.length,
          passes: before.passes + 1,
          seconds: before.seconds + (seconds ? seconds.lookup + seconds.forward + seconds.accept : 0),
          copyPasses: before.copyPasses + (copied > 0),
          copyTokens: before.copyTokens + (copied > 0 ? event.kept.length : 0),
          drafted: before.drafted + (prefill ? 0 : event.draft.length),
          accepted: before.accepted + copied,
          undrafted: before.undrafted + (!prefill && draft.length === 0),
        },
      });
      for (let i = 0; i < event.kept.length; i++) {
        this.ids.push(event.kept[i]);
        this.pieces.push(event.pieces[i]);
        this.margins.push(event.margins?.[i] ?? null);
        this.passOf.push(this.passes.length - 1);
      }
    }
  }

  const NOTHING = Object.freeze({
    tokens: 0, passes: 0, seconds: 0, copyPasses: 0, copyTokens: 0, drafted: 0, accepted: 0, undrafted: 0,
  });

  class Trace {
    constructor() {
      this.text = "";
      this.read = 0;
      this.line = 0;
      this.lanes = new Map();
      this.comparisons = new Map();
      this.second = false;
    }

    // A whole trace from a file; throws TraceError, one sentence.
    static of(text) {
      const trace = new Trace();
      trace.grow(text);
      if (trace.text.slice(trace.read).trim() !== "") throw new TraceError(problems.line(trace.line + 1, problems.notJson));
      if (trace.lanes.size === 0) throw new TraceError(problems.empty);
      return trace;
    }

    continues(text) {
      return text.startsWith(this.text);
    }

    // Takes the text so far, which must continue the text before it.
    grow(text) {
      this.text = text;
      for (;;) {
        const newline = text.indexOf("\n", this.read);
        if (newline < 0) break;
        this.#take(text.slice(this.read, newline));
        this.read = newline + 1;
      }
      const rest = text.slice(this.read);
      if (isWhole(rest)) {
        this.#take(rest);
        this.read = text.length;
      }
    }

    // The lines that end every lane which has not ended.
    endings(reason) {
      const open = [...this.lanes.values()].filter((lane) => !lane.end);
      const lines = open.map((lane) =>
        JSON.stringify({ v: 1, type: "end", lane: lane.name, reason, tokens: lane.ids.length, passes: lane.passes.length, pieces: [], message: "" }),
      );
      const whole = this.text === "" || this.text.endsWith("\n");
      return (whole ? "" : "\n") + lines.map((line) => line + "\n").join("");
    }

    #take(line) {
      this.line += 1;
      if (line.trim() === "") return;
      try {
        const event = readEvent(line);
        if (event) this.#add(event);
      } catch (error) {
        throw error instanceof TraceError ? new TraceError(problems.line(this.line, error.message)) : error;
      }
    }

    #add(event) {
      const lane = this.lanes.get(event.lane);
      if (event.type === "start") {
        if (lane) throw new TraceError(problems.twoStarts);
        if (this.lanes.size === MOST_LANES) throw new TraceError(problems.tooManyLanes(MOST_LANES));
        if (Math.max(event.prompt.ids.length, event.reference?.ids.length ?? 0) > MOST_TOKENS) throw new TraceError(problems.tooLong(MOST_TOKENS));
        this.lanes.set(event.lane, new Lane(event));
        return;
      }
      if (!lane) throw new TraceError(problems.noStart);
      if (event.type === "compare") {
        this.comparisons.set(event.lane, event);
        return;
      }
      if (lane.end || (event.type !== "end" && (event.type === "prefill") !== (lane.passes.length === 0))) {
        throw new TraceError(problems.order);
      }
      if (event.type === "end") lane.end = event;
      else lane.addPass(event);
    }

    get plain() {
      return this.lanes.get("plain") ?? null;
    }

    // The lane that drafts; a trace of plain decoding alone has none.
    get lookup() {
      if (this.lanes.has("pld")) return this.lanes.get("pld");
      for (const lane of this.lanes.values()) if (lane.name !== "plain") return lane;
      return null;
    }

    // The lane of the second settings.
    get rival() {
      return this.lanes.has("pld") ? this.lanes.get("pld-b") ?? null : null;
    }

    // The lookup lane that the numbers and panels are of: the first, until the second is chosen.
    get followed() {
      return (this.second && this.rival) || this.lookup;
    }

    // The lane that is stepped through: that one, or plain decoding where there is no lookup.
    get current() {
      return this.followed ?? this.plain;
    }

    follow(lane) {
      this.second = lane === this.rival;
    }

    // What the run found, comparing that lane with the plain one.
    get comparison() {
      return this.comparisons.get(this.followed?.name) ?? null;
    }

    // The lane that stands for the run.
    get main() {
      return this.lookup ?? this.plain;
    }

    // Decode seconds of the longest lane that has passes of its own.
    get length() {
      return Math.max(0, ...[...this.lanes.values()].map((lane) => lane.after(lane.passes.length).seconds));
    }

    // The lane whose first pass reads the prompt; the lanes do so one after the other.
    get reading() {
      return [...this.lanes.values()].find((lane) => lane.passes.length === 0 && !lane.end) ?? null;
    }

    get finished() {
      return this.lanes.size > 0 && [...this.lanes.values()].every((lane) => lane.end);
    }
  }

  // A last line may lack its newline; it is complete when it parses.
  function isWhole(line) {
    if (!line.endsWith("}")) return false;
    try {
      JSON.parse(line);
      return true;
    } catch {
      return false;
    }
  }

  Object.assign(lens, { Trace });
})((globalThis.pldLens ??= {}));
