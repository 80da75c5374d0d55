/**
 * One contact in the contacts view: a line, and opened, everything that can be changed of it.
 *
 * Owns the row. What it sends, the daemon checks; a refusal stands beside what caused it.
 */

/** @import { Context } from './panel.js' */
/** @import { Heard } from './contacts.js' */
/** @import { CallerGrants, Contact, Tool } from '../rpc.d.ts' */
import { bytesOf } from '../aiui/conversation.js';
import { element } from '../aiui/element.js';
import { visibleName } from '../aiui/untrusted.js';
import { lookalike } from './confusable.js';
import { grantsOf, heardLine, quotaOf, standingOf, suspendButton } from './contacts.js';
import { act, FieldError, form, textField } from './form.js';
import { grantsEditor, idOf } from './grants.js';
import { keyCard, keyQuestion } from './keys.js';
import { facts, fingerprint } from './panel.js';
import { notice } from './notice.js';
import { configure } from './people.js';
import { nodeName } from './radio.js';

/** What fits into one direct message with all that goes with it; the daemon has the last word. */
const MAX_TEXT_BYTES = 200;

/**
 * @param {Context} context
 * @param {{ contact: Contact, heard: Heard, open: boolean, grants?: CallerGrants | null, tools?: Tool[] | null, names?: { id: string, name: string }[] }} row
 * @param {() => void} toggle
 * @returns {HTMLElement}
 */
export function personRow(context, { contact, heard, open, grants, tools, names }, toggle) {
  const id = `person-${idOf(contact.id)}`;
  const button = element(
    'button', { type: 'button', class: 'person-toggle', 'aria-expanded': open, 'aria-controls': open ? `${id}-more` : null, 'data-key': id },
    open ? 'Close' : context.operator ? 'Edit' : 'More', element('span', { class: 'visually-hidden' }, ` ${visibleName(contact.name)}`),
  );
  button.addEventListener('click', toggle);
  const row = element(
    'li', { class: open ? 'person open' : 'person' },
    element(
      'div', { class: 'person-head' },
      nodeName(contact.name, contact.id), standingOf(contact),
      contact.grants !== null && element('span', { class: 'person-grants' }, element('span', { class: 'visually-hidden' }, 'may use '), grantsOf(contact)),
      button,
    ),
    heardLine(heard),
  );
  if (open) row.append(element('div', { class: 'person-more', id: `${id}-more` }, ...details(context, contact, grants ?? null, tools ?? [], names ?? [])));
  return row;
}

/**
 * @param {Context} context
 * @param {Contact} contact
 * @param {CallerGrants | null} grants
 * @param {Tool[]} tools
 * @param {{ id: string, name: string }[]} names
 */
function details(context, contact, grants, tools, names) {
  const name = visibleName(contact.name);
  const here = contact.source === 'node';
  return [
    keyQuestion(contact) !== null && keyCard(context, contact),
    facts([
      ['Key', fingerprint(contact.fingerprint) || 'none yet: pinned at its first encrypted direct message'],
      ['Quota', quotaOf(contact)],
      ['Kept in', contact.source === undefined ? '' : here ? 'this node' : 'the configuration file'],
    ]),
    contact.grants !== null && element('h3', { class: 'part' }, 'May use'),
    contact.grants !== null && (grants !== null
      ? grantsEditor(context, grants, tools)
      : element('p', { class: 'small quiet' }, contact.fingerprint ? `${capital(grantsOf(contact))}. There is nothing to change here yet.` : 'Grants go with a key, and there is none yet.')),
    context.operator && textForm(context, contact),
    context.operator && renameForm(context, contact, names.filter(({ id }) => id !== contact.id)),
    context.operator && element(
      'div', { class: 'row-actions' },
      suspendButton(context, contact, ''),
      act('Refuse', () => configure(context, { deny: { asker: contact.id } }, `${name} is refused.`), { sure: 'Refuse it?', key: `deny-${contact.id}`, name: `Refuse ${name}` }),
      here && act('Remove', () => configure(context, { remove_contact: { id: contact.id } }, `${name} is no contact any more.`), {
        sure: 'Remove it?', key: `remove-${contact.id}`, name: `Remove ${name}`,
      }),
    ),
  ];
}

/**
 * One text of the operator's own. It is counted as airtime like an answer, and its fate stands in the log.
 * @param {Context} context
 * @param {Contact} contact
 */
function textForm(context, contact) {
  const left = element('span', { class: 'number' }, `0 of ${MAX_TEXT_BYTES} bytes`);
  const text = textField('text', `Write to ${visibleName(contact.name)}`, { hint: left, spellcheck: 'true', autocapitalize: 'sentences', 'data-key': `text-${contact.id}` });
  const count = () => bytesOf(text.input.value.trim());
  text.input.addEventListener('input', () => (left.textContent = `${count()} of ${MAX_TEXT_BYTES} bytes`));
  return form('Send', [text], async () => {
    if (count() === 0) throw new FieldError('text', 'Write something first.');
    if (count() > MAX_TEXT_BYTES) throw new FieldError('text', `One message holds ${MAX_TEXT_BYTES} bytes: shorten it by ${count() - MAX_TEXT_BYTES}.`);
    await context.client.call('mesh.send', { to: contact.id, text: text.input.value.trim() });
    text.input.value = '';
    left.textContent = `0 of ${MAX_TEXT_BYTES} bytes`;
    context.feed.refresh('messages', 'status');
    notice(`It is on its way to ${visibleName(contact.name)}; the log says what becomes of it.`);
  });
}

/**
 * @param {Context} context
 * @param {Contact} contact
 * @param {{ id: string, name: string }[]} others
 */
function renameForm(context, contact, others) {
  const name = textField('name', 'Name', { value: contact.name, maxlength: 39, 'data-key': `name-${contact.id}` });
  const guard = lookalikeGuard();
  return form('Rename', [name], async () => {
    const wanted = name.input.value.trim();
    if (wanted === '') throw new FieldError('name', 'Give it a name.');
    guard(wanted, others);
    await configure(context, { rename: { id: contact.id, name: wanted } }, `Renamed to ${visibleName(wanted)}.`);
  });
}

/**
 * Objects once to a name that looks like another contact's; sent a second time it is meant.
 * @returns {(name: string, others: { id: string, name: string }[]) => void}
 */
export function lookalikeGuard() {
  let warned = '';
  return (name, others) => {
    const like = lookalike(name, others);
    if (like === undefined || warned === name) return;
    warned = name;
    throw new FieldError('name', `This looks like ${visibleName(like.name)} (${like.id}). Send it again if it is meant.`);
  };
}

/** @param {string} text */
function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
