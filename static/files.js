// Saving the stream as it came, and reading one back.
(function (lens) {
  "use strict";

  const { TraceError, Trace, words } = lens;
  const LARGEST_MB = 16;

  function save(content, name, type = "application/x-ndjson") {
    const url = URL.createObjectURL(new Blob([content], { type }));
    const link = document.createElement("a");
    link.href = url;
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 60_000);
  }

  // The trace in a file; throws TraceError, one sentence for the visitor.
  async function load(file) {
    if (file.size > LARGEST_MB * 2 ** 20) throw new TraceError(words.problems.tooLarge(LARGEST_MB));
    let text;
    try {
      text = await file.text();
    } catch {
      throw new TraceError(words.problems.unreadable);
    }
    return Trace.of(text);
  }

  Object.assign(lens, { save, load });
})((globalThis.pldLens ??= {}));
