/**
 * The contact panel: who may ask, how well known, when last heard, and how much of the quota is used.
 *
 * Owns how a contact's standing is said. Its one switch takes authority away; giving it is the editor's.
 */

/** @import { Context, Panel } from './panel.js' */
/** @import { Contact, MeshNode } from '../rpc.d.ts' */
import { element } from '../aiui/element.js';
import { visibleName } from '../aiui/untrusted.js';
import { act } from './form.js';
import { notice } from './notice.js';
import { ageOf, badge, facts, fingerprint, panel, viewLink } from './panel.js';
import { nodeName } from './radio.js';

/** A mesh of many contacts has its list in the editor. */
const FIRST = 12;

/**
 * @param {Context} context
 * @returns {Panel}
 */
export function contactsPanel(context) {
  return panel(
    'contacts',
    'Contacts',
    ({ assistant, nodes }) =>
      assistant && (assistant.allowed_contacts ?? []).map((contact) => ({ contact, heard: heardOf(contact, nodes) })),
    (contacts, body, extra) => {
      extra.append(viewLink(context, 'contacts', contacts.length > 0 ? `${contacts.length}; edit` : 'Add one'));
      if (contacts.length === 0) {
        body.append(element('p', { class: 'quiet' }, 'There is no contact: nobody on the mesh is trusted.'));
        return;
      }
      body.append(element('ul', { class: 'rows' }, ...contacts.slice(0, FIRST).map((row) => contactRow(context, row))));
      if (contacts.length > FIRST) body.append(viewLink(context, 'contacts', `All ${contacts.length} contacts`));
    },
  );
}

/**
 * What was last heard under a contact's number; a claim, unless the key is the contact's.
 * @param {Contact} contact
 * @param {MeshNode[] | null} nodes
 */
export function heardOf(contact, nodes) {
  const node = (nodes ?? []).find((node) => node.node === contact.id);
  return node === undefined ? null : { last_heard: node.last_heard, snr: node.snr, hops: node.hops, battery: node.battery };
}

/** @typedef {ReturnType<typeof heardOf>} Heard */

/**
 * @param {Context} context
 * @param {{ contact: Contact, heard: Heard }} row
 */
function contactRow(context, { contact, heard }) {
  return element(
    'li',
    {},
    element('div', { class: 'row-head' }, nodeName(contact.name, contact.id), standingOf(contact)),
    facts([
      ['Key', fingerprint(contact.fingerprint)],
      ['May use', grantsOf(contact)],
      ['Quota', quotaOf(contact)],
    ]),
    element('div', { class: 'row-foot' }, heardLine(heard), context.operator && suspendButton(context, contact)),
  );
}

/**
 * Nothing where the daemon does not say it: viewers are not told.
 * @param {Contact} contact
 */
export function grantsOf(contact) {
  if (contact.grants === null) return '';
  return (contact.grants ?? []).map((grant) => visibleName(grant)).join(', ') || 'no tools';
}

/**
 * Its name among the callers of the grants; none without a key.
 * @param {Contact} contact
 */
export function callerOf({ key }) {
  return key ? `key:${key}` : null;
}

/** @param {Contact} contact */
export function quotaOf({ queries }) {
  if (!queries) return '';
  return typeof queries.limit === 'number' ? `${queries.used} of ${queries.limit} questions this hour` : `${queries.used} questions this hour, no limit`;
}

/** @param {Heard} heard */
export function heardLine(heard) {
  /** @type {(string | HTMLElement)[]} */
  const details = [];
  if (heard === null || heard.last_heard === 0) details.push('not heard yet');
  else details.push(ageOf(heard.last_heard * 1000));
  if (heard !== null) details.push(...linkDetails(heard));
  return element('p', { class: 'row-details' }, ...details.map((detail) => element('span', {}, detail)));
}

/** @param {{ snr?: number | null, rssi?: number | null, hops?: number | null, battery?: number | null }} heard */
export function linkDetails({ snr, rssi, hops, battery }) {
  /** @type {string[]} */
  const details = [];
  if (typeof hops === 'number') details.push(hops === 0 ? 'direct' : `${hops} ${hops === 1 ? 'hop' : 'hops'}`);
  if (typeof snr === 'number') details.push(`SNR ${snr.toFixed(1)} dB`);
  if (typeof rssi === 'number') details.push(`RSSI ${rssi} dBm`);
  if (typeof battery === 'number') details.push(battery > 100 ? 'mains' : `battery ${battery} %`);
  return details;
}

/**
 * How well the contact is known: by its key, never by its name.
 * @param {Contact} contact
 */
export function standingOf({ pin, suspended, denied }) {
  if (denied === true) return badge('bad', 'refused', 'Not answered, whatever it sends.');
  if (suspended === true) return badge('bad', 'suspended', 'Not answered, and without grants, until it is taken back.');
  if (pin === 'configured' || pin === 'confirmed') return badge('good', 'key pinned', 'Its messages are verified by this key.');
  if (pin === 'unconfirmed') return badge('wait', 'not confirmed', 'Pinned at its first message; compare the fingerprint with the contact.');
  return badge('plain', 'no key yet', 'Pinned at its first encrypted direct message.');
}

/**
 * @param {Context} context
 * @param {Contact} contact
 * @param {string} [kind]
 */
export function suspendButton(context, contact, kind = 'small-button') {
  const back = contact.suspended === true;
  const word = back ? 'Take back' : 'Suspend';
  return act(word, async () => {
    const change = back ? { unsuspend: { id: contact.id } } : { suspend: { id: contact.id } };
    context.feed.put('assistant', await context.client.call('mesh.assistant-configure', change));
    context.feed.refresh('nodes', 'grants', 'pending');
    notice(back ? `${visibleName(contact.name)} is answered again.` : `${visibleName(contact.name)} is suspended.`);
  }, { class: kind, key: `suspend-${contact.id}`, name: `${word}: ${visibleName(contact.name)}` });
}
