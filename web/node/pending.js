/**
 * A tool call that waits for the operator: who wants what, with which arguments, and how long there is.
 *
 * Owns the card. It is drawn in the node page and never in the chat frame; what it shows is exactly what would run.
 */

/** @import { Context } from './panel.js' */
/** @import { Pending } from '../rpc.d.ts' */
import { element } from '../aiui/element.js';
import { visibleName, visibleText } from '../aiui/untrusted.js';
import { exactLine, exactValue } from './exact.js';
import { act } from './form.js';
import { notice } from './notice.js';
import { duration } from './units.js';

/** A card that pushes itself under a finger must not be pressed by it. */
const UNPRESSED_MS = 400;

/**
 * @param {Context} context
 * @param {Pending & { until: number }} call
 * @param {string} print the fingerprint of the caller's pinned key, where it is known
 * @returns {HTMLElement}
 */
export function pendingCard(context, call, print) {
  const id = `pending-${exactLine(call.id, 64).replace(/[^A-Za-z0-9_-]/g, '')}`;
  const who = call.caller === 'operator' ? 'You' : visibleName(call.name);
  const decide = (/** @type {boolean} */ approve) => async () => {
    const { outcome, text } = await context.client.call('assistant.confirm-tool', { id: call.id, approve }, { timeoutMs: 120_000 });
    notice(approve ? `${call.tool}: ${outcome ?? 'done'}. ${visibleText(text ?? '', 200)}` : `${call.tool} was denied.`, approve && outcome !== 'ran' ? 'wait' : 'good');
    context.feed.refresh('pending', 'ledger');
    if (call.caller === 'operator') context.chatChanged();
  };
  const card = element(
    'article',
    { class: 'card wait', 'aria-labelledby': `${id}-title` },
    element(
      'div', { class: 'card-head' },
      element('h2', { id: `${id}-title` }, element('bdi', {}, who), ' → ', element('code', {}, exactLine(call.tool, 80))),
      element('span', { class: 'card-side' }, element('span', { class: 'visually-hidden' }, 'time left '), countdown(call.until)),
    ),
    element(
      'p', { class: 'small' },
      `Changes something of ${visibleName(call.category)}.`,
      call.caller !== 'operator' && element('span', {}, ` Asked by radio, verified by the key `, element('span', { class: 'mono id' }, exactLine(print || call.caller, 80)), '.'),
      call.code_for_peer && ' Its sender may also confirm it, with a code.',
    ),
    exactValue(call.arguments),
  );
  if (!context.operator) return card;
  const buttons = element(
    'div', { class: 'card-actions' },
    act('Approve', decide(true), { class: 'primary', key: `${id}-approve`, described: `${id}-title` }),
    act('Deny', decide(false), { key: `${id}-deny`, described: `${id}-title` }),
  );
  for (const button of buttons.querySelectorAll('button')) {
    button.setAttribute('aria-disabled', 'true');
    setTimeout(() => button.removeAttribute('aria-disabled'), UNPRESSED_MS);
  }
  card.append(buttons);
  return card;
}

/**
 * The time that is left; kept right by `refreshCountdowns`.
 * @param {number} until by this machine's clock, Unix milliseconds
 */
export function countdown(until) {
  const made = element('span', { class: 'countdown number', 'data-until': until });
  made.textContent = left(until);
  return made;
}

/** @param {HTMLElement} root */
export function refreshCountdowns(root) {
  for (const made of root.querySelectorAll('.countdown')) {
    if (!(made instanceof HTMLElement)) continue;
    const text = left(Number(made.dataset.until));
    if (made.textContent !== text) made.textContent = text;
  }
}

/** @param {number} until */
function left(until) {
  const ms = until - Date.now();
  if (!(ms > 0)) return 'expired';
  const seconds = Math.ceil(ms / 1000);
  return seconds >= 600 ? duration(ms) : `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`;
}
