/**
 * The band under the header: what waits for the operator, on whichever view.
 *
 * Owns what belongs there and in which order, and that its coming is read out. Empty when nothing waits.
 */

/** @import { Context } from './panel.js' */
/** @import { Snapshot } from './parts.js' */
/** @import { Contact, MeshStatus, Pending } from '../rpc.d.ts' */
import { byId, element } from '../aiui/element.js';
import { callerOf } from './contacts.js';
import { openCalls } from './distress.js';
import { act } from './form.js';
import { keyCard, keyQuestion, radioCard } from './keys.js';
import { keyed } from './keyed.js';
import { notice } from './notice.js';
import { pendingCard } from './pending.js';

/** More would push the page away; the rest follows when these are done. */
const MOST = 20;

/**
 * @typedef {{ key: string, kind: 'stopped' } | { key: string, kind: 'setup', line: string } |
 *   { key: string, kind: 'pending', call: Pending & { until: number }, print: string } | { key: string, kind: 'contact', contact: Contact } |
 *   { key: string, kind: 'radio', radio: NonNullable<MeshStatus['refused_radio']> }} Item
 */

/**
 * @param {Context} context
 * @param {() => string} setupLine what is left of the first start; empty for nothing
 */
export function attentionBand(context, setupLine) {
  const band = byId('attention', HTMLElement);
  // A list of its own for each session: no card outlives its session.
  const list = element('ul', { class: 'cards' });
  band.replaceChildren(list);
  const spoken = byId('attention-spoken', HTMLElement);
  let count = 0;
  /** What the operator has put off; it is still among the contacts. @type {Set<string>} */
  const later = new Set();
  const putOff = (/** @type {string} */ key) => {
    later.add(key);
    show(context.feed.snapshot);
  };

  /** @param {Snapshot} snapshot */
  const show = (snapshot) => {
    const { status, assistant, pending } = snapshot;
    /** @type {Item[]} */
    const items = [];
    if (status?.stopped === true) items.push({ key: 'stopped', kind: 'stopped' });
    if (status?.refused_radio) items.push({ key: `radio-${status.refused_radio.fingerprint}`, kind: 'radio', radio: status.refused_radio });
    const now = Date.now();
    for (const call of pending ?? []) {
      const print = assistant?.allowed_contacts?.find((contact) => callerOf(contact) === call.caller)?.fingerprint ?? '';
      if (call.until > now) items.push({ key: `call-${call.id}`, kind: 'pending', call, print });
    }
    for (const contact of assistant?.allowed_contacts ?? []) {
      const about = keyQuestion(contact);
      if (about !== null) items.push({ key: `contact-${contact.id}-${about === 'foreign' ? contact.foreign_fingerprint : contact.fingerprint}`, kind: 'contact', contact });
    }
    const line = context.operator ? setupLine() : '';
    if (line !== '') items.push({ key: 'setup', kind: 'setup', line });
    const shown = items.filter(({ key }) => !later.has(key)).slice(0, MOST);
    keyed(list, shown, ({ key }) => key, (item) => element('li', {}, card(context, item, () => putOff(item.key))));
    band.hidden = shown.length === 0;
    const waiting = shown.filter(({ kind }) => kind === 'pending' || kind === 'contact' || kind === 'radio').length;
    if (waiting > count) spoken.textContent = waiting === 1 ? 'One thing waits for your decision.' : `${waiting} things wait for your decision.`;
    if (waiting === 0) spoken.textContent = '';
    count = waiting;
    const calls = openCalls(snapshot).length;
    const sos = calls === 0 ? '' : calls === 1 ? 'SOS! ' : `SOS! ${calls} calls `;
    document.title = `${sos}${waiting > 0 ? `(${waiting}) ` : ''}Tombolo`;
  };
  return { show };
}

/**
 * @param {Context} context
 * @param {Item} item
 * @param {() => void} putOff
 */
function card(context, item, putOff) {
  const later = () => act('Later', async () => putOff(), { class: 'bare', key: `later-${item.key}` });
  switch (item.kind) {
    case 'pending': return pendingCard(context, item.call, item.print);
    case 'contact': return withLater(keyCard(context, item.contact), later());
    case 'radio': return withLater(radioCard(context, item.radio), later());
    case 'setup':
      return element(
        'article', { class: 'card plain row' },
        element('p', {}, item.line),
        element('div', { class: 'card-actions' }, act('Continue the set-up', async () => context.open('setup'), { class: 'primary', key: 'setup' }), later()),
      );
    case 'stopped':
      return element(
        'article', { class: 'card bad row' },
        element('p', {}, element('strong', {}, 'Everything is stopped.'), ' No question is taken and nothing leaves the radio.'),
        context.operator && element('div', { class: 'card-actions' }, act('Resume', () => stopAll(context, true), { class: 'primary', key: 'resume' })),
      );
  }
}

/**
 * @param {HTMLElement} card
 * @param {HTMLElement} later
 */
function withLater(card, later) {
  card.querySelector('.card-actions')?.append(later);
  return card;
}

/**
 * The kill switch, and back.
 * @param {Context} context
 * @param {boolean} resume
 */
export async function stopAll(context, resume) {
  const result = await context.client.call('mesh.stop-all', resume ? { resume } : {});
  context.feed.refresh('status', 'messages');
  notice(resume ? 'Questions are taken again.' : `Stopped: ${counted(result.turns, 'answer')} ended, ${counted(result.parts, 'part')} withdrawn.`, resume ? 'good' : 'wait');
}

/**
 * @param {number} count
 * @param {string} what
 */
function counted(count, what) {
  return `${count} ${what}${count === 1 ? '' : 's'}`;
}
