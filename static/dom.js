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

  // A line that is there as long as it says something.
  function tell(element, sentence) {
    setText(element, sentence);
    element.hidden = sentence === "";
  }

  // A token as a label: here whitespace must be seen, not kept.
  function visible(piece) {
    return piece
      .replaceAll(" ", "␣")
      .replaceAll("\n", "↵")
      .replaceAll("\t", "⇥")
      .replaceAll("\r", "␍") || "∅";
  }

  // Calls `draw` at most once per animation frame, however often it is asked for. What it gives
  // back is asked by calling it, and is `pending` until it has drawn.
  function perFrame(draw) {
    const ask = () => {
      if (ask.pending) return;
      ask.pending = true;
      requestAnimationFrame(() => {
        ask.pending = false;
        draw();
      });
    };
    ask.pending = false;
    return ask;
  }

  // The same, so that drawing takes at most one part in `share` of the time: a long run goes on
  // arriving while it is drawn.
  function paced(draw, share) {
    let next = 0;
    const ask = () => {
      if (ask.pending) return;
      ask.pending = true;
      setTimeout(() => {
        ask.pending = false;
        const began = performance.now();
        draw();
        next = performance.now() + (share - 1) * (performance.now() - began);
      }, Math.max(0, next - performance.now()));
    };
    ask.pending = false;
    return ask;
  }

  // What other files add to the view: functions that take it and give { draw?(cursor),
  // restart?(), awaited?(), measured?(told), pending? }; draw is called after every drawing, restart when another trace comes.
  const extras = [];

  Object.assign(lens, { extras, node, setText, tell, visible, perFrame, paced });
})((globalThis.pldLens ??= {}));
