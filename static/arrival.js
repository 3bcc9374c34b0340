// A link may name a pass: the view goes there, until the visitor does anything.
(function (lens) {
  "use strict";

  const { extras } = lens;

  class Arrival {
    constructor(view) {
      this.view = view;
      const wanted = new URLSearchParams(location.search).get("pass") ?? "";
      this.pass = /^[0-9]{1,6}$/.test(wanted) ? Number(wanted) : null;
      if (this.pass === null) return;
      for (const sign of ["pointerdown", "keydown"]) addEventListener(sign, () => (this.pass = null), { once: true, capture: true });
    }

    draw() {
      const { view, pass } = this;
      if (pass === null || !view.trace.finished || this.arrived === view.trace) return;
      this.arrived = view.trace;
      view.moveTo(Math.max(1, pass));
    }
  }

  extras.push((view) => new Arrival(view));
})((globalThis.pldLens ??= {}));
