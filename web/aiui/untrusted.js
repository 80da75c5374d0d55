/**
 * Makes text from the air fit to be looked at.
 *
 * Owns which characters are shown as they are. What it gives is still only text: it goes into text nodes.
 */

/** Controls, bidi controls, zero-width and tag characters; not the joiner that emoji are built with. */
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200c\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\u{e0000}-\u{e0fff}]/gu;
/** A joiner that joins nothing pictorial. */
const LOOSE_JOINER = /(?<![\p{Extended_Pictographic}\u{1f3fb}-\u{1f3ff}\ufe0f])\u200d|\u200d(?!\p{Extended_Pictographic})/gu;
/** More marks on one letter than any script needs. */
const PILED_MARKS = /(\p{M}{4})\p{M}+/gu;

/**
 * A text of several lines: hidden characters become `\ufffd`, the end is cut at `limit` characters.
 * @param {unknown} text
 * @param {number} [limit]
 * @returns {string}
 */
export function visibleText(text, limit = 2000) {
  const clean = String(text ?? '').replace(HIDDEN, '\ufffd').replace(LOOSE_JOINER, '\ufffd').replace(PILED_MARKS, '$1');
  const characters = Array.from(clean);
  return characters.length > limit ? `${characters.slice(0, limit).join('')}\u2026` : clean;
}

/**
 * A name: the same, on one line.
 * @param {unknown} text
 * @param {number} [limit]
 * @returns {string}
 */
export function visibleName(text, limit = 48) {
  return visibleText(String(text ?? '').replace(/[\t\n]+/g, ' '), limit).trim();
}
