/**
 * What every panel of the status has in common: a titled section that is drawn anew only when its data changed.
 *
 * Owns the frame and the small parts (badges, facts, ages). Knows no data.
 */

/** @import { Child } from '../aiui/element.js' */
/** @import { Snapshot } from './parts.js' */
/** @import { RpcClient } from '../aiui/rpc.js' */
/** @import { Feed } from './feed.js' */
import { element } from '../aiui/element.js';
import { visibleName } from '../aiui/untrusted.js';
import { focusedKey, focusKey, isTypedIn } from './keyed.js';
import { age } from './units.js';

/** @typedef {{ element: HTMLElement, show: (snapshot: Snapshot) => void }} Panel */

/**
 * What a part of the page works with. `operator` is false for those who may only look: then nothing that changes
 * anything is drawn. The daemon refuses it all the same.
 * @typedef {object} Context
 * @property {RpcClient} client
 * @property {Feed} feed
 * @property {boolean} operator
 * @property {(view: string) => void} open shows that view
 * @property {() => void} chatChanged has the chat read its conversation anew: something else has added to it
 */

/**
 * Makes a panel.
 * @template Data
 * @param {string} id
 * @param {string} title
 * @param {(snapshot: Snapshot) => Data | null} pick what of the snapshot it shows; `null` while that is not known
 * @param {(data: Data, body: HTMLElement, heading: HTMLElement) => void} draw fills the emptied body
 * @returns {Panel}
 */
export function panel(id, title, pick, draw) {
  const extra = element('span', { class: 'panel-extra' });
  const heading = element('h2', { id: `${id}-title` }, title);
  const body = element('div', { class: 'panel-body' }, element('p', { class: 'quiet' }, 'Asking…'));
  let drawn = '';
  /** @type {unknown} */
  let last;
  return {
    element: element(
      'section',
      { class: 'panel', id, 'aria-labelledby': `${id}-title` },
      element('div', { class: 'panel-head' }, heading, extra),
      body,
    ),
    show(snapshot) {
      const data = pick(snapshot);
      if (data === null || data === last || isTypedIn(body)) return;
      last = data;
      // Without this a selection would be lost every three seconds, and the focus too.
      const written = JSON.stringify(data);
      if (written === drawn) return;
      drawn = written;
      const refocus = focusedKey(body);
      extra.replaceChildren();
      body.replaceChildren();
      draw(data, body, extra);
      if (refocus !== undefined) focusKey(body, refocus);
    },
  };
}

/**
 * A state with a word and a mark, so that colour is never the only sign.
 * @param {'good' | 'wait' | 'bad' | 'plain'} tone
 * @param {string} word
 * @param {string} [explained] shown by the pointer; nothing that is not said elsewhere
 */
export function badge(tone, word, explained) {
  const glyph = { good: '●', wait: '◐', bad: '▲', plain: '○' }[tone];
  return element(
    'span',
    { class: `badge ${tone}`, title: explained },
    element('span', { class: 'badge-mark', 'aria-hidden': 'true' }, glyph),
    word,
  );
}

/**
 * Terms and what they are; one that is empty is left out.
 * @param {[string, Child][]} rows
 */
export function facts(rows) {
  const list = element('dl', { class: 'facts' });
  for (const [term, value] of rows) {
    if (value === '' || value === null || value === undefined || value === false) continue;
    list.append(element('div', {}, element('dt', {}, term), element('dd', {}, value)));
  }
  return list;
}

/**
 * The fingerprint of a key, in letters of one width.
 * @param {string | null | undefined} text
 */
export function fingerprint(text) {
  return text ? element('span', { class: 'mono' }, visibleName(text, 120)) : '';
}

/**
 * How long ago something was; kept right by `refreshAges`.
 * @param {number} at Unix milliseconds
 */
export function ageOf(at) {
  return element('time', { class: 'age', 'data-at': at, datetime: isoTime(at) });
}

/**
 * For programs; nothing where it is no time.
 * @param {number} at Unix milliseconds
 */
export function isoTime(at) {
  const time = new Date(Number(at));
  return Number.isNaN(time.getTime()) ? null : time.toISOString();
}

/**
 * @param {HTMLElement} root
 * @param {number} now Unix milliseconds, the node's
 */
export function refreshAges(root, now) {
  for (const time of root.querySelectorAll('time.age')) {
    if (!(time instanceof HTMLElement)) continue;
    const text = age(Number(time.dataset.at), now);
    if (time.textContent !== text) time.textContent = text;
  }
}

/**
 * A line that the operator should not miss.
 * @param {'wait' | 'bad'} tone
 * @param {...Child} content
 */
export function callout(tone, ...content) {
  return element('div', { class: `callout ${tone}` }, ...content);
}

/**
 * A way to a view.
 * @param {Context} context
 * @param {string} view
 * @param {string} word
 */
export function viewLink(context, view, word) {
  const button = element('button', { type: 'button', class: 'link', 'data-key': `to-${view}` }, word);
  button.addEventListener('click', () => context.open(view));
  return button;
}
