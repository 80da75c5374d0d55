/**
 * The node panel: whom the radio knows.
 *
 * Owns order and wording of the list. Every name in it was chosen by a stranger.
 */

/** @import { Panel } from './panel.js' */
/** @import { MeshNode } from '../rpc.d.ts' */
import { element } from '../aiui/element.js';
import { ageOf, badge, panel } from './panel.js';
import { nodeName } from './radio.js';

/** Shown at first; a large mesh has hundreds. */
const FIRST = 20;

/** @returns {Panel} */
export function nodesPanel() {
  let all = false;
  return panel(
    'nodes',
    'Nodes',
    ({ nodes }) => nodes,
    (nodes, body, extra) => {
      extra.append(`${nodes.length} heard`);
      const sorted = [...nodes].sort((a, b) => rank(a) - rank(b) || b.last_heard - a.last_heard);
      const list = element('ul', { class: 'rows tight' }, ...sorted.slice(0, all ? undefined : FIRST).map(row));
      body.append(list);
      if (all || sorted.length <= FIRST) return;
      const more = element('button', { type: 'button' }, `Show all ${sorted.length}`);
      more.addEventListener('click', () => {
        all = true;
        list.append(...sorted.slice(FIRST).map(row));
        more.remove();
        list.setAttribute('tabindex', '-1');
        list.focus();
      });
      body.append(more);
    },
  );
}

/** @param {MeshNode} node */
function rank(node) {
  return node.standing === 'foreign_key' ? 0 : node.contact !== null ? 1 : 2;
}

/** @param {MeshNode} node */
function row(node) {
  /** @type {(string | HTMLElement)[]} */
  const details = [];
  if (node.last_heard > 0) details.push(ageOf(node.last_heard * 1000));
  if (node.hops !== null) details.push(node.hops === 0 ? 'direct' : `${node.hops} ${node.hops === 1 ? 'hop' : 'hops'}`);
  if (node.snr !== null) details.push(`SNR ${node.snr.toFixed(1)} dB`);
  if (node.battery !== null) details.push(node.battery > 100 ? 'mains' : `battery ${node.battery} %`);
  return element(
    'li',
    {},
    element('div', { class: 'row-head' }, nodeName(node.long_name || node.short_name, node.node), standing(node.standing)),
    element('p', { class: 'row-details' }, ...details.map((detail) => element('span', {}, detail))),
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
