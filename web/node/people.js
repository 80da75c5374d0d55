/**
 * The contacts view: who may ask and what for, how to add somebody, whom the radio heard.
 *
 * Owns what stands in which list. The forms are `adding.js`, one contact is `person.js`, the grants are `grants.js`.
 */

/** @import { Context } from './panel.js' */
/** @import { Snapshot } from './parts.js' */
/** @import { CallerGrants, Contact } from '../rpc.d.ts' */
/** @import { View } from './views.js' */
import { element } from '../aiui/element.js';
import { visibleName, visibleText } from '../aiui/untrusted.js';
import { Adding } from './adding.js';
import { callerOf, heardOf } from './contacts.js';
import { act } from './form.js';
import { keyed } from './keyed.js';
import { named, nodeRow } from './nodes.js';
import { notice } from './notice.js';
import { personRow } from './person.js';

/** Heard nodes in the document at once. */
export const PAGE = 50;

/**
 * @param {Context} context
 * @returns {View}
 */
export function peopleView(context) {
  const adding = context.operator ? new Adding(context) : null;
  const people = element('ul', { class: 'people' });
  const warnings = element('ul', { class: 'plain-list' });
  const nobody = element('p', { class: 'quiet' }, 'There is no contact yet: nobody on the mesh is trusted.');
  const denied = element('ul', { class: 'plain-list rows tight' });
  const deniedBlock = element('section', {}, element('h3', {}, 'Refused, whatever they send'), denied);
  const heard = element('ul', { class: 'rows tight heard' });
  const heardCount = element('p', { class: 'fine', role: 'status' });
  const find = element('input', { type: 'search', placeholder: 'Find a node', 'aria-label': 'Find a node', autocomplete: 'off', spellcheck: 'false' });
  const more = element('button', { type: 'button' }, 'More');
  /** @type {Set<string>} */
  const opened = new Set();
  let pages = 1;
  /** @type {Snapshot} */
  let latest = context.feed.snapshot;

  const toggle = (/** @type {string} */ id) => {
    if (!opened.delete(id)) opened.add(id);
    drawPeople();
  };

  const drawPeople = () => {
    const { assistant, nodes, grants, grantsNote, tools } = latest;
    const contacts = assistant?.allowed_contacts ?? [];
    nobody.hidden = contacts.length > 0 || assistant === null;
    keyed(warnings, [...(grantsNote === null ? [] : [grantsNote]), ...(assistant?.warnings ?? [])], (line) => line, (line) => element('li', { class: 'callout wait' }, visibleText(line, 300)));
    const rows = contacts.map((contact) => ({
      contact,
      heard: heardOf(contact, nodes),
      open: opened.has(contact.id),
      ...(opened.has(contact.id) ? { grants: grantsFor(contact, grants), tools, names: contacts.map(({ id, name }) => ({ id, name })) } : {}),
    }));
    keyed(people, rows, ({ contact }) => contact.id, (row) => personRow(context, row, () => toggle(row.contact.id)));
  };

  const drawHeard = () => {
    const { nodes, assistant } = latest;
    if (nodes === null) return;
    const words = find.value.trim().toLowerCase();
    const rows = named(nodes, assistant?.allowed_contacts ?? []).filter(({ node }) =>
      words === '' || `${node.long_name} ${node.short_name} ${node.node}`.toLowerCase().includes(words));
    const shown = rows.slice(0, pages * PAGE);
    keyed(heard, shown, ({ node }) => node.node, (row) => {
      const made = nodeRow(row);
      if (adding !== null && row.node.contact === null && row.node.standing === 'stranger') {
        const { node } = row;
        made.append(element(
          'div', { class: 'row-actions' },
          act('Add', async () => adding.fill(node), { class: 'small-button', key: `add-${node.node}`, name: `Add ${visibleName(node.long_name)} ${node.node} as a contact` }),
          act('Refuse', () => configure(context, { deny: { asker: node.node } }, `${node.node} is refused.`), {
            class: 'small-button', key: `deny-${node.node}`, sure: 'Refuse it?', name: `Refuse ${visibleName(node.long_name)} ${node.node}`,
          }),
        ));
      }
      return made;
    });
    heardCount.textContent = rows.length === nodes.length ? `${shown.length} of ${nodes.length} shown` : `${rows.length} of ${nodes.length} found`;
    more.hidden = shown.length === rows.length;
  };
  find.addEventListener('input', () => {
    pages = 1;
    drawHeard();
  });
  more.addEventListener('click', () => {
    pages += 1;
    drawHeard();
  });

  const drawDenied = () => {
    const { assistant } = latest;
    const askers = assistant?.denied ?? (assistant?.denied_askers ?? []).map((asker) => ({ asker, source: 'node' }));
    deniedBlock.hidden = askers.length === 0;
    keyed(denied, askers, ({ asker }) => asker, ({ asker, source }) => element(
      'li', {},
      element('div', { class: 'row-head' }, element('span', { class: 'mono' }, visibleName(asker, 80)),
        source !== 'node' && element('span', { class: 'fine' }, 'in the configuration file'),
        context.operator && source === 'node' && act('Take back', () => configure(context, { undeny: { asker } }, `${asker} is not refused any more.`), {
          class: 'small-button', key: `undeny-${asker}`, name: `Take back the refusal of ${visibleName(asker, 80)}`,
        })),
    ));
  };

  /** @type {() => void} */
  let unwatch = () => {};
  return {
    element: element(
      'div', { class: 'view people-view' },
      element('div', { class: 'view-head' }, element('h2', {}, 'Contacts'), adding?.buttons ?? null),
      adding?.place ?? null,
      warnings, nobody, people, deniedBlock,
      element(
        'section', {},
        element('div', { class: 'view-head' }, element('h3', {}, 'Heard on the mesh'), find), heardCount, heard, more,
      ),
    ),
    opened: () => void (unwatch = context.feed.watch('grants', 'tools')),
    closed: () => unwatch(),
    show(snapshot) {
      latest = snapshot;
      drawPeople();
      drawHeard();
      drawDenied();
      adding?.show(snapshot);
    },
  };
}

/**
 * The grants of a contact: by its key, or, where the daemon doesn't say which that is, by its name.
 * @param {Contact} contact
 * @param {CallerGrants[] | null} grants
 * @returns {CallerGrants | null}
 */
export function grantsFor(contact, grants) {
  const peers = (grants ?? []).filter(({ caller }) => caller !== 'operator');
  const key = callerOf(contact);
  if (key !== null) return peers.find(({ caller }) => caller === key) ?? null;
  if (contact.key === null) return null;
  const named = peers.filter(({ name }) => name === contact.name);
  return named.length === 1 ? (named[0] ?? null) : null;
}

/**
 * Changes something of who is answered.
 * @param {Context} context
 * @param {Record<string, unknown>} change
 * @param {string} done
 */
export async function configure(context, change, done) {
  const result = await context.client.call('mesh.assistant-configure', change);
  context.feed.put('assistant', result);
  context.feed.refresh('assistant', 'nodes', 'grants', 'pending');
  // After a change these are about the change alone.
  for (const warning of Array.isArray(result?.warnings) ? result.warnings : []) notice(String(warning), 'wait');
  if (done !== '') notice(done);
}
