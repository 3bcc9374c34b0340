// The settings as other engines write them, each with a button that copies it.
((given) => {
  "use strict";

  const { element, props, watch, words } = given;
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
      const copy = made("button", "");
      copy.type = "button";
      const say = (word) => {
        copy.textContent = word;
        copy.setAttribute("aria-label", `${word}: ${engine}`);
      };
      say(words.copy);
      copy.addEventListener("click", async () => {
        try {
          await navigator.clipboard.writeText(text);
          say(words.copied);
        } catch {
          getSelection().selectAllChildren(code); // ready for the visitor's own copy
          say(words.selected);
        }
        setTimeout(() => say(words.copy), 4000);
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
