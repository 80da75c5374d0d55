/**
 * The history: the last 24 hours of the air and of the questions.
 *
 * Owns which charts there are and what they say in words.
 */

/** @import { Context } from './panel.js' */
/** @import { View } from './views.js' */
/** @import { HistoryHour } from '../rpc.d.ts' */
import { element } from '../aiui/element.js';
import { barChart } from './chart.js';
import { airSeconds, percent } from './units.js';

/**
 * @param {Context} context
 * @returns {View}
 */
export function historyView(context) {
  const body = element('div', { class: 'charts' }, element('p', { class: 'quiet' }, 'Asking…'));
  /** @type {unknown} */
  let drawn;
  /** @type {() => void} */
  let unwatch = () => {};
  return {
    element: element('div', { class: 'view' }, element('div', { class: 'view-head' }, element('h2', {}, 'The last 24 hours')), body),
    opened: () => void (unwatch = context.feed.watch('history')),
    closed: () => unwatch(),
    show({ history, status }) {
      if (history === null) {
        if (context.feed.lacks('history')) body.replaceChildren(element('p', { class: 'quiet' }, 'This daemon keeps no history.'));
        return;
      }
      if (history === drawn) return;
      drawn = history;
      const hours = history.filter((hour) => typeof hour?.from === 'number');
      if (hours.length === 0) {
        body.replaceChildren(element('p', { class: 'quiet' }, 'Nothing was recorded yet. The first hour is shown when it has begun.'));
        return;
      }
      body.replaceChildren(...charts(hours, status?.airtime.share_ms ?? null, status?.airtime.limit_ms ?? null));
    },
  };
}

/**
 * @param {HistoryHour[]} hours
 * @param {number | null} share
 * @param {number | null} limit
 */
function charts(hours, share, limit) {
  const labels = hours.map(({ from }) => new Date(from).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit', hour12: false }));
  const own = hours.map(({ own_ms }) => Number(own_ms) / 1000);
  const channel = hours.map(({ channel_percent: use }) => (typeof use === 'number' ? use : null));
  const known = channel.filter((use) => use !== null);
  const answered = hours.map((hour) => Number(hour.answered) || 0);
  const refused = hours.map((hour) => Number(hour.refused) || 0);
  const sum = (/** @type {number[]} */ values) => values.reduce((a, b) => a + b, 0);
  const most = Math.max(...own);
  /** @type {{ at: number, word: string }[]} */
  const limits = [];
  if (share !== null) limits.push({ at: share / 1000, word: 'own share' });
  if (limit !== null) limits.push({ at: limit / 1000, word: 'law' });
  return [
    barChart({
      title: 'Own airtime', unit: 's', labels, limits,
      said: `${airSeconds(sum(own) * 1000)} s sent in all; ${airSeconds(most * 1000)} s in the busiest hour${most > 0 ? `, from ${labels[own.indexOf(most)]}` : ''}.`,
      series: [{ name: 'sent', tone: 'sea', values: own }],
    }),
    barChart({
      title: 'Channel use', unit: '%', labels, limits: [{ at: 25, word: 'slower above' }, { at: 40, word: 'nothing sent above' }],
      said: known.length === 0
        ? 'The radio did not say how busy the channel was.'
        : `On average ${percent(sum(known) / known.length)}, at most ${percent(Math.max(...known))}.`,
      series: [{ name: 'in use', tone: 'sand', values: channel }],
    }),
    barChart({
      title: 'Questions', unit: 'questions', labels,
      said: `${sum(answered)} answered, ${sum(refused)} refused.`,
      series: [{ name: 'answered', tone: 'sea', values: answered }, { name: 'refused', tone: 'bad', values: refused }],
    }),
  ];
}
