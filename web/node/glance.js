/**
 * The line at the top: link, airtime and model in three words each.
 *
 * Owns what is said there; the panels say it at length.
 */

/** @import { Snapshot } from './parts.js' */
import { byId, element } from '../aiui/element.js';
import { legName } from '../aiui/legs.js';
import { badge } from './panel.js';
import { airSeconds } from './units.js';

let drawn = '';

/** @param {Snapshot} snapshot */
export function showGlance({ status, assistant }) {
  /** Tone, word, and what is added where there is room. @type {['good' | 'wait' | 'bad' | 'plain', string, string][]} */
  const points = [];
  if (status !== null) {
    points.push(status.connected ? ['good', 'radio', ' connected'] : ['bad', 'no radio', '']);
    const { used_ms: used, share_ms: share, paused } = status.airtime;
    if (status.stopped === true) points.push(['bad', 'stopped', '']);
    else if (paused !== null) points.push(['wait', 'sending waits', '']);
    else if (share === null) points.push(['bad', 'no region', '']);
    else points.push([used >= share ? 'wait' : 'good', `${airSeconds(used)} of ${airSeconds(share)} s`, ' on air']);
  }
  if (assistant !== null) {
    const leg = (assistant.legs ?? []).find(({ state }) => state === 'ready');
    const name = leg?.name ?? (assistant.ollama_detected ? 'ollama' : assistant.claude_available ? 'claude' : 'offline');
    points.push(name === 'offline' ? ['wait', 'no model', ''] : ['good', legName(name), ' answers']);
  }
  const written = JSON.stringify(points);
  if (written === drawn) return;
  drawn = written;
  byId('glance', HTMLElement).replaceChildren(
    ...points.map(([tone, word, more]) =>
      element('li', {}, badge(tone, word), more !== '' && element('span', { class: 'where-room' }, more)),
    ),
  );
}
