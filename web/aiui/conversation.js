/**
 * The operator's conversation, as calls to `assistant.*` on a page's own session.
 *
 * Owns the name of the running turn, and that it outlives a reload of the page and a broken connection. Passes text
 * and nothing else: which tools may run, the daemon alone decides, from the session.
 */

/** @import { RpcClient } from './rpc.js' */
/** @import { Answer, ChatResult, HistoryEntry, Progress } from '../rpc.d.ts' */
import { legName } from './legs.js';
import { isRecord, RpcFailure } from './rpc.js';

/** A turn may walk several legs; past this nothing is waited for. */
const TURN_TIMEOUT_MS = 185_000;
/** How long a daemon that went away in the middle of a turn is waited for. */
const RETRY_FOR_MS = 120_000;
/** The daemon's own limit for a question, in UTF-8. */
export const MAX_TEXT_BYTES = 16 * 1024;

/** @typedef {{ turnId: string, text: string }} Turn */

export class Conversation {
  /** @type {RpcClient} */
  #client;
  /** @type {(Turn & { answer: Promise<Answer> }) | null} */
  #running = null;

  /** Told what is being done for the running question. @type {((progress: Progress) => void) | null} */
  onProgress = null;

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
    if (bytesOf(text) > MAX_TEXT_BYTES) throw new RpcFailure('refused', 'That question is too long.');
    return this.#run({ turnId: turnId(), text });
  }

  /** Stops model and tools of the running turn; its answer then comes as stopped. */
  async stop() {
    if (this.#running === null) return;
    await this.#client.call('assistant.stop', { turn_id: this.#running.turnId });
  }

  /**
   * The transcript, oldest first, and the turn that is still running: one that was asked before a reload, or in
   * another tab. The daemon knows a turn by its name, so to ask it again is to wait for the same answer.
   * @returns {Promise<{ entries: HistoryEntry[], running: { text: string, answer: Promise<Answer> } | null }>}
   */
  async history() {
    const result = await this.#client.call('assistant.history');
    const entries = Array.isArray(result?.entries) ? result.entries : [];
    if (this.#running !== null) return { entries, running: this.#running };
    const running = result?.running;
    if (!isRecord(running) || typeof running.turn_id !== 'string' || typeof running.text !== 'string') {
      return { entries, running: null };
    }
    const turn = { turnId: running.turn_id, text: running.text };
    return { entries, running: { text: turn.text, answer: this.#run(turn) } };
  }

  /**
   * Takes an event `turn` of the daemon; one of another turn is not for us.
   * @param {unknown} event
   */
  heard(event) {
    if (!isRecord(event) || this.#running === null || event.turn_id !== this.#running.turnId) return;
    const progress = progressOf(event);
    if (progress !== null) this.onProgress?.(progress);
  }

  /** Deletes the calling session's transcript. */
  async clear() {
    await this.#client.call('assistant.clear-history');
  }

  /**
   * @param {Turn} turn
   * @returns {Promise<Answer>}
   */
  #run(turn) {
    const finished = async () => {
      try {
        return answer(await this.#answered(turn));
      } finally {
        this.#running = null;
      }
    };
    const promise = finished();
    this.#running = { ...turn, answer: promise };
    return promise;
  }

  /**
   * @param {Turn} turn
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
        // The same turn under the same name is no second question: it is joined, or its stored answer is given.
        if (!(failure instanceof RpcFailure) || failure.kind !== 'unreachable' || Date.now() > until) throw failure;
        await new Promise((resolve) => setTimeout(resolve, wait));
      }
    }
  }
}

/**
 * What an event `turn` means to whoever waits; null where it says nothing to people.
 * @param {Record<string, unknown>} event
 * @returns {Progress | null}
 */
export function progressOf({ stage, leg, tool, category, outcome }) {
  if (stage === 'tool' && typeof tool === 'string') {
    const ended = typeof outcome === 'string' ? outcome : null;
    return {
      note: ended === null ? `Running ${tool}` : 'Reading what the tool said',
      tool: { name: tool, category: typeof category === 'string' ? category : null, outcome: ended },
    };
  }
  if (stage === 'leg' && typeof leg === 'string') return { note: `Asking ${legName(leg)}` };
  if (stage === 'thinking') return { note: 'Thinking' };
  return null;
}

/**
 * @param {string} text
 * @returns {number}
 */
export function bytesOf(text) {
  return new TextEncoder().encode(text).length;
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
