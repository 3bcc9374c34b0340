// Step, play and scrub: moves the cursor over the passes of a run. Playing follows the run's own
// clock: both lanes stand where they were after so many decode seconds.
(function (lens) {
  "use strict";

  const { node, setText, words } = lens;
  const FOLLOWED = 3; // seconds; what is played in less is over before it can be followed
  const CALM_STEP = 0.5; // seconds; with reduced motion no two passes come sooner
  const stillness = matchMedia("(prefers-reduced-motion: reduce)");

  class Controls {
    // moved(pass): the visitor went to that pass; null is the newest one.
    // ticked(seconds): the player is at that time of the run.
    constructor(part, moved, ticked) {
      this.part = part;
      this.moved = moved;
      this.ticked = ticked;
      this.lane = null;
      this.cursor = 0;
      this.clock = null;
      this.playing = false;
      this.chosen = false; // whether the visitor chose the speed
      for (const [speed, name] of words.speed.offered) part.speed.append(Object.assign(node("option", "", name), { value: speed }));
      part.speed.addEventListener("change", () => (this.chosen = true));
      part.range.addEventListener("input", () => this.#go(Number(part.range.value)));
      part.first.addEventListener("click", () => this.#go(1));
      part.back.addEventListener("click", () => this.#go(this.cursor - 1));
      part.forward.addEventListener("click", () => this.#go(this.cursor + 1));
      part.last.addEventListener("click", () => this.#go(this.passes));
      part.play.addEventListener("click", () => (this.playing ? this.pause() : this.#play()));
      part.range.title = words.keys;
      this.hear(part.range);
    }

    // Takes the keys that are pressed in the element; `before` is called ahead of each.
    hear(element, before = () => {}) {
      const { back, forward, first, last, play } = this.part;
      const keys = { ArrowLeft: back, ArrowRight: forward, Home: first, End: last, " ": play };
      element.addEventListener("keydown", (event) => {
        const { key, ctrlKey, metaKey, altKey, shiftKey } = event;
        if (!Object.hasOwn(keys, key) || ctrlKey || metaKey || altKey || shiftKey) return;
        event.preventDefault();
        before();
        keys[key].click();
      });
    }

    get passes() {
      return this.lane ? this.lane.passes.length : 0;
    }

    // `cursor` is the pass on screen, from 0 (none yet) to the number of passes; `clock` the
    // seconds of the run it stands for, null where lanes are compared by passes; `length` the
    // seconds of the longest lane.
    draw(lane, cursor, clock, length) {
      Object.assign(this, { lane, cursor, clock, length });
      const { range, position, first, back, forward, last, play, speed, speedLabel } = this.part;
      const { passes } = this;
      setText(speedLabel, words.speed.label(stillness.matches));
      if (!this.chosen && !this.playing) speed.value = fitting(lane ? lane.after(passes).seconds : Infinity);
      range.min = Math.min(1, passes);
      range.max = passes;
      range.value = cursor;
      range.disabled = play.disabled = passes === 0;
      first.disabled = back.disabled = cursor <= 1;
      forward.disabled = last.disabled = cursor >= passes;
      const label = cursor ? words.cursor.label(cursor, passes) : words.cursor.none;
      setText(position, label);
      range.setAttribute("aria-valuetext", cursor ? words.cursor.value(cursor, passes, lane.passes[cursor - 1]) : label);
      this.tell(clock);
    }

    tell(clock) {
      this.clock = clock;
      setText(this.part.clock, clock === null ? "" : words.cursor.clock(clock));
    }

    pause() {
      this.playing = false;
      clearTimeout(this.timer);
      cancelAnimationFrame(this.frame);
      setText(this.part.play, words.fixedTexts.play);
    }

    // Keys may come faster than frames: each goes on from where the one before it led.
    #go(pass) {
      this.pause();
      this.cursor = Math.min(this.passes, Math.max(1, pass));
      this.moved(this.cursor === this.passes ? null : this.cursor);
    }

    #play() {
      setText(this.part.play, words.fixedTexts.pause);
      this.playing = true;
      const done = this.clock === null ? this.cursor >= this.passes : this.clock >= this.length;
      this.time = done ? 0 : (this.clock ?? this.lane.after(this.cursor).seconds);
      this.ticked(this.time);
      if (stillness.matches) return this.#step();
      let before = performance.now();
      const tick = (now) => {
        this.#advance(((now - before) / 1000) * Number(this.part.speed.value));
        before = now;
        if (this.playing) this.frame = requestAnimationFrame(tick);
      };
      this.frame = requestAnimationFrame(tick);
    }

    // Pass by pass, each for as long as it took but never in a hurry.
    #step() {
      const pass = this.lane.at(this.time) + 1;
      const took = (pass <= this.passes ? this.lane.after(pass).seconds : this.length) - this.time;
      this.timer = setTimeout(() => {
        this.#advance(took);
        if (this.playing) this.#step();
      }, 1000 * Math.max(took / Number(this.part.speed.value), CALM_STEP));
    }

    #advance(seconds) {
      this.time += Math.max(0, seconds);
      if (this.time < this.length) return this.ticked(this.time);
      this.pause();
      this.moved(null);
    }
  }

  // The speed at which so many seconds of a run can be followed, at most the run's own.
  function fitting(seconds) {
    const speeds = words.speed.offered.map(([speed]) => speed);
    return speeds.findLast((speed) => speed <= 1 && seconds / speed >= FOLLOWED) ?? speeds[0];
  }

  Object.assign(lens, { Controls, stillness });
})((globalThis.pldLens ??= {}));
