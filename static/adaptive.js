// Drafts as long as is expected to pay, learned from how earlier ones would have fared. The same
// arithmetic in the same order as pld_core.width, so that the lengths are the same.
(function (lens) {
  "use strict";

  const MEMORY = 24;

  // Classes of how many tokens a place and the text's end agree in before a draft, and what is
  // believed of each before a text has shown its own.
  const AGREED = [1, 2, 3, 8, 16, 32, 64];
  const FIRST = [0.25, 0.475, 0.7, 0.75, 0.85, 0.9, 0.95];
  const FURTHER = [0.6, 0.75, 0.85, 0.9, 0.93, 0.95, 0.98];
  const BESIDE = [0.14, 0.09, 0.05];
  const LEAST = 1.05; // what a draft must promise, of plain decoding's speed
  const DEBT = 0.25; // plain passes that the drafts may be behind before one must promise PROMISE
  const PROMISE = 1.2;

  // A probability, learned with a little patience: old evidence fades.
  class Chance {
    constructor(stood, tried) {
      this.stood = stood;
      this.tried = tried;
    }

    get value() {
      return this.stood / this.tried;
    }

    learn(stood, tried) {
      const fade = Math.min(1, MEMORY / (this.tried + tried));
      this.stood = (this.stood + stood) * fade;
      this.tried = (this.tried + tried) * fade;
    }
  }

  class Adaptive {
    // text: all of it, reference, prompt and output, of which prompt and output begin at `border`.
    // costs: [[width, seconds]] as measured, widths rising from 1.
    constructor({ text, border, promptEnd }, costs) {
      Object.assign(this, { text, border, promptEnd, costs });
      this.first = FIRST.map((p) => new Chance(p * 2, 2));
      this.further = FURTHER.map((p) => new Chance(p * 8, 8));
      this.beside = AGREED.map(() => BESIDE.map((p) => new Chance(p * 12, 12)));
      this.pending = [];
      this.plain = this.#seconds(1);
      this.drafted = 0; // by the newest proposal
      this.saved = 0; // seconds, of plain decoding's
      this.known = 1;
    }

    // How many of the `drafted` tokens behind a match to draft at output position `first`;
    // `agreed` of them will turn out to stand.
    length({ first, match, drafted, agreed }) {
      const slot = this.#class(match, first);
      this.pending.push({ first, slot, drafted, agreed });
      const further = this.further[slot].value;
      let best = 0;
      let bestGain = this.#least();
      let tokens = 1;
      let stands = this.first[slot].value;
      for (let length = 1; length <= drafted; length++) {
        tokens += stands;
        stands *= further;
        const gain = (tokens * this.plain) / this.#seconds(1 + length);
        if (gain > bestGain) [best, bestGain] = [length, gain];
      }
      return (this.drafted = best);
    }

    // Which nodes of a tree to draft; `path` are those that will turn out to stand.
    nodes({ first, parents, branches, path }) {
      const chances = this.#chances(parents, branches, first);
      const last = path.at(-1) ?? -1;
      this.pending.push({ first, parents, chances, path, needed: path.length + parents.includes(last) });
      const stands = [];
      parents.forEach((parent, node) => stands.push((parent < 0 ? 1 : stands[parent]) * chances[node].value));
      const likeliest = [...stands.keys()].sort((a, b) => stands[b] - stands[a]);
      let best = 0;
      let bestGain = this.#least();
      let tokens = 1;
      likeliest.forEach((node, i) => {
        tokens += stands[node];
        const gain = (tokens * this.plain) / this.#seconds(2 + i);
        if (gain > bestGain) [best, bestGain] = [i + 1, gain];
      });
      this.drafted = best;
      return new Set(likeliest.slice(0, best));
    }

    // Each node's chance to follow its parent.
    #chances(parents, branches, first) {
      const classes = [];
      for (const { leaf, match } of [...branches].reverse()) {
        const slot = this.#class(match, first);
        for (let node = leaf; node >= 0; node = parents[node]) classes[node] = slot;
      }
      const elder = new Map();
      return parents.map((parent, node) => {
        if (!elder.has(parent)) elder.set(parent, []);
        const siblings = elder.get(parent);
        siblings.push(node);
        const slot = classes[siblings[0]];
        if (siblings.length === 1) return (parent < 0 ? this.first : this.further)[slot];
        return this.beside[slot][Math.min(siblings.length - 1, this.beside[slot].length) - 1];
      });
    }

    // How far back the same tokens stand before both the match's place and the text's end.
    #class({ from, n, region }, first) {
      const { text, border } = this;
      const least = region === "reference" ? 0 : border;
      let here = this.promptEnd + first - n;
      let there = from;
      let agreed = n;
      while (agreed < AGREED.at(-1) && there > least && here > border && text[there - 1] === text[here - 1]) {
        here -= 1;
        there -= 1;
        agreed += 1;
      }
      return AGREED.findLastIndex((low) => agreed >= low);
    }

    #least() {
      return this.saved < -DEBT * this.plain ? PROMISE : LEAST;
    }

    // The output is known up to `known` tokens: learns from the drafts that this decides.
    reveal(known) {
      if (known > this.known) this.saved += (known - this.known) * this.plain - this.#seconds(1 + this.drafted);
      [this.known, this.drafted] = [known, 0];
      this.pending = this.pending.filter((draft) => {
        const { first, drafted, agreed } = draft;
        const needed = draft.needed ?? (agreed < drafted ? agreed + 1 : drafted);
        if (known - first < needed) return true;
        if (draft.parents) this.#learnTree(draft);
        else this.#learn(draft);
        return false;
      });
    }

    #learnTree({ parents, chances, path }) {
      const walked = new Set([-1, ...path]);
      const seen = new Map();
      parents.forEach((parent, node) => {
        if (!walked.has(parent)) return;
        const { stood, tried } = seen.get(chances[node]) ?? { stood: 0, tried: 0 };
        seen.set(chances[node], { stood: stood + walked.has(node), tried: tried + 1 });
      });
      for (const [chance, { stood, tried }] of seen) chance.learn(stood, tried);
    }

    #learn({ slot, drafted, agreed }) {
      this.first[slot].learn(agreed > 0 ? 1 : 0, 1);
      if (agreed > 0 && drafted > 1) this.further[slot].learn(agreed - 1, Math.min(agreed, drafted - 1));
    }

    #seconds(width) {
      const points = this.costs;
      const found = points.findIndex(([w]) => w >= width);
      const right = Math.min(Math.max(1, found < 0 ? points.length : found), points.length - 1);
      const [[w0, t0], [w1, t1]] = [points[right - 1], points[right]];
      return Math.max(t0 + ((t1 - t0) * (width - w0)) / (w1 - w0), points[0][1] * 1e-3);
    }
  }

  Object.assign(lens, { Adaptive });
})((globalThis.pldLens ??= {}));
