/**
 * The disk panel: how much space the node has left, on the root and where its data is.
 *
 * Owns how `system.disk-status` is said.
 */

/** @import { Panel } from './panel.js' */
/** @import { DiskStatus } from '../rpc.d.ts' */
import { element } from '../aiui/element.js';
import { visibleName } from '../aiui/untrusted.js';
import { panel } from './panel.js';
import { bytes } from './units.js';

/** From here on a disk is called nearly full, and full. Percent. */
const NEAR = 85;
const FULL = 95;

/** @returns {Panel} */
export function diskPanel() {
  return panel(
    'disk',
    'Disk',
    ({ disk }) => disk && (disk.disks ?? []),
    (disks, body) => body.append(...disks.map(row)),
  );
}

/** @param {DiskStatus['disks'][number]} disk */
function row(disk) {
  const fill = element('span', { class: 'meter-fill' });
  fill.style.width = `${disk.used_percent}%`;
  const path = visibleName(disk.path, 60);
  return element(
    'div',
    { class: 'bar-block' },
    element(
      'p',
      { class: 'bar-label' },
      element('span', { class: 'mono' }, path),
      element(
        'span',
        {},
        element('span', { class: 'number' }, bytes(disk.available)),
        element('span', { class: 'quiet' }, ` free of ${bytes(disk.total)}`),
      ),
    ),
    element(
      'div',
      {
        class: `meter thin ${disk.used_percent >= FULL ? 'full' : disk.used_percent >= NEAR ? 'near' : ''}`,
        role: 'meter',
        'aria-label': `Disk in use, ${path}`,
        'aria-valuemin': 0,
        'aria-valuemax': 100,
        'aria-valuenow': disk.used_percent,
        'aria-valuetext': `${bytes(disk.available)} free of ${bytes(disk.total)}, ${disk.used_percent} percent used`,
      },
      fill,
    ),
  );
}
