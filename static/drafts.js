// How drafts fared: acceptance by position, tokens kept per pass, and how passes ended.
(function (lens) {
  "use strict";

  const { node, setText, words, ticks, whole, Chart, Table, decodePasses, emptiness, undrafted } = lens;
  const text = words.explore.drafts;

  class Drafts {
    constructor(body) {
      this.lead = body.appendChild(node("p", "sentence"));
      this.outcomes = body.appendChild(node("div", "outcomes"));
      this.bar = this.outcomes.appendChild(node("div", "stacked"));
      this.list = this.outcomes.appendChild(node("ul", "shares"));
      const columns = body.appendChild(node("div", "columns"));
      [this.acceptance, this.kept] = ["acceptance", "kept"].map((name) => {
        const column = columns.appendChild(node("div", name));
        const title = column.appendChild(node("h3", "", text[name].title));
        return { title, graph: column.appendChild(node("div", "graph")), note: column.appendChild(node("p", "sentence quiet")), table: new Table(column) };
      });
      this.columns = columns;
    }

    draw(trace) {
      const { followed: lookup } = trace;
      const passes = decodePasses(lookup);
      const any = passes.length > 0;
      this.outcomes.hidden = this.columns.hidden = !any;
      if (!any) return setText(this.lead, emptiness(trace));
      this.#outcomes(lookup, passes);
      this.#acceptance(passes.filter((p) => p.draft.length > 0));
      this.#kept(passes);
    }

    #outcomes(lane, passes) {
      const counts = { none: 0, rejected: 0, part: 0, all: 0 };
      for (const { draft, copied } of passes) {
        counts[draft.length === 0 ? "none" : copied === 0 ? "rejected" : copied < draft.length ? "part" : "all"] += 1;
      }
      const reasons = { plain: 0, unmatched: 0, unpaying: 0, noRoom: 0 };
      for (const pass of passes) if (pass.draft.length === 0) reasons[undrafted(lane, pass)] += 1;
      setText(this.lead, text.lead(counts.none, passes.length, reasons));
      this.bar.replaceChildren();
      this.list.replaceChildren();
      for (const [name, count] of Object.entries(counts)) {
        const piece = node("span", `share ${name}`);
        piece.style.flexGrow = count;
        if (count) this.bar.append(piece);
        const item = node("li", `share-${name}`);
        item.append(node("span", "swatch"), node("span", "", text.outcome(name, count, count / passes.length)));
        this.list.append(item);
      }
    }

    // Position i of a draft is tested when all before it were kept, and kept when it was too.
    #acceptance(drafted) {
      const rows = positionsOf(drafted);
      const { graph, note, table } = this.acceptance;
      const last = rows.at(-1);
      setText(note, rows.length ? text.acceptance.note(rows) : text.acceptance.none);
      if (rows.length === 0) {
        graph.replaceChildren();
        return table.draw(text.acceptance.head, [], text.acceptance.title);
      }
      const chart = new Chart(graph, {
        height: 220, label: text.acceptance.summary(rows),
        x: { from: 0.4, to: last.position + 0.6, ticks: whole(ticks(last.position, 10)).filter((t) => t > 0), title: text.acceptance.xTitle },
        y: { to: 1, ticks: [0, 0.25, 0.5, 0.75, 1], label: words.percent, title: text.acceptance.yTitle },
      });
      for (const { position, drafted, kept } of rows) chart.bar(position, kept / drafted, 0.72, "copied");
      table.draw(
        text.acceptance.head,
        rows.map((r) => [words.count(r.position), words.count(r.drafted), words.count(r.tested), words.count(r.kept), words.percent(r.kept / r.drafted), r.tested ? words.percent(r.kept / r.tested) : words.headline.none]),
        text.acceptance.title,
      );
    }

    #kept(passes) {
      const counts = [];
      for (const { kept } of passes) counts[kept] = (counts[kept] ?? 0) + 1;
      const rows = Array.from({ length: counts.length - 1 }, (_, i) => [i + 1, counts[i + 1] ?? 0]);
      const most = Math.max(...rows.map(([, count]) => count));
      const { graph, note, table } = this.kept;
      const tokens = passes.reduce((sum, { kept }) => sum + kept, 0);
      setText(note, text.kept.note(passes.length, counts[1] ?? 0, tokens / passes.length));
      const chart = new Chart(graph, {
        height: 220, label: text.kept.summary(rows, passes.length),
        x: { from: 0.4, to: rows.length + 0.6, ticks: whole(ticks(rows.length, 10)).filter((t) => t > 0), title: text.kept.xTitle },
        y: { to: most * 1.08, ticks: whole(ticks(most, 4)), title: text.kept.yTitle },
      });
      for (const [kept, count] of rows) if (count) chart.bar(kept, count, 0.72, kept === 1 ? "own" : "copied");
      table.draw(text.kept.head, rows.filter(([, count]) => count).map(([kept, count]) => [words.count(kept), words.count(count), words.percent(count / passes.length)]), text.kept.title);
    }
  }

  // [{position, drafted, tested, kept}], positions from 1.
  function positionsOf(drafted) {
    const rows = [];
    for (const { draft, copied, event } of drafted) {
      for (let i = 0; i < draft.length; i++) {
        rows[i] ??= { position: i + 1, drafted: 0, tested: 0, kept: 0 };
        rows[i].drafted += 1;
        rows[i].tested += copied > i || (copied === i && event.bonus !== null); // the answer may end before it
        rows[i].kept += copied > i;
      }
    }
    return rows;
  }

  Object.assign(lens, { Drafts, positionsOf });
})((globalThis.pldLens ??= {}));
