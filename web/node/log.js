/**
 * The live log: what came, what left, who called which tool, and what the daemon says, with filters.
 *
 * Owns which lines are drawn. Thousands are kept and a page of them is in the document; a line is text and nothing else.
 */

/** @import { Context } from './panel.js' */
/** @import { Line } from './lines.js' */
/** @import { View } from './views.js' */
import { element } from '../aiui/element.js';
import { select } from './form.js';
import { keyed } from './keyed.js';
import { KINDS, Lines } from './lines.js';
import { delivery, STATES } from './messages.js';
import { isoTime } from './panel.js';

/** Lines in the document at once. */
export const PAGE = 200;
/** Nearer to the end than this, the log follows. Pixels. */
const END = 60;

const WORDS = new Map([
  ['in', 'in'], ['out', 'out'], ['turn', 'turn'], ['tool', 'tool'], ['security', 'security'], ['link', 'link'], ['log', 'daemon'],
]);

/**
 * @param {Context} context
 * @returns {View}
 */
export function logView(context) {
  const lines = new Lines();
  const list = element('ol', { class: 'log-lines' });
  const earlier = element('button', { type: 'button' }, 'Earlier lines');
  const later = element('button', { type: 'button', class: 'log-later', hidden: true }, 'To the newest');
  const empty = element('p', { class: 'quiet log-empty' }, 'Nothing yet.');
  const box = element('div', { class: 'log-box', tabindex: 0, role: 'region', 'aria-label': 'Log, the newest last' }, earlier, list, empty);
  const count = element('p', { class: 'fine', role: 'status' });

  /** @type {Set<string>} */
  const hidden = new Set();
  let words = '';
  let state = '';
  /** The last line that is drawn, while the operator reads further up; null when the log follows. @type {Line | null} */
  let held = null;
  /** @type {Line[]} */
  let shown = [];

  const filter = () => {
    shown = lines.all.filter((line) =>
      !hidden.has(line.kind) && (state === '' || line.state?.state === state) &&
      (words === '' || `${line.who} ${line.text} ${line.note}`.toLowerCase().includes(words)));
    draw();
  };
  const draw = () => {
    const heldAt = held === null ? -1 : shown.findIndex(({ key }) => key === held?.key);
    const end = heldAt < 0 ? shown.length : heldAt + 1;
    const begin = Math.max(0, end - PAGE);
    keyed(list, shown.slice(begin, end), ({ key }) => key, row);
    earlier.hidden = begin === 0;
    later.hidden = end === shown.length;
    later.textContent = `${shown.length - end} newer`;
    empty.hidden = shown.length > 0;
    const text = shown.length === lines.all.length ? `${shown.length} lines` : `${shown.length} of ${lines.all.length} lines`;
    if (count.textContent !== text) count.textContent = text;
    if (held === null) box.scrollTop = box.scrollHeight;
  };

  box.addEventListener('scroll', () => {
    if (box.clientHeight === 0) return;
    const atEnd = box.scrollHeight - box.scrollTop - box.clientHeight < END;
    if (!atEnd && held === null) held = shown.at(-1) ?? null;
    else if (atEnd && held !== null && later.hidden) held = null;
  });
  earlier.addEventListener('click', () => {
    const first = shown.findIndex(({ key }) => key === list.firstElementChild?.getAttribute('data-line'));
    // The page ends where it began, with some lines in common.
    held = shown[Math.max(Math.min(PAGE, shown.length) - 1, first + 20)] ?? null;
    draw();
    box.scrollTop = box.scrollHeight;
    box.focus();
  });
  later.addEventListener('click', () => {
    held = null;
    draw();
    box.focus();
  });

  const chips = KINDS.map(([kind, word]) => {
    const chip = element('button', { type: 'button', class: 'chip', 'aria-pressed': 'true' }, word);
    chip.addEventListener('click', () => {
      if (!hidden.delete(kind)) hidden.add(kind);
      chip.setAttribute('aria-pressed', String(!hidden.has(kind)));
      held = null;
      filter();
    });
    return chip;
  });
  const search = element('input', { type: 'search', placeholder: 'Find', 'aria-label': 'Find in the log', spellcheck: 'false', autocomplete: 'off' });
  search.addEventListener('input', () => {
    words = search.value.trim().toLowerCase();
    held = null;
    filter();
  });
  const states = select(
    [['', 'Any delivery'], ...[...STATES].map(([state, [, word]]) => /** @type {[string, string]} */ ([state, word]))], '', { 'aria-label': 'Delivery' },
  );
  states.addEventListener('change', () => {
    state = states.value;
    held = null;
    filter();
  });
  const save = element('button', { type: 'button', class: 'bare' }, 'Save');
  save.addEventListener('click', () => saveAs(shown));

  /** @type {() => void} */
  let unwatch = () => {};
  return {
    element: element(
      'div', { class: 'view log-view' },
      element(
        'div', { class: 'log-head' },
        element('h2', {}, 'Log'), count,
        element('div', { class: 'log-tools' }, search, states, save),
        element('div', { class: 'chips', role: 'group', 'aria-label': 'Shown kinds' }, ...chips),
      ),
      box, later,
    ),
    opened() {
      unwatch = context.feed.watch('log', 'ledger');
    },
    closed() {
      unwatch();
    },
    show(snapshot) {
      if (lines.take(snapshot)) filter();
    },
  };
}

/** @param {Line} line */
function row(line) {
  return element(
    'li',
    { class: `log-line ${line.kind} ${line.tone}`, 'data-line': line.key },
    element('time', { datetime: isoTime(line.at), title: new Date(line.at).toLocaleString() }, clock(line.at)),
    element('span', { class: 'log-kind' }, WORDS.get(line.kind) ?? line.kind),
    element('bdi', { class: 'log-who' }, line.who),
    element(
      'div', { class: 'log-text' },
      element('bdi', {}, line.text),
      line.assurance !== '' && line.assurance !== 'verified' && element('span', { class: 'log-note' }, line.assurance),
      line.note !== '' && element('bdi', { class: 'log-note' }, line.note),
      line.state !== null && delivery(line.state),
    ),
    line.tone !== 'plain' && line.state === null && element('span', { class: 'visually-hidden' }, line.tone === 'bad' ? 'serious' : line.tone === 'wait' ? 'warning' : 'good'),
  );
}

/** @param {number} at */
function clock(at) {
  return new Date(at).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit', second: '2-digit', hour12: false });
}

/**
 * Gives the lines out as a file: one line of it for each.
 * @param {Line[]} lines
 */
function saveAs(lines) {
  const text = lines
    .map(({ at, kind, who, text, note, state }) => [isoTime(at) ?? '', kind, who, text, note, state?.state ?? ''].join('\t'))
    .join('\n');
  const url = URL.createObjectURL(new Blob([`${text}\n`], { type: 'text/plain' }));
  const link = element('a', { href: url, download: `tombolo-log-${new Date().toISOString().slice(0, 19).replaceAll(':', '')}.txt` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

