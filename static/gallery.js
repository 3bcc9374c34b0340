// The recorded runs, from the one that copied least to the one that copied most.
(function (lens) {
  "use strict";

  const { node, words, button } = lens;
  const text = words.explore.gallery;

  class Gallery {
    // runs: what each recording says of itself. open(id): shows it.
    constructor(body, runs, open) {
      this.rows = new Map();
      body.append(node("p", "sentence", text.lead));
      const table = node("table", "gallery");
      table.append(node("caption", "spoken", text.caption), node("thead"), node("tbody"));
      const head = node("tr");
      for (const name of text.head) head.append(node("th", "", name));
      for (const cell of head.children) cell.scope = "col";
      table.tHead.append(head);
      for (const run of [...runs].sort((a, b) => a.f - b.f)) table.tBodies[0].append(this.#row(run, open));
      body.append(table);
    }

    draw(trace) {
      const start = trace.lookup?.start;
      for (const [row, run] of this.rows) {
        const shown = Boolean(start) && start.created === run.created && start.model === run.model;
        row.classList.toggle("shown", shown);
        row.querySelector("button").setAttribute("aria-current", shown);
      }
    }

    #row(run, open) {
      const row = node("tr");
      const name = node("th");
      name.scope = "row";
      name.append(button(run.title, () => open(run.id), "link"), node("span", "made", text.made(run)));
      const copied = node("td", "rate");
      const bar = node("span", "bar");
      bar.style.setProperty("--share", run.f);
      copied.append(node("span", "", words.percent(run.f)), bar);
      const ratio = node("td", "", run.time === null ? words.headline.none : words.headline.times(run.time));
      if (run.time !== null && run.time < 0.995) {
        ratio.classList.add("against");
        ratio.append(node("span", "made", words.headline.slower));
      }
      row.append(name, copied, node("td", "", words.fixed(run.tokens_per_pass, 2)), ratio, node("td", "", run.same === null ? words.headline.none : run.same ? words.headline.yes : words.headline.no));
      [...row.children].slice(1).forEach((cell, i) => (cell.dataset.name = text.head[i + 1]));
      this.rows.set(row, run);
      return row;
    }
  }

  Object.assign(lens, { Gallery });
})((globalThis.pldLens ??= {}));
