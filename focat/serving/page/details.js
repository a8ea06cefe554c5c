// The panel about one sentence: alternatives, the translation without context, and which earlier sentences and words mattered.

import { explain } from "./api.js";
import { element, marked } from "./elements.js";
import { compare } from "./words.js";

const LITTLE = 0.05; // a difference of log-probability that is not worth a number

export class Details {
  /**
   * @param panel the aside
   * @param actions correct(index), choose(index, text), release(index), close(), weigh(index, weights)
   */
  constructor(panel, actions) {
    this.panel = panel;
    this.actions = actions;
    this.index = null;
  }

  /** Shows what is known at once, then asks the server for the rest. */
  async show(document, index) {
    this.document = document;
    this.index = index;
    this.asked?.abort();
    this.asked = new AbortController();
    const sentence = document.sentences[index];
    const explanation = element("div.explanation", { "aria-busy": "true" }, element("p.note", {}, "Looking at the context …"));
    this.panel.replaceChildren(this.#head(sentence), this.#alternatives(sentence), explanation);
    this.panel.setAttribute("aria-label", `About sentence ${index + 1}`);
    this.panel.hidden = false;
    if (sentence.text === null) {
      explanation.replaceChildren(element("p.note", {}, "This sentence is not translated yet."));
      return;
    }
    const { offset, languages, window } = document.request(index, index + 1);
    const body = {
      ...languages,
      sentences: window.map((each) => each.source),
      translations: window.map((each) => each.text),
      index: index - offset,
    };
    try {
      const answer = await explain(body, this.asked.signal);
      explanation.replaceChildren(this.#alone(sentence, answer), this.#mattered(answer, offset));
      this.actions.weigh(index, weightsOf(answer, offset));
    } catch (error) {
      if (error.name === "AbortError") return;
      explanation.replaceChildren(element("p.note", {}, error.message));
    }
    explanation.removeAttribute("aria-busy");
  }

  close() {
    this.asked?.abort();
    this.index = null;
    this.panel.hidden = true;
  }

  #head(sentence) {
    const index = this.index;
    const button = (name, action) => element("button", { type: "button", onclick: () => action(index) }, name);
    return element(
      "div.title",
      {},
      element("h3", {}, `Sentence ${index + 1}`),
      sentence.fixed && !sentence.given ? button("Undo", this.actions.release) : null,
      sentence.text === null || sentence.given ? null : button("Correct", this.actions.correct),
      element("button.quiet", { type: "button", onclick: () => this.actions.close(), "aria-label": "Close" }, "✕"),
    );
  }

  #alternatives(sentence) {
    const others = sentence.alternatives.filter(({ text }) => text !== sentence.text);
    if (!others.length) return element("div");
    const { target } = this.document.model;
    const index = this.index;
    const item = ({ text }) =>
      element(
        "li",
        {},
        element(
          "button",
          { type: "button", lang: target, dir: "auto", onclick: () => this.actions.choose(index, text) },
          ...marked(compare(text, sentence.text, target), "mark"),
        ),
      );
    return element("section", {}, element("h4", {}, "Alternatives"), element("ol.alternatives", {}, ...others.map(item)));
  }

  #alone(sentence, { alone }) {
    const { target } = this.document.model;
    const same = alone === sentence.text;
    return element(
      "section",
      {},
      element("h4", {}, "Without context"),
      element("p.alone", { lang: target, dir: "auto" }, ...marked(compare(alone, sentence.text, target), "mark")),
      element("p.note", {}, same ? "The same as in its context." : "What the sentence alone would have become."),
    );
  }

  #mattered(answer, offset) {
    const { contributions, indices, words, attention } = answer;
    const title = element("h4", {}, "What mattered");
    if (!contributions.length) {
      const reason = answer.index > 0 ? "Too long to be translated together with others." : "No sentence comes before.";
      return element("section", {}, title, element("p.note", {}, reason));
    }
    const { source, target } = this.document.model;
    const most = Math.max(1, ...contributions.map(({ difference }) => Math.abs(difference)));
    const items = contributions.map(({ index, difference }) => {
      const place = indices.indexOf(index); // in the window that the model saw
      const side = (name, lang) => {
        const strongest = Math.max(1e-9, ...attention[name].slice(0, -1).flat());
        const at = place - (words.source.length - words[name].length); // a model may see less context in the target
        return shaded(`p.${name}`, lang, words[name][at], attention[name][at], strongest);
      };
      return element(
        "li",
        { "data-number": offset + index + 1 },
        side("source", source),
        side("target", target),
        bar(difference, most),
      );
    });
    return element(
      "section",
      {},
      title,
      element("ol.mattered", {}, ...items),
      element("p.note", {}, "Shade: attention to the word. Bar: how much the sentence contributes."),
    );
  }
}

function shaded(name, lang, words, shares, strongest) {
  if (!words) return null;
  const children = words.flatMap((word, i) => {
    const share = shares?.[i] ?? 0;
    const percent = `${(100 * share).toFixed(1)} % of the attention`;
    const made = element("span.word", { title: percent }, word);
    made.style.setProperty("--share", ((share / strongest) ** 1.5).toFixed(3)); // the eye is to find the strongest
    return i ? [" ", made] : [made];
  });
  return element(name, { lang, dir: "auto" }, ...children);
}

function bar(difference, most) {
  const made = element(difference < 0 ? "span.bar.against" : "span.bar", { "aria-hidden": "true" });
  made.style.setProperty("--length", (Math.abs(difference) / most).toFixed(3));
  return element("p.contribution", {}, made, element("span", {}, inWords(difference)));
}

/** A difference of log-probability in words: the factor by which the translation becomes less probable. */
export function inWords(difference) {
  if (Math.abs(difference) < LITTLE) return "makes no difference";
  const factor = Math.exp(Math.abs(difference));
  const times = factor >= 1000 ? "over 1,000" : factor >= 10 ? factor.toFixed(0) : factor.toFixed(1);
  return `without it, ${times} × ${difference > 0 ? "less" : "more"} probable`;
}

function weightsOf({ contributions }, offset) {
  const most = Math.max(1, ...contributions.map(({ difference }) => difference));
  return new Map(contributions.map(({ index, difference }) => [offset + index, Math.max(0, difference / most)]));
}
