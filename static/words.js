// Every word a visitor reads in the trace view.
(function (lens) {
  "use strict";

  const integer = new Intl.NumberFormat("en");
  const count = (n) => integer.format(n);
  const plural = (n, one, many) => `${count(n)} ${n === 1 ? one : many ?? one + "s"}`;
  const fixed = (x, digits) => x.toFixed(digits);
  const percent = (x) => `${fixed(100 * x, x > 0 && x < 0.1 ? 1 : 0)} %`;

  // Which of several equal matches is copied.
  const policies = {
    recent: "most recent",
    oldest: "oldest",
    nearest: "nearest to the last copy",
    vote: "most common continuation",
    longest: "longest, also beyond n",
  };

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

  const endedBecause = (end) => reasons[end.reason][1] + (end.message ? ` (${end.message.replace(/[.]$/, "")})` : "");

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
      lookupKey: "prompt lookup",
      lookupName: "Prompt lookup",
      save: "Save trace",
      load: "Load trace",
      first: "First",
      back: "Back",
      play: "Play",
      pause: "Pause",
      forward: "Next",
      last: "Last",
      legendCopied: "copied, checked, kept",
      legendOwn: "the model’s own",
      legendSource: "copied from here",
      legendBeyond: "drafted in vain",
      legendKey: "the match",
      legendThis: "this pass",
      legendAhead: "still to come",
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
    keys: "Here and in the lanes: ← and → step, Home and End go to the first and the last pass, Space plays and pauses.",

    headline: {
      tokens: "Tokens",
      passes: "Passes",
      tokensPerPass: "Tokens per pass",
      speedup: "Time speed-up",
      sameText: "Same text",
      plainPasses: (n, counted) => `plain needs ${count(n)} for as many${counted ? ", counted" : ""}`,
      soFar: "so far",
      ofTokens: (n) => `of ${count(n)}`,
      plainTokensPerPass: `plain: ${fixed(1, 2)}`,
      times: (x) => `${fixed(x, 2)}×`,
      seconds: (plain, lookup) => `plain ${duration(plain)}, lookup ${duration(lookup)}`,
      strict: (width) => `strict, both lanes ${width} wide`,
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
        n.passes > 1 ? `${count(n.undrafted)} of ${plural(n.passes - 1, "pass", "passes")} after the prefill without a draft` : null,
        `prefill ${duration(prefill)}, not in the speed-up`,
      ].filter(Boolean),
    settings: {
      plain: "plain decoding",
      lookup: (s, adaptive) =>
        [
          s.n_max === s.n_min ? `n ${count(s.n_max)}` : `n ${count(s.n_max)} to ${count(s.n_min)}`,
          `k ${count(s.k)}${adaptive ? " as far as it pays" : ""}`,
          s.branches > 1 ? plural(s.branches, "branch", "branches") : null,
          Object.hasOwn(policies, s.policy) ? policies[s.policy] : s.policy.slice(0, 40),
          s.search === "prompt" ? "from the prompt only" : null,
        ].filter(Boolean),
      choice: ({ fixed_width, sampling: s }) =>
        [
          fixed_width ? `strict: ${plural(fixed_width, "position")} in every pass` : null,
          s.temperature ? `temperature ${s.temperature}` : "greedy",
          s.temperature && s.top_k ? `top k ${count(s.top_k)}` : null,
          s.temperature && s.top_p !== 1 ? `top p ${s.top_p}` : null,
          s.temperature && s.min_p ? `min p ${s.min_p}` : null,
          s.temperature ? `seed ${s.seed}` : null,
          s.repetition_penalty !== 1 ? `repetition penalty ${s.repetition_penalty}` : null,
          s.presence_penalty ? `presence penalty ${s.presence_penalty}` : null,
          s.frequency_penalty ? `frequency penalty ${s.frequency_penalty}` : null,
          s.no_repeat_ngram ? `no ${count(s.no_repeat_ngram)}-gram twice` : null,
          s.min_new_tokens ? `at least ${plural(s.min_new_tokens, "token")}` : null,
        ].filter(Boolean),
    },
    run: ({ model, device, hardware, dtype, created }) => [model, dtype, hardware || device, moment(created)].filter(Boolean).join(" · "),

    paneTokens: (n) => plural(n, "token"),
    lanePasses: (tokens, passes) => `${plural(tokens, "token")}, ${plural(passes, "pass", "passes")}`,
    counted: "counted, not run",
    countedNote: "One token per pass, by counting. Switch the plain lane on to measure it.",
    state: (lane, reading) => (lane.end ? reasons[lane.end.reason][0] : lane.passes.length ? "running" : lane === reading ? "reading the prompt" : "waiting"),

    status: {
      reading: (n) => `Reading ${plural(n, "prompt token")} …`,
      nothing: "Nothing was copied, so lookup saved no pass: it pays where an answer repeats its prompt or itself.",
      running: "Decoding …",
      ended: (lanes) => lanes.map(([name, { end }]) => `${name} ${endedBecause(end)}.`).join(" "),
      loaded: (name) => `Showing ${name}.`,
    },

    speed: {
      label: (calm) => (calm ? "Speed, at most" : "Speed"),
      // Of the run's own, from the slowest on.
      offered: [[0.1, "1/10"], [0.25, "1/4"], [0.5, "1/2"], [1, "as it ran"], [4, "4 times"]],
    },

    cursor: {
      label: (pass, passes) => `pass ${count(pass)} of ${count(passes)}`,
      none: "no pass yet",
      clock: (seconds) => `at ${fixed(seconds, 2)} s`,
      value: (pass, passes, record) =>
        `pass ${pass} of ${passes}, ` +
        (record.drafted ? `kept ${record.copied} of ${plural(record.drafted, "draft token")}` : "no draft") +
        `, ${plural(record.after.tokens, "token")} so far`,
    },

    strip: {
      none: "Nothing yet: the first pass reads the prompt.",
      noPass: "The run ended before its first pass.",
      locked: "kept on screen; click it again, or press Escape, to let go",
      prefill: (n, piece) => `Prefill: one pass reads all ${plural(n, "prompt token")} and gives the first token.`,
      unmatched: (n) => `A draft of ${plural(n, "token")}.`,
      undrafted: {
        plain: "Plain decoding drafts nothing.",
        unmatched: "The end of the text occurs nowhere earlier: no draft, a plain pass.",
        unpaying: "There was a match, but no draft was expected to pay: a plain pass.",
        noRoom: "This is the last token that the limit leaves room for: no draft, a plain pass.",
      },
      matchBefore: (n) => (n === 1 ? "The last token" : `The last ${n} tokens`),
      matchAfter: (n, region, position) => `also ${n === 1 ? "stands" : "stand"} at ${regions[region](position)}`,
      alternatives: (n) => (n > 1 ? `, one of ${count(n)} such places` : ""),
      drafted: (n) => `; what follows there is the draft, ${plural(n, "token")}`,
      period: (n) => `, repeating itself every ${n === 1 ? "token" : `${n} tokens`}`,
      beside: (n) => `. Beside it ${n === 1 ? "another continuation was" : `${n} other continuations were`} checked`,
      draft: "Draft",
      branch: "Or",
      branchFrom: (n, region, position) => `n ${n} at ${regions[region](position)}`,
      parts: (n) => `${n} shared, then`,
      kept: (a, k) => (a === k ? (k === 1 ? "kept" : `all ${k} kept`) : a === 0 ? "none kept" : `${a} of ${k} kept`),
      acceptedChip: "kept",
      rejectedChip: "rejected",
      bonus: "The model’s own",
      bonusChip: "the model’s own",
      noBonus: "none: the answer ended inside the draft",
      instead: (n) => `instead of draft token ${n}`,
      eos: "end of answer",
      otherwise: "It also weighed",
      width: (n, why) => `${plural(n, "position")} in one pass${why && `, ${why}`}`,
      asPays: (gain) => `as many as pay: ${fixed(gain, 2)}× a plain pass’s tokens per second expected`,
      asAllowed: "as many as k allows",
      asBranches: (n) => `${plural(n, "continuation", "continuations")} merged where they begin alike`,
      asStrict: "as every pass in strict mode",
      asThere: "as many as there was text or room for",
      total: (seconds) => duration(seconds),
      split: (s) => `lookup ${duration(s.lookup)} · forward ${duration(s.forward)} · accept ${duration(s.accept)}`,
    },

    plot: {
      title: "Tokens against",
      basis: "Tokens against, and what the lanes are compared by",
      bases: { passes: "passes", seconds: "seconds" },
      passes: "passes",
      seconds: "decode seconds",
      tokens: "tokens",
      fromPrefill: "Both clocks start when the prompt has been read.",
      noPlainSeconds: "The plain lane was not run, so it has no seconds.",
      inSeconds: (lookup, plain) =>
        `Tokens against decode seconds: ${[lookup && `prompt lookup gave ${plural(lookup[0], "token")} in ${duration(lookup[1])}`, plain && `plain decoding gave ${plural(plain[0], "token")} in ${duration(plain[1])}`].filter(Boolean).join("; ")}.`,
      plain: (counted) => (counted ? "plain, counted" : "plain"),
      summary: (tokens, passes, plain) =>
        `Tokens against passes: prompt lookup gave ${plural(tokens, "token")} in ${plural(passes, "pass", "passes")}; plain decoding needs ${plural(plain, "pass", "passes")}.`,
      missing: "The plot could not be loaded; the numbers above say the same.",
    },

    explore: {
      tabs: "Look closer",
      table: "The numbers as a table",
      noRun: "No run yet.",
      tooEarly: "There is no pass after the prefill.",
      noLookup: "This run is plain decoding alone; there is no lookup to look into.",
      names: {
        whatIf: "What if",
        equation: "The equation",
        positions: "Extra positions",
        drafts: "Drafts",
        gallery: "Recorded runs",
        learn: "How it works",
      },

      equation: {
        title: "Tokens per pass over f and L",
        found: (f, L, ratio) => `f ${percent(f)} and L ${fixed(L, 2)} give ${fixed(ratio, 2)} tokens per pass`,
        figures: { pass: "Pass ratio", predicted: "Predicted time ratio", measured: "Measured time ratio" },
        counted: "plain passes over lookup passes",
        fromCosts: ({ copy, other }) => `from f, L, r_c ${fixed(copy, 2)} and r_m ${fixed(other, 2)}`,
        needsPlain: "needs the plain lane",
        decodeSeconds: "decode seconds, prefill left out",
        noReason: "Times are compared when the plain lane has run too.",
        reason: (pass, predicted, measured, { copy, other }, copyPasses) => {
          const costs = copyPasses
            ? `A copy pass (r_c) took ${fixed(copy, 2)} times as long as a plain pass here, any other pass (r_m) ${fixed(other, 2)} times`
            : `A pass took ${fixed(other, 2)} times as long as a plain pass here`;
          const effect =
            Math.abs(pass / predicted - 1) < 0.03
              ? "so passes and time go together."
              : pass > predicted
                ? `so ${fixed(pass, 2)} times fewer passes ${predicted < 1 ? "still take more time" : `make it ${fixed(predicted, 2)} times as fast`}.`
                : `so the time shrinks even more than the passes.`;
          const rest = Math.abs(measured / predicted - 1) < 0.01 ? "" : " The equation counts the prefill as a pass of each lane and the measurement leaves it out: hence the rest of the difference.";
          return `${costs}, ${effect}${rest}`;
        },
        sums: ({ tokens, f, L }, passes) =>
          `f·T/L + (1 − f)·T = ${fixed((f * tokens) / L, 1)} copy passes + ${fixed((1 - f) * tokens, 1)} others = ${plural(passes, "pass", "passes")} for ${plural(tokens, "token")}.`,
        rate: (rate, f, n) =>
          `Text copy rate ${percent(rate)}: so much of the answer stands in spans of ${n + 1} or more tokens that came before. ` +
          (rate < 0.15
            ? "There was little to copy in this text."
            : f < rate - 0.1
              ? `The lookup caught less than there was (f ${percent(f)}): other settings may find more.`
              : `The lookup caught most of it (f ${percent(f)}).`),
        whatIf: "And with another f and L?",
        f: "f, share of tokens from copy passes",
        L: "L, tokens kept per copy pass",
        tokensEach: (L) => `${fixed(L, 1)} tokens`,
        worked: ({ tokens, f, L }) => `Worked example: T ${count(tokens)}, f ${f}, L ${L}`,
        back: "Back to this run",
        answer: (tokens, f, L, passes, ratio, time) =>
          `${plural(tokens, "token")} with f ${percent(f)} and L ${fixed(L, 1)} take ${plural(Math.round(passes), "pass", "passes")}: ${fixed(ratio, 2)} tokens per pass` +
          (time ? `, and ${fixed(time, 2)}× in time at this run’s costs.` : "."),
        speed: (s) => `${s}×`,
        thisRun: "this run",
        xTitle: "f, share of tokens from copy passes",
        yTitle: "L, tokens per copy pass",
        summary: (f, L, ratio) => `Curves of equal pass ratio over f and L. This run lies at f ${percent(f)} and L ${fixed(L, 2)}, a pass ratio of ${fixed(ratio, 2)}.`,
        emptySummary: "Curves of equal pass ratio over f and L. No run is marked.",
        tableCorner: "Pass ratio",
        tableCaption: "The L that a pass ratio needs, for four values of f",
      },

      positions: {
        keys: {
          copied: "copy pass",
          other: "other pass",
          plain: "plain pass",
          median: "median of a width",
          one: "one position",
          each: "as many plain passes as positions",
          alone: "measured alone",
        },
        measure: "Measure again",
        alone: (pairs, where) =>
          `Measured now, apart from any run, on ${where}: ${pairs.map(([width, seconds]) => `${plural(width, "position")} ${duration(seconds)}`).join(", ")}.`,
        found: (extra, ratio) => {
          const positions = plural(extra, "extra position");
          if (ratio < 0.97) return `A pass with ${positions} took less time than a plain pass here (${fixed(ratio, 2)} times)`;
          if (ratio < 1.03) return `A pass with ${positions} took no longer than a plain pass here`;
          if (ratio < 1.25) return `A pass with ${positions} took ${percent(ratio - 1)} longer than a plain pass here`;
          return `A pass with ${positions} took ${fixed(ratio, 1)} times as long as a plain pass here`;
        },
        foundNote: (wide, seconds, narrow, one, fromPlain, share) =>
          `The median of ${plural(wide, "such pass", "such passes")} is ${duration(seconds)}, that of ${plural(narrow, fromPlain ? "plain pass" : "pass without a draft", fromPlain ? "plain passes" : "passes without a draft")} ${duration(one)}. ` +
          `It took ${percent(share)} of what a plain pass for each position would take.`,
        noPlain: (extra, seconds) => `A pass with ${plural(extra, "extra position")} took ${duration(seconds)}`,
        noPlainNote: "No pass over one position was run, so there is nothing to compare it with. Run the plain lane too.",
        nothingDrafted: "This run checked no draft, so extra positions were not measured",
        fixed: (width) => `Every pass ran ${plural(width, "position")} (strict mode)`,
        fixedNote: "In strict mode the width does not depend on the draft, so this run cannot tell what extra positions cost.",
        xTitle: "positions in the pass (1 + draft)",
        yTitle: "milliseconds",
        hint: "Point at a mark to read its pass; click to go there.",
        reading: (pass, { copied, event }, seconds) =>
          `Pass ${count(pass)}: ${plural(event.width, "position")}, ${duration(seconds)}, ${event.draft.length ? `kept ${copied} of ${plural(event.draft.length, "draft token")}` : "no draft"}.`,
        summary: (widths, one) =>
          `Pass time against positions. ${widths.map(({ width, passes, seconds }) => `${plural(width, "position")}: median ${duration(seconds)} over ${plural(passes, "pass", "passes")}`).join("; ")}.` +
          (one ? ` One position alone: ${duration(one)}.` : ""),
        tableHead: ["Positions", "Passes", "Median time", "Over one position"],
        tableCaption: "Time of a pass by its number of positions",
        ratio: (x) => `${fixed(x, 2)}×`,
      },

      drafts: {
        lead: (none, passes, { plain, unmatched, unpaying, noRoom }) => {
          if (none === 0) return `Each of the ${plural(passes, "pass", "passes")} after the prefill found a match and drafted.`;
          if (unmatched && unmatched + noRoom === passes) return "No pass of this run found a match: lookup had nothing to copy from.";
          const reasons = [
            plain && "plain decoding drafts nothing",
            unmatched && `${count(unmatched)} found no match`,
            unpaying && `for ${count(unpaying)} none was expected to pay`,
            noRoom && `${count(noRoom)} had no room for one`,
          ].filter(Boolean);
          return `${percent(none / passes)} of the ${plural(passes, "pass", "passes")} after the prefill had no draft: ${reasons.join(", ")}.`;
        },
        outcome: (name, n, share) => `${{ none: "no draft", rejected: "draft, nothing kept", part: "part of the draft kept", all: "whole draft kept" }[name]}: ${count(n)} (${percent(share)})`,
        acceptance: {
          title: "Acceptance by draft position",
          none: "Nothing was drafted.",
          note: (rows) => {
            const half = rows.findLast(({ kept, drafted }) => kept / drafted >= 0.5);
            return half ? `Position ${half.position} is the last that is kept in at least half of the drafts.` : "Not even the first position is kept in half of the drafts.";
          },
          xTitle: "position in the draft",
          yTitle: "kept, of drafts that long",
          summary: (rows) => `Share of drafts whose token stood, by position: ${rows.map((r) => `${r.position}: ${percent(r.kept / r.drafted)}`).join(", ")}.`,
          head: ["Position", "Drafted", "Tested", "Kept", "Kept of drafted", "Kept of tested"],
        },
        kept: {
          title: "Tokens kept per pass",
          note: (passes, single, average) => `${plural(single, "pass", "passes")} of ${count(passes)} kept one token alone, as plain decoding does; the mean is ${fixed(average, 2)}.`,
          xTitle: "tokens kept by a pass",
          yTitle: "passes",
          summary: (rows, passes) => `Of ${plural(passes, "pass", "passes")}: ${rows.filter(([, n]) => n).map(([kept, n]) => `${count(n)} kept ${plural(kept, "token")}`).join(", ")}.`,
          head: ["Tokens kept", "Passes", "Share"],
        },
      },

      whatIf: {
        lead: "Other lookup settings on this very text. The model’s choices are recorded, so every draft is kept or cut exactly as it would have been: counted, without the model.",
        otherLookup: "This run used a lookup that cannot be replayed here.",
        n_max: "Longest match, n",
        n_min: "Shortest match",
        k: "Draft length, k",
        branches: "Branches",
        branchesEach: (n) => (n === 1 ? "1, a chain" : `${n}, a tree`),
        policy: "Among equal matches",
        policies,
        search: "Look in",
        searches: { context: "prompt and answer", prompt: "prompt only" },
        cut: "Drafts",
        cuts: { fixed: "as long as k", adaptive: "as long as pays" },
        mapRegion: "Map over n and k",
        tokens: (n) => plural(n, "token"),
        draft: (k) => (k ? plural(k, "token") : "none, plain decoding"),
        useBest: "Best for this text",
        back: "As recorded",
        figures: {
          tokensPerPass: "Tokens per pass",
          passes: "Passes",
          accepted: "Draft kept",
          undrafted: "Without draft",
          seconds: "Predicted time",
          ratio: "Predicted speed-up",
        },
        asRecorded: "as recorded",
        recordedWas: (was) => `recorded: ${was}`,
        ofDrafted: (a, d) => `${count(a)} of ${count(d)}`,
        measuredWas: (seconds) => `measured: ${duration(seconds)}`,
        overPlain: "over plain as measured",
        unknownWidth: "no pass times to go by",
        needsPlain: "needs the plain lane",
        shorterPlain: "the plain lane ended earlier",
        keys: { asked: "these settings", run: "as recorded", plain: "plain" },
        exact: (n) => `With the run’s own settings the replay gives its ${plural(n, "decoding pass", "decoding passes")} again, each one equal.`,
        inexact: "With the run’s own settings the replay gives other passes than were recorded: this run drafted in a way that is not replayed here.",
        changed: (now, then) =>
          `Changed: ${[
            now.n_max !== then.n_max && `n ${then.n_max} → ${now.n_max}`,
            now.n_min !== then.n_min && `shortest match ${then.n_min} → ${now.n_min}`,
            now.k !== then.k && `k ${then.k} → ${now.k}`,
            now.branches !== then.branches && `branches ${then.branches} → ${now.branches}`,
            now.policy !== then.policy && `among equal matches the ${policies[now.policy]}`,
            now.adaptive !== then.adaptive && (now.adaptive ? "drafts as long as is expected to pay, by the time passes take here" : "drafts as long as k"),
            now.search !== then.search && (now.search === "prompt" ? "looking in the prompt only" : "looking in prompt and answer"),
          ]
            .filter(Boolean)
            .join(", ")}. The text stays the same.`,
        summary: (passes, recorded, tokens) => `Tokens against passes: these settings take ${plural(passes, "pass", "passes")} for ${plural(tokens, "token")}, the recorded ones took ${count(recorded)}.`,
        measure: "What the map shows",
        measures: { tokensPerPass: "tokens per pass", seconds: "predicted time" },
        corner: "n \\ k",
        mapCaption: (timed) => `${timed ? "Predicted decode time" : "Tokens per pass"} for each longest match n and draft length k; a click takes the setting over.`,
        bestIs: (timed, { settings, tokensPerPass, seconds }) =>
          `Best for this text: n ${settings.n_max}, k ${settings.k} with ${timed ? duration(seconds) : `${fixed(tokensPerPass, 2)} tokens per pass`}`,
        noSeconds: "Times cannot be predicted from this run",
        bestCell: "best",
        chosenCell: "chosen",
        mapHow: "Counted exactly for every cell. The best has a frame, and of equals it is the one with the shorter draft. The chosen setting is underlined; a click takes a cell over.",
        predictedHow: (widths, strict) =>
          strict
            ? `In strict mode every pass runs k + 1 positions. This run timed passes of ${widths.map(count).join(", ")} positions alone, so no other k can be timed by it.`
            : widths.length
              ? `A prediction: each pass is given the mean time of this run’s passes of its width (measured: ${widths.map(count).join(", ")} positions); other widths lie on the straight line through the nearest two. The lookup’s own time is part of it, the growing context is not.`
              : "This run has no pass times.",
      },

      gallery: {
        lead: "Real runs, recorded by one command of this repository, from little to copy to nearly all. Those that lost time are among them.",
        caption: "Recorded runs by copy rate",
        head: ["Run", "Copy rate f", "Tokens per pass", "Time ratio", "Same text"],
        made: ({ model, dtype, hardware, created }) => [model, dtype, hardware, moment(created)].filter(Boolean).join(" · "),
      },

      learn: {
        tour: "Show me, pass by pass",
        lead: "Four short steps in the view above, each on one real pass of this run: match, draft, check in one pass, keep plus one.",
        limitsTitle: "When it does not help",
        limits: [
          ["New text.", "Where the answer repeats nothing, no match is found and every pass is a plain one; wrong drafts only make passes wider."],
          ["Wide passes that cost.", "A draft pays when checking it costs less than the passes it saves. On a slow processor, with many requests in one batch or on a long context, extra positions are not free: see Extra positions."],
          ["Rejected drafts.", "What is rejected was computed in vain. A shorter draft or a longer match wastes less: see What if."],
          ["High temperatures.", "The more freely a token is chosen, the less often it is the one that was copied."],
          ["The first token.", "Prefill reads the prompt all the same, so the time to the first token does not change."],
          ["Same text, within rounding.", "Every kept token is the model’s own choice. Many positions in one pass can still round differently from one; where two tokens are all but equal, the lanes may then part, and the page says so."],
        ],
        glossaryTitle: "Terms",
        glossary: [
          ["Pass", "One forward pass of the model. Plain decoding gets one token from each; prefill, which reads the prompt, is pass 1."],
          ["n-gram, match", "The last n tokens of the text, and an earlier place where the same n stand. The longest is tried first."],
          ["Draft", "The up to k tokens that follow the match, copied as a guess."],
          ["Check", "One pass over the newest token and the whole draft gives the model’s choice at each of these positions."],
          ["Accepted", "The leading draft tokens that equal the model’s choices. The others are rejected and leave no trace in the text."],
          ["The model’s own token", "What the model chose behind the last accepted token. So each pass keeps at least one."],
          ["Width", "Positions in one pass: 1 plus the length of the draft."],
          ["Copy pass", "A pass that kept at least one draft token."],
          ["f, copy rate", "Share of all tokens that copy passes gave."],
          ["L", "Tokens that a copy pass keeps on average, its own included."],
          ["Text copy rate", "Share of the answer in spans of n + 1 or more tokens that stood before: what there was to copy, whatever the lookup found."],
          ["Tokens per pass", "T over all passes, 1 / (f/L + 1 − f): the speed-up if every pass took the same time."],
          ["r_c, r_m", "Mean time of a copy pass, and of any other, over a plain pass."],
          ["Time speed-up", "Plain decode seconds over lookup decode seconds, same engine, prefill left out of both."],
        ],
      },
    },

    heat: {
      toggle: "Copy heat",
      note: (copied, tokens, most, own, other) =>
        `${count(copied)} of ${plural(tokens, "prompt token")} copied so far` +
        (most > 1 ? `, some ${count(most)} times` : "") +
        (own ? `; ${plural(own, "token")} came from the answer itself` : "") +
        (other ? `; ${plural(other, "token")} from elsewhere` : "") +
        ".",
    },

    tour: {
      title: (step) => `Step ${step} of 4`,
      leave: "Leave the tour",
      advance: "Do one pass",
      next: "Go on",
      done: "Done",
      steps: [
        { name: "Match", text: "The lookup takes the last tokens of the text and searches for the same tokens further up. Do one pass and watch the prompt: the match is underlined." },
        { name: "Draft", text: "What followed there may well follow here. Those tokens are copied as a draft: a guess that cost no model time. Do one pass and watch the draft below the lanes." },
        { name: "Check in one pass", text: "The model reads the newest token and the whole draft at once. One pass gives its choice at every position, as many positions as the draft has tokens, plus one." },
        { name: "Keep, plus one", text: "Draft tokens stand as long as they equal the model’s choices. Behind the last of them stands the model’s own token, so a pass never keeps less than plain decoding." },
      ],
      saw: [
        ({ event }) => (event.match ? `This pass matched ${plural(event.match.n, "token")}, ${event.match.region === "prompt" ? "standing in the prompt" : event.match.region === "output" ? "standing in its own output" : "standing in the reference text"}.` : "This pass found no match: a plain pass."),
        ({ draft }) => (draft.length ? `This pass drafted ${plural(draft.length, "token")}.` : "This pass found nothing to draft."),
        ({ event }) => `This pass ran ${plural(event.width, "position")} in ${duration(event.seconds.lookup + event.seconds.forward + event.seconds.accept)}.`,
        ({ copied, draft, kept, event }) =>
          `This pass kept ${copied} of ${plural(draft.length, "draft token")}${event.bonus === null ? "" : " and the model’s own"}: ${plural(kept, "token")} from one pass.`,
      ],
    },

    exports: {
      title: "Export",
      csv: "Passes as CSV (positions from 0)",
      svg: "Figure as SVG",
      png: "Figure as PNG",
      markdown: "Copy numbers as Markdown",
      page: "Page to keep (HTML)",
      figureTitle: (model, s) => `Prompt lookup decoding on ${model}, n ${s.n_max ?? "?"}, k ${s.k ?? "?"}`,
      saved: (name) => `Saved ${name}.`,
      copied: "The numbers are copied.",
      unreachable: "The page to keep could not be made: its parts did not come from the server. The trace can still be saved.",
      settings: "Settings",
      copyRate: "Copy rate f",
      copyLength: "L, tokens per copy pass",
      accepted: "Accepted / drafted",
      prefill: "Prefill",
      decode: "Decode time",
      same: "Same text as plain",
    },
    connection: {
      lane: "connection lost",
      lost: "The connection to the server is lost. What arrived stays here; run the prompt again when the server is back. A Space that fell asleep wakes when its page is reloaded.",
    },
    kept: {
      title: "PLD Lens: a recorded run",
      lead: "Prompt lookup decoding copies the next tokens from text that is already there and checks them all in one forward pass. This page holds one run and needs no network.",
    },

    viewing: {
      kind: "Show the text as",
      kinds: { text: "Text", tokens: "Tokens" },
      ghosts: "Rejected drafts in place",
      token: (n, id, piece, p, margin) =>
        [`token ${count(n)}`, `id ${id}`, `“${piece}”`, typeof p === "number" ? `probability ${percent(p)}` : null, typeof margin === "number" ? `margin ${fixed(margin, 2)}` : null]
          .filter(Boolean)
          .join(" · "),
    },

    reference: {
      title: "Reference text",
      unread: "copied from, not read by the model",
    },

    versus: {
      title: "Two settings on one prompt",
      a: "Lookup A",
      b: "Lookup B",
      follow: "Lane to step through",
      lanes: { a: "A", b: "B" },
      // What tells a lookup lane from the other one, "" where there is no other.
      name: ({ rival }, lane) => (rival ? lens.words.versus[lane === rival ? "b" : "a"] : ""),
      // Of which of two lookup lanes the numbers and panels are.
      whose: (trace) => (trace.rival ? `Numbers of ${lens.words.versus.name(trace, trace.followed)}` : ""),
      columns: ["", "tokens", "passes", "tokens per pass", "decode time", "time speed-up", "same text as A", "settings"],
      differs: (n) => `no, from token ${count(n)} on`,
    },

    problems: {
      tooLarge: (limit) => `This file is larger than ${limit} MB, too large for a trace to be shown.`,
      unreadable: "This file could not be read.",
      empty: "This file holds no trace.",
      tooLong: (limit) => `it takes the trace over ${count(limit)} tokens, more than can be drawn`,
      tooManyLanes: (limit) => `it is more than ${limit} lanes, more than can be drawn`,
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
