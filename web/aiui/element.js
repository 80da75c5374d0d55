/**
 * Builds elements from text nodes and attributes: the only way in which the pages make DOM.
 *
 * Must never take markup: a string is always text.
 */

/** @typedef {Node | string | null | undefined | false} Child */

/**
 * Makes an element. An attribute that is `false`, `null` or `undefined` is left out; `true` is written as empty.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, string | number | boolean | null | undefined>} [attributes]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    made.setAttribute(name, value === true ? '' : String(value));
  }
  for (const child of children) {
    if (child !== null && child !== undefined && child !== false) made.append(child);
  }
  return made;
}

/**
 * The element with this id, which the page is written to have.
 * @template {HTMLElement} E
 * @param {string} id
 * @param {new () => E} kind
 * @returns {E}
 */
export function byId(id, kind) {
  const found = document.getElementById(id);
  if (!(found instanceof kind)) throw new Error(`this page has no ${kind.name} with id ${id}`);
  return found;
}
