// The page: a text or a file becomes a document, which is translated, looked at, corrected and exported.

import { models, readFile, setKey } from "./api.js";
import { Details } from "./details.js";
import { Document, paragraphStarts, translatePending } from "./document.js";
import { element } from "./elements.js";
import { download, exported, formatsFor } from "./export.js";
import { Rows } from "./rows.js";
import { languageName } from "./words.js";

const $ = (id) => document.getElementById(id);
const TYPED = "Untitled.txt"; // the file that typed text becomes
const LOOK_AFTER = 120; // milliseconds on a row before its details are asked for: arrow keys pass many rows

let served = []; // the language pairs
let translated = null; // the Document on the page
let file = null; // where it comes from: {name, format, content, split}
let job = null; // the AbortController of the translation that runs
let retry = null; // what "Try again" does
let looking = null; // the timer of details that will be asked for
let saved = true; // whether corrections have been exported

const rows = new Rows($("rows"), {
  select,
  close: closeDetails,
  correct,
  release,
  choose: (index, number) => {
    const others = translated.sentences[index].alternatives.filter(({ text }) => text !== translated.sentences[index].text);
    if (others[number]) correct(index, others[number].text);
  },
  move: (index) => {
    if (details.index === null) return;
    rows.select(index);
    lookSoon(index);
  },
});
const details = new Details($("details"), {
  correct: (index) => rows.edit(index),
  choose: correct,
  release,
  close: closeDetails,
  weigh: (index, weights) => rows.select(index, weights),
});

// --- The document -----------------------------------------------------------------------------------------------------

function model() {
  return served[$("pairs").querySelector("select").selectedIndex] ?? served[0];
}

/** Reads a file into sentences and translates them. Sentences that were here before keep their translations. */
async function open(content, split) {
  await guarded(() => open(content, split), async () => {
    busy(true);
    try {
      const read = await readFile({ content, split }, model());
      if (!read.sentences.length) throw new Error("There is nothing to translate in it.");
      const text = read.format === "text" ? await content.text() : "";
      translated = new Document(model(), read, paragraphStarts(text, read.sentences), translated);
      file = { name: content.name, format: read.format, content, split };
      show();
    } finally {
      busy(false);
    }
    await run();
  });
}

function show() {
  closeDetails();
  $("compose").hidden = true;
  $("work").hidden = false;
  $("name").textContent = file.name;
  document.title = `${file.name} – focat`;
  $("edit").hidden = file.name !== TYPED;
  rows.show(translated);
  $("formats").replaceChildren(
    ...formatsFor(file.format).map(({ id, name }) =>
      element("button", { type: "button", onclick: () => save(id) }, name),
    ),
  );
  rows.focus(0);
}

/** Translates what is pending. A translation that runs is ended first. */
async function run() {
  job?.abort();
  const mine = (job = new AbortController());
  progress();
  const before = translated;
  await guarded(run, async () => {
    try {
      await translatePending(translated, arrived, mine.signal);
    } finally {
      if (job === mine) {
        job = null;
        if (translated === before) progress();
      }
    }
  });
}

function arrived(index) {
  rows.update(index);
  progress();
  const following = translated.sentences.slice(index + 1, index + translated.model.window);
  following.forEach((_, i) => rows.update(index + 1 + i));
  const { index: open } = details;
  if (open !== null && index <= open && index >= translated.windowStart(open)) lookSoon(open);
}

function progress() {
  const { sentences, translated: done, corrected } = translated;
  const running = job !== null;
  const changed = sentences.filter(({ before }) => before !== null).length;
  $("bar").value = done / sentences.length;
  $("stop").hidden = !running;
  $("resume").hidden = running || done === sentences.length;
  let text = `${done} of ${sentences.length} sentences`;
  if (!running && done === sentences.length) {
    text = counted(sentences.length, "sentence");
    if (corrected) text += `, ${corrected} corrected`;
    if (changed) text += `, ${changed} changed`;
    announce(changed ? `${counted(changed, "sentence")} changed.` : `${counted(done, "sentence")} translated.`);
  }
  $("progress").textContent = text;
}

function counted(number, noun) {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}

// --- Sentences --------------------------------------------------------------------------------------------------------

function select(index) {
  $("hint").hidden = true;
  clearTimeout(looking);
  rows.focus(index);
  rows.select(index);
  details.show(translated, index);
  const sheet = getComputedStyle($("details")).position === "fixed"; // it covers the lower part of the page
  if (sheet) rows.rows[index].scrollIntoView({ block: "start" });
}

/** Shows the details of a sentence in a moment, unless another one is asked for. */
function lookSoon(index) {
  clearTimeout(looking);
  looking = setTimeout(() => details.index !== null && details.show(translated, index), LOOK_AFTER);
}

function closeDetails() {
  clearTimeout(looking);
  const { index } = details;
  details.close();
  rows.select(null);
  if (index !== null) rows.focus(index);
}

function correct(index, text) {
  translated.correct(index, text);
  afterCorrection(index, "Corrected. What follows is translated again.");
}

function release(index) {
  const { fixed, given } = translated.sentences[index];
  if (!fixed || given) return;
  translated.release(index);
  afterCorrection(index, "Left to the model.");
}

function afterCorrection(index, message) {
  saved = false;
  announce(message);
  rows.updateAll();
  if (details.index !== null) details.show(translated, index);
  run();
}

// --- Export -----------------------------------------------------------------------------------------------------------

async function save(format) {
  $("formats").hidePopover();
  await guarded(() => save(format), async () => {
    download(await exported(translated, file, format));
    saved = true;
    announce("Exported.");
  });
}

// --- Messages ---------------------------------------------------------------------------------------------------------

function announce(message) {
  $("status").textContent = message;
}

/** Runs an action; what fails is shown in words, with a button that tries again. */
async function guarded(again, action) {
  $("error").hidden = true;
  try {
    await action();
  } catch (error) {
    if (error.name === "AbortError") return;
    console.info(error);
    retry = again;
    const key = error.status === 401 || error.status === 403;
    $("error").querySelector("p").textContent = error.message;
    $("error").querySelector("form").hidden = !key;
    $("error").querySelector(".again").hidden = key;
    $("error").hidden = false;
  }
}

function busy(is) {
  for (const button of $("compose").querySelectorAll("button")) button.disabled = is;
  if (is) announce("Reading.");
}

// --- Start ------------------------------------------------------------------------------------------------------------

async function start() {
  await guarded(start, async () => {
    served = await models();
    const names = served.map(({ source, target }) => `${languageName(source)} → ${languageName(target)}`);
    $("pair").textContent = served.length === 1 ? names[0] : "";
    $("pairs").hidden = served.length < 2;
    $("pairs").querySelector("select").replaceChildren(...names.map((name) => element("option", {}, name)));
  });
}

function translateText() {
  const text = $("text").value;
  if (!text.trim()) return $("text").focus();
  return open(new File([text], TYPED, { type: "text/plain" }), !$("lines").checked);
}

/** Opens a file. Only text is split: other formats say where a sentence ends. */
function openFile(content) {
  const text = /(^[^.]*|\.txt)$/i.test(content.name);
  return open(content, text && !$("lines").checked);
}

function reset() {
  if (!saved && !window.confirm("Your corrections have not been exported. Start anew?")) return;
  job?.abort();
  closeDetails();
  translated = file = null;
  saved = true;
  $("text").value = "";
  compose();
}

function compose() {
  document.title = "focat";
  $("work").hidden = true;
  $("compose").hidden = false;
  $("back").hidden = translated === null;
  $("text").focus();
}

$("compose").addEventListener("submit", (event) => {
  event.preventDefault();
  translateText();
});
$("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) translateText();
});
$("open").addEventListener("click", () => $("file").click());
$("file").addEventListener("change", () => {
  const [chosen] = $("file").files;
  if (chosen) openFile(chosen);
  $("file").value = "";
});
$("back").addEventListener("click", show);
$("edit").addEventListener("click", compose);
$("new").addEventListener("click", reset);
$("stop").addEventListener("click", () => job?.abort());
$("resume").addEventListener("click", run);
$("pairs").addEventListener("change", () => translated && !$("work").hidden && open(file.content, file.split));
$("help").addEventListener("click", () => $("shortcuts").showModal());
$("error").querySelector(".again").addEventListener("click", () => retry?.());
$("error").querySelector(".dismiss").addEventListener("click", () => ($("error").hidden = true));
$("error").querySelector("form").addEventListener("submit", (event) => {
  event.preventDefault();
  setKey(new FormData(event.target).get("key"));
  event.target.reset();
  retry?.();
});

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("textarea, input, select, dialog");
  if (event.key === "?" && !typing) $("shortcuts").showModal();
  else if (event.key === "Escape" && !typing && !event.defaultPrevented && details.index !== null) closeDetails();
});
window.addEventListener("beforeunload", (event) => {
  if (!saved) event.preventDefault();
});

for (const name of ["dragenter", "dragover"]) {
  window.addEventListener(name, (event) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    $("drop").hidden = false;
  });
}
window.addEventListener("dragleave", (event) => {
  if (!event.relatedTarget) $("drop").hidden = true;
});
window.addEventListener("drop", (event) => {
  const [dropped] = event.dataTransfer?.files ?? [];
  $("drop").hidden = true;
  if (!dropped) return;
  event.preventDefault();
  openFile(dropped);
});

start();
