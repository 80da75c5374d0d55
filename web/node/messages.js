/**
 * The message panel: what came by radio and what left, with what is known of its arrival.
 *
 * Owns the words for the states of delivery. All text is the air's: shown as text, with hidden characters visible.
 */

/** @import { Context, Panel } from './panel.js' */
/** @import { Delivery, MeshMessage } from '../rpc.d.ts' */
import { element } from '../aiui/element.js';
import { visibleName, visibleText } from '../aiui/untrusted.js';
import { linkDetails } from './contacts.js';
import { keyed } from './keyed.js';
import { ageOf, badge, panel, viewLink } from './panel.js';

/** Tone, word, and what it means. @type {Map<string, ['good' | 'wait' | 'bad' | 'plain', string, string]>} */
export const STATES = new Map([
  ['queued', ['plain', 'queued', 'Not yet handed to the radio.']],
  ['sent', ['wait', 'sent', 'Handed to the radio; nothing heard yet.']],
  ['relayed', ['wait', 'relayed', 'Another node was heard passing it on. It may or may not have arrived.']],
  ['delivered', ['good', 'delivered', 'The peer’s radio acknowledged it. That is not yet a person who read it.']],
  ['not_confirmed', ['wait', 'not confirmed', 'Nothing was heard in time. It may have arrived.']],
  ['waiting', ['wait', 'waiting', 'It waits.']],
  ['failed', ['bad', 'failed', 'It did not arrive and will not.']],
  ['cancelled', ['plain', 'withdrawn', 'Taken back before it was sent.']],
]);

/**
 * @param {Context} context
 * @returns {Panel}
 */
export function messagesPanel(context) {
  const list = element('ol', { class: 'messages' });
  const box = element(
    'div', { class: 'scroll-box', tabindex: 0, role: 'region', 'aria-label': 'Messages, the newest last' }, list,
  );
  // The newest stays in sight, unless the operator has scrolled back; kept here, for a box out of the page forgets it.
  let atEnd = true;
  let top = 0;
  const settle = () => (box.scrollTop = atEnd ? box.scrollHeight : top);
  box.addEventListener('scroll', () => {
    if (box.clientHeight === 0) return;
    top = box.scrollTop;
    atEnd = box.scrollHeight - top - box.clientHeight < 60;
  });
  // On a narrow page the box has no height until the status is looked at.
  new ResizeObserver(settle).observe(box);
  return panel(
    'messages',
    'Messages',
    ({ messages }) => messages,
    (messages, body, extra) => {
      extra.append(viewLink(context, 'log', messages.length === 0 ? 'Log' : `last ${messages.length}; log`));
      if (messages.length === 0) {
        body.append(element('p', { class: 'quiet' }, 'Nothing was heard or sent yet.'));
        return;
      }
      keyed(list, messages, messageKey, row);
      body.append(box);
      settle();
    },
  );
}

/**
 * What makes it the same message. Not the packet's id for what leaves: it has none before, and a new one when it goes again.
 * @param {MeshMessage} message
 */
export function messageKey({ id, at, direction, node, text }) {
  return direction === 'out' ? `${at}-out-${node}-${text}` : `${id}-${at}-${direction}-${node}`;
}

/** @param {MeshMessage} message */
function row(message) {
  const out = message.direction === 'out';
  return element(
    'li',
    { class: `message ${out ? 'out' : 'in'} ${message.ignored ? 'ignored' : ''}` },
    element(
      'div',
      { class: 'message-head' },
      element('span', { class: 'arrow', 'aria-hidden': 'true' }, out ? '→' : '←'),
      element('span', { class: 'visually-hidden' }, out ? 'to' : 'from'),
      element('bdi', { class: 'name', title: message.node }, visibleName(message.name)),
      !out && assurance(message.assurance),
      message.channel && element('span', { class: 'channel' }, `#${visibleName(message.channel)}`),
      ageOf(message.at),
    ),
    element('p', { class: 'message-text', dir: 'auto' }, visibleText(message.text, 600)),
    message.ignored && element('p', { class: 'message-note' }, `not answered: ${visibleText(message.ignored, 200)}`),
    message.delivery && delivery(message.delivery),
    ...(out ? [] : [signal(message)]),
  );
}

/**
 * How it was heard, where the radio says.
 * @param {MeshMessage} message
 */
function signal({ snr, rssi }) {
  const details = linkDetails({ snr, rssi });
  return details.length > 0 && element('p', { class: 'row-details' }, ...details.map((detail) => element('span', {}, detail)));
}

/** @param {string} level */
function assurance(level) {
  if (level === 'verified') return badge('good', 'verified', 'Encrypted with the key that is pinned for this contact.');
  if (level === 'signed') return badge('wait', 'signed', 'Signed with the pinned key, on a channel.');
  return badge('plain', 'unverified', 'Anyone who has the channel’s key can write this name.');
}

/** @param {Delivery} state */
export function delivery({ state, reason }) {
  const [tone, word, explained] = STATES.get(state) ?? ['plain', visibleName(state), ''];
  return element(
    'p',
    { class: 'message-note' },
    badge(tone, word, explained),
    reason ? element('span', {}, visibleText(reason, 200)) : null,
  );
}
