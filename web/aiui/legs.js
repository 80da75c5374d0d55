/**
 * What the legs of the chain are called.
 *
 * Owns the names for people; which leg answers is the daemon's.
 */

import { visibleName } from './untrusted.js';

const NAMES = new Map([
  ['ollama', 'Ollama'],
  ['claude', 'Claude'],
  ['openai', 'the OpenAI-compatible server'],
  ['offline', 'the offline assistant'],
]);

/**
 * @param {string} leg
 * @returns {string}
 */
export function legName(leg) {
  return NAMES.get(leg) ?? visibleName(leg);
}
