// Drafts as long as is expected to pay, learned from how earlier ones would have fared. The same
// arithmetic in the same order as pld_core.width, so that the lengths are the same.
(function (lens) {
  "use strict";

  const MEMORY = 24;

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

  const spread = (low, high, count) => Array.from({ length: count }, (_, i) => low + ((high - low) * i) / Math.max(1, count - 1));

  class Adaptive {
    // costs: [[width, seconds]] as measured, widths rising from 1.
    constructor(costs, n_max) {
      this.costs = costs;
      this.first = spread(0.25, 0.7, n_max).map((p) => new Chance(p * 2, 2));
      this.further = spread(0.6, 0.9, n_max).map((p) => new Chance(p * 8, 8));
      this.beside = this.first.map(() => [0.14, 0.09, 0.05].map((p) => new Chance(p * 12, 12)));
      this.pending = [];
      this.plain = this.#seconds(1);
    }

    // How many of the `drafted` tokens to draft at output position `first`, behind a match of n;
    // `agreed` of them will turn out to stand.
    length({ first, n, drafted, agreed }) {
      this.pending.push({ first, n, drafted, agreed });
      const slot = Math.min(n, this.first.length) - 1;
      const further = this.further[slot].value;
      let best = 0;
      let bestGain = 1;
      let tokens = 1;
      let stands = this.first[slot].value;
      for (let length = 1; length <= drafted; length++) {
        tokens += stands;
        stands *= further;
        const gain = (tokens * this.plain) / this.#seconds(1 + length);
        if (gain > bestGain) [best, bestGain] = [length, gain];
      }
      return best;
    }

    // Which nodes of a tree to draft; `path` are those that will turn out to stand.
    nodes({ first, parents, branches, path }) {
      const chances = this.#chances(parents, branches);
      const last = path.at(-1) ?? -1;
      this.pending.push({ first, parents, chances, path, needed: path.length + parents.includes(last) });
      const stands = [];
      parents.forEach((parent, node) => stands.push((parent < 0 ? 1 : stands[parent]) * chances[node].value));
      const likeliest = [...stands.keys()].sort((a, b) => stands[b] - stands[a]);
      let best = 0;
      let bestGain = 1;
      let tokens = 1;
      likeliest.forEach((node, i) => {
        tokens += stands[node];
        const gain = (tokens * this.plain) / this.#seconds(2 + i);
        if (gain > bestGain) [best, bestGain] = [i + 1, gain];
      });
      return new Set(likeliest.slice(0, best));
    }

    // Each node's chance to follow its parent.
    #chances(parents, branches) {
      const lengths = [];
      for (const { leaf, match } of [...branches].reverse()) {
        for (let node = leaf; node >= 0; node = parents[node]) lengths[node] = match.n;
      }
      const elder = new Map();
      return parents.map((parent, node) => {
        if (!elder.has(parent)) elder.set(parent, []);
        const siblings = elder.get(parent);
        siblings.push(node);
        const slot = Math.min(lengths[siblings[0]], this.first.length) - 1;
        if (siblings.length === 1) return (parent < 0 ? this.first : this.further)[slot];
        return this.beside[slot][Math.min(siblings.length - 1, this.beside[slot].length) - 1];
      });
    }

    // The output is known up to `known` tokens: learns from the drafts that this decides.
    reveal(known) {
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

    #learn({ n, drafted, agreed }) {
      const slot = Math.min(n, this.first.length) - 1;
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
