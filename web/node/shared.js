/**
 * One line of events for all tabs of this browser: one of them holds it and hands on what comes.
 *
 * Owns which tab that is, and that another takes over when it goes, hides or falls silent. Knows no event. A browser has
 * six connections to a node, and a session four lines: tabs with one each would cut one another off, and block each
 * other's calls. Not Web Locks and no SharedWorker: on a plain `http:` address of the network, or on a phone, there are none.
 */

/** @import { Listener, StreamState } from './stream.js' */
import { isRecord } from '../aiui/rpc.js';
import { EventStream } from './stream.js';

/** Whoever holds the line says so at least so often. */
const BEAT_MS = 4000;
/** Silent for longer, it holds it no more: frozen, crashed, or gone without a word. */
const GONE_MS = 10_000;
/** A tab that holds a line answers much sooner. */
const ANSWER_MS = 150;

/**
 * What tabs say to each other. `ask`: does anybody hold a line? `lead`: I do. `bye`: I no longer do. `event`, `alive`,
 * `over`: what came on it.
 * @typedef {{ from: string, kind: 'ask' | 'lead' | 'bye' | 'event' | 'alive' | 'over', state?: StreamState, boot?: Record<string, unknown>, name?: string, data?: Record<string, unknown>, id?: string }} Said
 */

export class SharedStream {
  /** @type {Listener} */
  #listener;
  #me = Array.from(crypto.getRandomValues(new Uint32Array(2)), (n) => n.toString(36).padStart(7, '0')).join('');
  /** @type {BroadcastChannel | null} */
  #channel = null;
  /** Ours, while this tab holds the line. @type {EventStream | null} */
  #own = null;
  /** The tab that holds it, when that is another one. */
  #leader = '';
  #heardAt = 0;
  /** @type {StreamState} */
  #state = 'connecting';
  #lastId = '';
  /** What the line began with: which daemon it is. @type {Record<string, unknown> | undefined} */
  #boot;
  #rests = false;
  #ended = false;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #election;
  #insisted = false;
  /** @type {ReturnType<typeof setInterval> | undefined} */
  #beat;
  #leaving = new AbortController();

  /**
   * Listens from now on, until `end`.
   * @param {Listener} listener
   * @param {string} group only tabs of the same one share: what a session may hear depends on its role
   */
  constructor(listener, group) {
    this.#listener = listener;
    if (typeof BroadcastChannel !== 'function') {
      this.#lead();
      return;
    }
    this.#channel = new BroadcastChannel(`tombolo-events-${group}`);
    this.#channel.onmessage = ({ data }) => this.#take(data);
    // A tab that is closed or put aside says so; one that comes back asks anew.
    addEventListener('pagehide', () => this.#resign(), { signal: this.#leaving.signal });
    this.#beat = setInterval(() => this.#look(), BEAT_MS);
    this.#elect(ANSWER_MS);
  }

  get state() {
    return this.#state;
  }

  /** Looks now: after sleep, or when the network is back. A line that is still fresh is kept. */
  wake() {
    if (this.#ended) return;
    this.#rests = false;
    if (this.#own !== null) this.#own.wake();
    else this.#elect(ANSWER_MS);
  }

  /** Gives the line back until `wake`: a page that nobody looks at needs none. What others hand on is taken all the same. */
  rest() {
    this.#rests = true;
    this.#withdraw();
    this.#resign();
  }

  end() {
    this.#ended = true;
    this.#resign();
    clearInterval(this.#beat);
    this.#withdraw();
    this.#leaving.abort();
    this.#channel?.close();
    this.#channel = null;
  }

  /**
   * Asks who holds the line, and takes it when nobody does.
   * @param {number} wait milliseconds for an answer
   */
  #elect(wait) {
    if (this.#channel === null) return this.#lead();
    this.#say({ kind: 'ask' });
    this.#stand(wait);
  }

  /** @param {number} wait milliseconds until this tab takes the line */
  #stand(wait) {
    clearTimeout(this.#election);
    // Spread, so that of several tabs one is first.
    this.#election = setTimeout(() => {
      this.#election = undefined;
      this.#lead();
    }, wait * (1 + Math.random()));
  }

  /** Does not take it after all: another has it, or nobody looks at this tab. */
  #withdraw() {
    clearTimeout(this.#election);
    this.#election = undefined;
    this.#insisted = false;
  }

  #lead() {
    this.#withdraw();
    if (this.#ended || this.#rests || this.#own !== null) return;
    this.#leader = '';
    this.#own = new EventStream({
      event: (name, data, id) => {
        this.#note(name, data, id);
        this.#say({ kind: 'event', name, data, id });
        this.#listener.event(name, data, id);
      },
      alive: () => {
        this.#say({ kind: 'alive' });
        this.#listener.alive();
      },
      state: (state) => {
        this.#become(state);
        this.#say(this.#claim());
      },
      unauthorised: () => {
        this.#say({ kind: 'over' });
        this.#listener.unauthorised();
      },
    }, this.#lastId);
    this.#become(this.#own.state);
    this.#say(this.#claim());
  }

  /** Ends our own line, and says so. */
  #resign() {
    if (this.#own === null) return;
    this.#own.end();
    this.#own = null;
    this.#say({ kind: 'bye' });
    this.#become('connecting');
  }

  /** @returns {Omit<Said, 'from'>} */
  #claim() {
    return { kind: 'lead', state: this.#state, boot: this.#boot, id: this.#lastId };
  }

  /** Now and then: says that we hold the line, or sees that nobody does any more. */
  #look() {
    if (this.#own !== null) return this.#say(this.#claim());
    if (this.#leader !== '' && Date.now() - this.#heardAt > GONE_MS) this.#lost();
  }

  /** Whoever held the line does no longer. */
  #lost() {
    this.#leader = '';
    this.#become('connecting');
    // Those that are looked at are first.
    if (!this.#rests) this.#elect(document.hidden ? 10 * ANSWER_MS : ANSWER_MS);
  }

  /** @param {unknown} said */
  #take(said) {
    if (!isRecord(said) || typeof said.from !== 'string') return;
    const { from, kind, state, boot, name, data, id } = /** @type {Said} */ (said);
    if (kind === 'ask') {
      if (this.#own === null) {
        // Of those that would take it, the first by name does; it says once more that it is there.
        if (this.#election === undefined) return;
        if (from < this.#me) this.#stand(2 * ANSWER_MS);
        else if (!this.#insisted) {
          this.#insisted = true;
          this.#say({ kind: 'ask' });
        }
        return;
      }
      // Who asks may know that the node is there again.
      if (this.#state !== 'live') this.#own.wake();
      return this.#say(this.#claim());
    }
    if (kind === 'lead') {
      if (this.#own !== null) {
        // Two hold one: by their names, one of them gives it up.
        if (from > this.#me) return this.#say(this.#claim());
        this.#own.end();
        this.#own = null;
        // What came on the other line meanwhile is asked for.
        this.#become('connecting');
      }
      this.#withdraw();
      this.#leader = from;
      this.#heardAt = Date.now();
      if (isRecord(boot) && boot.boot !== this.#boot?.boot) {
        this.#boot = boot;
        this.#listener.event('hello', boot, '');
      }
      if (typeof id === 'string' && id !== '') this.#lastId = id;
      if (state === 'live' || state === 'absent' || state === 'connecting') this.#become(state);
      return;
    }
    if (from !== this.#leader) return;
    this.#heardAt = Date.now();
    if (kind === 'bye') this.#lost();
    else if (kind === 'alive') this.#listener.alive();
    else if (kind === 'over') this.#listener.unauthorised();
    else if (kind === 'event' && typeof name === 'string' && isRecord(data)) {
      this.#note(name, data, String(id ?? ''));
      this.#listener.event(name, data, this.#lastId);
    }
  }

  /**
   * @param {string} name
   * @param {Record<string, unknown>} data
   * @param {string} id
   */
  #note(name, data, id) {
    if (id !== '') this.#lastId = id;
    if (name === 'hello') this.#boot = data;
  }

  /** @param {StreamState} state */
  #become(state) {
    if (state === this.#state || this.#ended) return;
    this.#state = state;
    this.#listener.state(state);
  }

  /** @param {Omit<Said, 'from'>} said */
  #say(said) {
    this.#channel?.postMessage({ from: this.#me, ...said });
  }
}
