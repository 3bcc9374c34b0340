// Parts that several panels are made of.
(function (lens) {
  "use strict";

  const { node, setText } = lens;

  function button(text, clicked, className = "") {
    const made = node("button", className, text);
    made.type = "button";
    made.addEventListener("click", clicked);
    return made;
  }

  // A row of numbers, each with its name above and a note below.
  class Figures {
    constructor(host, names) {
      this.list = node("dl", "figures");
      this.parts = {};
      for (const [name, label] of Object.entries(names)) {
        const item = node("div", "figure");
        item.dataset.figure = name;
        const value = node("dd", "value");
        const note = node("dd", "note");
        item.append(node("dt", "", label), value, note);
        this.list.append(item);
        this.parts[name] = { item, value, note };
      }
      host.append(this.list);
    }

    set(name, value, note = "", against = false) {
      const part = this.parts[name];
      setText(part.value, value);
      setText(part.note, note);
      part.item.classList.toggle("against", against);
    }
  }

  // A native range with its name and what its value means.
  class Slider {
    constructor(host, label, { min, max, step = 1 }, shown, moved) {
      this.shown = shown;
      this.element = node("label", "slider");
      this.input = node("input");
      Object.assign(this.input, { type: "range", min, max, step });
      this.output = node("span", "reading");
      this.output.setAttribute("aria-hidden", "true"); // the range itself says it
      this.element.append(node("span", "name", label), this.output, this.input);
      this.input.addEventListener("input", () => {
        this.#say();
        moved(this.value);
      });
      host.append(this.element);
    }

    get value() {
      return Number(this.input.value);
    }

    set(value) {
      this.input.value = value;
      this.#say();
    }

    #say() {
      const words = this.shown(this.value);
      setText(this.output, words);
      this.input.setAttribute("aria-valuetext", words);
    }
  }

  // One of a few, as native radio buttons that look like one switch. options: {value: label}.
  class Switch {
    constructor(host, label, options, chosen, changed) {
      this.element = node("fieldset", "switch");
      this.element.append(node("legend", "spoken", label));
      const name = `pld-switch-${++switches}`;
      this.inputs = {};
      for (const [value, text] of Object.entries(options)) {
        const input = node("input", "spoken");
        Object.assign(input, { type: "radio", name, value, checked: value === chosen });
        input.addEventListener("change", () => changed(value));
        const option = node("label");
        option.append(input, node("span", "", text));
        this.element.append(option);
        this.inputs[value] = input;
      }
      host.append(this.element);
    }

    set(value) {
      this.inputs[value].checked = true;
    }

    get value() {
      return Object.keys(this.inputs).find((value) => this.inputs[value].checked);
    }
  }

  // One of many, as a native menu; used like a Switch.
  class Menu {
    constructor(host, label, options, chosen, changed) {
      this.element = node("select");
      this.element.setAttribute("aria-label", label);
      for (const [value, text] of Object.entries(options)) {
        const option = node("option", "", text);
        Object.assign(option, { value, selected: value === chosen });
        this.element.append(option);
      }
      this.element.addEventListener("change", () => changed(this.value));
      host.append(this.element);
    }

    set(value) {
      this.element.value = value;
    }

    get value() {
      return this.element.value;
    }
  }

  let switches = 0;

  Object.assign(lens, { button, Figures, Slider, Switch, Menu });
})((globalThis.pldLens ??= {}));
