// The document as rows: source on the left, translation on the right. One row has the focus (arrow keys move it), one may be
// selected (its details are open), and one may be open for correction.

import { element, marked } from "./elements.js";
import { compare, languageName } from "./words.js";

export class Rows {
  /**
   * @param container the grid
   * @param actions what the keys and clicks do: select(index), close(), correct(index, text), release(index),
   *   choose(index, number)
   */
  constructor(container, actions) {
    this.container = container;
    this.actions = actions;
    this.rows = [];
    this.current = 0;
    container.addEventListener("click", (event) => this.#clicked(event));
    container.addEventListener("dblclick", (event) => {
      if (event.target.closest(".target")) this.edit(this.#indexOf(event.target));
    });
    container.addEventListener("keydown", (event) => this.#pressed(event));
    container.addEventListener("focusin", (event) => this.#focused(event));
  }

  /** Shows a document. */
  show(document) {
    this.document = document;
    const { source, target } = document.model;
    this.languages = { source, target };
    const head = element(
      "div.head",
      { role: "row", "aria-rowindex": 1 },
      element("span", { role: "columnheader" }, languageName(source)),
      element("span", { role: "columnheader" }, languageName(target)),
    );
    this.rows = document.sentences.map((sentence, index) => this.#row(sentence, index));
    this.container.setAttribute("aria-rowcount", this.rows.length + 1);
    this.container.replaceChildren(head, ...this.rows);
    this.current = 0;
    if (this.rows.length) this.rows[0].tabIndex = 0;
    this.rows.forEach((_, index) => this.update(index));
  }

  #row(sentence, index) {
    return element(
      sentence.starts ? "div.row.starts" : "div.row",
      { role: "row", tabindex: -1, "data-index": index, "data-number": index + 1, "aria-rowindex": index + 2 },
      element("p.source", { role: "gridcell", lang: this.languages.source, dir: "auto" }, sentence.source),
      element("div.target", { role: "gridcell", lang: this.languages.target, dir: "auto" }),
    );
  }

  /** Shows a sentence as it is now. */
  update(index) {
    const sentence = this.document.sentences[index];
    const row = this.rows[index];
    row.classList.toggle("pending", sentence.pending);
    const shown = JSON.stringify([sentence.text, sentence.before, sentence.fixed]);
    if (row.classList.contains("editing") || row.shown === shown) return;
    row.shown = shown;
    row.classList.toggle("fixed", sentence.fixed);
    row.querySelector(".target").replaceChildren(...this.#translation(sentence));
  }

  #translation(sentence) {
    if (sentence.text === null) return [element("span.waiting")];
    const label = (text) => element("span.label", { lang: "en", dir: "ltr" }, text);
    const { target } = this.languages;
    if (sentence.before === null) {
      return [element("span.text", {}, sentence.text), ...(sentence.fixed ? [" ", label(sentence.given ? "from the file" : "corrected")] : [])];
    }
    return [
      element("span.text", {}, ...marked(compare(sentence.text, sentence.before, target), "mark")),
      element("p.before", {}, label("was"), " ", ...marked(compare(sentence.before, sentence.text, target), "del")),
    ];
  }

  updateAll() {
    this.rows.forEach((_, index) => this.update(index));
  }

  /** Marks the selected row, and those of its context by how much they mattered (`weights` by index, 0 to 1). */
  select(index, weights = new Map()) {
    this.rows.forEach((row, i) => {
      const selected = i === index;
      if (selected !== row.classList.contains("selected")) row.classList.toggle("selected", selected);
      if (selected) row.setAttribute("aria-selected", "true");
      else row.removeAttribute("aria-selected");
      if (weights.has(i)) row.style.setProperty("--weight", weights.get(i));
      else row.style.removeProperty("--weight");
    });
  }

  focus(index) {
    const row = this.rows[Math.max(0, Math.min(index, this.rows.length - 1))];
    row?.focus();
    row?.scrollIntoView({ block: "nearest" });
  }

  /** Opens the translation of a sentence for correction. */
  edit(index) {
    const row = this.rows[index];
    const { text, given } = this.document.sentences[index];
    if (row.classList.contains("editing") || text === null || given) return; // an export leaves what was given
    row.classList.add("editing");
    row.shown = null;
    const rows = Math.ceil(text.length / 40); // where the browser does not fit the field to its text
    const area = element("textarea", { rows, "aria-label": `Translation of sentence ${index + 1}`, dir: "auto" });
    area.value = text;
    area.addEventListener("keydown", (event) => {
      event.stopPropagation(); // the row's shortcuts are letters
      if (event.key === "Enter" && !event.isComposing) this.#endEdit(index, area.value);
      else if (event.key === "Escape") this.#endEdit(index, null);
      else return;
      event.preventDefault();
    });
    row.querySelector(".target").replaceChildren(
      area,
      element(
        "div.actions",
        {},
        element("button.primary", { type: "button", onclick: () => this.#endEdit(index, area.value) }, "Save"),
        element("button.quiet", { type: "button", onclick: () => this.#endEdit(index, null) }, "Cancel"),
      ),
    );
    area.focus();
    area.select();
  }

  #endEdit(index, text) {
    const row = this.rows[index];
    row.classList.remove("editing");
    const correction = text?.replace(/\s+/g, " ").trim();
    if (correction && correction !== this.document.sentences[index].text) this.actions.correct(index, correction);
    this.update(index);
    this.focus(index);
  }

  #indexOf(target) {
    return Number(target.closest(".row")?.dataset.index ?? -1);
  }

  #clicked(event) {
    const index = this.#indexOf(event.target);
    const selecting = window.getSelection()?.toString(); // text that is being selected to be copied
    if (index < 0 || selecting || event.target.closest("textarea, button")) return;
    this.actions.select(index);
  }

  #focused(event) {
    const index = this.#indexOf(event.target);
    if (index < 0 || index === this.current) return;
    this.rows[this.current].tabIndex = -1;
    this.rows[index].tabIndex = 0;
    this.current = index;
    this.actions.move(index);
  }

  #pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target !== this.rows[this.current]) return;
    const index = this.current;
    const { key } = event;
    if (key === "ArrowDown") this.focus(index + 1);
    else if (key === "ArrowUp") this.focus(index - 1);
    else if (key === "Home") this.focus(0);
    else if (key === "End") this.focus(this.rows.length - 1);
    else if (key === "Enter" || key === " ") this.actions.select(index);
    else if (key === "Escape") this.actions.close();
    else if (key === "F2" || key.toLowerCase() === "e") this.edit(index);
    else if (key.toLowerCase() === "u") this.actions.release(index);
    else if (key.toLowerCase() === "n") this.#nextChanged(index);
    else if (/^[1-9]$/.test(key)) this.actions.choose(index, Number(key) - 1);
    else return;
    event.preventDefault();
  }

  #nextChanged(index) {
    const changed = (sentence) => sentence.before !== null;
    const after = this.document.sentences.findIndex((sentence, i) => i > index && changed(sentence));
    const next = after >= 0 ? after : this.document.sentences.findIndex(changed);
    if (next >= 0) this.focus(next);
  }
}
