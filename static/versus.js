// Two settings on one prompt: a pane for the second lane, and a table of both beside plain.
(function (lens) {
  "use strict";

  const { extras, node, setText, Pane, Switch, laneTokens, numbers, speedup, Difference, lookupWords, words } = lens;
  const text = words.versus;

  class Versus {
    constructor(view) {
      this.view = view;
      this.title = view.root.querySelector(".pane.lookup h2");
      this.pane = node("div", "pane rival");
      this.pane.hidden = true;
      const head = node("div", "pane-head");
      this.count = node("span", "count");
      this.state = node("span", "state");
      head.append(node("h2", "", text.b), this.count, this.state);
      const region = node("div", "text");
      region.dataset.part = "rival";
      region.tabIndex = 0;
      region.setAttribute("role", "region");
      region.setAttribute("aria-label", text.b);
      this.pane.append(head, region);
      view.root.querySelector(".pane.lookup").after(this.pane);
      view.panes.rival = new Pane(region);
      view.controls.hear(view.part.lookup, () => this.#follow("a"));
      view.controls.hear(region, () => this.#follow("b"));
      this.lanes = node("div", "lanes");
      this.choice = new Switch(this.lanes, text.follow, text.lanes, "a", (lane) => this.#follow(lane));
      view.part.range.before(this.lanes);
      this.frame = node("div", "versus");
      this.frame.hidden = true;
      this.frame.tabIndex = 0;
      this.frame.setAttribute("role", "region");
      this.frame.setAttribute("aria-label", text.title);
      this.frame.dataset.part = "versus";
      view.root.querySelector("[data-part=details]").after(this.frame);
      this.key = node("span", "line rival", text.b);
      this.key.hidden = true;
      view.part.plainKey.before(this.key);
      this.lookupKey = view.root.querySelector("[data-word=lookupKey]");
    }

    restart() {
      this.differences = new Map();
      this.pane.hidden = this.frame.hidden = true;
      this.rested = false;
    }

    draw() {
      const { trace, panes, root, standing } = this.view;
      const { lookup, rival, plain } = trace;
      this.pane.hidden = this.frame.hidden = this.key.hidden = this.lanes.hidden = !rival;
      root.classList.toggle("with-rival", Boolean(rival));
      setText(this.title, rival ? text.a : words.fixedTexts.lookupTitle);
      setText(this.lookupKey, rival ? text.a : words.fixedTexts.lookupKey);
      if (!rival) return;
      const second = trace.followed === rival;
      this.choice.set(second ? "b" : "a");
      this.pane.classList.toggle("stepped", second);
      panes.lookup.element.parentElement.classList.toggle("stepped", !second);
      panes.rival.append(laneTokens(panes.rival, rival), this.view.cursor === null);
      if (rival.end && !this.rested) {
        this.rested = true;
        panes.rival.appendRest((rival.end.pieces ?? []).join(""));
      }
      panes.rival.show(rival.after(standing.rival).tokens);
      setText(this.count, standing.rival ? words.lanePasses(panes.rival.shown, standing.rival) : "");
      setText(this.state, words.state(rival, trace.reading));
      this.state.dataset.state = rival.end?.reason ?? "running";
      this.#table([[text.a, lookup, standing.lookup], [text.b, rival, standing.rival], ...(plain ? [[words.fixedTexts.plainTitle, plain, standing.plain]] : [])]);
    }

    #follow(lane) {
      const { lookup, rival } = this.view.trace;
      if (rival) this.view.follow(lane === "b" ? rival : lookup);
    }

    #table(lanes) {
      const { trace } = this.view;
      const rows = lanes.map(([name, lane, passes]) => {
        const n = numbers(lane, passes);
        const measured = trace.plain && lane !== trace.plain ? speedup(lane, trace.plain, passes) : null;
        const none = words.headline.none;
        return [
          name,
          words.count(n.tokens),
          words.count(n.passes),
          n.tokensPerPass === null ? none : words.fixed(n.tokensPerPass, 2),
          n.passes > 1 ? words.duration(n.seconds) : none,
          measured ? words.headline.times(measured.ratio) : none,
          lane === trace.lookup ? none : this.#same(lane),
          lane === trace.plain ? none : lookupWords(lane).join(", "),
        ];
      });
      this.#fill(rows);
    }

    #same(lane) {
      if (!this.differences.has(lane)) this.differences.set(lane, new Difference(this.view.trace.lookup, lane));
      const { at, compared } = this.differences.get(lane).update();
      return at === null ? (compared ? words.headline.yes : words.headline.none) : text.differs(at + 1);
    }

    #fill(rows) {
      if (this.frame.querySelectorAll("tbody tr").length !== rows.length) {
        const table = node("table");
        table.append(node("caption", "spoken", text.title));
        const head = node("thead").appendChild(node("tr"));
        for (const name of text.columns) {
          const cell = head.appendChild(node(name ? "th" : "td", "", name));
          if (name) cell.scope = "col";
        }
        const body = node("tbody");
        for (const row of rows) {
          const line = body.appendChild(node("tr"));
          row.forEach((_, i) => {
            const cell = line.appendChild(node(i ? "td" : "th"));
            if (!i) cell.scope = "row";
          });
        }
        table.append(head.parentElement ?? head, body);
        this.frame.replaceChildren(table);
      }
      const lines = this.frame.querySelectorAll("tbody tr");
      rows.forEach((row, r) => row.forEach((value, c) => setText(lines[r].children[c], value)));
    }
  }

  extras.push((view) => new Versus(view));
})((globalThis.pldLens ??= {}));
