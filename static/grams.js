// Every n-gram of a run's text, by class: equal n-grams share one. What a lookup finds at the
// end of the text so far, for any settings, is then one step in an array.
(function (lens) {
  "use strict";

  class Grams {
    // prompt, output, reference: token ids. A match never spans the reference and the prompt.
    constructor(prompt, output, reference = []) {
      this.promptLength = prompt.length;
      this.output = output;
      this.context = [...prompt, ...output];
      this.reference = reference;
      this.levels = [];
    }

    static of({ start, ids }) {
      const reference = start.reference?.ids;
      return new Grams(start.prompt.ids, ids, Array.isArray(reference) ? reference : []);
    }

    // The n-grams that end at the output's tokens, each with its earlier places.
    level(n) {
      while (this.levels.length < n) this.levels.push(this.#next());
      return this.levels[n - 1];
    }

    // An n-gram is an (n-1)-gram and the token after it.
    #next() {
      const n = this.levels.length + 1;
      const below = this.levels[n - 2];
      const classes = new Map();
      const classOf = (shorter, token) => {
        const key = shorter * 2 ** 32 + token;
        if (!classes.has(key)) classes.set(key, classes.size);
        return classes.get(key);
      };
      const classify = (text, shorter) => {
        const found = new Int32Array(text.length).fill(-1);
        for (let end = n - 1; end < text.length; end++) found[end] = classOf(n === 1 ? 0 : shorter[end - 1], text[end]);
        return found;
      };
      const context = classify(this.context, below?.context);
      const reference = classify(this.reference, below?.reference);
      const inReference = new Places(classes.size);
      for (let end = n - 1; end < this.reference.length - 1; end++) inReference.add(reference[end], end);
      return { context, reference, ...this.#places(n, context, inReference) };
    }

    // For output token j: where the n-gram that ends with it ended before. What ends a text has
    // nothing behind it to be copied, so in prompt and reference the last n-gram is no place.
    #places(n, context, inReference) {
      const { promptLength, output } = this;
      const size = inReference.last.length;
      const all = new Places(size);
      const inPrompt = new Places(size);
      const found = { all: new Found(output.length), inPrompt: new Found(output.length), inReference: new Found(output.length) };
      for (let end = n - 1; end < context.length; end++) {
        const own = context[end];
        if (end >= promptLength) {
          const j = end - promptLength;
          found.all.put(j, all, own);
          found.inPrompt.put(j, inPrompt, own);
          found.inReference.put(j, inReference, own);
        }
        all.add(own, end);
        if (end < promptLength - 1) inPrompt.add(own, end);
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
  }

  // What Places knew when output token j had come.
  class Found {
    constructor(length) {
      this.first = new Int32Array(length).fill(-1);
      this.last = new Int32Array(length).fill(-1);
      this.count = new Int32Array(length);
    }

    put(j, places, own) {
      this.first[j] = places.first[own];
      this.last[j] = places.last[own];
      this.count[j] = places.count[own];
    }
  }

  // Share of the output inside spans of at least n + 1 tokens that stand verbatim before them:
  // what there was to copy, whatever the lookup made of it.
  function textCopyRate(grams, n) {
    const { length } = grams.output;
    if (length === 0) return 0;
    const { count } = grams.level(n + 1).all;
    let covered = 0;
    let upTo = 0;
    for (let j = n; j < length; j++) {
      if (count[j] === 0) continue;
      covered += j + 1 - Math.max(upTo, j - n);
      upTo = j + 1;
    }
    return covered / length;
  }

  Object.assign(lens, { Grams, textCopyRate });
})((globalThis.pldLens ??= {}));
