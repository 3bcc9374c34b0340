// A button that reads a text file here, in the browser; nothing is uploaded. Its value is
// { name, text } or { problem }, one sentence for the visitor.
((given) => {
  "use strict";

  const { element, props, trigger, largest, words } = given;
  const [button, input] = element.querySelectorAll("button, input");
  button.textContent = words.label;

  async function read(file) {
    if (file.size > largest) return { problem: words.tooLarge.replace("{name}", () => file.name) };
    const noText = { problem: words.noText.replace("{name}", () => file.name) };
    try {
      const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
      if (text.includes("\0")) return noText;
      // the newline that editors put behind the last line is no part of the text
      return { name: file.name, text: text.replaceAll("\r\n", "\n").replace(/\n$/, "") };
    } catch {
      return noText;
    }
  }

  button.addEventListener("click", () => input.click());
  input.addEventListener("change", async () => {
    const [file] = input.files;
    if (!file) return;
    props.value = await read(file);
    input.value = "";
    trigger("upload");
  });
})
