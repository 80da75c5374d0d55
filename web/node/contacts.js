/**
 * The contact panel: who may ask, under which key, and where another key turned up.
 *
 * Owns how a contact's standing is said. Changes nothing yet: there is no button here that gives authority.
 */

/** @import { Panel } from './panel.js' */
/** @import { Contact } from '../rpc.d.ts' */
import { element } from '../aiui/element.js';
import { visibleName } from '../aiui/untrusted.js';
import { badge, callout, facts, panel } from './panel.js';
import { nodeName } from './radio.js';

/** @returns {Panel} */
export function contactsPanel() {
  return panel(
    'contacts',
    'Contacts',
    ({ assistant }) => assistant && (assistant.allowed_contacts ?? []),
    (contacts, body, extra) => {
      if (contacts.length > 0) extra.append(String(contacts.length));
      if (contacts.length === 0) {
        body.append(element('p', { class: 'quiet' }, 'No contact is configured: nobody on the mesh is trusted.'));
        return;
      }
      body.append(element('ul', { class: 'rows' }, ...contacts.map(row)));
    },
  );
}

/** @param {Contact} contact */
function row(contact) {
  return element(
    'li',
    {},
    element('div', { class: 'row-head' }, nodeName(contact.name, contact.id), pin(contact.pin)),
    facts([
      ['Key', contact.fingerprint && element('span', { class: 'mono' }, contact.fingerprint)],
      ['May use', (contact.grants ?? []).map((grant) => visibleName(grant)).join(', ') || 'no tools'],
    ]),
    contact.foreign_fingerprint &&
      callout(
        'bad',
        element('strong', {}, 'Another key was seen under this number.'),
        ' It is treated as a stranger’s, and the contact keeps its own. Ask the contact before you trust it: ',
        element('span', { class: 'mono' }, contact.foreign_fingerprint),
      ),
  );
}

/** @param {string} state */
function pin(state) {
  if (state === 'configured') return badge('good', 'key pinned');
  if (state === 'unconfirmed') return badge('wait', 'not confirmed', 'Pinned at its first message; compare the fingerprint with the contact.');
  return badge('plain', 'no key yet', 'Pinned at its first encrypted direct message.');
}
