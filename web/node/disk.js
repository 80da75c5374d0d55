/**
 * The machine panel: how much space it has left, whether its clock is right, when it was last backed up.
 *
 * Owns how `system.disk-status` and `system.info` are said.
 */

/** @import { Panel } from './panel.js' */
/** @import { DiskStatus, SystemInfo } from '../rpc.d.ts' */
import { element } from '../aiui/element.js';
import { visibleName } from '../aiui/untrusted.js';
import { ageOf, badge, facts, panel } from './panel.js';
import { bytes, duration } from './units.js';

/** From here on a disk is called nearly full, and full. Percent. */
const NEAR = 85;
const FULL = 95;

/** @returns {Panel} */
export function diskPanel() {
  return panel(
    'disk',
    'Machine',
    ({ disk, info }) => disk && {
      disks: disk.disks ?? [],
      // Its seconds go on by themselves, and are no reason to draw anew.
      info: info && { ...info, uptime_s: Math.floor(info.uptime_s / 60) * 60 },
    },
    ({ disks, info }, body) => {
      body.append(...disks.map(row));
      if (info !== null) body.append(about(info));
    },
  );
}

/** From here on the radio's clock is called wrong. Seconds. */
const DRIFT = 30;
/** From here on a backup is called old. Milliseconds. */
const OLD = 30 * 86_400_000;

/** @param {SystemInfo} info */
function about({ storage, clock, backup, version, uptime_s: up }) {
  const drift = clock?.radio_drift_s;
  return facts([
    ['Data', storage && `${bytes(storage.data_bytes)} in the data folder`],
    ['Clock', clock && timekeeper(clock)],
    ['Radio clock', typeof drift === 'number' && (Math.abs(drift) < DRIFT ? behind(drift) : badge('wait', behind(drift)))],
    ['Backup', backup !== undefined && lastBackup(backup)],
    ['Version', visibleName(version, 40)],
    ['Up for', duration(up * 1000)],
  ]);
}

/** @param {NonNullable<SystemInfo['clock']>} clock */
function timekeeper({ source, synchronised }) {
  const keeper = source === 'none' ? '' : ` by ${source === 'kernel' ? 'the system' : visibleName(source, 24)}`;
  return synchronised ? `synchronised${keeper}` : badge('wait', source === 'none' ? 'not synchronised: nobody sets it' : `not yet synchronised${keeper}`);
}

/** @param {number} seconds by which the radio's clock is ahead */
function behind(seconds) {
  if (Math.abs(seconds) < 2) return 'the same';
  return `${duration(Math.abs(seconds) * 1000)} ${seconds > 0 ? 'ahead' : 'behind'}`;
}

/** @param {NonNullable<SystemInfo['backup']> | null} backup */
function lastBackup(backup) {
  if (backup === null) return badge('wait', 'none yet: tombolo backup FOLDER');
  return element(
    'span', {}, Date.now() - backup.at > OLD && badge('wait', 'old'), ' ', ageOf(backup.at), ' in ', element('span', { class: 'mono' }, visibleName(backup.folder, 120)),
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
