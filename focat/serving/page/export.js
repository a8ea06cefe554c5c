// Export: the formats that a document can be written in, and the download.

import { exportFile } from "./api.js";

const NAMES = { text: "Text", json: "JSON", jsonl: "JSON lines", srt: "Subtitles, SRT", vtt: "Subtitles, WebVTT" };
const ENDINGS = { text: "txt", json: "json" };

/** What the menu offers for a file: its own format, with the translations laid in, then text and JSON. */
export function formatsFor(format) {
  return [...new Set([format, "text", "json"])].map((id) => ({ id, name: NAMES[id] ?? id.toUpperCase() }));
}

/** The document in a format, as {blob, name}. */
export async function exported(document, file, format) {
  const [, stem, own = "txt"] = file.name.match(/^(.+?)(?:\.([^.]*))?$/);
  const name = `${stem}.${document.model.target}.${format === file.format ? own : ENDINGS[format]}`;
  if (format === "json") return { name, blob: new Blob([asJson(document)], { type: "application/json" }) };
  if (format !== file.format) return { name, blob: new Blob([asText(document)], { type: "text/plain" }) };
  const translations = document.sentences.map(({ source, text }) => text ?? source);
  return { name, blob: await exportFile(file, document.model, translations) };
}

function asText({ sentences }) {
  const starts = (sentence, i) => i > 0 && sentence.part !== sentences[i - 1].part;
  return sentences.map((each, i) => `${starts(each, i) ? "\n" : ""}${each.text ?? ""}\n`).join("");
}

function asJson({ model, sentences }) {
  const { source, target } = model;
  const items = sentences.map((each) => ({
    source: each.source,
    translation: each.text,
    corrected: each.fixed && !each.given,
  }));
  return `${JSON.stringify({ source, target, sentences: items }, null, 2)}\n`;
}

/** Has the browser save a file. */
export function download({ blob, name }) {
  const link = window.document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
