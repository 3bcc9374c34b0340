// One line of a stream -> a checked event. Anything may be in a file, so nothing is assumed.
(function (lens) {
  "use strict";

  const { treeOf, pathOf, BRANCHES } = lens;
  const { problems } = lens.words;

  // What one pass may hold and still be drawn: seconds, draft tokens, tokens that were wanted.
  const LONGEST = 1e9;
  const MOST_DRAFTED = 10_000;
  const MOST_WANTED = 100;

  class TraceError extends Error {}

  const isCount = (x) => Number.isSafeInteger(x) && x >= 0;
  const isNumber = (x) => typeof x === "number" && Number.isFinite(x);
  const isText = (x) => typeof x === "string";
  const isObject = (x) => typeof x === "object" && x !== null && !Array.isArray(x);
  const isList = (of) => (x) => Array.isArray(x) && x.every(of);
  const orAbsent = (of) => (x) => x === undefined || x === null || of(x);

  const isPrompt = (x) =>
    isObject(x) && isList(isCount)(x.ids) && isList(isText)(x.pieces) && x.ids.length === x.pieces.length &&
    isCount(x.answer_start) && x.answer_start <= x.ids.length;
  const isMatch = (x) => isObject(x) && isCount(x.start) && isCount(x.n) && x.n > 0 && ["prompt", "output", "reference"].includes(x.region);
  const isDuration = (x) => isNumber(x) && x >= 0 && x < LONGEST;
  const isSeconds = (x) => isObject(x) && [x.lookup, x.forward, x.accept].every(isDuration);
  const atMost = (most, is) => (x) => is(x) && (x ?? []).length <= most;
  const isBranch = (x) => isObject(x) && isCount(x.leaf) && isMatch(x.match);
  const isParent = (x) => x === -1 || isCount(x);
  const isCandidate = (x) => isObject(x) && isText(x.piece) && isNumber(x.p);
  const isReason = (x) => ["eos", "stop", "length", "context_full", "cancelled", "error"].includes(x);

  const kept = {
    lane: isText, kept: isList(isCount), pieces: isList(isText),
    probabilities: orAbsent(isList(isNumber)), margins: orAbsent(isList(isNumber)),
  };
  const shapes = {
    start: {
      lane: isText, model: isText, device: isText, dtype: isText, settings: isObject, prompt: isPrompt,
      eos: orAbsent(isList(isCount)), reference: orAbsent(isPrompt), created: orAbsent(isText), hardware: orAbsent(isText), notices: orAbsent(isList(isText)),
    },
    prefill: { ...kept, seconds: isDuration },
    pass: {
      ...kept, index: isCount, match: orAbsent(isMatch), draft: atMost(MOST_DRAFTED, isList(isCount)), draft_pieces: isList(isText), accepted: isCount,
      bonus: orAbsent(isCount), width: isCount, seconds: isSeconds, alternatives: orAbsent(isCount), gain: orAbsent(isNumber), wanted: atMost(MOST_WANTED, orAbsent(isList(isCandidate))),
      parents: orAbsent(isList(isParent)), branches: orAbsent(isList(isBranch)), path: orAbsent(isList(isCount)),
    },
    compare: {
      lane: isText, against: isText, first_difference: orAbsent(isCount),
      margin: orAbsent(isNumber), swing: orAbsent(isNumber), rounding: orAbsent(isNumber),
    },
    end: { lane: isText, reason: isReason, tokens: isCount, passes: isCount, pieces: orAbsent(isList(isText)), message: orAbsent(isText) },
  };

  // Whether the nodes of a draft make a tree of which the accepted ones are a way down. A chain is
  // none, and has no branches and no path.
  function isDraft(event) {
    const tree = treeOf(event);
    if (!tree) return !event.branches?.length && !event.path?.length;
    const { parents, branches, path } = tree;
    const within = (node) => node < event.draft.length;
    return (
      parents.length === event.draft.length && parents.every((parent, node) => parent < node) &&
      path.length === event.accepted && path.every((node, i) => within(node) && parents[node] === (i ? path[i - 1] : -1)) &&
      branches.length > 0 && branches.length <= BRANCHES && branches.every(({ leaf }) => within(leaf)) &&
      new Set(branches.flatMap(({ leaf }) => pathOf(parents, leaf))).size === parents.length
    );
  }

  function fits(event) {
    if (event.kept.length === 0 || event.kept.length !== event.pieces.length) return false;
    if (event.type === "prefill") return event.kept.length === 1;
    const own = event.bonus === null || event.bonus === undefined ? 0 : 1;
    const path = treeOf(event)?.path;
    return (
      isDraft(event) &&
      event.accepted <= event.draft.length &&
      event.draft.length === event.draft_pieces.length &&
      event.kept.length === event.accepted + own &&
      event.kept.every((id, i) => id === (i < event.accepted ? event.draft[path ? path[i] : i] : event.bonus)) &&
      !(event.match && event.draft.length === 0)
    );
  }

  // The event of one line, null for a type that is not known here; throws TraceError saying, in
  // a clause, what is wrong with it.
  function readEvent(line) {
    let event;
    try {
      event = JSON.parse(line);
    } catch {
      throw new TraceError(problems.notJson);
    }
    if (!isObject(event) || !isText(event.type) || event.v === undefined) throw new TraceError(problems.notEvent);
    if (event.v !== 1) throw new TraceError(problems.version(["number", "string"].includes(typeof event.v) ? String(event.v).slice(0, 20) : "?"));
    if (!Object.hasOwn(shapes, event.type)) return null;
    for (const [name, is] of Object.entries(shapes[event.type])) {
      if (!is(event[name])) throw new TraceError(problems.field(name));
    }
    if (event.kept && !fits(event)) throw new TraceError(problems.counts);
    return event;
  }

  Object.assign(lens, { TraceError, readEvent });
})((globalThis.pldLens ??= {}));
