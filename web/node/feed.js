/**
 * Keeps what the page shows up to date: asks the daemon in turn, and says how old it is.
 *
 * Owns when is asked and the last answers. Shows nothing. A later `/events` feeds the same snapshot; the panels
 * read only that.
 */

/** @import { RpcClient } from '../aiui/rpc.js' */
/** @import { AssistantStatus, DiskStatus, MeshMessage, MeshNode, MeshStatus } from '../rpc.d.ts' */
import { RpcFailure } from '../aiui/rpc.js';

/**
 * The last answers; `null` until there was one. `at` is when the daemon last answered, by this machine's clock, Unix
 * milliseconds, 0 for never.
 * @typedef {object} Snapshot
 * @property {number} at
 * @property {boolean} failing
 * @property {MeshStatus | null} status
 * @property {AssistantStatus | null} assistant
 * @property {MeshMessage[] | null} messages
 * @property {MeshNode[] | null} nodes
 * @property {DiskStatus | null} disk
 */

const POLL_MS = 3000;
const HIDDEN_POLL_MS = 30_000;
/** Without an answer for this long, what is shown is called old. */
export const STALE_MS = 10_000;
/** How many rows of `mesh.messages` are asked for. */
const MESSAGES = 60;
/** What is asked in each n-th round. */
const EVERY = { assistant: 2, nodes: 2, disk: 10 };

export class Feed {
  /** @type {RpcClient} */
  #client;
  /** @type {Snapshot} */
  #snapshot = { at: 0, failing: false, status: null, assistant: null, messages: null, nodes: null, disk: null };
  /** @type {(snapshot: Snapshot) => void} */
  #listener;
  #round = 0;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  #asking = false;
  #ended = new AbortController();

  /**
   * @param {RpcClient} client
   * @param {(snapshot: Snapshot) => void} listener called after each round, and when one fails
   */
  constructor(client, listener) {
    this.#client = client;
    this.#listener = listener;
    const signal = this.#ended.signal;
    // A page that comes back from the background, or a machine from sleep, is brought up to date at once.
    document.addEventListener('visibilitychange', () => document.hidden || this.now(), { signal });
    window.addEventListener('online', () => this.now(), { signal });
    window.addEventListener('pageshow', () => this.now(), { signal });
    void this.#poll();
  }

  /** Asks everything now. */
  now() {
    this.#round = 0;
    clearTimeout(this.#timer);
    void this.#poll();
  }

  /** Ends the asking. */
  end() {
    this.#ended.abort();
    clearTimeout(this.#timer);
  }

  async #poll() {
    if (this.#asking || this.#ended.signal.aborted) return;
    this.#asking = true;
    const due = (/** @type {number} */ every) => this.#round % every === 0;
    try {
      const [status, messages, assistant, nodes, disk] = await Promise.all([
        this.#ask('mesh.status'),
        this.#ask('mesh.messages', { limit: MESSAGES }),
        due(EVERY.assistant) ? this.#ask('mesh.assistant-status') : null,
        due(EVERY.nodes) ? this.#ask('mesh.nodes') : null,
        due(EVERY.disk) ? this.#ask('system.disk-status') : null,
      ]);
      const was = this.#snapshot;
      this.#snapshot = {
        at: Date.now(),
        failing: false,
        status: status ?? was.status,
        messages: rows(messages, 'messages') ?? was.messages,
        assistant: assistant ?? was.assistant,
        nodes: rows(nodes, 'nodes') ?? was.nodes,
        disk: disk ?? was.disk,
      };
      this.#round += 1;
    } catch {
      // After a failure the next round asks everything: the daemon may be another one.
      this.#snapshot = { ...this.#snapshot, failing: true };
      this.#round = 0;
    }
    this.#asking = false;
    if (this.#ended.signal.aborted) return;
    this.#listener(this.#snapshot);
    this.#timer = setTimeout(() => void this.#poll(), document.hidden ? HIDDEN_POLL_MS : POLL_MS);
  }

  /**
   * One answer. What this daemon doesn't know or can't say now is `null`, and the rest is shown all the same.
   * @param {string} method
   * @param {Record<string, unknown>} [params]
   */
  async #ask(method, params) {
    try {
      return await this.#client.call(method, params, { timeoutMs: 8000, signal: this.#ended.signal });
    } catch (failure) {
      if (failure instanceof RpcFailure && (failure.kind === 'refused' || failure.kind === 'broken')) return null;
      throw failure;
    }
  }
}

/**
 * @param {any} value
 * @param {string} name
 * @returns {any[] | null}
 */
function rows(value, name) {
  const found = Array.isArray(value) ? value : value?.[name];
  return Array.isArray(found) ? found : null;
}
