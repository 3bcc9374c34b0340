// A page to keep: the view and one trace in a file that opens anywhere, without a network.
(function (lens) {
  "use strict";

  const { words } = lens;
  const POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:";
  const AROUND = `
    body { margin: 0; padding: 20px 24px 40px; background: #ffffff; color: #16191f; font: 14px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
    h1 { font-size: 20px; margin: 0 0 2px; } .lead { margin: 0 0 16px; max-width: 60em; }
    @media (prefers-color-scheme: dark) { :root { color-scheme: dark; } body { background: #0b0d10; color: #e9ecf1; } }
    @media (max-width: 620px) { body { padding: 14px; } }`;

  // Text inside a script element: nothing in it may end the element or open a comment.
  const data = (text) => JSON.stringify(text).replace(/[<\u2028\u2029]/g, (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`);
  const code = (text) => text.replace(/<(?=\/script|script|!--)/gi, "\\x3c");

  async function read(url) {
    const answer = await fetch(url);
    if (!answer.ok) throw new Error(url);
    return answer.text();
  }

  // sources: {html, styles, scripts}: addresses of the view's own files. lane, pass: where to
  // open, the lane by its name and its pass counted from 1, or null for the end.
  async function page(text, { lane, pass }, sources) {
    const [html, styles, scripts] = await Promise.all([
      read(sources.html), Promise.all(sources.styles.map(read)), Promise.all(sources.scripts.map(read)),
    ]);
    const start = `
      const text = ${data(text)};
      const source = { text: () => text, watch() {}, replace() {} };
      const view = (pldLens.view = pldLens.mount(document.body, source, {}));
      view.follow(view.trace.lanes.get(${data(lane)}));
      view.moveTo(${data(pass)});`;
    return [
      '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">',
      `<meta http-equiv="Content-Security-Policy" content="${POLICY}">`,
      `<title>${words.kept.title}</title><style>${AROUND}\n${styles.join("\n")}</style></head><body>`,
      `<h1>${words.kept.title}</h1><p class="lead">${words.kept.lead}</p>${html}`,
      ...scripts.map((script) => `<script>${code(script)}</script>`),
      `<script>${start}</script></body></html>`,
    ].join("\n");
  }

  Object.assign(lens, { keptPage: page });
})((globalThis.pldLens ??= {}));
