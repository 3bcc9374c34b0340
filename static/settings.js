// What a lane was asked to do, read from its start. What it did not record is the decoder's default.
(function (lens) {
  "use strict";

  const words = lens.words.settings;
  const LOOKUP = { n_max: 3, n_min: 1, k: 31, policy: "nearest", search: "context", periodic: true, max_new_tokens: 256, fixed_width: 0, adaptive: false, branches: 1 };
  const SAMPLING = { temperature: 0, top_k: 0, top_p: 1, min_p: 0, repetition_penalty: 1, presence_penalty: 0, frequency_penalty: 0, no_repeat_ngram: 0, min_new_tokens: 0, seed: 0 };

  function complete(recorded, defaults) {
    const settings = {};
    for (const [name, value] of Object.entries(defaults)) {
      settings[name] = typeof recorded?.[name] === typeof value ? recorded[name] : value;
    }
    return settings;
  }

  // Whether drafts can be cut by these costs, [[width, seconds]].
  const areCosts = (costs) =>
    Array.isArray(costs) && costs.length > 1 &&
    costs.every((pair, i) => Array.isArray(pair) && Number.isSafeInteger(pair[0]) && Number.isFinite(pair[1]) && pair[1] > 0 && (i === 0 || pair[0] > costs[i - 1][0])) &&
    costs[0][0] === 1;

  function settingsOf({ start: { settings } }) {
    return {
      ...complete(settings, LOOKUP),
      pass_seconds: areCosts(settings.pass_seconds) ? settings.pass_seconds : [],
      sampling: complete(settings.sampling, SAMPLING),
    };
  }

  // Whether drafts are cut to the length that is expected to pay.
  const isAdaptive = ({ adaptive, k, fixed_width, pass_seconds }) => adaptive && k > 0 && !fixed_width && pass_seconds.length > 0;

  // How a lane drafts and how its tokens are chosen, in words.
  function lookupWords(lane) {
    const settings = settingsOf(lane);
    return lane.name === "plain" || settings.k === 0 ? [words.plain] : words.lookup(settings, isAdaptive(settings));
  }

  const choiceWords = (lane) => words.choice(settingsOf(lane));

  // Why a pass drafted nothing.
  function undrafted(lane, { event, first }) {
    const { k, max_new_tokens } = settingsOf(lane);
    if (lane.name === "plain" || k === 0) return "plain";
    if (typeof event.gain === "number") return "unpaying";
    const limit = lane.start.settings.max_new_tokens === undefined ? Infinity : max_new_tokens;
    return first + 1 >= limit ? "noRoom" : "unmatched";
  }

  Object.assign(lens, { settingsOf, isAdaptive, areCosts, lookupWords, choiceWords, undrafted });
})((globalThis.pldLens ??= {}));
