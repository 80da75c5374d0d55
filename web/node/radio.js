/**
 * The radio panel: is the link up, and what is at its other end.
 *
 * Owns how `mesh.status` is said. Judges nothing: the warnings are the daemon's.
 */

/** @import { Panel } from './panel.js' */
import { element } from '../aiui/element.js';
import { visibleName, visibleText } from '../aiui/untrusted.js';
import { badge, callout, facts, fingerprint, panel } from './panel.js';

/** @returns {Panel} */
export function radioPanel() {
  return panel(
    'radio',
    'Radio',
    ({ status }) =>
      status && {
        connected: status.connected,
        link: status.link,
        owner: status.owner,
        my_node: status.my_node,
        fingerprint: status.fingerprint,
        firmware: status.firmware,
        region: status.region,
        modem: status.modem,
        warnings: status.warnings ?? [],
      },
    (radio, body, extra) => {
      extra.append(radio.connected ? badge('good', 'connected') : badge('bad', 'not connected'));
      body.append(element('p', { class: radio.connected ? 'small quiet' : 'lead' }, visibleText(radio.link, 200)));
      for (const warning of radio.warnings) body.append(callout('wait', visibleText(warning, 300)));
      body.append(
        facts([
          ['Node', radio.my_node && nodeName(radio.owner, radio.my_node)],
          ['Key', fingerprint(radio.fingerprint)],
          ['Region', visibleName(radio.region)],
          ['Modem', visibleName(radio.modem)],
          ['Firmware', visibleName(radio.firmware)],
        ]),
      );
    },
  );
}

/**
 * A name with its number: the name alone proves nothing.
 * @param {string} name
 * @param {string} id
 */
export function nodeName(name, id) {
  const shown = visibleName(name);
  return element(
    'span',
    { class: 'node-name' },
    shown !== '' && shown !== id && element('bdi', { class: 'name' }, shown),
    element('span', { class: 'mono id' }, visibleName(id)),
  );
}
