/**
 * The lines of the live log: messages, what the mesh side reports, tool calls and the daemon's own log, in one order.
 *
 * Owns what a line says and how many are kept. Draws nothing.
 */

/** @import { Snapshot } from './parts.js' */
/** @import { Contact, Delivery, LedgerCall, LogLine, MeshEvent, MeshMessage } from '../rpc.d.ts' */
import { visibleName, visibleText } from '../aiui/untrusted.js';
import { callerOf } from './contacts.js';
import { exactLine } from './exact.js';
import { MAX_LINES } from './feed.js';
import { messageKey } from './messages.js';
import { securityKind } from './security.js';
import { duration } from './units.js';

/** The filters, in their order: kind and word. @type {[string, string][]} */
export const KINDS = [
  ['in', 'Received'], ['out', 'Sent'], ['turn', 'Turns'], ['tool', 'Tool calls'], ['security', 'Security'], ['link', 'Link'], ['log', 'Daemon'],
];

/**
 * One line. `tone` is of the whole line, `state` the delivery of what left.
 * @typedef {object} Line
 * @property {string} key
 * @property {number} at Unix milliseconds
 * @property {string} kind
 * @property {string} who
 * @property {string} text
 * @property {string} note
 * @property {'good' | 'wait' | 'bad' | 'plain'} tone
 * @property {Delivery | null} state
 * @property {string} assurance
 */

export class Lines {
  /** Sorted by time. @type {Line[]} */
  #lines = [];
  /** @type {Map<string, Line>} */
  #byKey = new Map();
  /** @type {unknown[]} */
  #seen = [];
  /** @type {MeshEvent | undefined} */
  #lastEvent;
  /** Of the events: two of the same instant are two. */
  #count = 0;
  #lastSeq = -1;

  /** Oldest first, at most `MAX_LINES`. */
  get all() {
    return this.#lines;
  }

  /**
   * Takes what is new; true when something was.
   * @param {Snapshot} snapshot
   * @returns {boolean}
   */
  take({ messages, events, ledger, log, assistant }) {
    const parts = [messages, events, ledger, log];
    if (parts.every((part, n) => part === this.#seen[n])) return false;
    const [wereMessages, wereEvents, wereLedger, wereLog] = this.#seen;
    this.#seen = parts;
    /** @type {Line[]} */
    const fresh = [];
    if (messages !== wereMessages) for (const message of messages ?? []) fresh.push(ofMessage(message));
    if (ledger !== wereLedger) for (const call of ledger ?? []) fresh.push(ofCall(call, assistant?.allowed_contacts ?? []));
    if (events !== wereEvents) {
      const begin = this.#lastEvent === undefined ? 0 : events.lastIndexOf(this.#lastEvent) + 1;
      for (const event of events.slice(begin)) {
        const line = ofEvent(event, ++this.#count);
        if (line !== null) fresh.push(line);
      }
      this.#lastEvent = events.at(-1);
    }
    if (log !== wereLog) {
      const last = log.at(-1)?.seq ?? -1;
      // A daemon that began anew counts anew.
      if (last < this.#lastSeq) this.#lastSeq = -1;
      for (const line of log) if (line.seq > this.#lastSeq) fresh.push(ofLog(line));
      this.#lastSeq = last;
    }
    this.#add(fresh);
    return true;
  }

  /** @param {Line[]} fresh */
  #add(fresh) {
    let sorted = true;
    for (const line of fresh) {
      const known = this.#byKey.get(line.key);
      this.#byKey.set(line.key, line);
      if (known !== undefined) {
        // The time may not change, so neither does the place.
        this.#lines[this.#lines.lastIndexOf(known)] = line;
        continue;
      }
      sorted &&= line.at >= (this.#lines.at(-1)?.at ?? 0);
      this.#lines.push(line);
    }
    if (!sorted) this.#lines.sort((a, b) => a.at - b.at);
    if (this.#lines.length > MAX_LINES) {
      for (const gone of this.#lines.splice(0, this.#lines.length - MAX_LINES)) this.#byKey.delete(gone.key);
    }
  }
}

/** @param {Partial<Line>} line @returns {Line} */
function lineOf(line) {
  return { key: '', at: 0, kind: 'log', who: '', text: '', note: '', tone: 'plain', state: null, assurance: '', ...line };
}

/** @param {MeshMessage} message */
function ofMessage(message) {
  const out = message.direction === 'out';
  const channel = !message.channel ? '' : `#${visibleName(message.channel)}`;
  return lineOf({
    key: `m-${messageKey(message)}`,
    at: message.at,
    kind: out ? 'out' : 'in',
    who: `${visibleName(message.name)}${channel && ` ${channel}`}`,
    text: visibleText(message.text, 600).replaceAll('\n', ' ⏎ '),
    note: !message.ignored ? '' : `not answered: ${exactLine(message.ignored, 200)}`,
    state: message.delivery ?? null,
    assurance: out ? '' : visibleName(message.assurance),
  });
}

/**
 * @param {LedgerCall} call
 * @param {Contact[]} contacts
 */
function ofCall({ at, turn_id, caller, tool, category, outcome, millis }, contacts) {
  const good = outcome === 'ran';
  return lineOf({
    key: `t-${at}-${turn_id}-${tool}-${millis}`,
    at,
    kind: 'tool',
    who: caller === 'operator' ? 'you' : visibleName(contacts.find((contact) => callerOf(contact) === caller)?.name ?? caller, 24),
    text: exactLine(tool, 80),
    note: [category, String(outcome).replaceAll('_', ' '), took(Number(millis))].filter(Boolean).map((word) => exactLine(word, 60)).join(' · '),
    tone: good ? 'plain' : outcome === 'failed' ? 'bad' : 'wait',
  });
}

/** @param {number} millis */
function took(millis) {
  return millis < 1000 ? `${Math.round(millis)} ms` : duration(millis);
}

/** @param {LogLine} line */
function ofLog({ seq, at, level, target, message }) {
  const loud = String(level).toUpperCase();
  return lineOf({
    key: `l-${seq}-${at}`,
    at,
    kind: 'log',
    who: exactLine(target, 60),
    text: exactLine(message, 1000),
    tone: loud === 'ERROR' ? 'bad' : loud === 'WARN' ? 'wait' : 'plain',
  });
}

/**
 * What is heard and sent comes as messages, with what was learnt of them since.
 * @param {MeshEvent} event
 * @param {number} n
 * @returns {Line | null}
 */
function ofEvent(event, n) {
  const key = `e-${event.at}-${event.event}-${n}`;
  switch (event.event) {
    case 'link':
      return lineOf({ key, at: event.at, kind: 'link', who: 'radio', text: exactLine(event.detail, 300), tone: event.up === true ? 'good' : 'bad' });
    case 'paused':
      return lineOf({
        key, at: event.at, kind: 'link', who: 'airtime',
        text: event.reason ? `sending waits: ${exactLine(event.reason, 300)}` : 'sending goes on', tone: event.reason ? 'wait' : 'good',
      });
    case 'turn_started':
      return lineOf({ key, at: event.at, kind: 'turn', who: visibleName(event.name), text: 'a model is being asked' });
    case 'turn_ended': {
      const tools = Array.isArray(event.tools) ? event.tools.map((tool) => `${tool?.name} ${tool?.outcome}`).join(', ') : '';
      return lineOf({
        key, at: event.at, kind: 'turn', who: visibleName(event.backend),
        text: `answered in ${duration(Number(event.millis) || 0)}, ${Number(event.parts) || 0} ${event.parts === 1 ? 'part' : 'parts'}`, note: exactLine(tools, 300),
      });
    }
    case 'changed':
      return lineOf({ key, at: event.at, kind: 'security', who: visibleName(event.by), text: exactLine(event.what, 300) });
    case 'paired':
      return lineOf({ key, at: event.at, kind: 'security', who: visibleName(event.name), text: 'paired: key pinned and confirmed', tone: 'good' });
    case 'distress':
      return lineOf({
        key, at: event.at, kind: 'security', who: visibleName(event.name), text: event.cleared === true ? 'distress text cleared' : 'distress text',
        tone: event.cleared === true ? 'plain' : 'bad',
      });
    case 'security': {
      const [tone, word] = securityKind(event.kind);
      return lineOf({ key, at: event.at, kind: 'security', who: `claims ${visibleName(event.from)}`, text: word, note: exactLine(event.detail, 300), tone });
    }
    default:
      return null;
  }
}
