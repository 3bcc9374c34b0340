// Small helpers for building nodes. Text enters the page through textContent alone.
(function (lens) {
  "use strict";

  function node(tag, className, text) {
    const made = document.createElement(tag);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  }

  function setText(element, text) {
    if (element.textContent !== text) element.textContent = text;
  }

  // A token as a label: here whitespace must be seen, not kept.
  function visible(piece) {
    return piece
      .replaceAll(" ", "␣")
      .replaceAll("\n", "↵")
      .replaceAll("\t", "⇥")
      .replaceAll("\r", "␍") || "∅";
  }

  // Calls `draw` at most once per animation frame, however often it is asked for.
  function perFrame(draw) {
    let asked = false;
    return () => {
      if (asked) return;
      asked = true;
      requestAnimationFrame(() => {
        asked = false;
        draw();
      });
    };
  }

  // Calls `draw` when asked, so that it takes at most one part in `share` of the time: a long run
  // goes on arriving while it is drawn.
  function paced(draw, share) {
    let timer = null;
    let next = 0;
    return () => {
      timer ??= setTimeout(() => {
        timer = null;
        const began = performance.now();
        draw();
        next = performance.now() + (share - 1) * (performance.now() - began);
      }, Math.max(0, next - performance.now()));
    };
  }

  // What other files add to the view: functions that take it and give { draw?(cursor, pass),
  // restart?() }; draw is called after every drawing, restart when another trace comes.
  const extras = [];

  Object.assign(lens, { extras, node, setText, visible, perFrame, paced });
})((globalThis.pldLens ??= {}));
