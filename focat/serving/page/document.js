// A document on the page: its sentences, what is translated, what a person has corrected, what has to be translated again.
// A translation depends on the sentences of its window only. So a new translation of one sentence makes those that have it
// in their window pending, and no others.

import { translate } from "./api.js";

const BLOCK = 50; // sentences of one request; a document of any length is translated in requests of bounded size
const ALTERNATIVES = 5;

/**
 * A sentence has: source; text, its translation or null; pending, whether it waits for the server; fixed, whether a person
 * has decided; before, the translation that the last one has replaced, or null; alternatives; part, the number of its
 * document in the file; starts, whether a paragraph begins with it; required, phrases that its translation must contain;
 * given, whether the file had its translation.
 */
function newSentence(source, text, required) {
  const given = text !== null;
  return { source, text, required, given, fixed: given, pending: !given, before: null, alternatives: [] };
}

export class Document {
  /**
   * @param model the language pair, an entry of /v1/models
   * @param read what /v1/files has read: sentences, translations, required, and breaks, where another document begins
   * @param starts indices of the sentences that begin a paragraph
   * @param earlier the document that was here before: sentences at the beginning and at the end that are the same keep
   *   their translations
   */
  constructor(model, { sentences, translations, required, breaks }, starts, earlier = null) {
    this.model = model;
    const begins = new Set(breaks);
    let part = 0;
    this.sentences = sentences.map((source, index) => {
      part += begins.has(index);
      const sentence = newSentence(source, translations[index], required[index]);
      return { ...sentence, part, starts: starts.has(index) || begins.has(index) };
    });
    if (earlier && earlier.model.id === model.id) this.#keep(earlier.sentences);
  }

  #keep(old) {
    const now = this.sentences;
    const most = Math.min(old.length, now.length);
    const keep = (to, from) => {
      const { text, fixed, alternatives, pending } = from;
      Object.assign(to, { text, fixed, alternatives, pending });
    };
    let first = 0;
    while (first < most && now[first].source === old[first].source) keep(now[first], old[first++]);
    let last = 0;
    while (last < most - first && now.at(-1 - last).source === old.at(-1 - last).source) {
      last += 1;
      keep(now.at(-last), old.at(-last));
    }
    if (first + last < Math.max(old.length, now.length)) this.#changed(now.length - last - 1);
  }

  get translated() {
    return this.sentences.filter((sentence) => sentence.text !== null && !sentence.pending).length;
  }

  get corrected() {
    return this.sentences.filter((sentence) => sentence.fixed && !sentence.given).length;
  }

  /** The first sentence that the window of a sentence contains. */
  windowStart(index) {
    const { part } = this.sentences[index];
    let start = index;
    const earliest = Math.max(0, index - this.model.window + 1);
    while (start > earliest && this.sentences[start - 1].part === part) start -= 1;
    return start;
  }

  /** The next sentences to translate, as [start, end), or null. They follow each other in one document of the file. */
  nextPending() {
    const start = this.sentences.findIndex((sentence) => sentence.pending);
    if (start < 0) return null;
    const { part } = this.sentences[start];
    let end = start + 1;
    while (end < this.sentences.length && end < start + BLOCK) {
      if (!this.sentences[end].pending || this.sentences[end].part !== part) break;
      end += 1;
    }
    return [start, end];
  }

  /** A person's translation of a sentence. It is context from then on. */
  correct(index, text) {
    const sentence = this.sentences[index];
    this.sentences.forEach((other) => (other.before = null));
    const changed = sentence.text !== text;
    Object.assign(sentence, { text, fixed: true, pending: false });
    if (changed) this.#changed(index);
  }

  /** Leaves the sentence to the model again. */
  release(index) {
    this.sentences.forEach((other) => (other.before = null));
    Object.assign(this.sentences[index], { fixed: false, pending: true });
  }

  /** The server's translation of a sentence. */
  receive(index, { translation, alternatives = [] }) {
    const sentence = this.sentences[index];
    const changed = sentence.text !== translation;
    if (changed) sentence.before = sentence.text;
    Object.assign(sentence, { text: translation, alternatives, pending: false });
    if (changed) this.#changed(index);
  }

  #changed(index) {
    const part = this.sentences[index]?.part;
    for (const sentence of this.sentences.slice(index + 1, index + this.model.window)) {
      if ((part === undefined || sentence.part === part) && !sentence.fixed) sentence.pending = true;
    }
  }

  /** What the server needs to know to translate or explain [start, end): these sentences and their context. */
  request(start, end) {
    const from = this.windowStart(start);
    const { source, target } = this.model;
    const window = this.sentences.slice(from, end);
    return { offset: from, languages: { source, target }, window };
  }
}

/** Translates all that is pending. Calls `onSentence(index)` after each sentence. Ends early if the signal is aborted. */
export async function translatePending(document, onSentence, signal) {
  for (let block; (block = document.nextPending()) && !signal.aborted; ) {
    const [start, end] = block;
    const { offset, languages, window } = document.request(start, end);
    const body = {
      ...languages,
      sentences: window.map((sentence) => sentence.source),
      translations: window.map((sentence, i) => (offset + i < start ? sentence.text : null)),
      required: window.map((sentence) => sentence.required),
      start: start - offset,
      nbest: Math.min(ALTERNATIVES, document.model.nbest),
    };
    for await (const sentence of translate(body, signal)) {
      const index = offset + sentence.index;
      if (index < start || signal.aborted) continue;
      document.receive(index, sentence);
      onSentence(index);
    }
    if (document.sentences[start].pending && !signal.aborted) {
      throw new Error(`the server has not translated sentence ${start + 1}`); // or this loop would never end
    }
  }
}

/** The indices of the sentences that come after a blank line of the text that they were split from. */
export function paragraphStarts(text, sentences) {
  const starts = new Set();
  let end = 0;
  sentences.forEach((sentence, index) => {
    const start = text.indexOf(sentence, end);
    if (start < 0) return; // wrapped over lines
    if (index > 0 && /\n\s*\n/.test(text.slice(end, start))) starts.add(index);
    end = start + sentence.length;
  });
  return starts;
}
