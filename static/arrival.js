// A link may name a pass, and a run that was asked for may stand below the fold: the view goes
// there, until the visitor does anything.
(function (lens) {
  "use strict";

  const { extras } = lens;
  const SIGNS = ["pointerdown", "keydown", "wheel", "touchmove"];
  const FOLD = 0.7; // of the window's height

  class Arrival {
    constructor(view) {
      this.view = view;
      const wanted = new URLSearchParams(location.search).get("pass") ?? "";
      this.pass = /^[0-9]{1,6}$/.test(wanted) ? Number(wanted) : null;
      this.before = null; // the trace on screen when a run was asked for
      const stay = () => (this.pass = this.before = null);
      for (const sign of SIGNS) addEventListener(sign, stay, { capture: true, passive: true });
    }

    awaited() {
      this.before = this.view.trace;
    }

    draw() {
      const { view, pass, before } = this;
      if (before && view.trace !== before && view.trace.main) {
        this.before = null;
        if (view.root.getBoundingClientRect().top > FOLD * innerHeight) view.show();
      }
      if (pass === null || !view.trace.finished || this.arrived === view.trace) return;
      this.arrived = view.trace;
      view.moveTo(Math.max(1, pass));
    }
  }

  extras.push((view) => new Arrival(view));
})((globalThis.pldLens ??= {}));
