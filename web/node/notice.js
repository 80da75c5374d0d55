/**
 * Short lines that come and go: what was done, what failed.
 *
 * Owns the place where they stand, which screen readers read out. A line that asks for something does not belong here.
 */

import { byId, element } from '../aiui/element.js';
import { visibleText } from '../aiui/untrusted.js';

const SHOWN_MS = 6000;
/** A failure is not over because somebody looked away. */
const FAILED_MS = 20_000;
const MOST = 4;

/**
 * @param {string} text
 * @param {'good' | 'wait' | 'bad'} [tone]
 * @param {string} [about] a later line about the same takes the place of an earlier one
 */
export function notice(text, tone = 'good', about = '') {
  const place = byId('notices', HTMLElement);
  const made = element('p', { class: `notice ${tone}`, 'data-about': about || null }, visibleText(text, 300));
  for (const one of place.children) if (about !== '' && one.getAttribute('data-about') === about) one.remove();
  place.append(made);
  while (place.childElementCount > MOST) place.firstElementChild?.remove();
  setTimeout(() => made.remove(), tone === 'bad' ? FAILED_MS : SHOWN_MS);
}
