// The panels below the main view, one open at a time. A panel is drawn when it is open and in
// sight, again when the run has grown, and never for a move of the cursor alone.
(function (lens) {
  "use strict";

  const { node, tell, words } = lens;
  const text = words.explore;
  const PAUSE_MS = 400;
  const LEAST_SHARE = 20; // a drawing takes at most one part in so many of the time
  const APART = ["gallery", "learn"]; // what they say is not of a lane
  let views = 0;

  class Explore {
    // panels: {name: (body) -> {draw(trace), move?(cursor)}}, in the order of their tabs.
    constructor(root, panels) {
      this.root = root;
      this.id = `pld-explore-${++views}`;
      this.makers = panels;
      this.tabs = {};
      this.bodies = {};
      this.panels = {};
      this.drawn = {};
      this.trace = null;
      this.cursor = 0;
      this.inSight = false;
      this.timer = null;
      this.notBefore = 0;
      this.#build(Object.keys(panels));
      new IntersectionObserver(
        (entries) => {
          this.inSight = entries.at(-1).isIntersecting;
          this.#plan();
        },
        { rootMargin: "200px" },
      ).observe(root);
      let width = 0;
      new ResizeObserver(() => {
        if (root.clientWidth === width) return;
        width = root.clientWidth;
        this.drawn = {};
        this.#plan();
      }).observe(root);
    }

    get pending() {
      return this.timer !== null || Boolean(this.panels[this.open]?.pending);
    }

    // Cheap: asked for on every drawing of the view.
    update(trace, cursor) {
      this.trace = trace;
      const moved = cursor !== this.cursor;
      this.cursor = cursor;
      this.#tellWhose();
      if (this.drawn[this.open] !== this.#state()) this.#plan();
      else if (moved) this.panels[this.open]?.move?.(cursor);
    }

    show(name, focus = false) {
      if (!this.tabs[name]) return;
      this.open = name;
      for (const [each, tab] of Object.entries(this.tabs)) {
        const chosen = each === name;
        tab.setAttribute("aria-selected", chosen);
        tab.tabIndex = chosen ? 0 : -1;
        this.bodies[each].hidden = !chosen;
      }
      if (focus) this.tabs[name].focus();
      this.#tellWhose();
      this.notBefore = 0;
      this.#plan();
    }

    #tellWhose() {
      tell(this.whose, !this.trace || APART.includes(this.open) ? "" : words.versus.whose(this.trace));
    }

    #build(names) {
      const list = node("div", "tabs");
      list.setAttribute("role", "tablist");
      list.setAttribute("aria-label", text.tabs);
      const bodies = names.map((name) => {
        const tab = node("button", "tab", text.names[name]);
        tab.type = "button";
        tab.id = `${this.id}-${name}-tab`;
        tab.dataset.tab = name;
        tab.setAttribute("role", "tab");
        tab.setAttribute("aria-controls", `${this.id}-${name}`);
        tab.addEventListener("click", () => this.show(name));
        list.append(tab);
        const body = node("div", `panel ${name}`);
        body.id = `${this.id}-${name}`;
        body.dataset.panel = name;
        body.setAttribute("role", "tabpanel");
        body.setAttribute("aria-labelledby", tab.id);
        this.tabs[name] = tab;
        this.bodies[name] = body;
        return body;
      });
      list.addEventListener("keydown", (event) => {
        const at = names.indexOf(this.open);
        const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: names.length - 1 }[event.key];
        if (to === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
        event.preventDefault();
        this.show(names[(to + names.length) % names.length], true);
      });
      this.whose = node("p", "whose");
      this.root.append(list, this.whose, ...bodies);
      this.show(names[0]);
    }

    // Changes when the run on screen has grown or is another one.
    #state() {
      if (!this.trace) return "";
      const lanes = [...this.trace.lanes.values()].map((lane) => `${lane.passes.length}${lane.end ? "e" : ""}`);
      return `${idOf(this.trace)} ${this.trace.followed?.name} ${lanes} ${this.trace.comparison ? "c" : ""}`;
    }

    #plan() {
      if (!this.inSight || !this.trace || this.timer !== null || this.drawn[this.open] === this.#state()) return;
      this.timer = setTimeout(() => {
        this.timer = null;
        this.#draw();
      }, Math.max(0, this.notBefore - performance.now()));
    }

    #draw() {
      if (!this.inSight || !this.root.isConnected) return;
      const { open } = this;
      const began = performance.now();
      this.panels[open] ??= this.makers[open](this.bodies[open]);
      this.drawn[open] = this.#state();
      this.panels[open].draw(this.trace);
      this.panels[open].move?.(this.cursor);
      const took = performance.now() - began;
      this.notBefore = began + Math.max(PAUSE_MS, LEAST_SHARE * took);
      this.#plan();
    }
  }

  // Why a panel has nothing to show of a trace.
  function emptiness({ main, lookup }) {
    return !main ? text.noRun : !lookup ? text.noLookup : text.tooEarly;
  }

  const ids = new WeakMap();
  let traces = 0;

  function idOf(trace) {
    if (!ids.has(trace)) ids.set(trace, ++traces);
    return ids.get(trace);
  }

  Object.assign(lens, { Explore, emptiness });
})((globalThis.pldLens ??= {}));
