// Every word a visitor reads in the trace view.
(function (lens) {
  "use strict";

  const integer = new Intl.NumberFormat("en");
  const count = (n) => integer.format(n);
  const plural = (n, one, many) => `${count(n)} ${n === 1 ? one : many ?? one + "s"}`;
  const fixed = (x, digits) => x.toFixed(digits);
  const percent = (x) => `${fixed(100 * x, x > 0 && x < 0.1 ? 1 : 0)} %`;

  function duration(seconds) {
    if (seconds >= 100) return `${fixed(seconds, 0)} s`;
    if (seconds >= 1) return `${fixed(seconds, 2)} s`;
    const ms = 1000 * seconds;
    if (ms >= 10) return `${fixed(ms, 0)} ms`;
    if (ms >= 0.095) return `${fixed(ms, 1)} ms`;
    return `${fixed(1000 * ms, ms >= 0.00095 ? 0 : 1)} µs`;
  }

  function moment(created) {
    const date = new Date(/^[0-9]{4}-[0-9]{2}-[0-9]{2}T/.test(created) ? created : NaN);
    return Number.isNaN(date.getTime()) ? created : `${date.toISOString().slice(0, 16).replace("T", " ")} UTC`;
  }

  const regions = {
    prompt: (n) => `prompt token ${count(n)}`,
    output: (n) => `token ${count(n)} of its own output`,
    reference: (n) => `reference token ${count(n)}`,
  };

  const reasons = {
    eos: ["complete", "finished: the model ended its answer"],
    stop: ["stop string", "finished: a stop string came up"],
    length: ["token limit", "finished: the limit of new tokens is reached"],
    context_full: ["context full", "finished: the context is full"],
    cancelled: ["stopped", "was stopped"],
    error: ["failed", "failed"],
  };

  const verdicts = {
    tie: "a rounding tie",
    bug: "more than rounding explains",
  };

  lens.words = {
    count, fixed, percent, duration, plural,

    fixedTexts: {
      promptTitle: "Prompt",
      lookupTitle: "Lookup",
      plainTitle: "Plain",
      passTitle: "This pass",
      plotTitle: "Tokens against passes",
      lookupKey: "prompt lookup",
      save: "Save trace",
      load: "Load trace",
      first: "First",
      back: "Back",
      play: "Play",
      pause: "Pause",
      forward: "Next",
      last: "Last",
      speed: "Speed",
      legendCopied: "copied, checked, kept",
      legendOwn: "the model’s own",
      legendSource: "copied from here",
      legendKey: "the match",
      hint: "Point at a copied word to see where it came from; click to keep it.",
      empty: "No trace yet. Run a prompt, or load a trace.",
    },
    labels: {
      view: "Trace of a run",
      headline: "Numbers of this run",
      controls: "Replay",
      passRange: "Pass",
      prompt: "Prompt",
      lookup: "Prompt lookup lane",
      plain: "Plain lane",
      loadFile: "Load a trace file",
    },
    begun: "answer begun here",

    headline: {
      tokens: "Tokens",
      passes: "Passes",
      tokensPerPass: "Tokens per pass",
      speedup: "Time speed-up",
      sameText: "Same text",
      plainPasses: (n, counted) => `plain: ${count(n)}${counted ? ", counted" : ""}`,
      soFar: "so far",
      ofTokens: (n) => `of ${count(n)}`,
      plainTokensPerPass: `plain: ${fixed(1, 2)}`,
      times: (x) => `${fixed(x, 2)}×`,
      seconds: (plain, lookup) => `plain ${duration(plain)}, lookup ${duration(lookup)}`,
      perToken: "per token so far",
      slower: "slower than plain",
      none: "–",
      notMeasured: "plain lane not run",
      yes: "yes",
      yesSoFar: "yes",
      no: "no",
      compared: (n) => `${plural(n, "token")} compared`,
      comparedSoFar: (n) => `${plural(n, "token")} compared so far`,
      differsAt: (n, margin, verdict) =>
        [
          `first at token ${count(n)}`,
          margin === null ? null : `margin ${margin > 0 && margin < 0.01 ? margin.toExponential(1) : fixed(margin, 2)}`,
          verdicts[verdict],
        ]
          .filter(Boolean)
          .join(", "),
      differsTitle: "The two lanes chose different tokens there. The margin is the gap between the two best logits: a small one is a near-tie that rounding decides.",
    },
    details: (n, prefill) =>
      [
        `copy rate f ${percent(n.copyRate)}`,
        n.copyLength === null ? null : `L ${fixed(n.copyLength, 2)} tokens per copy pass`,
        n.drafted ? `${count(n.accepted)} of ${count(n.drafted)} draft tokens accepted (${percent(n.accepted / n.drafted)})` : "nothing drafted",
        `${count(n.unmatched)} of ${plural(n.passes, "pass", "passes")} without a match`,
        `prefill ${duration(prefill)}, not in the speed-up`,
      ].filter(Boolean),
    run: ({ model, device, hardware, dtype, created }) => [model, dtype, hardware || device, moment(created)].filter(Boolean).join(" · "),

    paneTokens: (n) => plural(n, "token"),
    lanePasses: (tokens, passes) => `${plural(tokens, "token")}, ${plural(passes, "pass", "passes")}`,
    counted: "counted, not run",
    countedNote: "One token per pass, by counting. Switch the plain lane on to measure it.",
    running: "running",
    waitingLane: "waiting",
    ended: (end) => reasons[end.reason][0],
    endedBecause: (end) => reasons[end.reason][1] + (end.message ? ` (${end.message.replace(/[.]$/, "")})` : ""),

    status: {
      reading: (n) => `Reading ${plural(n, "prompt token")} …`,
      running: "Decoding …",
      ended: (lookup, plain) =>
        [lookup && `Prompt lookup ${lookup}.`, plain && `Plain ${plain}.`].filter(Boolean).join(" "),
      loaded: (name) => `Showing ${name}.`,
    },

    cursor: {
      label: (pass, passes) => `pass ${count(pass)} of ${count(passes)}`,
      none: "no pass yet",
      value: (pass, passes, record) =>
        `pass ${pass} of ${passes}, ` +
        (record.draft.length ? `kept ${record.copied} of ${plural(record.draft.length, "draft token")}` : "no draft") +
        `, ${plural(record.after.tokens, "token")} so far`,
    },

    strip: {
      none: "Nothing yet: the first pass reads the prompt.",
      locked: "kept on screen; click it again to let go",
      prefill: (n, piece) => `Prefill: one pass reads all ${plural(n, "prompt token")} and gives the first token.`,
      unmatched: (n) => `A draft of ${plural(n, "token")}.`,
      noMatch: "The end of the text occurs nowhere earlier: no draft, a plain pass.",
      noDraft: "Plain decoding drafts nothing.",
      matchBefore: (n) => (n === 1 ? "The last token" : `The last ${n} tokens`),
      matchAfter: (n, region, position) => `also ${n === 1 ? "stands" : "stand"} at ${regions[region](position)}`,
      alternatives: (n) => (n > 1 ? `, one of ${count(n)} such places` : ""),
      drafted: (n) => `; what follows there is the draft, ${plural(n, "token")}`,
      period: (n) => `, repeating itself every ${n === 1 ? "token" : `${n} tokens`}`,
      draft: "Draft",
      kept: (a, k) => (a === k ? (k === 1 ? "kept" : `all ${k} kept`) : a === 0 ? "none kept" : `${a} of ${k} kept`),
      acceptedChip: "kept",
      rejectedChip: "rejected",
      bonus: "The model’s own",
      bonusChip: "the model’s own",
      noBonus: "none: the answer ended inside the draft",
      instead: (n) => `instead of draft token ${n}`,
      eos: "end of answer",
      otherwise: "It also weighed",
      width: (n) => `${plural(n, "position")} in one pass`,
      total: (seconds) => duration(seconds),
      split: (s) => `lookup ${duration(s.lookup)} · forward ${duration(s.forward)} · accept ${duration(s.accept)}`,
    },

    plot: {
      passes: "passes",
      tokens: "tokens",
      plain: (counted) => (counted ? "plain, counted" : "plain"),
      summary: (tokens, passes, plain) =>
        `Tokens against passes: prompt lookup gave ${plural(tokens, "token")} in ${plural(passes, "pass", "passes")}; plain decoding needs ${plural(plain, "pass", "passes")}.`,
      missing: "The plot could not be loaded; the numbers above say the same.",
    },

    problems: {
      tooLarge: (limit) => `This file is larger than ${limit} MB, too large for a trace to be shown.`,
      unreadable: "This file could not be read.",
      empty: "This file holds no trace.",
      tooLong: (limit) => `it takes the trace over ${count(limit)} tokens, more than can be drawn`,
      line: (number, what) => `Line ${count(number)} is not part of a trace: ${what}.`,
      stream: (what) => `The run sent something that cannot be drawn: ${what}`,
      notJson: "it is not JSON",
      notEvent: "it is not an event",
      version: (v) => `it has version ${v}, version 1 is read`,
      field: (name) => `its ${name} is missing or of the wrong kind`,
      noStart: "its lane has not started",
      twoStarts: "its lane starts twice",
      order: "its lane has already ended, or its first pass is not the prefill",
      counts: "its tokens, pieces and draft do not fit together",
      match: "its match lies outside the text before it",
    },
  };
})((globalThis.pldLens ??= {}));
