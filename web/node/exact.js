/**
 * Shows what a program will really get: every character that could deceive is written as its number.
 *
 * Owns which characters those are. Nothing is left out and nothing is made prettier, for a person decides by it.
 */

import { element } from '../aiui/element.js';

/** Controls, format characters (bidi, zero-width, tags), unassigned, private, blanks that are none, fillers, selectors. */
const DECEIVING = /[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Zl}\p{Zp}\p{Variation_Selector}\u00a0\u115f\u1160\u2000-\u200a\u202f\u205f\u3000\u3164\uffa0\ufffd]|\p{Cs}/gu;
const BEYOND_ASCII = /[^\n\x20-\x7e]/gu;

/**
 * @param {string} text
 * @param {RegExp} which
 */
function escaped(text, which) {
  return text.replace(which, (character) => (character === '\n' ? '\n' : `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`));
}

/**
 * A value as it would be passed on, whole.
 * @param {unknown} value
 * @returns {HTMLElement}
 */
export function exactValue(value) {
  const json = JSON.stringify(value, null, 2) ?? 'null';
  const text = escaped(json, DECEIVING);
  const ascii = escaped(json, BEYOND_ASCII);
  return element(
    'div',
    { class: 'exact' },
    element('pre', { tabindex: 0, role: 'group', 'aria-label': 'Exact arguments', dir: 'ltr' }, text),
    ascii !== text && element(
      'details', {},
      element('summary', {}, 'It holds letters beyond plain ASCII; the same in ASCII'),
      element('pre', { tabindex: 0, role: 'group', 'aria-label': 'Exact arguments in ASCII', dir: 'ltr' }, ascii),
    ),
  );
}

/**
 * A line of a log, as text, on one line.
 * @param {unknown} text
 * @param {number} [limit]
 */
export function exactLine(text, limit = 2000) {
  const whole = escaped(String(text ?? '').replaceAll('\n', '\\n'), DECEIVING);
  return whole.length > limit ? `${whole.slice(0, limit)}…` : whole;
}
