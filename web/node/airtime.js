/**
 * The airtime panel: what this transmitter used of the rolling hour, of its own share and of the law.
 *
 * Owns the bar. The figures and the reasons are the daemon's.
 */

/** @import { Panel } from './panel.js' */
/** @import { Airtime } from '../rpc.d.ts' */
import { element } from '../aiui/element.js';
import { visibleText } from '../aiui/untrusted.js';
import { callout, panel } from './panel.js';
import { airSeconds, duration, percent } from './units.js';

/** Above the first the daemon sends slower, above the second not at all. Percent of channel use. */
const BUSY = 25;
const TOO_BUSY = 40;

/** @returns {Panel} */
export function airtimePanel() {
  return panel('airtime', 'Airtime', ({ status }) => status && status.airtime, draw);
}

/**
 * @param {Airtime} airtime
 * @param {HTMLElement} body
 * @param {HTMLElement} extra
 */
function draw(airtime, body, extra) {
  extra.append('rolling hour');
  const { used_ms: used, share_ms: share, limit_ms: limit } = airtime;
  body.append(
    element(
      'p',
      { class: 'figure' },
      element('span', { class: 'figure-value' }, airSeconds(used)),
      element('span', { class: 'figure-unit' }, share === null ? ' s sent' : ` s of ${airSeconds(share)} s`),
    ),
  );
  if (limit !== null && share !== null && limit > 0) body.append(usedBar(used, share, limit));
  if (airtime.paused !== null) {
    const again = airtime.recovers_in_s > 0 ? ` A full message fits again in ${duration(airtime.recovers_in_s * 1000)}.` : '';
    body.append(callout('wait', element('strong', {}, 'Sending waits. '), visibleText(airtime.paused, 300), again));
  } else if (airtime.recovers_in_s > 0) {
    body.append(callout('wait', `A full message fits again in ${duration(airtime.recovers_in_s * 1000)}.`));
  }
  const notes = airtime.notes ?? [];
  if (airtime.channel_utilization !== null) body.append(channelBar(airtime.channel_utilization));
  else if (notes.length === 0) body.append(element('p', { class: 'fine' }, 'The radio does not say how busy the channel is.'));
  if (airtime.air_util_tx !== null) {
    body.append(element('p', { class: 'fine' }, `The radio itself counts ${percent(airtime.air_util_tx, 2)} of the hour.`));
  }
  for (const note of notes) body.append(element('p', { class: 'fine' }, visibleText(note, 300)));
}

/**
 * The whole bar is the law; the mark in it is our own share.
 * @param {number} used
 * @param {number} share
 * @param {number} limit
 */
function usedBar(used, share, limit) {
  const part = Math.min(used / limit, 1);
  const tone = used >= share ? 'full' : used >= share * 0.8 ? 'near' : '';
  const bar = meter(
    'Airtime used in the rolling hour',
    `${airSeconds(used)} seconds, of ${airSeconds(share)} for own answers and ${airSeconds(limit)} by law`,
    used / 1000, limit / 1000, tone,
  );
  bar.append(fill(part, used > 0 ? 3 : 0), tick(share / limit, 'share'));
  const legend = element('div', { class: 'scale', 'aria-hidden': 'true' });
  const shareLabel = element('span', { class: 'scale-share' }, `own share ${airSeconds(share)} s`);
  shareLabel.style.left = `${(share / limit) * 100}%`;
  if (share / limit > 0.6) shareLabel.classList.add('leftward');
  if (share < limit) legend.append(shareLabel);
  legend.append(element('span', { class: 'scale-limit' }, `law ${airSeconds(limit)} s`));
  return element('div', { class: 'bar-block' }, bar, legend);
}

/** @param {number} use */
function channelBar(use) {
  const word = use >= TOO_BUSY ? 'too busy: nothing is sent' : use >= BUSY ? 'busy: slower' : 'room to send';
  const bar = meter('Channel use in the last minute', `${percent(use)}, ${word}`, use, 100, use >= TOO_BUSY ? 'full' : use >= BUSY ? 'near' : '');
  bar.classList.add('thin');
  bar.append(fill(Math.min(use / 100, 1), use > 0 ? 2 : 0), tick(BUSY / 100, ''), tick(TOO_BUSY / 100, ''));
  return element(
    'div',
    { class: 'bar-block' },
    element(
      'p',
      { class: 'bar-label' },
      element('span', {}, 'Channel in use'),
      element('span', {}, element('span', { class: 'number' }, percent(use)), element('span', { class: 'quiet' }, ` ${word}`)),
    ),
    bar,
  );
}

/**
 * @param {string} label
 * @param {string} text
 * @param {number} value
 * @param {number} max
 * @param {string} tone
 */
function meter(label, text, value, max, tone) {
  return element('div', {
    class: `meter ${tone}`,
    role: 'meter',
    'aria-label': label,
    'aria-valuemin': 0,
    'aria-valuemax': Math.round(max),
    'aria-valuenow': Math.round(Math.min(value, max) * 10) / 10,
    'aria-valuetext': text,
  });
}

/**
 * @param {number} part
 * @param {number} least so many pixels at least, so that a little is not nothing
 */
function fill(part, least) {
  const made = element('span', { class: 'meter-fill' });
  made.style.width = `max(${(part * 100).toFixed(2)}%, ${least}px)`;
  return made;
}

/**
 * @param {number} part
 * @param {string} kind
 */
function tick(part, kind) {
  const made = element('span', { class: `meter-tick ${kind}` });
  made.style.left = `${(part * 100).toFixed(2)}%`;
  return made;
}
