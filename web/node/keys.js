/**
 * Keys that wait for a decision: a contact's first one, another one under its number, another radio.
 *
 * Owns the cards with the fingerprints. Decides nothing by itself, and never proposes to trust.
 */

/** @import { Context } from './panel.js' */
/** @import { Contact, MeshStatus } from '../rpc.d.ts' */
import { element } from '../aiui/element.js';
import { visibleName } from '../aiui/untrusted.js';
import { act } from './form.js';
import { notice } from './notice.js';

/**
 * What about this contact's keys waits for the operator: another key, or a first one that nobody has compared.
 * @param {Contact} contact
 */
export function keyQuestion(contact) {
  if (contact.foreign_fingerprint) return 'foreign';
  return contact.pin === 'unconfirmed' && contact.fingerprint ? 'unconfirmed' : null;
}

/**
 * @param {Context} context
 * @param {Contact} contact
 * @returns {HTMLElement}
 */
export function keyCard(context, contact) {
  const foreign = keyQuestion(contact) === 'foreign';
  const asked = (foreign ? contact.foreign_fingerprint : contact.fingerprint) ?? '';
  const name = visibleName(contact.name);
  const decide = (/** @type {boolean} */ accept) => async () => {
    const result = await context.client.call('mesh.peer-accept-key', {
      id: contact.id, fingerprint: asked, accept, ...(contact.fingerprint ? { pinned: contact.fingerprint } : {}),
    });
    notice(accept ? `${name} is now known by ${asked}.` : `The key ${asked} is not ${name}’s.`);
    // Some daemons answer with the whole status.
    context.feed.put('assistant', result?.allowed_contacts ? result : null);
    context.feed.refresh('assistant', 'grants', 'pending', 'nodes');
  };
  const key = `key-${contact.id}`;
  return element(
    'article',
    { class: `card ${foreign ? 'bad' : 'wait'}` },
    element(
      'div', { class: 'card-head' },
      element('h2', {}, foreign ? 'Another key was seen under ' : 'Is this the key of ', element('bdi', {}, name), foreign ? '’s number' : '?'),
      element('span', { class: 'card-side mono' }, visibleName(contact.id)),
    ),
    element(
      'dl', { class: 'fingerprints' },
      foreign && print('pinned', contact.fingerprint ?? 'none yet'),
      print(foreign ? 'new' : 'first seen', asked),
    ),
    element(
      'p', { class: 'small' },
      foreign
        ? `Until you decide it is a stranger’s, and ${name} keeps the pinned one. Ask ${name} by another way before you trust it.`
        : `Compare it with what ${name}’s device shows. Until then ${name} has no grants.`,
    ),
    context.operator && element(
      'div', { class: 'card-actions' },
      foreign
        ? act('Refuse the new key', decide(false), { key: `${key}-refuse` })
        : act('It is the same', decide(true), { class: 'primary', key: `${key}-accept` }),
      foreign
        ? act('Trust the new key', decide(true), { key: `${key}-accept` })
        : act('It is another', decide(false), { key: `${key}-refuse` }),
    ),
  );
}

/**
 * @param {Context} context
 * @param {NonNullable<MeshStatus['refused_radio']>} radio
 * @returns {HTMLElement}
 */
export function radioCard(context, radio) {
  return element(
    'article',
    { class: 'card bad' },
    element('div', { class: 'card-head' }, element('h2', {}, 'Another radio is plugged in'), element('span', { class: 'card-side mono' }, visibleName(radio.node))),
    element('dl', { class: 'fingerprints' }, print('name', visibleName(radio.owner) || 'none'), print('key', visibleName(radio.fingerprint, 120))),
    element('p', { class: 'small' }, 'It is not the one that was used last, so it is not used: with another radio every peer meets another key.'),
    context.operator && element(
      'div', { class: 'card-actions' },
      act('Use this radio', async () => {
        context.feed.put('status', await context.client.call('mesh.radio-accept', { fingerprint: radio.fingerprint }));
        notice('This radio is used from now on.');
      }, { key: 'radio-accept' }),
    ),
  );
}

/**
 * @param {string} term
 * @param {string} value
 */
function print(term, value) {
  return element('div', {}, element('dt', {}, term), element('dd', { class: 'mono' }, element('bdi', {}, visibleName(value, 120))));
}
