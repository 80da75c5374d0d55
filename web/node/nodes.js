/**
 * The node panel: whom the radio knows.
 *
 * Owns order and wording of the list. Every name in it was chosen by a stranger.
 */

/** @import { Context, Panel } from './panel.js' */
/** @import { Contact, MeshNode } from '../rpc.d.ts' */
import { element } from '../aiui/element.js';
import { visibleName } from '../aiui/untrusted.js';
import { lookalike } from './confusable.js';
import { linkDetails } from './contacts.js';
import { keyed } from './keyed.js';
import { ageOf, badge, panel, viewLink } from './panel.js';
import { nodeName } from './radio.js';

/** A large mesh has hundreds: all of them are in the contacts view, a page at a time. */
const FIRST = 12;

/**
 * @param {Context} context
 * @returns {Panel}
 */
export function nodesPanel(context) {
  const list = element('ul', { class: 'rows tight' });
  /** @type {ReturnType<typeof named>} */
  let rows = [];
  /** @type {unknown[]} */
  let of = [];
  return panel(
    'nodes',
    'Nodes',
    ({ nodes, assistant }) => {
      if (nodes === null) return null;
      const contacts = assistant?.allowed_contacts;
      if (of[0] !== nodes || of[1] !== contacts) {
        of = [nodes, contacts];
        rows = named(nodes, contacts ?? []);
      }
      return rows;
    },
    (rows, body, extra) => {
      extra.append(viewLink(context, 'contacts', `${rows.length} heard`));
      keyed(list, rows.slice(0, FIRST), ({ node }) => node.node, nodeRow);
      body.append(list);
      if (rows.length > FIRST) body.append(viewLink(context, 'contacts', `All ${rows.length} nodes`));
    },
  );
}

/** @typedef {{ node: MeshNode, like: string | null }} NodeRow */

/**
 * In the order in which they matter, each with the contact that its name could be taken for.
 * @param {MeshNode[]} nodes
 * @param {readonly Contact[]} contacts
 * @returns {NodeRow[]}
 */
export function named(nodes, contacts) {
  return [...nodes].sort((a, b) => rank(a) - rank(b) || b.last_heard - a.last_heard).map((node) => {
    const others = contacts.filter(({ id }) => id !== node.node);
    const like = lookalike(node.long_name, others) ?? lookalike(node.short_name, others);
    return { node, like: like === undefined ? null : `${visibleName(like.name)} ${like.id}` };
  });
}

/** @param {MeshNode} node */
function rank(node) {
  return node.standing === 'foreign_key' ? 0 : node.contact !== null ? 1 : 2;
}

/** @param {NodeRow} row */
export function nodeRow({ node, like }) {
  /** @type {(string | HTMLElement)[]} */
  const details = [];
  if (node.last_heard > 0) details.push(ageOf(node.last_heard * 1000));
  details.push(...linkDetails(node));
  return element(
    'li',
    {},
    element('div', { class: 'row-head' }, nodeName(node.long_name || node.short_name, node.node), standing(node.standing)),
    element('p', { class: 'row-details' }, ...details.map((detail) => element('span', {}, detail))),
    like !== null && node.standing !== 'foreign_key' && element('p', { class: 'row-warning' }, badge('wait', `its name looks like ${like}`)),
  );
}

/** @param {string} word */
function standing(word) {
  switch (word) {
    case 'pinned': return badge('good', 'contact');
    case 'unconfirmed': return badge('wait', 'contact, not confirmed');
    case 'foreign_key': return badge('bad', 'foreign key', 'It uses a contact’s number with another key.');
    case 'denied': return badge('bad', 'refused');
    default: return null;
  }
}
