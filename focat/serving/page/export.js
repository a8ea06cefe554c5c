// Export: the formats that a document can be written in, and the download.

import { exportFile } from "./api.js";

const NAMES = { text: "Text", srt: "Subtitles, SRT", vtt: "Subtitles, WebVTT", jsonl: "JSON lines", json: "JSON" };
const ENDINGS = { text: "txt", srt: "srt", vtt: "vtt", jsonl: "jsonl", json: "json" };
const SUBTITLES = ["srt", "vtt"];

/** What the menu offers for a file: its own format first. Subtitles of one kind can become those of the other. */
export function formatsFor(format) {
  const own = SUBTITLES.includes(format) ? SUBTITLES.toSorted((a) => (a === format ? -1 : 1)) : [format];
  return [...new Set([...own, "text", "json"])].map((id) => ({ id, name: NAMES[id] ?? id }));
}

/** The document in a format, as {blob, name}. */
export async function exported(document, file, format) {
  const { target } = document.model;
  const stem = file.name.replace(/\.[^.]*$/, "");
  const ending = format === file.format && file.name.includes(".") ? file.name.split(".").pop() : ENDINGS[format];
  const name = `${stem}.${target}.${ending}`;
  if (format === "json") return { blob: new Blob([asJson(document)], { type: "application/json" }), name };
  if (format === "text" && file.format !== "text") return { blob: new Blob([asText(document)], { type: "text/plain" }), name };
  const translations = document.sentences.map(({ source, text }) => text ?? source);
  return { blob: await exportFile(file, document.model, translations, format), name };
}

function asText({ sentences }) {
  const starts = (sentence, i) => i > 0 && sentence.part !== sentences[i - 1].part;
  return sentences.map((each, i) => `${starts(each, i) ? "\n" : ""}${each.text ?? ""}\n`).join("");
}

function asJson({ model, sentences }) {
  const { source, target } = model;
  const items = sentences.map(({ source: from, text, fixed }) => ({ source: from, translation: text, corrected: fixed }));
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
