/**
 * The disk panel: how much space the node's data folder has left.
 *
 * Owns how `system.disk-status` is said.
 */

/** @import { Panel } from './panel.js' */
import { element } from '../aiui/element.js';
import { visibleName } from '../aiui/untrusted.js';
import { panel } from './panel.js';
import { bytes } from './units.js';

/** @returns {Panel} */
export function diskPanel() {
  return panel(
    'disk',
    'Disk',
    ({ disk }) => disk,
    (disk, body, extra) => {
      if (disk.path) extra.append(element('span', { class: 'mono' }, visibleName(disk.path, 60)));
      const used = disk.total_bytes > 0 ? 1 - disk.free_bytes / disk.total_bytes : 0;
      const fill = element('span', { class: 'meter-fill' });
      fill.style.width = `${(used * 100).toFixed(1)}%`;
      body.append(
        element(
          'p',
          { class: 'bar-label' },
          element('span', {}, element('span', { class: 'number' }, bytes(disk.free_bytes)), ' free'),
          element('span', { class: 'quiet' }, `of ${bytes(disk.total_bytes)}`),
        ),
        element(
          'div',
          {
            class: `meter thin ${used > 0.95 ? 'full' : used > 0.85 ? 'near' : ''}`,
            role: 'meter',
            'aria-label': 'Disk in use',
            'aria-valuemin': 0,
            'aria-valuemax': 100,
            'aria-valuenow': Math.round(used * 100),
            'aria-valuetext': `${bytes(disk.free_bytes)} free of ${bytes(disk.total_bytes)}`,
          },
          fill,
        ),
      );
    },
  );
}
