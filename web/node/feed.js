/**
 * Keeps what the page shows up to date: from `/events` where the daemon has it, by asking in turn where not.
 *
 * Owns when is asked and the last answers. Shows nothing and changes nothing at the daemon. An event is a reason to
 * ask anew, except where it holds the whole answer itself: so the page has one form of each thing.
 */

/** @import { RpcClient } from '../aiui/rpc.js' */
/** @import { Part, Snapshot } from './parts.js' */
/** @import { StreamState } from './stream.js' */
/** @import { LogLine, MeshEvent, Pending } from '../rpc.d.ts' */
import { isRecord, RpcFailure } from '../aiui/rpc.js';
import { CHANGED, MESH, NAMES, PARTS } from './parts.js';
import { SharedStream } from './shared.js';

const POLL_MS = 3000;
const HIDDEN_POLL_MS = 30_000;
/** A page that nobody sees for this long gives up its line, and asks now and then. */
const HIDDEN_REST_MS = 60_000;
/** No part is asked for more often. */
const LEAST_MS = 1000;
/** Nor is told more often what is known. */
const TELL_MS = 100;
/** Without an answer for this long, what is shown is called old. */
export const STALE_MS = 10_000;
/** Kept of the log and of the mesh's events; the oldest go. */
export const MAX_LINES = 5000;

export class Feed {
  /** @type {RpcClient} */
  #client;
  /** @type {Snapshot} */
  #snapshot = {
    at: 0, failing: false, stream: 'connecting', status: null, assistant: null, messages: null, nodes: null, distress: null, disk: null, pending: null,
    grants: null, grantsNote: null, tools: null, ledger: null, sessions: null, history: null, info: null, log: [], events: [],
  };
  /** @type {(snapshot: Snapshot) => void} */
  #listener;
  /** When each part was last asked for, and when it is due at the latest. @type {Map<Part, number>} */
  #asked = new Map();
  /** @type {Set<Part>} */
  #old = new Set(NAMES);
  /** What this daemon doesn't have, or this session may not see. @type {Set<Part>} */
  #absent = new Set();
  /** @type {Map<Part, number>} */
  #watchers = new Map();
  /** @type {Map<Part, string>} */
  #written = new Map();
  /** How often each part was given by an event or a change. @type {Map<Part, number>} */
  #given = new Map();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #telling;
  /** When it was last told, by this machine's clock. */
  #told = 0;
  #asking = false;
  #boot = '';
  #ended = new AbortController();
  /** @type {SharedStream} */
  #stream;

  /** What happens, for those who must say it at once. @type {(event: MeshEvent) => void} */
  onMesh = () => {};
  /** A turn of this session, as it goes on. @type {(turn: Record<string, unknown>) => void} */
  onTurn = () => {};

  /**
   * @param {RpcClient} client
   * @param {(snapshot: Snapshot) => void} listener called when something changed, at most ten times a second
   */
  constructor(client, listener) {
    this.#client = client;
    this.#listener = listener;
    const signal = this.#ended.signal;
    // A page that comes back from the background, or a machine from sleep, is brought up to date at once.
    document.addEventListener('visibilitychange', () => this.#seen(), { signal });
    window.addEventListener('online', () => this.now(), { signal });
    window.addEventListener('pageshow', () => this.now(), { signal });
    this.#stream = new SharedStream({
      event: (name, data) => this.#take(name, data),
      alive: () => this.#alive(),
      state: (state) => this.#streamed(state),
      unauthorised: () => void this.#unauthorised(),
    }, client.role);
    if (document.hidden) this.#seen();
    void this.#ask();
  }

  get snapshot() {
    return this.#snapshot;
  }

  /** Asks everything now, and looks after the line. */
  now() {
    if (this.#ended.signal.aborted) return;
    this.#absent.clear();
    this.#stream.wake();
    this.refresh(...NAMES);
  }

  /**
   * Asks for these parts as soon as may be: after a change that this page made itself.
   * @param {...Part} parts
   */
  refresh(...parts) {
    for (const part of parts) {
      this.#old.add(part);
      this.#asked.delete(part);
    }
    this.#schedule(0);
  }

  /**
   * Takes what the daemon answered to a change: it is the whole part.
   * @param {Part} part
   * @param {unknown} value
   */
  put(part, value) {
    this.#given.set(part, (this.#given.get(part) ?? 0) + 1);
    this.#keep(part, value);
    this.#tell();
  }

  /**
   * Has these parts asked for until the returned function is called.
   * @param {...Part} parts
   * @returns {() => void}
   */
  watch(...parts) {
    for (const part of parts) this.#watchers.set(part, (this.#watchers.get(part) ?? 0) + 1);
    this.refresh(...parts);
    return () => {
      for (const part of parts) this.#watchers.set(part, (this.#watchers.get(part) ?? 1) - 1);
    };
  }

  /**
   * Is it known that this daemon doesn't have it, or that this session may not see it?
   * @param {Part} part
   */
  lacks(part) {
    return this.#absent.has(part);
  }

  /** Ends the asking and the line. */
  end() {
    this.#ended.abort();
    this.#stream.end();
    clearTimeout(this.#timer);
    clearTimeout(this.#telling);
  }

  // The line of events.

  /**
   * @param {string} name
   * @param {Record<string, unknown>} data
   */
  #take(name, data) {
    switch (name) {
      case 'hello': {
        const boot = String(data.boot ?? '');
        // Another daemon may have other parts, and knows nothing of what this page has seen.
        if (this.#boot !== '' && boot !== this.#boot) {
          this.#snapshot = { ...this.#snapshot, log: [] };
          this.now();
        }
        this.#boot = boot;
        return;
      }
      case 'reset': return this.#age(...NAMES);
      case 'status': return this.put('status', data);
      case 'pending': return this.#age('pending');
      case 'changed': return this.#age(...(CHANGED[String(data.what)] ?? NAMES));
      case 'turn': return this.onTurn(data);
      case 'log':
        if (typeof data.seq === 'number') this.put('log', [data]);
        return;
      case 'mesh': {
        if (typeof data.event !== 'string') return;
        const event = /** @type {MeshEvent} */ ({ ...data, at: typeof data.at === 'number' ? data.at : this.#client.now() });
        this.#snapshot = { ...this.#snapshot, events: [...this.#snapshot.events, event].slice(-MAX_LINES) };
        this.onMesh(event);
        this.#age(...(MESH[event.event] ?? []));
        this.#tell();
      }
    }
  }

  #alive() {
    this.#snapshot = { ...this.#snapshot, at: Date.now(), failing: false };
    this.#tell();
  }

  /** @param {StreamState} state */
  #streamed(state) {
    this.#snapshot = { ...this.#snapshot, stream: state };
    // What happened between two lines may be past the daemon's memory.
    if (state === 'live') this.#age(...NAMES);
    this.#tell();
    this.#schedule(0);
  }

  async #unauthorised() {
    // A call finds out, and says so to whoever must know.
    if (await this.#client.whoami().catch(() => true)) this.#stream.wake();
    else this.refresh('status');
  }

  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #resting;

  #seen() {
    clearTimeout(this.#resting);
    if (!document.hidden) return this.now();
    this.#resting = setTimeout(() => this.#stream.rest(), HIDDEN_REST_MS);
  }

  // The asking.

  /** @param {...Part} parts */
  #age(...parts) {
    for (const part of parts) this.#old.add(part);
    this.#schedule(0);
  }

  /** @param {Part} part */
  #wanted(part) {
    if (this.#absent.has(part)) return false;
    return PARTS[part].watched !== true || (this.#watchers.get(part) ?? 0) > 0;
  }

  /**
   * When that part is to be asked for, by this machine's clock.
   * @param {Part} part
   */
  #due(part) {
    const asked = this.#asked.get(part);
    if (asked === undefined) return 0;
    if (this.#old.has(part)) return asked + LEAST_MS;
    const live = this.#snapshot.stream === 'live';
    return asked + (live ? PARTS[part].live : document.hidden ? Math.max(HIDDEN_POLL_MS, PARTS[part].poll) : PARTS[part].poll);
  }

  /** @param {number} [least] milliseconds that are waited for at least */
  #schedule(least) {
    if (this.#asking || this.#ended.signal.aborted) return;
    clearTimeout(this.#timer);
    const next = Math.min(...NAMES.filter((part) => this.#wanted(part)).map((part) => this.#due(part)));
    this.#timer = setTimeout(() => void this.#ask(), Math.max(least ?? 0, Math.min(next - Date.now(), 60_000), 0));
  }

  async #ask() {
    if (this.#asking || this.#ended.signal.aborted) return;
    this.#asking = true;
    const began = Date.now();
    // A little early is in time: what is due together is asked together.
    const due = NAMES.filter((part) => this.#wanted(part) && this.#due(part) <= began + 50);
    for (const part of due) {
      this.#old.delete(part);
      this.#asked.set(part, began);
    }
    let failed = false;
    try {
      await Promise.all(due.map((part) => this.#askFor(part)));
      if (due.length > 0) {
        // The node is there again: so may be its events.
        if (this.#snapshot.failing && this.#snapshot.stream !== 'live' && !document.hidden) this.#stream.wake();
        this.#snapshot = { ...this.#snapshot, at: Date.now(), failing: false };
      }
    } catch {
      // After a failure everything is asked anew: the daemon may be another one.
      failed = true;
      this.#snapshot = { ...this.#snapshot, failing: true };
      this.#old = new Set(NAMES);
      this.#absent.clear();
    }
    this.#asking = false;
    if (this.#ended.signal.aborted) return;
    if (due.length > 0 || failed) this.#tell();
    this.#schedule(failed ? (document.hidden ? HIDDEN_POLL_MS : POLL_MS) : 0);
  }

  /**
   * One answer. What this daemon doesn't know or can't say now stays as it was, and the rest is shown all the same.
   * @param {Part} part
   */
  async #askFor(part) {
    const { method, params, rows, note } = PARTS[part];
    const given = this.#given.get(part);
    try {
      const result = await this.#client.call(method, params, { timeoutMs: 8000, signal: this.#ended.signal });
      const value = rows === undefined ? result : Array.isArray(result) ? result : result?.[rows];
      if (note !== undefined) this.#snapshot = { ...this.#snapshot, [`${part}Note`]: typeof result?.[note] === 'string' ? result[note] : null };
      // What came while the answer was on its way is newer than the answer.
      if (PARTS[part].merged === true || given === this.#given.get(part)) this.#keep(part, value);
      // What is there is shown, whatever the slowest of the answers takes.
      this.#alive();
    } catch (failure) {
      if (!(failure instanceof RpcFailure) || (failure.kind !== 'refused' && failure.kind !== 'broken')) throw failure;
      if (failure.data.name === 'method_not_found' || failure.data.name === 'forbidden') {
        this.#absent.add(part);
      }
    }
  }

  /**
   * @param {Part} part
   * @param {unknown} value
   */
  #keep(part, value) {
    if (PARTS[part].rows === undefined) {
      if (!isRecord(value)) return;
    } else {
      if (!Array.isArray(value)) return;
      value = value.filter(isRecord);
    }
    if (PARTS[part].merged === true) {
      const log = joined(this.#snapshot.log, /** @type {LogLine[]} */ (value));
      if (log !== this.#snapshot.log) this.#snapshot = { ...this.#snapshot, log };
      return;
    }
    if (part === 'pending') {
      const now = Date.now();
      // Two answers of the same call differ by the clock alone; its end is kept from the first.
      const known = new Map((this.#snapshot.pending ?? []).map((row) => [row.id, row.until]));
      const rows = /** @type {Pending[]} */ (value).filter((row) => typeof row.id === 'string');
      value = rows.map((row) => ({ ...row, expires_in_ms: 0, until: known.get(row.id) ?? now + Number(row.expires_in_ms) }));
    }
    const written = JSON.stringify(value);
    if (this.#written.get(part) === written) return;
    this.#written.set(part, written);
    this.#snapshot = { ...this.#snapshot, [part]: value };
  }

  #tell() {
    if (this.#telling !== undefined || this.#ended.signal.aborted) return;
    // The first is told at once, those soon after it together.
    this.#telling = setTimeout(() => {
      this.#telling = undefined;
      this.#told = Date.now();
      if (!this.#ended.signal.aborted) this.#listener(this.#snapshot);
    }, Math.min(Math.max(this.#told + TELL_MS - Date.now(), 0), TELL_MS));
  }
}

/**
 * The log with these lines too, each once, in the order of the daemon.
 * @param {LogLine[]} known
 * @param {LogLine[]} more
 * @returns {LogLine[]}
 */
function joined(known, more) {
  const lines = more.filter((line) => typeof line.seq === 'number');
  const last = known.at(-1);
  const newest = lines.at(-1);
  if (newest === undefined || (newest.seq === last?.seq && lines.length <= known.length)) return known;
  // A daemon that began anew counts anew.
  if (last === undefined || (newest.seq < last.seq && newest.at > last.at)) return lines.slice(-MAX_LINES);
  if (lines.length === 1 && newest.seq > last.seq) return [...known, newest].slice(-MAX_LINES);
  const bySeq = new Map([...known, ...lines].map((line) => [line.seq, line]));
  return [...bySeq.values()].sort((a, b) => a.seq - b.seq).slice(-MAX_LINES);
}
