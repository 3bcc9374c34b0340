// The settings as other engines write them, each with a button that copies it.
(({ element, props, watch, words }) => {
  "use strict";

  const list = element.querySelector(".configurations");
  const made = (tag, className, text) => {
    const node = document.createElement(tag);
    node.className = className;
    if (text !== undefined) node.textContent = text;
    return node;
  };

  function draw() {
    const { problem, engines } = JSON.parse(props.value || '{"engines":[]}');
    const blocks = engines.map(({ engine, text, note }) => {
      const block = made("section", "engine");
      const head = made("div", "engine-head");
      const code = made("pre", "", text);
      code.tabIndex = 0;
      code.setAttribute("role", "region");
      code.setAttribute("aria-label", engine);
      const copy = made("button", "", words.copy);
      copy.type = "button";
      copy.setAttribute("aria-label", `${words.copy}: ${engine}`);
      copy.addEventListener("click", async () => {
        try {
          await navigator.clipboard.writeText(text);
          copy.textContent = words.copied;
        } catch {
          getSelection().selectAllChildren(code); // ready for the visitor's own copy
          copy.textContent = words.selected;
        }
        setTimeout(() => (copy.textContent = words.copy), 2000);
      });
      head.append(made("h3", "", engine), copy);
      block.append(head, code, made("p", "note", note));
      return block;
    });
    list.replaceChildren(...(problem ? [made("p", "note", problem)] : blocks));
  }

  watch("value", draw);
  draw();
})
