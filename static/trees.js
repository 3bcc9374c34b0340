// Trees of drafts: nodes with the index of each one's parent, which stands before it; -1 is the
// newest token. The same trees as pld_core.lookup.tree grows and pld_core.decoder cuts.
(function (lens) {
  "use strict";

  const BRANCHES = 8;
  const NODES = 64;

  // The tree that a pass drafted, with the path of its accepted nodes; null for a chain.
  function treeOf({ draft, parents, branches, path }) {
    return parents?.length ? { tokens: draft, parents, branches: branches ?? [], path: path ?? [] } : null;
  }

  // The nodes from a child of the root down to `node`.
  function pathOf(parents, node) {
    const path = [];
    for (; node >= 0; node = parents[node]) path.push(node);
    return path.reverse();
  }

  const isChain = (parents) => parents.every((parent, node) => parent === node - 1);

  // The first branch on which the walked path lies; the first of all when none was walked.
  function keptBranch({ parents, branches }, path) {
    const last = path.at(-1);
    return (last !== undefined && branches.find(({ leaf }) => pathOf(parents, leaf).includes(last))) || branches[0];
  }

  // Takes one branch after the other, up to NODES nodes; one without a node of its own is none.
  class Growing {
    constructor() {
      this.tokens = [];
      this.parents = [];
      this.branches = [];
      this.child = new Map();
    }

    add(tokens, match) {
      const before = this.tokens.length;
      let at = -1;
      for (const token of tokens) {
        const key = (at + 1) * 2 ** 32 + token;
        if (!this.child.has(key)) {
          if (this.tokens.length === NODES) break;
          this.child.set(key, this.tokens.length);
          this.tokens.push(token);
          this.parents.push(at);
        }
        at = this.child.get(key);
      }
      if (this.tokens.length > before) this.branches.push({ leaf: at, match });
    }
  }

  // The tree of the nodes that are wanted, as are all they follow: wanted(node, depth). A branch
  // that is left without a node of its own is none; null when no node is left.
  function only({ tokens, parents, branches }, wanted) {
    const depths = [];
    parents.forEach((parent, node) => {
      const above = parent < 0 ? 0 : depths[parent];
      depths.push((above === 0 && parent >= 0) || !wanted(node, above + 1) ? 0 : above + 1);
    });
    const nodes = new Set();
    const left = [];
    for (const { leaf: end, match } of branches) {
      let leaf = end;
      while (leaf >= 0 && depths[leaf] === 0) leaf = parents[leaf];
      if (leaf < 0 || nodes.has(leaf)) continue;
      left.push({ leaf, match });
      for (const node of pathOf(parents, leaf)) nodes.add(node);
    }
    if (nodes.size === 0) return null;
    const sorted = [...nodes].sort((a, b) => a - b);
    const place = new Map([[-1, -1], ...sorted.map((node, i) => [node, i])]);
    return {
      tokens: sorted.map((node) => tokens[node]),
      parents: sorted.map((node) => place.get(parents[node])),
      branches: left.map(({ leaf, match }) => ({ leaf: place.get(leaf), match })),
    };
  }

  // The nodes that stand, from the root down, where the text goes on as `following` says.
  function walk({ tokens, parents }, following) {
    const path = [];
    tokens.forEach((token, node) => {
      if (parents[node] === (path.at(-1) ?? -1) && path.length < following.length && token === following[path.length]) path.push(node);
    });
    return path;
  }

  Object.assign(lens, { BRANCHES, NODES, treeOf, pathOf, isChain, keptBranch, Growing, only, walk });
})((globalThis.pldLens ??= {}));
