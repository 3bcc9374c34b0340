// In a page kept for later: the little of plotly that the plot uses, drawn as SVG.
(function (lens) {
  "use strict";

  globalThis.Plotly ??= {
    react(element, lines, layout) {
      const width = Math.max(220, element.clientWidth);
      const { l, r, t, b } = layout.margin;
      const axis = ({ title, range }) => ({ title: title.text, to: range[1] });
      const made = lens.drawing(
        lines, { x: axis(layout.xaxis), y: axis(layout.yaxis) },
        { width, height: layout.height, left: l, right: r, top: t, bottom: b },
        { muted: layout.xaxis.color, grid: layout.xaxis.gridcolor },
      );
      made.setAttribute("aria-hidden", "true");
      made.addEventListener("click", (event) => {
        const x = ((event.clientX - made.getBoundingClientRect().left - l) / (width - l - r)) * layout.xaxis.range[1];
        element.picked?.({ points: [{ x: Math.max(0, x) }] });
      });
      element.on = (_, picked) => (element.picked = picked);
      element.replaceChildren(made);
      if (element.redraws) return;
      element.redraws = new ResizeObserver(() => element.clientWidth !== element.drawnWidth && element.again());
      element.redraws.observe(element);
    },
  };
  const { react } = globalThis.Plotly;
  globalThis.Plotly.react = (element, lines, layout) => {
    element.drawnWidth = element.clientWidth;
    element.again = () => globalThis.Plotly.react(element, lines, layout);
    react(element, lines, layout);
  };
})((globalThis.pldLens ??= {}));
