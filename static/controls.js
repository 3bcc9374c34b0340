// Step, play and scrub: moves the cursor over the passes of a run.
(function (lens) {
  "use strict";

  const { setText, words } = lens;
  const SHORTEST_STEP = 1 / 60;

  class Controls {
    // moved(pass): the visitor (or the player) went to that pass; null is the newest one.
    constructor(part, moved) {
      this.part = part;
      this.moved = moved;
      this.lane = null;
      this.cursor = 0;
      this.timer = null;
      part.range.addEventListener("input", () => this.#go(Number(part.range.value)));
      part.first.addEventListener("click", () => this.#go(1));
      part.back.addEventListener("click", () => this.#go(this.cursor - 1));
      part.forward.addEventListener("click", () => this.#go(this.cursor + 1));
      part.last.addEventListener("click", () => this.#go(this.passes));
      part.play.addEventListener("click", () => (this.playing ? this.pause() : this.#play()));
    }

    get passes() {
      return this.lane ? this.lane.passes.length : 0;
    }

    get playing() {
      return this.timer !== null;
    }

    // `cursor` is the pass on screen, from 0 (none yet) to the number of passes.
    draw(lane, cursor) {
      this.lane = lane;
      this.cursor = cursor;
      const { range, position, first, back, forward, last, play } = this.part;
      const { passes } = this;
      range.min = Math.min(1, passes);
      range.max = passes;
      range.value = cursor;
      range.disabled = play.disabled = passes === 0;
      first.disabled = back.disabled = cursor <= 1;
      forward.disabled = last.disabled = cursor >= passes;
      const label = cursor ? words.cursor.label(cursor, passes) : words.cursor.none;
      setText(position, label);
      range.setAttribute("aria-valuetext", cursor ? words.cursor.value(cursor, passes, lane.passes[cursor - 1]) : label);
    }

    pause() {
      clearTimeout(this.timer);
      this.timer = null;
      setText(this.part.play, words.fixedTexts.play);
    }

    #go(pass) {
      this.pause();
      this.#show(pass);
    }

    #show(pass) {
      const to = Math.max(Math.min(1, this.passes), Math.min(pass, this.passes));
      this.cursor = to;
      this.moved(to === this.passes ? null : to);
    }

    #play() {
      setText(this.part.play, words.fixedTexts.pause);
      this.#show(this.cursor >= this.passes ? 1 : this.cursor + 1);
      this.#next();
    }

    // Each pass stays for as long as it took, divided by the speed.
    #next() {
      const record = this.lane.passes[this.cursor];
      if (!record) return this.pause();
      const { seconds } = record.event;
      const took = typeof seconds === "number" ? seconds : seconds.lookup + seconds.forward + seconds.accept;
      const wait = Math.max(took / Number(this.part.speed.value), SHORTEST_STEP);
      this.timer = setTimeout(() => {
        this.#show(this.cursor + 1);
        if (this.cursor >= this.passes) this.pause();
        else this.#next();
      }, 1000 * wait);
    }
  }

  Object.assign(lens, { Controls });
})((globalThis.pldLens ??= {}));
