// Words: a text cut into words, and two texts compared word by word.

const segmenters = new Map();

/** The words, spaces and punctuation marks of a text, in order; joined, they are the text. */
export function words(text, language) {
  if (!segmenters.has(language)) segmenters.set(language, segmenterFor(language));
  return Array.from(segmenters.get(language).segment(text), ({ segment }) => segment);
}

function segmenterFor(language) {
  try {
    return new Intl.Segmenter(language, { granularity: "word" });
  } catch {
    return new Intl.Segmenter("en", { granularity: "word" }); // a code that the browser does not know
  }
}

const MOST_CELLS = 1_000_000; // of the table; for longer texts all that is between the common ends counts as different

/** `text` as `[{text, differs}]`: which of its words `other` does not have in their place (longest common subsequence). */
export function compare(text, other, language) {
  const here = words(text, language);
  const there = words(other, language);
  let start = 0;
  while (start < here.length && start < there.length && here[start] === there[start]) start += 1;
  let end = 0;
  const left = Math.min(here.length, there.length) - start;
  while (end < left && here.at(-1 - end) === there.at(-1 - end)) end += 1;
  const middle = here.slice(start, here.length - end);
  const common = commonWords(middle, there.slice(start, there.length - end));
  const isDifferent = (index) => index >= start && index < here.length - end && !common.has(index - start);
  const isSpace = (index) => here[index].trim() === "";
  const parts = [];
  here.forEach((word, index) => {
    const between = index > 0 && index + 1 < here.length && isDifferent(index - 1) && isDifferent(index + 1);
    const differs = isSpace(index) ? between : isDifferent(index); // a space is marked between two words that are
    const last = parts.at(-1);
    if (last && last.differs === differs) last.text += word;
    else parts.push({ text: word, differs });
  });
  return parts;
}

/** The indices of `a` that belong to a longest common subsequence of `a` and `b`. */
function commonWords(a, b) {
  const found = new Set();
  if (a.length * b.length > MOST_CELLS) return found;
  const width = b.length + 1;
  const lengths = new Uint32Array((a.length + 1) * width); // of the common subsequence of a[i:] and b[j:]
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      const cell = i * width + j;
      lengths[cell] =
        a[i] === b[j] ? lengths[cell + width + 1] + 1 : Math.max(lengths[cell + width], lengths[cell + 1]);
    }
  }
  for (let i = 0, j = 0; i < a.length && j < b.length; ) {
    const cell = i * width + j;
    if (a[i] === b[j]) {
      found.add(i);
      i += 1;
      j += 1;
    } else if (lengths[cell + width] >= lengths[cell + 1]) i += 1;
    else j += 1;
  }
  return found;
}

/** The name of a language in English: "German" for "de". */
export function languageName(code) {
  try {
    return new Intl.DisplayNames(["en"], { type: "language" }).of(code);
  } catch {
    return code;
  }
}
