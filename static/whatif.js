// What if: any lookup asked of a recorded run, exactly and without the model. The model's
// choices are known, so every draft is kept or cut as it would be. Counts like pld_core.replay.
(function (lens) {
  "use strict";

  const UNSET = { n_max: 3, n_min: 1, k: 10, policy: "nearest", search: "context", periodic: true, max_new_tokens: 256, fixed_width: 0, adaptive: false };
  const { Adaptive, areCosts, lookups } = lens;

  // The lookup settings of a lane, complete; what it did not record is the decoder's default.
  function settingsOf({ start }) {
    const settings = {};
    for (const [name, value] of Object.entries(UNSET)) {
      settings[name] = typeof start.settings[name] === typeof value ? start.settings[name] : value;
    }
    settings.pass_seconds = areCosts(start.settings.pass_seconds) ? start.settings.pass_seconds : [];
    return settings;
  }

  // Whether the lane's own lookup is one that is replayed here.
  const canReplay = ({ start }) => start.settings.policy === undefined || Object.hasOwn(lookups, start.settings.policy);

  // Where a draft is copied from, in all the text, and after how many tokens that ends.
  function sourceOf({ border, promptEnd }, { from, n, region }, first) {
    const begin = from + n;
    return { begin, period: (region === "reference" ? border : promptEnd + first) - begin };
  }

  // The passes after the prefill, had the run used `settings`: {first, match, drafted, accepted,
  // kept}, in tokens; `first` is the output position of the first kept one.
  function replay(grams, settings, contextLimit = null) {
    const { output, text, border, promptEnd } = grams;
    const lookup = new lookups[settings.policy](grams, settings);
    const passes = [];
    const adaptive = settings.adaptive && settings.k > 0 && !settings.fixed_width && settings.pass_seconds.length ? new Adaptive(settings.pass_seconds, settings.n_max) : null;
    for (let first = 1; first < output.length; ) {
      const room = contextLimit === null ? Infinity : contextLimit - (promptEnd - border + first - 1);
      if (room < 1) break;
      adaptive?.reveal(first);
      const longest = Math.min(settings.k, settings.max_new_tokens - first - 1, room - 1);
      let match = longest < 1 ? null : lookup.find(first - 1);
      let drafted = 0;
      let accepted = 0;
      if (match) {
        const { begin, period } = sourceOf(grams, match, first);
        // Behind the end of the context stands the draft itself: aaaa, abab.
        drafted = settings.periodic && match.region !== "reference" ? longest : Math.min(longest, period);
        const most = Math.min(drafted, output.length - first);
        while (accepted < most && text[begin + (accepted % period)] === output[first + accepted]) accepted += 1;
        if (adaptive) {
          drafted = adaptive.length({ first, n: match.n, drafted, agreed: accepted });
          accepted = Math.min(accepted, drafted);
          if (drafted === 0) match = null;
        }
      }
      const kept = Math.min(accepted + 1, output.length - first);
      passes.push({ first, match, drafted, accepted, kept });
      lookup.keep(first, kept);
      first += kept;
    }
    return passes;
  }

  // The draft of a replayed pass, token by token.
  function draftOf(grams, { first, match, drafted }) {
    if (!match) return [];
    const { begin, period } = sourceOf(grams, match, first);
    return Array.from({ length: drafted }, (_, i) => grams.text[begin + (i % period)]);
  }

  // The sums of replayed passes and the prefill.
  function countReplay(passes) {
    const sums = { tokens: 1, passes: 1, copyPasses: 0, copyTokens: 0, drafted: 0, accepted: 0, unmatched: 0 };
    for (const { drafted, accepted, kept } of passes) {
      sums.tokens += kept;
      sums.passes += 1;
      sums.drafted += drafted;
      sums.accepted += accepted;
      sums.unmatched += drafted === 0;
      if (accepted > 0) {
        sums.copyPasses += 1;
        sums.copyTokens += kept;
      }
    }
    return sums;
  }

  Object.assign(lens, { settingsOf, canReplay, replay, draftOf, countReplay });
})((globalThis.pldLens ??= {}));
