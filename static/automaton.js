// Which strings stand in a text: a suffix automaton, as in pld_core.lookup.automaton.
(function (lens) {
  "use strict";

  // Every substring of the text leads from the root, state 0, to one state (Blumer et al. 1985).
  class SuffixAutomaton {
    constructor() {
      this.length = [0]; // [state]: of its longest substring
      this.end = [-1]; // [state]: where its substrings first ended
      this.link = [-1]; // [state]: that of the longest suffix that ends at more places
      this.next = [new Map()];
      this.last = 0; // the state of the whole text
    }

    // The state of the longest suffix of the text that also ends earlier in it.
    get repeated() {
      return Math.max(0, this.link[this.last]);
    }

    // Append a token, whose position is `end`.
    extend(token, end) {
      const { length, link, next } = this;
      const added = this.#state(length[this.last] + 1, end, new Map());
      let state = this.last;
      this.last = added;
      for (; state >= 0 && !next[state].has(token); state = link[state]) next[state].set(token, added);
      if (state < 0) return void (link[added] = 0);
      const reached = next[state].get(token);
      if (length[reached] === length[state] + 1) return void (link[added] = reached);
      // The shorter substrings of `reached` now end at a place where its longest does not.
      const split = this.#state(length[state] + 1, this.end[reached], new Map(next[reached]));
      link[split] = link[reached];
      link[reached] = link[added] = split;
      for (; state >= 0 && next[state].get(token) === reached; state = link[state]) next[state].set(token, split);
    }

    // From the match of a suffix, `length` tokens that lead to `state`, to the longest match of a
    // suffix with `token` behind it: [state, length].
    step(state, length, token) {
      while (state > 0 && !this.next[state].has(token)) {
        state = this.link[state];
        length = this.length[state];
      }
      const reached = this.next[state].get(token);
      return reached === undefined ? [0, 0] : [reached, length + 1];
    }

    #state(length, end, following) {
      this.link.push(-1);
      this.end.push(end);
      this.next.push(following);
      return this.length.push(length) - 1;
    }
  }

  Object.assign(lens, { SuffixAutomaton });
})((globalThis.pldLens ??= {}));
