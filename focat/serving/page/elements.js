// Elements of the page, made without innerHTML: text is always text.

/**
 * element("p.note", {lang: "de"}, "text", child) is `<p class="note" lang="de">text…</p>`. A property that is a function is a
 * listener (`onclick`); one that is false, null or undefined is left out.
 */
export function element(name, properties = {}, ...children) {
  const [tag, ...classes] = name.split(".");
  const made = document.createElement(tag);
  if (classes.length) made.className = classes.join(" ");
  for (const [key, value] of Object.entries(properties)) {
    if (typeof value === "function") made[key] = value;
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** The parts of a comparison, with `tag` around those that differ. */
export function marked(parts, tag) {
  return parts.map(({ text, differs }) => (differs ? element(tag, {}, text) : text));
}
