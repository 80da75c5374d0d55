/**
 * The operator's conversation, as calls to `assistant.*` on the page's own session.
 *
 * Owns the name of the running turn, and that it outlives a reload of the page and a restart of the daemon.
 * Passes text and nothing else: which tools may run, the daemon alone decides, from the session.
 */

/** @import { RpcClient } from './rpc.js' */
/** @import { Answer, ChatResult, HistoryEntry } from '../rpc.d.ts' */
import { RpcFailure } from './rpc.js';

/** A turn may walk several legs; past this nothing is waited for. */
const TURN_TIMEOUT_MS = 185_000;
/** How long a daemon that went away in the middle of a turn is waited for. */
const RETRY_FOR_MS = 120_000;
/** Where the running turn is kept over a reload: this tab only, gone with it. */
const STORED = 'tombolo.turn';
/** The same limit as the broker's. */
export const MAX_TEXT_CHARS = 8000;

/** @typedef {{ turnId: string, text: string, since: number }} RunningTurn */

export class Conversation {
  /** @type {RpcClient} */
  #client;
  /** @type {(RunningTurn & { answer: Promise<Answer> }) | null} */
  #running = null;

  /** @param {RpcClient} client */
  constructor(client) {
    this.#client = client;
  }

  /**
   * Asks, and gives the answer. One question at a time.
   * @param {string} text
   * @returns {Promise<Answer>}
   */
  async ask(text) {
    if (this.#running !== null) throw new RpcFailure('refused', 'The last question is still being answered.');
    return this.#run({ turnId: turnId(), text, since: Date.now() });
  }

  /**
   * The turn that was running when the page or the frame was loaded anew, waited for again. The daemon knows the turn
   * by its name: it gives the stored answer, or the one that is on its way, and runs nothing twice.
   * @param {HistoryEntry[]} entries the transcript; a turn whose answer is in it is not running
   * @returns {{ text: string, answer: Promise<Answer> } | null}
   */
  resume(entries) {
    if (this.#running !== null) return this.#running;
    const stored = readStored();
    if (stored === null) return null;
    if (entries.some((entry) => entry.role === 'assistant' && entry.turn_id === stored.turnId)) {
      writeStored(null);
      return null;
    }
    return { text: stored.text, answer: this.#run(stored) };
  }

  /** Stops model and tools of the running turn; its answer then comes as stopped. */
  async stop() {
    if (this.#running === null) return;
    await this.#client.call('assistant.stop', { turn_id: this.#running.turnId });
  }

  /** @returns {Promise<HistoryEntry[]>} oldest first */
  async history() {
    const result = await this.#client.call('assistant.history');
    const entries = Array.isArray(result) ? result : result?.entries;
    return Array.isArray(entries) ? entries : [];
  }

  /** Deletes the calling session's transcript. */
  async clear() {
    await this.#client.call('assistant.clear-history');
  }

  /**
   * @param {RunningTurn} turn
   * @returns {Promise<Answer>}
   */
  #run(turn) {
    const finished = async () => {
      try {
        return answer(await this.#answered(turn));
      } finally {
        this.#running = null;
        writeStored(null);
      }
    };
    writeStored(turn);
    const promise = finished();
    this.#running = { ...turn, answer: promise };
    return promise;
  }

  /**
   * @param {RunningTurn} turn
   * @returns {Promise<ChatResult>}
   */
  async #answered(turn) {
    const until = Date.now() + RETRY_FOR_MS;
    for (let wait = 500; ; wait = Math.min(wait * 2, 5000)) {
      try {
        return await this.#client.call(
          'assistant.chat',
          { text: turn.text, turn_id: turn.turnId },
          { timeoutMs: TURN_TIMEOUT_MS },
        );
      } catch (failure) {
        // The same turn again under the same name is no second question.
        if (!(failure instanceof RpcFailure) || failure.kind !== 'unreachable' || Date.now() > until) throw failure;
        await new Promise((resolve) => setTimeout(resolve, wait));
      }
    }
  }
}

/**
 * @param {ChatResult} result
 * @returns {Answer}
 */
function answer(result) {
  return {
    text: String(result?.text ?? ''),
    html: typeof result?.html === 'string' ? result.html : undefined,
    backend: String(result?.backend ?? ''),
    status: String(result?.status ?? 'answered'),
    tools: Array.isArray(result?.tools) ? result.tools : [],
    reasons: Array.isArray(result?.reasons) ? result.reasons : [],
  };
}

/** A name that nobody can guess; `randomUUID` is missing where the page came over plain HTTP from another machine. */
function turnId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `web-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')}`;
}

/** @returns {RunningTurn | null} */
function readStored() {
  try {
    const turn = JSON.parse(sessionStorage.getItem(STORED) ?? 'null');
    const good = turn !== null && typeof turn.turnId === 'string' && typeof turn.text === 'string';
    return good && Date.now() - turn.since < TURN_TIMEOUT_MS ? turn : null;
  } catch {
    return null;
  }
}

/** @param {RunningTurn | null} turn */
function writeStored(turn) {
  try {
    if (turn === null) sessionStorage.removeItem(STORED);
    else sessionStorage.setItem(STORED, JSON.stringify(turn));
  } catch {
    // Storage is switched off: then a reload forgets the running turn, and history has its answer later.
  }
}
