// A pane of token spans: they are only ever appended; scrubbing and pointing toggle classes.
// Spans stand in chunks, so that a move over a whole run touches the chunks it passes and the
// tokens of the two at its ends, however long the run is. Chunks stand in blocks, which end where
// a line ends: the browser lays out only the block that grew, not all of the text.
(function (lens) {
  "use strict";

  const { node } = lens;
  const NEAR_BOTTOM = 24;
  const CHUNK = 64; // tokens at most; a block has as many or more
  const NEAR = 6 * CHUNK; // tokens on either side of the cursor: what may be in sight
  const REST_MS = 120;

  class Pane {
    constructor(element) {
      this.element = element;
      this.clear();
    }

    clear() {
      clearTimeout(this.timer);
      this.timer = null;
      this.element.replaceChildren();
      this.element.scrollTop = 0;
      this.spans = [];
      this.chunks = [];
      this.chunkOf = [0]; // of each token, and of the one to come
      this.block = null; // the one that the next token goes into, if it has begun
      this.blockFrom = 0;
      this.shown = 0;
      this.marked = [];
    }

    // tokens: [{piece, kind}]. Keeps the newest in sight if the newest was in sight.
    append(tokens, follow) {
      if (tokens.length === 0) return;
      const { element } = this;
      const tail = follow && element.scrollHeight - element.scrollTop - element.clientHeight < NEAR_BOTTOM;
      for (const { piece, kind } of tokens) {
        const at = this.spans.length;
        const last = this.chunkOf[at];
        this.block ??= element.appendChild(node("div"));
        this.chunks[last] ??= this.block.appendChild(node("span", last > this.#border ? "chunk ahead" : "chunk"));
        const span = node("span", last > this.#border ? `token ${kind}` : `token ${kind} ahead`, piece);
        span.dataset.at = at;
        this.spans.push(span);
        this.chunks[last].append(span);
        const ended = piece.endsWith("\n") && at + 1 - this.blockFrom >= CHUNK;
        this.chunkOf.push(ended || this.chunkOf[at + 1 - CHUNK] === last ? last + 1 : last);
        if (ended) [this.block, this.blockFrom] = [null, at + 1];
      }
      if (tail) element.scrollTop = element.scrollHeight;
    }

    // Text that belongs to no token.
    appendRest(text) {
      if (text) (this.block ?? this.element).append(node("span", "token", text));
    }

    // The first `shown` tokens have come, the others are still ahead of the cursor: chunks as a
    // whole, and token by token in the one where the border lies. Chunks that are out of sight
    // follow when the cursor rests: their style is what a long move would have to wait for.
    show(shown) {
      const to = Math.min(shown, this.spans.length);
      if (to === this.shown) return;
      const before = this.#border;
      const from = this.shown;
      this.shown = to;
      if (before === this.#border) return this.#ahead(Math.min(from, to), Math.max(from, to), to < from);
      this.#ahead(from, this.spans.length, false);
      this.#ahead(to, this.spans.length, true);
      if (from === 0) return this.#settle();
      this.#settle(this.chunkOf[Math.max(0, to - NEAR)], this.chunkOf[to + NEAR]);
      clearTimeout(this.timer);
      this.timer = setTimeout(() => {
        this.timer = null;
        this.#settle();
      }, REST_MS);
    }

    // Whether chunks out of sight are yet to follow the cursor.
    get pending() {
      return this.timer !== null;
    }

    #settle(from = 0, to = this.chunks.length) {
      for (let c = from; c < Math.min(to, this.chunks.length); c++) this.chunks[c].classList.toggle("ahead", c > this.#border);
    }

    get #border() {
      return this.chunkOf[this.shown];
    }

    // Tokens of one chunk: of the one that `from` is in.
    #ahead(from, to, ahead) {
      for (let i = from; i < to && this.chunkOf[i] === this.chunkOf[from]; i++) this.spans[i].classList.toggle("ahead", ahead);
    }

    unmark() {
      for (const [span, name] of this.marked) span.classList.remove(name, "from", "to");
      this.marked = [];
    }

    // Marks positions; neighbours form one box, whose ends are "from" and "to".
    mark(name, positions) {
      const set = new Set(positions);
      for (const position of positions) {
        const span = this.spans[position];
        if (!span) continue;
        span.classList.add(name);
        if (!set.has(position - 1)) span.classList.add("from");
        if (!set.has(position + 1)) span.classList.add("to");
        this.marked.push([span, name]);
      }
    }

    // Moves this pane's own scroll position only: scrollIntoView would move the page.
    reveal(position) {
      const span = this.spans[position];
      if (!span) return;
      const { element } = this;
      const top = span.offsetTop;
      const bottom = top + span.offsetHeight;
      if (top < element.scrollTop || bottom > element.scrollTop + element.clientHeight) {
        element.scrollTop = Math.max(0, top - element.clientHeight / 3);
      }
    }

    // Index of the token under an event's target, or null.
    static at(target) {
      const span = target instanceof Element ? target.closest(".token[data-at]") : null;
      return span ? Number(span.dataset.at) : null;
    }
  }

  // The tokens of a lane that a pane has not drawn yet.
  function laneTokens(pane, lane, kind) {
    const tokens = [];
    for (let i = pane.spans.length; i < lane.ids.length; i++) {
      const pass = lane.passOf[i];
      const own = kind ?? `${lane.isCopied(i) ? "copied" : "own"} ${pass % 2 ? "odd" : "even"}${lane.passes[pass].first === i ? " first" : ""}`;
      tokens.push({ piece: lane.pieces[i], kind: own });
    }
    return tokens;
  }

  Object.assign(lens, { Pane, laneTokens });
})((globalThis.pldLens ??= {}));
