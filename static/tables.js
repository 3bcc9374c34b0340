// The numbers of a run as a table: per pass for a spreadsheet, per lane for a text.
(function (lens) {
  "use strict";

  const { numbers, speedup, Difference, lookupWords, choiceWords, words } = lens;

  // A cell of RFC 4180. A spreadsheet takes a text that begins with one of these signs for a
  // formula, so such a text gets an apostrophe before it.
  const FORMULA = /^\s*[=+\-@\uFF1D\uFF0B\uFF0D\uFF20]|^[\t\r\n]/;
  function cell(value) {
    if (value === null || value === undefined) return "";
    if (typeof value === "number") return String(value);
    const text = FORMULA.test(value) ? `'${value}` : value;
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  }

  const COLUMNS = [
    "lane", "pass", "tokens_before", "kept", "kept_text", "match_n", "match_start", "match_region", "alternatives",
    "drafted", "accepted", "draft_text", "positions", "lookup_s", "forward_s", "accept_s",
  ];

  // One line per pass of every lane; a prefill has its seconds as forward seconds.
  function csv(trace) {
    const rows = [COLUMNS];
    for (const lane of trace.lanes.values()) {
      lane.passes.forEach(({ event, first, kept, drafted, draftPieces, copied }, pass) => {
        const { match, seconds } = event;
        const times = typeof seconds === "number" ? [null, seconds, null] : [seconds.lookup, seconds.forward, seconds.accept];
        rows.push([
          lane.name, pass + 1, first, kept, event.pieces.join(""), match?.n, match?.start, match?.region, event.alternatives,
          drafted, copied, (draftPieces ?? []).join(""), event.width ?? lane.promptLength, ...times,
        ]);
      });
    }
    return rows.map((row) => row.map(cell).join(",") + "\r\n").join("");
  }

  const escaped = (text) => text.replace(/[\r\n]+/g, " ").replace(/[\\|<>`*_[\]]/g, "\\$&");

  // The lanes beside each other, as a table in Markdown.
  function markdown(trace) {
    const text = words.exports;
    const { lookup, rival, plain, main } = trace;
    const lanes = [
      [rival ? words.versus.a : words.fixedTexts.lookupTitle, lookup],
      [words.versus.b, rival],
      [words.fixedTexts.plainTitle, plain],
    ].filter(([, lane]) => lane);
    const none = words.headline.none;
    const row = (name, value) => `| ${name} | ${lanes.map(([, lane]) => value(lane, numbers(lane, lane.passes.length)) ?? none).join(" | ")} |`;
    const measured = (lane) => (plain && lane !== plain ? speedup(lane, plain, lane.passes.length) : null);
    const drafts = (lane) => lane !== plain;
    return [
      escaped([words.run(main.start), ...choiceWords(main)].join(" · ")),
      "",
      `| | ${lanes.map(([name]) => name).join(" | ")} |`,
      `|---|${lanes.map(() => "---:").join("|")}|`,
      row(text.settings, (lane) => (drafts(lane) ? escaped(lookupWords(lane).join(", ")) : null)),
      row(words.headline.tokens, (lane, n) => words.count(n.tokens)),
      row(words.headline.passes, (lane, n) => words.count(n.passes)),
      row(words.headline.tokensPerPass, (lane, n) => (n.tokensPerPass === null ? null : words.fixed(n.tokensPerPass, 2))),
      row(text.copyRate, (lane, n) => (drafts(lane) ? words.percent(n.copyRate) : null)),
      row(text.copyLength, (lane, n) => (n.copyLength === null ? null : words.fixed(n.copyLength, 2))),
      row(text.accepted, (lane, n) => (n.drafted ? `${words.count(n.accepted)} / ${words.count(n.drafted)}` : null)),
      row(text.prefill, (lane) => words.duration(lane.prefillSeconds)),
      row(text.decode, (lane, n) => (n.passes > 1 ? words.duration(n.seconds) : null)),
      row(words.headline.speedup, (lane) => (measured(lane) ? words.headline.times(measured(lane).ratio) : null)),
      ...(plain && lookup ? [row(text.same, (lane) => (lane === plain ? null : new Difference(lane, plain).update().at === null ? words.headline.yes : words.headline.no))] : []),
      "",
    ].join("\n");
  }

  Object.assign(lens, { csv, markdown });
})((globalThis.pldLens ??= {}));
