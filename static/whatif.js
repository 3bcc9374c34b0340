// What if: any lookup asked of a recorded run, exactly and without the model. The model's
// choices are known, so every draft is kept or cut as it would be. Counts like pld_core.replay.
(function (lens) {
  "use strict";

  const { Adaptive, isAdaptive, lookups, NODES, Growing, only, walk, isChain, keptBranch } = lens;

  // Whether the lane's own lookup is one that is replayed here.
  const canReplay = ({ start }) => start.settings.policy === undefined || Object.hasOwn(lookups, start.settings.policy);

  // Where a draft is copied from, in all the text, and after how many tokens that ends.
  function sourceOf({ border, promptEnd }, { from, n, region }, first) {
    const begin = from + n;
    return { begin, period: (region === "reference" ? border : promptEnd + first) - begin };
  }

  // The passes after the prefill, had the run used `settings`: {first, match, drafted, accepted,
  // kept}, in tokens; `first` is the output position of the first kept one. A pass that drafted a
  // tree has it and the nodes of it that stood: {tree: {tokens, parents, branches}, path}. Of the
  // lane's start it asks where the context and an answer end.
  function replay(grams, settings, start) {
    const { output, border, promptEnd } = grams;
    const contextLimit = Number.isSafeInteger(start.context_limit) ? start.context_limit : null;
    const eos = new Set(start.eos);
    const lookup = new lookups[settings.policy](grams, settings);
    const passes = [];
    const adaptive = isAdaptive(settings) ? new Adaptive(grams, settings.pass_seconds) : null;
    const several = settings.branches > 1 && !settings.fixed_width;
    for (let first = 1; first < output.length; ) {
      const room = contextLimit === null ? Infinity : contextLimit - (promptEnd - border + first - 1);
      if (room < 1) break;
      adaptive?.reveal(first);
      const longest = Math.min(settings.k, settings.max_new_tokens - first - 1, room - 1);
      const found = longest < 1 ? null : lookup.find(first - 1);
      const tree = found && several ? grow(grams, settings, lookup, found, first, longest) : null;
      const pass = tree
        ? treePass(grams, tree, first, Math.min(Math.max(NODES, longest), room - 1), adaptive, eos)
        : chainPass(grams, settings, found, first, longest, adaptive, eos);
      passes.push(pass);
      lookup.keep(first, pass.kept);
      first += pass.kept;
    }
    return passes;
  }

  // How many tokens behind a match can be drafted.
  function lengthOf(grams, settings, match, first, longest) {
    // Behind the end of the context stands the draft itself: aaaa, abab.
    if (settings.periodic && match.region !== "reference") return longest;
    return Math.min(longest, sourceOf(grams, match, first).period);
  }

  function chainPass(grams, settings, match, first, longest, adaptive, eos) {
    const { output, text } = grams;
    let drafted = 0;
    let accepted = 0;
    if (match) {
      const { begin, period } = sourceOf(grams, match, first);
      drafted = lengthOf(grams, settings, match, first, longest);
      const most = Math.min(drafted, output.length - first);
      while (accepted < most && text[begin + (accepted % period)] === output[first + accepted]) accepted += 1;
      if (adaptive) {
        drafted = adaptive.length({ first, match, drafted, agreed: accepted });
        if (drafted === 0) match = null;
      }
      for (let i = 0; i < drafted; i++) if (eos.has(text[begin + (i % period)])) drafted = i + 1;
      accepted = Math.min(accepted, drafted);
    }
    return { first, match, drafted, accepted, kept: Math.min(accepted + 1, output.length - first) };
  }

  // What a policy found and what else followed the same tokens; null where that is one branch.
  function grow(grams, settings, lookup, found, first, longest) {
    const growing = new Growing();
    const add = (match) => {
      const drafted = lengthOf(grams, settings, match, first, longest);
      growing.add(draftOf(grams, { first, match, drafted }), match);
      return growing.branches.length < settings.branches && growing.tokens.length < NODES;
    };
    let more = add(found);
    const ends = new Set();
    for (let n = settings.n_max; more && n >= settings.n_min; n--) {
      for (const end of grams.latest(n)[lookup.where][first - 1] ?? []) {
        if (ends.has(end)) continue;
        ends.add(end);
        if (!(more = add(lookup.match(end - n + 1, n, found.alternatives)))) break;
      }
    }
    return growing.branches.length > 1 ? growing : null;
  }

  function treePass({ output }, grown, first, most, adaptive, eos) {
    const following = output.slice(first, first + NODES);
    let tree = grown;
    if (adaptive) {
      const nodes = adaptive.nodes({ first, ...grown, path: walk(grown, following) });
      tree = only(tree, (node) => nodes.has(node));
    }
    if (tree) tree = beforeEnds(tree, most, eos);
    if (!tree) return { first, match: null, drafted: 0, accepted: 0, kept: 1 };
    const { tokens, parents, branches } = tree;
    const path = walk(tree, following);
    const pass = { first, drafted: tokens.length, accepted: path.length, kept: Math.min(path.length + 1, output.length - first) };
    if (isChain(parents)) return { ...pass, match: branches.at(-1).match };
    return { ...pass, match: keptBranch(tree, path).match, tree, path };
  }

  // The first nodes of the tree, of which none stands behind an end-of-sequence token.
  function beforeEnds(tree, most, eos) {
    const { tokens, parents } = tree;
    return only(tree, (node) => node < most && !(parents[node] >= 0 && eos.has(tokens[parents[node]])));
  }

  // The draft of a replayed pass, token by token; the nodes of a tree.
  function draftOf(grams, { first, match, drafted, tree }) {
    if (tree) return tree.tokens;
    if (!match) return [];
    const { begin, period } = sourceOf(grams, match, first);
    return Array.from({ length: drafted }, (_, i) => grams.text[begin + (i % period)]);
  }

  // The sums of replayed passes and the prefill.
  function countReplay(passes) {
    const sums = { tokens: 1, passes: 1, copyPasses: 0, copyTokens: 0, drafted: 0, accepted: 0, undrafted: 0 };
    for (const { drafted, accepted, kept } of passes) {
      sums.tokens += kept;
      sums.passes += 1;
      sums.drafted += drafted;
      sums.accepted += accepted;
      sums.undrafted += drafted === 0;
      if (accepted > 0) {
        sums.copyPasses += 1;
        sums.copyTokens += kept;
      }
    }
    return sums;
  }

  Object.assign(lens, { canReplay, replay, draftOf, countReplay });
})((globalThis.pldLens ??= {}));
