/**
 * Reads `GET /events`: server-sent events, over `fetch` on the page's own cookie.
 *
 * Owns the connection: its form, when it counts as dead, and when it is tried again. Knows no event: what comes is
 * handed on as name and JSON. Not `EventSource`, which hides why it failed and that a silent connection is alive.
 */

import { isRecord } from '../aiui/rpc.js';

/** The daemon says something at least each 15 s; a line that is silent for longer is dead. */
export const SILENCE_MS = 20_000;
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 30_000;
/** A line that lived for this long was one. */
const LIVED_MS = 10_000;
/** A daemon without `/events` may be replaced by one that has it. */
const ABSENT_WAIT_MS = 300_000;
/** No event of the daemon is nearly as long: what is longer is no event. */
const MAX_EVENT_CHARS = 1_000_000;

/**
 * `connecting` (also while waiting for the next try), `live`, or `absent`: this daemon has no `/events`.
 * @typedef {'connecting' | 'live' | 'absent'} StreamState
 */

/**
 * @typedef {object} Listener
 * @property {(name: string, data: Record<string, unknown>, id: string) => void} event `id`: of the last one so far
 * @property {() => void} alive something came, be it a comment
 * @property {(state: StreamState) => void} state called on each change
 * @property {() => void} unauthorised the session is over
 */

export class EventStream {
  /** @type {Listener} */
  #listener;
  /** @type {StreamState} */
  #state = 'connecting';
  #lastId = '';
  #failures = 0;
  #heardAt = 0;
  /** @type {AbortController | null} */
  #connection = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #retry;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #watch;
  #ended = false;

  /**
   * Connects from now on, until `end`.
   * @param {Listener} listener
   * @param {string} [lastId] what is known already
   */
  constructor(listener, lastId = '') {
    this.#listener = listener;
    this.#lastId = lastId;
    void this.#connect();
  }

  get state() {
    return this.#state;
  }

  /** Looks now: after sleep, or when the network is back. A line that is still fresh is kept. */
  wake() {
    if (this.#ended) return;
    if (this.#connection !== null && Date.now() - this.#heardAt < SILENCE_MS) return;
    this.#failures = 0;
    this.#drop();
    void this.#connect();
  }

  end() {
    this.#ended = true;
    this.#drop();
  }

  #drop() {
    clearTimeout(this.#retry);
    clearTimeout(this.#watch);
    this.#connection?.abort();
    this.#connection = null;
  }

  /** @param {StreamState} state */
  #become(state) {
    if (state === this.#state || this.#ended) return;
    this.#state = state;
    this.#listener.state(state);
  }

  async #connect() {
    const connection = new AbortController();
    this.#connection = connection;
    this.#heard(connection);
    let wait = 0;
    try {
      /** @type {Record<string, string>} */
      const headers = { Accept: 'text/event-stream' };
      if (this.#lastId !== '') headers['Last-Event-ID'] = this.#lastId;
      const response = await fetch('/events', {
        headers, credentials: 'same-origin', cache: 'no-store', redirect: 'error', signal: connection.signal,
      });
      const type = response.headers.get('Content-Type') ?? '';
      if (response.status === 401) {
        this.#drop();
        this.#listener.unauthorised();
      } else if ([403, 404, 405].includes(response.status) || (response.ok && !type.startsWith('text/event-stream'))) {
        wait = ABSENT_WAIT_MS;
      } else if (response.ok && response.body !== null) {
        const began = Date.now();
        this.#become('live');
        try {
          await this.#read(response.body, connection);
        } finally {
          // A line that is always cut off at once is tried ever less often: too many pages may listen.
          if (Date.now() - began >= LIVED_MS) this.#failures = 0;
        }
      }
    } catch {
      // Why is of no use to anyone here: it is tried again.
    }
    if (this.#ended || this.#connection !== connection) return;
    this.#drop();
    this.#become(wait === ABSENT_WAIT_MS ? 'absent' : 'connecting');
    const backOff = Math.min(FIRST_WAIT_MS * 2 ** this.#failures, LONGEST_WAIT_MS);
    this.#failures += 1;
    // Spread, so that not all pages of a node that came back ask in the same instant.
    this.#retry = setTimeout(() => void this.#connect(), wait || backOff * (0.75 + Math.random() / 2));
  }

  /** @param {AbortController} connection */
  #heard(connection) {
    this.#heardAt = Date.now();
    clearTimeout(this.#watch);
    this.#watch = setTimeout(() => connection.abort(), SILENCE_MS);
  }

  /**
   * @param {ReadableStream<Uint8Array>} body
   * @param {AbortController} connection
   */
  async #read(body, connection) {
    const reader = body.getReader();
    const decoder = new TextDecoder();
    const parser = new EventParser();
    for (;;) {
      const { done, value } = await reader.read();
      if (done || this.#connection !== connection) return;
      this.#heard(connection);
      this.#listener.alive();
      for (const { name, data, id } of parser.take(decoder.decode(value, { stream: true }))) {
        if (id !== null) this.#lastId = id;
        const parsed = data === '' ? {} : json(data);
        if (parsed !== null) this.#listener.event(name, parsed, this.#lastId);
      }
    }
  }
}

/** Cuts text into events, as it comes. */
export class EventParser {
  #rest = '';
  #name = '';
  #data = '';
  /** @type {string | null} */
  #id = null;

  /**
   * @param {string} text
   * @returns {{ name: string, data: string, id: string | null }[]} those that are whole now
   */
  take(text) {
    /** @type {{ name: string, data: string, id: string | null }[]} */
    const whole = [];
    this.#rest += text;
    if (this.#rest.length + this.#data.length > MAX_EVENT_CHARS) throw new Error('an event is too long');
    for (;;) {
      const end = /\r\n|\n|\r(?!$)/.exec(this.#rest);
      if (end === null) return whole;
      const line = this.#rest.slice(0, end.index);
      this.#rest = this.#rest.slice(end.index + end[0].length);
      if (line === '') {
        const said = this.#data !== '' || this.#name !== '';
        if (said) whole.push({ name: this.#name || 'message', data: this.#data.slice(0, -1), id: this.#id });
        this.#name = '';
        this.#data = '';
        this.#id = null;
        continue;
      }
      const [, field = '', value = ''] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) ?? [];
      if (field === 'event') this.#name = value;
      else if (field === 'data') this.#data += `${value}\n`;
      else if (field === 'id' && !value.includes('\0')) this.#id = value;
    }
  }
}

/**
 * @param {string} text
 * @returns {Record<string, unknown> | null}
 */
function json(text) {
  try {
    const value = JSON.parse(text);
    return isRecord(value) ? value : null;
  } catch {
    return null;
  }
}
