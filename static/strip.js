// "This pass": what was matched, what was drafted, what stood, what the model said instead.
(function (lens) {
  "use strict";

  const { node, visible, sources, pathOf, settingsOf, undrafted, words } = lens;
  const text = words.strip;

  class Strip {
    constructor(title, body) {
      this.title = title;
      this.body = body;
      this.drawn = "";
    }

    // pass counts from 0; null when there is none yet. name: which lane it is, "" where there is
    // one alone.
    draw(lane, pass, name, locked) {
      const key = lane && pass !== null ? `${lane.start.created} ${lane.name} ${name} ${pass} ${lane.passes.length > pass} ${locked}` : `none ${lane?.end ? "ended" : ""}`;
      if (key === this.drawn) return;
      this.drawn = key;
      this.title.replaceChildren();
      if (!lane || pass === null) return this.body.replaceChildren(node("p", "sentence", lane?.end ? text.noPass : text.none));
      const record = lane.passes[pass];
      if (name) this.title.append(node("span", "", name));
      this.title.append(node("span", "number", words.cursor.label(pass + 1, lane.passes.length)));
      if (locked) this.title.append(node("span", "locked", text.locked));
      if (record.event.type === "prefill") {
        this.body.replaceChildren(
          node("p", "sentence", text.prefill(lane.promptLength)),
          row(text.bonus, ownChips(lane, record.event)),
          costs([words.duration(record.event.seconds)]),
        );
        return;
      }
      this.body.replaceChildren(...this.#parts(lane, pass, record));
    }

    forget() {
      this.drawn = "";
    }

    #parts(lane, pass, record) {
      const { event } = record;
      const parts = [this.#sentence(lane, pass, record)];
      if (record.draft.length) {
        parts.push(row(text.draft, draftChips(lane, record), text.kept(event.accepted, record.draft.length)));
      }
      if (record.tree) parts.push(...branchRows(lane, record));
      const rejected = record.tree ? record.tree.parents.includes(record.tree.path.at(-1) ?? -1) : event.accepted < event.draft.length;
      if (event.bonus === null) parts.push(row(text.bonus, [], text.noBonus));
      else parts.push(row(text.bonus, ownChips(lane, event), rejected ? text.instead(event.accepted + 1) : ""));
      const others = (event.wanted ?? []).filter(({ id }) => id !== event.bonus);
      if (rejected && others.length) parts.push(row(text.otherwise, weighedChips(lane, others)));
      const { lookup, forward, accept } = event.seconds;
      parts.push(costs([text.width(event.width, why(lane, record)), text.total(lookup + forward + accept), text.split(event.seconds)]));
      return parts;
    }

    #sentence(lane, pass, record) {
      const { event } = record;
      const sentence = node("p", "sentence");
      if (!event.match) {
        sentence.textContent = event.draft.length ? text.unmatched(event.draft.length) : text.undrafted[undrafted(lane, record)];
        return sentence;
      }
      const { start, n, region } = event.match;
      const position = region === "output" ? start - lane.promptLength : start;
      const { suffix, period } = sources(lane, pass);
      const pieces = suffix.map((at) => pieceAt(lane, at));
      sentence.append(
        `${text.matchBefore(n)} `,
        ...pieces.map((piece) => chip(visible(piece), "key")),
        ` ${text.matchAfter(n, region, position + 1)}`,
        text.alternatives(event.alternatives ?? 0),
        text.drafted(record.draft.length),
        period === null ? "" : text.period(period),
        record.tree ? text.beside(record.tree.branches.length - 1) : "",
        ".",
      );
      return sentence;
    }
  }

  // Why it is as wide as it is.
  function why(lane, { event: { draft, gain }, tree }) {
    const { k, fixed_width } = settingsOf(lane);
    if (fixed_width) return text.asStrict;
    if (draft.length === 0) return "";
    if (typeof gain === "number") return text.asPays(gain);
    if (tree) return text.asBranches(tree.branches.length);
    return draft.length === k ? text.asAllowed : text.asThere;
  }

  function pieceAt(lane, position) {
    const { promptLength } = lane;
    return position < promptLength ? lane.start.prompt.pieces[position] : lane.pieces[position - promptLength];
  }

  function chip(label, kind, spoken) {
    const made = node(kind === "rejected" ? "del" : "span", `chip ${kind}`, label);
    if (spoken) made.append(node("span", "spoken", ` (${spoken})`));
    return made;
  }

  const identified = (made, id) => {
    made.dataset.id = id;
    return made;
  };

  // The end of the answer has no text of its own to show.
  const labelOf = (lane, id, piece) => (lane.start.eos?.includes(id) ? text.eos : visible(piece));

  const draftChips = (lane, { draft, draftPieces, copied }) =>
    draft.map((id, i) => {
      const [kind, spoken] = i < copied ? ["copied", text.acceptedChip] : ["rejected", text.rejectedChip];
      return identified(chip(labelOf(lane, id, draftPieces[i]), kind, spoken), id);
    });

  // The other branches of a tree, each from where it parts with those above it.
  function branchRows(lane, { event, tree, line }) {
    const shown = new Set(line);
    const rows = [];
    for (const { leaf, match } of tree.branches) {
      const path = pathOf(tree.parents, leaf);
      const own = path.filter((node) => !shown.has(node));
      if (own.length === 0) continue;
      for (const node of own) shown.add(node);
      const chips = own.map((node) => identified(chip(labelOf(lane, event.draft[node], event.draft_pieces[node]), "rejected", text.rejectedChip), event.draft[node]));
      if (own.length < path.length) chips.unshift(node("span", "remark", text.parts(path.length - own.length)));
      const { n, region, start } = match;
      rows.push(row(text.branch, chips, text.branchFrom(n, region, (region === "output" ? start - lane.promptLength : start) + 1)));
    }
    return rows;
  }

  function ownChips(lane, { kept, pieces, probabilities }) {
    const own = [identified(chip(labelOf(lane, kept.at(-1), pieces.at(-1)), "own", text.bonusChip), kept.at(-1))];
    if (probabilities?.length) own.push(node("span", "probability", words.percent(probabilities.at(-1))));
    return own;
  }

  const weighedChips = (lane, candidates) =>
    candidates.flatMap(({ id, piece, p }) => [chip(labelOf(lane, id, piece), "weighed"), node("span", "probability", words.percent(p))]);

  function row(label, chips, note) {
    const made = node("div", "row");
    const list = node("span", "chips");
    list.append(...chips);
    made.append(node("span", "label", label), list);
    if (note) list.append(node("span", "remark", note));
    return made;
  }

  function costs(texts) {
    const made = node("div", "costs");
    made.append(...texts.map((line) => node("span", "", line)));
    return made;
  }

  Object.assign(lens, { Strip });
})((globalThis.pldLens ??= {}));
