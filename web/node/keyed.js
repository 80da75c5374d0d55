/**
 * Draws lists anew without touching what stayed the same: a selection, a scroll place and the focus survive.
 *
 * Owns the comparison. Knows no data.
 */

/** @typedef {{ written: string, element: HTMLElement }} Drawn */

/** @type {WeakMap<HTMLElement, Map<string, Drawn>>} */
const lists = new WeakMap();

/**
 * Brings the children of `list` to these items, in this order. One whose writing is the same keeps its element; so does
 * one in which a person is typing, until that is over.
 * @template Item
 * @param {HTMLElement} list has no other children
 * @param {readonly Item[]} items
 * @param {(item: Item) => string} keyOf each only once
 * @param {(item: Item) => HTMLElement} draw
 * @param {(item: Item) => unknown} [seen] what of it is drawn, when that is not the item alone
 */
export function keyed(list, items, keyOf, draw, seen = (item) => item) {
  const known = lists.get(list) ?? new Map();
  /** @type {Map<string, Drawn>} */
  const now = new Map();
  const refocus = focusedKey(list);
  let place = list.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    if (now.has(key)) continue;
    const written = JSON.stringify(seen(item));
    const before = known.get(key);
    const kept = before !== undefined && (before.written === written || isTypedIn(before.element));
    const element = kept ? before.element : draw(item);
    now.set(key, { written: kept ? before.written : written, element });
    if (before !== undefined && !kept) {
      if (place === before.element) place = element;
      carryOver(before.element, element);
      before.element.replaceWith(element);
    }
    if (place === element) place = element.nextElementSibling;
    else list.insertBefore(element, place);
  }
  for (const [key, { element }] of known) if (!now.has(key)) element.remove();
  lists.set(list, now);
  if (refocus !== undefined && !list.contains(document.activeElement)) focusKey(list, refocus);
}

/**
 * @param {HTMLElement} root
 * @param {string} key
 */
export function focusKey(root, key) {
  const again = root.querySelector(`[data-key="${CSS.escape(key)}"]`);
  if (again instanceof HTMLElement) again.focus();
}

/**
 * The key of what has the focus in there.
 * @param {HTMLElement} root
 */
export function focusedKey(root) {
  const active = document.activeElement;
  return active instanceof HTMLElement && root.contains(active) ? active.dataset.key : undefined;
}

/**
 * What a person did to the old form of something is so in the new one too: opened, and typed.
 * @param {HTMLElement} before
 * @param {HTMLElement} after
 */
export function carryOver(before, after) {
  for (const old of before.querySelectorAll('details[data-key][open], input[data-key]')) {
    const again = after.querySelector(`[data-key="${CSS.escape(old.getAttribute('data-key') ?? '')}"]`);
    if (old instanceof HTMLDetailsElement && again instanceof HTMLDetailsElement) again.open = true;
    else if (old instanceof HTMLInputElement && again instanceof HTMLInputElement && old.type !== 'checkbox' && old.value !== old.defaultValue) {
      again.value = old.value;
    }
  }
}

/** @param {HTMLElement} root */
export function isTypedIn(root) {
  const active = document.activeElement;
  return active !== null && root.contains(active) && active.matches('input:not([type=checkbox]):not([type=radio]), textarea');
}
