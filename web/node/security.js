/**
 * The security panel: what happened that the operator should know of.
 *
 * Owns the words for the kinds of event. Everything in them is a claim of strangers, said as such.
 */

/** @import { Panel } from './panel.js' */
/** @import { Snapshot } from './parts.js' */
import { element } from '../aiui/element.js';
import { visibleName, visibleText } from '../aiui/untrusted.js';
import { keyed } from './keyed.js';
import { ageOf, badge, panel } from './panel.js';

const SHOWN = 12;

/** @type {Map<string, ['wait' | 'bad' | 'plain', string]>} */
const KINDS = new Map([
  ['foreign_key', ['bad', 'another key']],
  ['replay', ['wait', 'replay, not answered']],
  ['downgrade', ['bad', 'lost encryption']],
  ['unverified_claim', ['wait', 'unverified claim']],
  ['spoofed_sender', ['bad', 'forged sender']],
  ['new_pin', ['wait', 'new key pinned']],
  ['moved', ['plain', 'new number, same key']],
  ['loop', ['wait', 'loop, not answered']],
  ['flood', ['wait', 'flood, held off']],
  ['login_failed', ['wait', 'failed log-in']],
  ['pairing', ['wait', 'wrong pairing code']],
]);

/** What happened: `from` is a claim. @typedef {{ at: number, kind: string, from: string, detail: string }} Incident */

/** How the daemon writes such a thing into its log; the fields stand at the end, so that no text in it can forge them. */
const LOGGED = /^(.*) kind=([a-z_]+) from=(\S{1,80})$/s;
const LOGIN = /^login failed from (\S{1,80})$/;

/**
 * Those that are known: from the log, which remembers, where this session may see it; else those since the page was opened.
 * @param {Snapshot} snapshot
 * @returns {Incident[]}
 */
export function incidentsOf({ log, events }) {
  /** @type {Incident[]} */
  const found = [];
  for (const { at, message } of log) {
    const [, detail, kind, from] = LOGGED.exec(String(message)) ?? [];
    if (detail !== undefined && kind !== undefined && from !== undefined) found.push({ at, kind, from, detail });
    const address = LOGIN.exec(String(message))?.[1];
    if (address !== undefined) found.push({ at, kind: 'login_failed', from: address, detail: '' });
  }
  if (log.length > 0) return found;
  return events
    .filter(({ event }) => event === 'security')
    .map(({ at, kind, from, detail }) => ({ at, kind: String(kind), from: String(from ?? ''), detail: String(detail ?? '') }));
}

/**
 * Tone and word of a kind.
 * @param {unknown} kind
 * @returns {['wait' | 'bad' | 'plain', string]}
 */
export function securityKind(kind) {
  return KINDS.get(String(kind)) ?? ['wait', visibleName(kind).replaceAll('_', ' ')];
}

/** @returns {Panel} */
export function securityPanel() {
  const list = element('ul', { class: 'rows tight' });
  /** @type {unknown[]} */
  let of = [];
  /** @type {Incident[]} */
  let found = [];
  return panel(
    'security',
    'Security',
    (snapshot) => {
      // The same array while nothing was added, so that nothing is compared at length.
      if (snapshot.events !== of[0] || snapshot.log !== of[1]) {
        of = [snapshot.events, snapshot.log];
        found = incidentsOf(snapshot).slice(-SHOWN).reverse();
      }
      return found;
    },
    (found, body, extra) => {
      extra.append(found.length === 0 ? 'quiet' : 'the last of them');
      if (found.length === 0) {
        body.append(element('p', { class: 'quiet' }, 'No forged, repeated or unverified message, and no failed log-in.'));
        return;
      }
      keyed(list, found, ({ at, kind, from, detail }) => `${at}-${kind}-${from}-${detail}`, row);
      body.append(list);
    },
  );
}

/** @param {Incident} incident */
function row({ at, kind, from, detail }) {
  const [tone, word] = securityKind(kind);
  return element(
    'li', {},
    element('div', { class: 'row-head' }, badge(tone, word), ageOf(at)),
    element(
      'p', { class: 'row-details' },
      from !== '' && element('span', { class: 'mono' }, `${kind === 'login_failed' ? 'from' : 'claims'} ${visibleName(from, 80)}`),
      detail !== '' && element('span', {}, visibleText(detail, 200)),
    ),
  );
}
