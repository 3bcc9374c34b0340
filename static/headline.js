// The numbers of a run, up to the cursor.
(function (lens) {
  "use strict";

  const { node, setText, numbers, speedup, settingsOf, words } = lens;
  const text = words.headline;
  const NAMES = ["tokens", "passes", "tokensPerPass", "speedup", "sameText"];

  class Headline {
    constructor(list, details) {
      this.details = details;
      this.figures = {};
      for (const name of NAMES) {
        const item = node("div", "figure");
        const value = node("dd", "value");
        const note = node("dd", "note");
        item.dataset.figure = name;
        item.append(node("dt", "", text[name]), value, note);
        list.append(item);
        this.figures[name] = { item, value, note };
      }
    }

    clear() {
      for (const name of NAMES) this.#set(name, text.none, "");
      this.details.replaceChildren();
    }

    draw(trace, difference, passes) {
      const { current: lane, followed: lookup, plain } = trace;
      if (!lane) return this.clear();
      const n = numbers(lane, passes);
      const whole = passes === lane.passes.length;
      this.#set("tokens", words.count(n.tokens), whole ? (lane.end ? "" : text.soFar) : text.ofTokens(lane.ids.length));
      this.#set("passes", words.count(n.passes), text.plainPasses(n.tokens, !plain));
      this.#set("tokensPerPass", n.tokensPerPass === null ? text.none : words.fixed(n.tokensPerPass, 2), text.plainTokensPerPass);
      this.#speedup(lookup && plain && speedup(lookup, plain, passes), lookup && !plain, lookup ? settingsOf(lookup).fixed_width : 0);
      this.#sameText(difference, trace.comparison);
      this.#list(n.passes ? words.details(n, lane.prefillSeconds) : []);
    }

    // width: of every pass in strict mode, in which plain decoding is no faster than that.
    #speedup(measured, missing, width) {
      if (!measured) return this.#set("speedup", text.none, missing ? text.notMeasured : "");
      const { ratio, plainSeconds, lookupSeconds, scaled } = measured;
      const notes = [ratio < 0.995 && text.slower, width > 0 && text.strict(width), scaled ? text.perToken : text.seconds(plainSeconds, lookupSeconds)];
      this.#set("speedup", text.times(ratio), notes.filter(Boolean).join(" · "));
      this.figures.speedup.item.classList.toggle("against", ratio < 0.995);
    }

    #sameText(difference, comparison) {
      const { item } = this.figures.sameText;
      item.classList.toggle("against", Boolean(difference) && difference.at !== null);
      item.title = difference && difference.at !== null ? text.differsTitle : "";
      if (!difference) return this.#set("sameText", text.none, text.notMeasured);
      if (difference.at !== null) return this.#set("sameText", text.no, text.differsAt(difference.at + 1, difference.margin, verdict(comparison)));
      if (difference.compared === 0) return this.#set("sameText", text.none, "");
      this.#set("sameText", text.yes, (difference.final ? text.compared : text.comparedSoFar)(difference.compared));
    }

    #list(lines) {
      if (this.details.childElementCount !== lines.length) this.details.replaceChildren(...lines.map(() => node("li")));
      lines.forEach((line, i) => setText(this.details.children[i], line));
    }

    #set(name, value, note) {
      setText(this.figures[name].value, value);
      setText(this.figures[name].note, note);
      if (name === "speedup" && value === text.none) this.figures.speedup.item.classList.remove("against");
    }
  }

  // What a measured comparison says of a difference: as far as rounding alone moves logits, or not.
  function verdict(comparison) {
    const { swing, rounding } = comparison ?? {};
    if (typeof swing !== "number" || typeof rounding !== "number") return null;
    return swing <= rounding ? "tie" : "bug";
  }

  Object.assign(lens, { Headline });
})((globalThis.pldLens ??= {}));
