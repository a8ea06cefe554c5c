// What the page asks the server: models, files, translations as they come, explanations, exports.
// Addresses are relative, so that the page works behind a proxy that serves it in a folder.

/** An answer that is an error. `message` is fit to be shown; `status` is 0 if there was no answer. */
export class ServerError extends Error {
  constructor(message, status = 0) {
    super(message);
    this.status = status;
  }
}

const KEY = "focat-key";

export function setKey(key) {
  sessionStorage.setItem(KEY, key);
}

async function ask(path, options = {}) {
  const headers = { ...options.headers };
  const key = sessionStorage.getItem(KEY);
  if (key) headers.Authorization = `Bearer ${key}`;
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch (error) {
    throw connectionError(error);
  }
  if (!response.ok) throw await errorOf(response);
  return response;
}

function post(path, body, signal) {
  return ask(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
    signal,
  });
}

function connectionError(error) {
  if (error.name === "AbortError") return error;
  return new ServerError("The server does not answer. Nothing is lost here: try again once it is running.");
}

async function errorOf(response) {
  let message = "";
  try {
    const { error } = await response.json();
    message = typeof error === "string" ? error : error.message;
  } catch {
    // no JSON: a proxy answered, or the answer was cut off
  }
  message = asSentence(message || `The server answers with status ${response.status}`);
  const wait = Number(response.headers.get("Retry-After"));
  if (wait > 0) message += ` Try again in ${wait} ${wait === 1 ? "second" : "seconds"}.`;
  return new ServerError(message, response.status);
}

function asSentence(message) {
  const isWord = /^[a-z]+[ ,;]/.test(message); // and no name of a file, which stays as it is
  const text = isWord ? message.charAt(0).toUpperCase() + message.slice(1) : message;
  return /[.!?…]$/.test(text) ? text : `${text}.`;
}

/** The language pairs that are served: `[{id, source, target, window, nbest}]`. */
export async function models() {
  return (await (await ask("v1/models")).json()).models;
}

/** A file, read into sentences by the server. `split` cuts running text; other formats say where a sentence ends. */
export async function readFile({ content, split }, model) {
  return (await ask("v1/files", { method: "POST", body: formOf(content, split, model) })).json();
}

/** The file again, with translations in the place of its sentences. */
export async function exportFile({ content, split }, model, translations) {
  const form = formOf(content, split, model);
  form.set("translations", JSON.stringify(translations));
  return (await ask("v1/export", { method: "POST", body: form })).blob();
}

function formOf(content, split, { source, target }) {
  const form = new FormData();
  form.set("file", content);
  form.set("source", source);
  form.set("target", target);
  form.set("split", split);
  return form;
}

/** Why a sentence is translated as it is. */
export async function explain(body, signal) {
  return (await post("v1/explain", body, signal)).json();
}

/** Translates, and yields each sentence as soon as the server has sent it. */
export async function* translate(body, signal) {
  const response = await post("v1/documents", { ...body, stream: true }, signal);
  for await (const { event, data } of serverSentEvents(response.body)) {
    if (event === "sentence") yield JSON.parse(data);
    else if (event === "error") throw new ServerError(asSentence(JSON.parse(data).message), JSON.parse(data).status);
    else if (event === "done") return;
  }
  throw new ServerError("The server has ended the connection before the translation was complete.");
}

/** The events of a stream. EventSource would do this, but it cannot send a document. */
async function* serverSentEvents(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read().catch((error) => {
        throw connectionError(error);
      });
      if (done) return;
      const blocks = (rest + value.replaceAll("\r", "")).split("\n\n");
      rest = blocks.pop();
      for (const block of blocks) {
        const event = { event: "message", data: "" };
        for (const line of block.split("\n")) {
          const [, name, text] = line.match(/^(event|data): ?(.*)$/s) ?? [];
          if (name) event[name] = name === "data" && event.data ? `${event.data}\n${text}` : text;
        }
        if (event.data || event.event !== "message") yield event;
      }
    }
  } finally {
    reader.cancel().catch(() => {}); // closing the stream tells the server to stop
  }
}
