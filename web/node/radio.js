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
        port: status.port,
        frequency: status.frequency_mhz,
        role: status.role,
        licensed: status.licensed,
        firmware_note: status.firmware_note,
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
          ['Port', radio.port && element('span', { class: 'mono' }, visibleName(radio.port, 120))],
          ['Region', visibleName(radio.region)],
          ['Frequency', typeof radio.frequency === 'number' && megahertz(radio.frequency)],
          ['Modem', visibleName(radio.modem)],
          ['Role', radio.role && visibleName(radio.role, 40)],
          ['Licensed', radio.licensed === true && 'yes: everything is sent in the clear'],
          ['Firmware', firmware(radio)],
        ]),
      );
    },
  );
}

/** @param {{ firmware: string, firmware_note?: string | null }} radio */
function firmware({ firmware, firmware_note: note }) {
  const version = visibleName(firmware);
  return note ? element('span', {}, `${version}, `, badge('wait', visibleName(note, 80))) : version;
}

/**
 * To the kHz at least, and no digit that says nothing.
 * @param {number} mhz
 */
export function megahertz(mhz) {
  return `${mhz.toFixed(4).replace(/0$/, '')} MHz`;
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
