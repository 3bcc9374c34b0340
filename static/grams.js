// Every n-gram of a run's text, by class: equal n-grams share one. What a lookup finds at the
// end of the text so far, for any settings, is then one step in an array.
(function (lens) {
  "use strict";

  const { SuffixAutomaton } = lens;
  const BORDER = -1; // equals no token
  const LATEST = 8;

  class Grams {
    // prompt, output, reference: token ids. They stand in one text, the reference first; no match
    // reaches over the border between it and the prompt.
    constructor(prompt, output, reference = []) {
      this.output = output;
      this.text = [...reference, ...prompt, ...output];
      this.border = reference.length;
      this.promptEnd = reference.length + prompt.length;
      this.levels = [];
      this.places = [];
      this.votes = [];
      this.recent = [];
      this.longest = {};
    }

    static of({ start, ids }) {
      const reference = start.reference?.ids;
      return new Grams(start.prompt.ids, ids, Array.isArray(reference) ? reference : []);
    }

    // [end]: the class of the n-gram that ends there, -1 where there is none.
    classes(n) {
      while (this.levels.length < n) this.levels.push(this.#classify());
      return this.levels[n - 1].classes;
    }

    // The n-grams that end at the output's tokens, each with its earlier places, in all the text
    // and in what stands before the output.
    level(n) {
      return (this.places[n] ??= this.#count(n, (size) => new Places(size), (length) => new Found(length)));
    }

    // For output token j: where the n-gram that ends with it ended most recently before the token
    // that follows it most often; of two tokens as frequent the more recent wins.
    mostFollowed(n) {
      return (this.votes[n] ??= this.#count(n, (size) => new Votes(size, this.text), (length) => new Int32Array(length)));
    }

    // For output token j: where the n-gram that ends with it ended before, the latest first and
    // LATEST of them.
    latest(n) {
      return (this.recent[n] ??= this.#count(n, (size) => new Latest(size), (length) => new Array(length)));
    }

    // For output token j: how long the longest match that ends with it is, and where it first
    // ended; in the prompt only or in all the text.
    longestMatches(promptOnly) {
      return (this.longest[promptOnly] ??= this.#longest(promptOnly));
    }

    // An n-gram is an (n-1)-gram and the token after it.
    #classify() {
      const n = this.levels.length + 1;
      const below = this.levels[n - 2]?.classes;
      const keys = new Map();
      const classes = new Int32Array(this.text.length).fill(-1);
      this.text.forEach((token, end) => {
        const shorter = n === 1 ? 0 : end === 0 || end === this.border ? -1 : below[end - 1];
        if (shorter < 0) return;
        const key = shorter * 2 ** 32 + token;
        if (!keys.has(key)) keys.set(key, keys.size);
        classes[end] = keys.get(key);
      });
      return { classes, size: keys.size };
    }

    // What ends a text has nothing behind it to be copied, so in prompt and reference the last
    // n-gram is no place.
    #count(n, places, found) {
      const { text, border, promptEnd, output } = this;
      const classes = this.classes(n);
      const { size } = this.levels[n - 1];
      const [all, inPrompt] = [places(size), places(size)];
      const [inAll, inPromptAlone] = [found(output.length), found(output.length)];
      for (let end = 0; end < text.length; end++) {
        const own = classes[end];
        if (own < 0) continue;
        if (end >= promptEnd) {
          all.put(inAll, end - promptEnd, own);
          inPrompt.put(inPromptAlone, end - promptEnd, own);
        }
        if (end === border - 1) continue;
        all.add(own, end);
        if (end < promptEnd - 1) inPrompt.add(own, end);
      }
      return { all: inAll, inPrompt: inPromptAlone };
    }

    #longest(promptOnly) {
      const { text, border, promptEnd, output } = this;
      const automaton = new SuffixAutomaton();
      for (let place = 0; place < border - 1; place++) automaton.extend(text[place], place);
      automaton.extend(BORDER, border);
      const found = { length: new Int32Array(output.length), end: new Int32Array(output.length) };
      let [state, length] = [0, 0];
      for (let place = border; place < text.length; place++) {
        if (place > border && (!promptOnly || place < promptEnd)) {
          automaton.extend(text[place - 1], place - 1);
          state = automaton.repeated;
          length = automaton.length[state];
        }
        [state, length] = automaton.step(state, length, text[place]);
        if (place < promptEnd) continue;
        found.length[place - promptEnd] = length;
        found.end[place - promptEnd] = automaton.end[state];
      }
      return found;
    }
  }

  // The places of each class so far, as the positions of their last tokens.
  class Places {
    constructor(size) {
      this.first = new Int32Array(size).fill(-1);
      this.last = new Int32Array(size).fill(-1);
      this.count = new Int32Array(size);
    }

    add(own, end) {
      if (this.first[own] < 0) this.first[own] = end;
      this.last[own] = end;
      this.count[own] += 1;
    }

    put(found, j, own) {
      found.first[j] = this.first[own];
      found.last[j] = this.last[own];
      found.count[j] = this.count[own];
    }
  }

  // What Places knew when output token j had come.
  class Found {
    constructor(length) {
      this.first = new Int32Array(length).fill(-1);
      this.last = new Int32Array(length).fill(-1);
      this.count = new Int32Array(length);
    }
  }

  // The latest places of each class so far.
  class Latest {
    constructor(size) {
      this.ends = Array.from({ length: size }, () => []);
    }

    add(own, end) {
      this.ends[own] = [end, ...this.ends[own].slice(0, LATEST - 1)];
    }

    put(found, j, own) {
      found[j] = this.ends[own];
    }
  }

  // The place of each class so far that stands before its most frequent next token.
  class Votes {
    constructor(size, text) {
      this.text = text;
      this.votes = new Map();
      this.most = new Int32Array(size);
      this.end = new Int32Array(size).fill(-1);
    }

    add(own, end) {
      const followed = own * 2 ** 32 + this.text[end + 1];
      const votes = (this.votes.get(followed) ?? 0) + 1;
      this.votes.set(followed, votes);
      if (votes < this.most[own]) return;
      this.most[own] = votes;
      this.end[own] = end;
    }

    put(found, j, own) {
      found[j] = this.end[own];
    }
  }

  // Share of the output inside spans of at least n + 1 tokens that stand verbatim before them:
  // what there was to copy, whatever the lookup made of it.
  function textCopyRate(grams, n) {
    const { length } = grams.output;
    if (length === 0) return 0;
    const { last } = grams.level(n + 1).all;
    let covered = 0;
    let upTo = 0;
    for (let j = n; j < length; j++) {
      if (last[j] < grams.border) continue;
      covered += j + 1 - Math.max(upTo, j - n);
      upTo = j + 1;
    }
    return covered / length;
  }

  Object.assign(lens, { Grams, textCopyRate });
})((globalThis.pldLens ??= {}));
