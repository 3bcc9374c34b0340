// What can be taken away from a run.
(function (lens) {
  "use strict";

  const { extras, node, setText, save, csv, markdown, figure, words } = lens;
  const text = words.exports;
  const SHARPNESS = 2;
  const SAID_MS = 4000;

  class Exports {
    constructor(view, sources) {
      this.view = view;
      this.sources = sources;
      this.menu = node("details", "menu");
      this.menu.dataset.part = "exports";
      this.menu.append(node("summary", "button", text.title));
      const body = this.menu.appendChild(node("div", "menu-body"));
      const offers = {
        csv: () => this.#save(csv(view.trace), "-passes.csv", "text/csv"),
        svg: () => this.#save(this.#svg(), ".svg", "image/svg+xml"),
        png: () => this.#png(),
        markdown: () => this.#copy(),
        ...(sources ? { page: () => this.#page() } : {}),
      };
      for (const [name, taken] of Object.entries(offers)) {
        const button = node("button", "", text[name]);
        button.type = "button";
        button.dataset.part = `export-${name}`;
        button.addEventListener("click", () => {
          this.#close();
          taken();
        });
        body.append(button);
      }
      this.menu.addEventListener("keydown", (event) => event.key === "Escape" && this.#close());
      this.menu.addEventListener("focusout", ({ relatedTarget }) => {
        if (relatedTarget && !this.menu.contains(relatedTarget)) this.menu.open = false;
      });
      document.addEventListener("pointerdown", ({ target }) => {
        if (!this.menu.contains(target)) this.menu.open = false;
      });
      this.said = node("span", "said");
      this.said.setAttribute("aria-hidden", "true"); // the status line says it
      this.said.hidden = true;
      view.part.save.after(this.menu);
      this.menu.after(this.said);
    }

    draw() {
      this.menu.hidden = !this.view.trace.main;
    }

    #close() {
      if (!this.menu.open) return;
      this.menu.open = false;
      this.menu.firstElementChild.focus();
    }

    #name(ending) {
      const created = this.view.trace.main.start.created ?? "";
      return `pld-run${created ? "-" + created.replace(/[^0-9A-Za-z]+/g, "-").slice(0, 40) : ""}${ending}`;
    }

    #save(content, ending, type) {
      const name = this.#name(ending);
      save(content, name, type);
      this.#say(text.saved(name));
    }

    // In the status line, and beside the menu for a moment: the line may be out of sight.
    #say(sentence) {
      setText(this.view.part.status, sentence);
      setText(this.said, sentence);
      this.said.hidden = false;
      clearTimeout(this.timer);
      this.timer = setTimeout(() => (this.said.hidden = true), SAID_MS);
    }

    #svg() {
      return new XMLSerializer().serializeToString(figure(this.view.trace, this.view.basis));
    }

    async #png() {
      const image = new Image();
      image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(this.#svg())}`;
      await image.decode();
      const canvas = node("canvas");
      canvas.width = image.width * SHARPNESS;
      canvas.height = image.height * SHARPNESS;
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      canvas.toBlob((blob) => this.#save(blob, ".png", "image/png"), "image/png");
    }

    async #copy() {
      const table = markdown(this.view.trace);
      if (await lens.copied(table)) this.#say(text.copied);
      else this.#save(table, ".md", "text/markdown");
    }

    async #page() {
      const { trace, lane, stepped } = this.view;
      try {
        this.#save(await lens.keptPage(trace.text, { lane: lane.name, pass: stepped }, this.sources), ".html", "text/html");
      } catch {
        this.#say(text.unreachable);
      }
    }
  }

  extras.push((view) => new Exports(view, view.options?.sources));
})((globalThis.pldLens ??= {}));
