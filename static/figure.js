// The plot as an SVG of its own: for a file, and where plotly is not at hand.
(function (lens) {
  "use strict";

  const { svg, ticks, choiceWords, words } = lens;
  const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif";
  const DASHES = { dash: "7 5", dot: "2 4", solid: "none" };
  const LIGHT = { copied: "#0067a3", plain: "#4b5563", rival: "#7a3f98", text: "#16191f", muted: "#565d69", grid: "#e8eaee", ground: "#ffffff" };

  // A text as XML can hold it.
  const sayable = (text) => String(text).toWellFormed().replace(/[\0-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]/g, "\ufffd");

  // lines: [{x, y, line: {color, width, dash, shape}}]. axes: {x, y: {title, to}}. box: {width,
  // height, left, right, top, bottom} in pixels. colours: {muted, grid}.
  function drawing(lines, axes, box, colours) {
    const { width, height } = box;
    const made = svg("svg", { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}` });
    const right = width - box.right;
    const low = height - box.bottom;
    const X = (x) => box.left + (x / axes.x.to) * (right - box.left);
    const Y = (y) => low - (y / axes.y.to) * (low - box.top);
    const label = (value) => words.count(Math.round(1e6 * value) / 1e6);
    const text = (x, y, content, more = {}) =>
      made.append(svg("text", { x: x.toFixed(1), y: y.toFixed(1), fill: colours.muted, "font-size": 12, "font-family": FONT, ...more }, sayable(content)));
    for (const mark of ticks(axes.y.to)) {
      made.append(svg("line", { x1: box.left, x2: right, y1: Y(mark).toFixed(1), y2: Y(mark).toFixed(1), stroke: colours.grid }));
      text(box.left - 8, Y(mark) + 4, label(mark), { "text-anchor": "end" });
    }
    for (const mark of ticks(axes.x.to, 6)) text(X(mark), low + 17, label(mark), { "text-anchor": "middle" });
    text((box.left + right) / 2, height - 6, axes.x.title, { "text-anchor": "middle" });
    const middle = (box.top + low) / 2;
    text(13, middle, axes.y.title, { "text-anchor": "middle", transform: `rotate(-90 13 ${middle})` });
    for (const { x, y, line } of lines) {
      if (x.length === 0) continue;
      const steps = line.shape === "hv";
      const path = x.map((at, i) => (i === 0 ? `M${X(at).toFixed(1)} ${Y(y[i]).toFixed(1)}` : `${steps ? `H${X(at).toFixed(1)}V` : `L${X(at).toFixed(1)} `}${Y(y[i]).toFixed(1)}`)).join("");
      made.append(svg("path", { d: path, fill: "none", stroke: line.color, "stroke-width": line.width, "stroke-dasharray": DASHES[line.dash ?? "solid"] ?? "none", "stroke-linejoin": "round" }));
    }
    return made;
  }

  // Tokens against passes or seconds of every lane, with its title, on a white ground.
  function figure(trace, basis) {
    const { lookup, rival, plain, main } = trace;
    const seconds = basis === "seconds" && plain;
    const points = (lane) => {
      const records = seconds ? lane.passes : [{ after: { passes: 0, tokens: 0, seconds: 0 } }, ...lane.passes];
      return { x: records.map(({ after }) => (seconds ? after.seconds : after.passes)), y: records.map(({ after }) => after.tokens) };
    };
    const counted = { x: [0, main.ids.length], y: [0, main.ids.length] };
    const lanes = [
      lookup && [rival ? words.versus.a : words.fixedTexts.lookupTitle, points(lookup), { color: LIGHT.copied, width: 2.5, shape: "hv" }],
      rival && [words.versus.b, points(rival), { color: LIGHT.rival, width: 2.5, shape: "hv", dash: "dot" }],
      [words.plot.plain(!plain), plain ? points(plain) : counted, { color: LIGHT.plain, width: 2, dash: "dash" }],
    ].filter(Boolean);
    const most = (axis) => Math.max(...lanes.flatMap(([, { [axis]: values }]) => values.at(-1) ?? 0), axis === "x" && seconds ? 0 : 1) * 1.04 || 1;
    const box = { width: 760, height: 420, left: 60, right: 20, top: 64, bottom: 46 };
    const made = drawing(
      lanes.map(([, at, line]) => ({ ...at, line })),
      { x: { title: seconds ? words.plot.seconds : words.plot.passes, to: most("x") }, y: { title: words.plot.tokens, to: most("y") } },
      box,
      LIGHT,
    );
    made.prepend(svg("rect", { width: box.width, height: box.height, fill: LIGHT.ground }));
    const write = (x, y, content, more) => made.append(svg("text", { x, y, "font-family": FONT, fill: LIGHT.text, ...more }, sayable(content)));
    write(box.left, 22, words.exports.figureTitle(main.start.model, main.start.settings), { "font-size": 14, "font-weight": 600 });
    write(box.left, 40, [words.run(main.start), ...choiceWords(main)].join(" · "), { "font-size": 11, fill: LIGHT.muted });
    let left = box.left;
    for (const [name, , line] of lanes) {
      made.append(svg("line", { x1: left, x2: left + 24, y1: 54, y2: 54, stroke: line.color, "stroke-width": line.width, "stroke-dasharray": DASHES[line.dash ?? "solid"] }));
      write(left + 30, 58, name, { "font-size": 12, fill: LIGHT.muted });
      left += 54 + 7 * name.length;
    }
    return made;
  }

  Object.assign(lens, { drawing, figure });
})((globalThis.pldLens ??= {}));
