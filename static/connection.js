// A run whose server is out of reach is shown as such: its lanes keep what arrived.
(function (lens) {
  "use strict";

  const { extras, setText, words } = lens;
  const QUIET_MS = 3000; // without news for so long, the server is asked
  const MISSES = 2;

  class Connection {
    constructor(view) {
      this.view = view;
      this.address = view.options?.alive;
      this.timer = null;
      this.restart();
      if (this.address) this.#answers();
    }

    restart() {
      this.lost = false;
      this.misses = 0;
      this.length = 0;
    }

    draw() {
      const { trace } = this.view;
      if (trace.text.length !== this.length) {
        this.length = trace.text.length;
        this.misses = 0;
        if (this.lost) this.view.sentence = null; // to be said anew
        this.lost = false;
      }
      const waiting = Boolean(this.address && trace.main && !trace.finished);
      if (!waiting || this.timer !== null) clearTimeout(this.timer);
      this.timer = waiting && !this.lost ? setTimeout(() => this.#ask(), QUIET_MS) : null;
      if (waiting && this.lost) this.#tell();
    }

    async #ask() {
      this.timer = null;
      const { trace } = this.view;
      const { length } = this;
      const there = await this.#answers();
      if (this.view.trace !== trace || this.length !== length || trace.finished) return;
      this.misses = there ? 0 : this.misses + 1;
      this.lost = this.misses >= MISSES;
      this.view.draw();
    }

    async #answers() {
      try {
        const answer = await fetch(this.address, { cache: "no-store", signal: AbortSignal.timeout(QUIET_MS) });
        const id = await answer.text();
        this.id ??= id;
        return answer.ok && id === this.id; // a server that was started again knows nothing of the run
      } catch {
        return false;
      }
    }

    #tell() {
      const { root, part } = this.view;
      for (const state of root.querySelectorAll('.state[data-state="running"]')) {
        setText(state, words.connection.lane);
        state.dataset.state = "error";
      }
      setText(part.status, words.connection.lost);
    }
  }

  extras.push((view) => new Connection(view));
})((globalThis.pldLens ??= {}));
