// The lookup policies, asked of a recorded run: the same places as pld_core.lookup finds.
(function (lens) {
  "use strict";

  const REACH = 8;
  // The place itself, then one further on, one before, two further on, ...
  const AROUND = [0, ...Array.from({ length: REACH }, (_, i) => [i + 1, -i - 1]).flat()];

  // Longest match first; among equals the most recent.
  class Recent {
    constructor(grams, settings) {
      this.grams = grams;
      this.settings = settings;
      this.where = settings.search === "prompt" ? "inPrompt" : "all";
    }

    // The match of the text that ends with output token j, or null. Its `start` counts from where
    // its region's text begins, `from` is the same place in all the text.
    find(j) {
      const { n_max, n_min } = this.settings;
      for (let n = Math.min(n_max, this.grams.text.length); n >= n_min; n--) {
        const found = this.grams.level(n)[this.where];
        if (found.count[j]) return this.match(this.place(n, j, found) - n + 1, n, found.count[j]);
      }
      return null;
    }

    // Where the copied one of the places of the last n tokens ends.
    place(n, j, found) {
      return found.last[j];
    }

    match(from, n, alternatives) {
      const { border, promptEnd } = this.grams;
      const region = from < border ? "reference" : from < promptEnd ? "prompt" : "output";
      return { start: region === "reference" ? from : from - border, n, region, alternatives, from };
    }

    // A pass kept so many tokens from output position `first` on.
    keep(first, kept) {}
  }

  class Oldest extends Recent {
    place(n, j, found) {
      return found.first[j];
    }
  }

  // The most common continuation of the longest match.
  class Vote extends Recent {
    place(n, j) {
      return this.grams.mostFollowed(n)[this.where][j];
    }
  }

  // The one nearest to where the last copy was going.
  class Nearest extends Recent {
    proposed = null;
    going = null;
    inReference = false;

    place(n, j, found) {
      const end = found.count[j] > 1 && this.going !== null ? this.#nearest(n, j, found.last[j]) : found.last[j];
      this.proposed = end + 1;
      return end;
    }

    #nearest(n, j, recent) {
      const { border, promptEnd } = this.grams;
      const classes = this.grams.classes(n);
      const now = promptEnd + j;
      const first = (this.inReference ? 0 : border) + n - 1;
      const last = (this.inReference ? border : this.where === "inPrompt" ? promptEnd : now + 1) - 2;
      for (const offset of AROUND) {
        const end = this.going + offset - 1;
        if (end >= first && end <= last && classes[end] === classes[now]) return end;
      }
      return recent;
    }

    keep(first, kept) {
      if (this.proposed !== null && this.grams.text[this.proposed] === this.grams.output[first]) {
        this.going = this.proposed;
        this.inReference = this.going < this.grams.border;
      }
      if (this.going !== null) this.going += kept;
      this.proposed = null;
    }
  }

  // The longest match of all where that is longer than n_max, from where it first stood; its
  // places are not counted.
  class Longest extends Recent {
    find(j) {
      const { n_max, search } = this.settings;
      const { length, end } = this.grams.longestMatches(search === "prompt");
      if (length[j] <= n_max) return super.find(j);
      return this.match(end[j] - length[j] + 1, length[j], 0);
    }
  }

  const lookups = { recent: Recent, oldest: Oldest, nearest: Nearest, vote: Vote, longest: Longest };

  Object.assign(lens, { lookups });
})((globalThis.pldLens ??= {}));
