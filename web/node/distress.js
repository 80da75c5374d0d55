/**
 * The strip at the very top: what a peer sent in distress, on every view, until a person has seen it.
 *
 * Owns how a call is said, and that its coming is read out at once. Decides nothing: a call is over when the node says so,
 * whoever cleared it. Everything in it is a stranger's text, and a claim unless a key is named.
 */

/** @import { Context } from './panel.js' */
/** @import { Snapshot } from './parts.js' */
/** @import { Distress } from '../rpc.d.ts' */
import { byId, element } from '../aiui/element.js';
import { visibleName, visibleText } from '../aiui/untrusted.js';
import { linkDetails } from './contacts.js';
import { act } from './form.js';
import { keyed } from './keyed.js';
import { notice } from './notice.js';
import { ageOf, badge, fingerprint, isoTime } from './panel.js';

/** More of a text than a packet holds is none of a peer's. */
const LONGEST = 300;

/**
 * The calls that nobody has cleared, the newest first.
 * @param {Snapshot} snapshot
 * @returns {Distress[]}
 */
export function openCalls({ distress }) {
  return (distress ?? []).filter(({ id, seen_at: seen }) => typeof id === 'string' && (seen === null || seen === undefined));
}

/** @param {Context} context */
export function distressStrip(context) {
  const place = byId('distress', HTMLElement);
  // There before anything is said in it, or it would not be read out. What changes by itself stands outside of it.
  const said = element('div', { class: 'distress-said', role: 'alert' });
  const foot = element('div', { class: 'distress-foot' });
  const summary = element('summary', {});
  const others = element('ul', { class: 'distress-others' });
  const more = element('details', { class: 'distress-more' }, summary, others);
  place.replaceChildren(said, foot, more);
  let drawn = '';

  /** @param {Snapshot} snapshot */
  const show = (snapshot) => {
    const calls = openCalls(snapshot).map((call) => ({ call, unsure: neverCompared(call, snapshot) }));
    const [newest, ...rest] = calls;
    place.hidden = newest === undefined;
    const written = JSON.stringify(newest ?? null);
    if (written !== drawn) {
      drawn = written;
      said.replaceChildren();
      foot.replaceChildren();
      if (newest !== undefined) {
        said.append(...words(newest));
        foot.append(...around(context, newest.call));
      }
    }
    more.hidden = rest.length === 0;
    if (rest.length === 0) more.open = false;
    const line = `${rest.length} more`;
    if (summary.textContent !== line) summary.textContent = line;
    keyed(others, rest, ({ call }) => call.id, (one) =>
      element('li', {}, ...words(one), element('div', { class: 'distress-foot' }, ...around(context, one.call))));
  };
  return { show };
}

/**
 * Did it come under a key that was pinned and that nobody has compared since?
 * @param {Distress} call
 * @param {Snapshot} snapshot
 */
function neverCompared({ fingerprint }, { assistant }) {
  return (assistant?.allowed_contacts ?? []).some((contact) => contact.fingerprint === fingerprint && contact.pin === 'unconfirmed');
}

/** @typedef {{ call: Distress, unsure: boolean }} Call */

/**
 * What is read out: who, how sure that is, when, and the text.
 * @param {Call} of
 */
function words({ call, unsure }) {
  const name = visibleName(call.name);
  const node = visibleName(call.node);
  const text = visibleText(call.text, LONGEST).trim();
  const times = Number(call.times) || 1;
  return [
    element(
      'p', { class: 'distress-head' },
      element('strong', { class: 'distress-mark' }, 'SOS'),
      ' from ',
      element('bdi', { class: 'name' }, name),
      name !== node && element('span', { class: 'mono id' }, ` ${node}`),
      ', ',
      sure(call, unsure),
      call.fingerprint && element('span', {}, call.assurance === 'unverified' ? ', key ' : ' ', fingerprint(call.fingerprint)),
      call.channel && element('span', {}, ` on #${visibleName(call.channel)}`),
      call.mqtt === true && element('span', {}, ', through the internet'),
      ', ',
      element('time', { datetime: isoTime(call.at) }, moment(call.at)),
      times > 1 && element('span', {}, `, sent ${times} times since ${moment(call.first_at)}`),
    ),
    text === ''
      ? element('p', { class: 'distress-text quiet' }, 'No words with it.')
      : element('p', { class: 'distress-text', dir: 'auto' }, text),
  ];
}

/**
 * What stands with it and changes with time: how long ago, how it was heard, and the button of those who may.
 * @param {Context} context
 * @param {Distress} call
 */
function around(context, call) {
  const heard = linkDetails({ snr: call.snr, hops: call.hops, battery: null });
  return [
    element('p', { class: 'row-details' }, ageOf(call.at), ...heard.map((detail) => element('span', {}, detail))),
    context.operator && act('Seen, clear', () => clear(context, call), {
      sure: 'Clear it for everybody?', key: `clear-${call.id}`, name: `Seen, clear: ${visibleName(call.name)}`,
    }),
  ].filter((part) => part !== false);
}

/**
 * @param {Context} context
 * @param {Distress} call
 */
async function clear(context, call) {
  const { distress } = await context.client.call('mesh.distress-clear', { id: call.id });
  context.feed.put('distress', distress);
  context.feed.refresh('status');
  notice(`Distress text of ${visibleName(call.name)} cleared.`);
}

/**
 * @param {Distress} call
 * @param {boolean} unsure
 */
function sure({ assurance, claims }, unsure) {
  if (assurance === 'verified') {
    return unsure ? badge('wait', 'pinned key, never compared') : badge('good', 'pinned key');
  }
  if (assurance === 'signed') return badge('wait', 'signed by the contact’s key');
  if (claims) return badge('wait', `not verified: claims the number of ${visibleName(claims)}`);
  return badge('wait', 'not verified: a stranger, under a number that anybody can write');
}

/**
 * The time of day, and the day where it is another.
 * @param {number} at Unix milliseconds
 */
function moment(at) {
  const time = new Date(Number(at));
  if (Number.isNaN(time.getTime())) return 'at an unknown time';
  const clock = time.toLocaleTimeString([], { hour: '2-digit', minute: '2-digit', hour12: false });
  const today = time.toDateString() === new Date().toDateString();
  return today ? clock : `${time.toLocaleDateString([], { day: 'numeric', month: 'short' })}, ${clock}`;
}
