// The page's own address: what a link asks for, and where a link leads.
(function (lens) {
  "use strict";

  const place = () => JSON.stringify({ base: location.origin + location.pathname, search: location.search, hash: location.hash, pass: lens.view?.cursor ?? null });

  async function copied(text) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      return false; // a page without a secure address has no clipboard
    }
  }

  Object.assign(lens, { place, copied });
})((globalThis.pldLens ??= {}));
