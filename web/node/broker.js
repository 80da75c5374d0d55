/**
 * Stands between the chat frame and the daemon: reads the frame's messages, and answers them on the page's session.
 *
 * Owns who is listened to (this one frame, of an opaque origin) and what can be said (four `chat:` verbs). Must
 * never pass on a tool choice, a grant, a confirmation or the token: there is no message for them, and a field that
 * is not in the schema makes the whole message refused.
 */

/** @import { Conversation } from '../aiui/conversation.js' */
/** @import { Answer, BrokerProgress, BrokerResponse, FrameMessage, Progress } from '../rpc.d.ts' */
import { bytesOf, MAX_TEXT_BYTES } from '../aiui/conversation.js';
import { isRecord, RpcFailure } from '../aiui/rpc.js';

/**
 * The only origin that is listened to: the frame is sandboxed without `allow-same-origin`, so its origin is opaque
 * and is written `null`. Any sandboxed frame anywhere has that origin, so it proves nothing alone; `event.source` does.
 */
export const allowedOrigin = 'null';

/** The fields of each verb, and nothing beside them. */
const SCHEMA = new Map([
  ['chat:request', ['type', 'id', 'text']],
  ['chat:stop', ['type', 'id', 'request']],
  ['chat:history', ['type', 'id']],
  ['chat:clear', ['type', 'id']],
]);
const ID = /^[A-Za-z0-9_-]{1,64}$/;
/** Ids remembered so that none is used twice; then the frame must be loaded again. About 1 MB at worst. */
const MAX_IDS = 10_000;
/** Calls of the frame that may be open at once. */
const MAX_OPEN = 8;

export class Broker {
  /** @type {HTMLIFrameElement} */
  #frame;
  /** @type {Conversation} */
  #conversation;
  /** @type {Set<string>} */
  #usedIds = new Set();
  #open = 0;
  /** The id of the question that is being answered. @type {string | null} */
  #asked = null;
  /** Counts the documents that the frame has held: an answer to an earlier one goes nowhere. */
  #document = 0;
  #ended = new AbortController();

  /** What was refused, for the console only. @type {(why: string) => void} */
  onRefused = (why) => console.warn(`The chat frame's message was refused: ${why}`);

  /**
   * Listens from now on.
   * @param {HTMLIFrameElement} frame
   * @param {Conversation} conversation
   */
  constructor(frame, conversation) {
    this.#frame = frame;
    this.#conversation = conversation;
    const signal = this.#ended.signal;
    window.addEventListener('message', (event) => this.#hear(event), { signal });
    conversation.onProgress = (progress) => this.#progress(progress);
  }

  /** Stops listening; nothing is posted after it. */
  end() {
    this.#ended.abort();
    this.#document += 1;
  }

  /** Tells the frame that the transcript has changed by itself: a call that waited was approved or denied. */
  changed() {
    this.#post({ type: 'chat:progress', id: 'transcript', stage: 'changed' });
  }

  /** @param {Progress} progress */
  #progress({ note, tool }) {
    if (this.#asked === null) return;
    /** @type {BrokerProgress} */
    const message = { type: 'chat:progress', id: this.#asked, stage: tool === undefined ? 'model' : 'tool' };
    if (note !== undefined) message.note = note;
    if (tool !== undefined) message.tool = tool;
    this.#post(message);
  }

  /** @param {MessageEvent<unknown>} event */
  #hear(event) {
    // Silence towards everyone else: an answer would tell a stranger that somebody listens.
    if (event.origin !== allowedOrigin || event.source === null || event.source !== this.#frame.contentWindow) return;
    const id = isRecord(event.data) && typeof event.data.id === 'string' && ID.test(event.data.id) ? event.data.id : null;
    const message = readMessage(event.data);
    if (typeof message === 'string') {
      this.onRefused(message);
      if (id !== null && !this.#usedIds.has(id)) this.#fail(id, 'That message could not be read.');
      return;
    }
    if (this.#usedIds.has(message.id)) {
      // No answer: the id belongs to the first question, and its answer must stay the only one.
      this.onRefused('its id was used before');
      return;
    }
    if (this.#usedIds.size >= MAX_IDS || this.#open >= MAX_OPEN) {
      this.onRefused('too many messages');
      this.#fail(message.id, 'Too many requests. Reload the page.');
      return;
    }
    this.#usedIds.add(message.id);
    // A frame that asks for its history has just been loaded: what its earlier document waits for is not for this one.
    if (message.type === 'chat:history') this.#document += 1;
    void this.#answer(message);
  }

  /** @param {FrameMessage} message */
  async #answer(message) {
    const document = this.#document;
    this.#open += 1;
    /** @type {Omit<BrokerResponse, 'type' | 'id'>} */
    let response;
    try {
      response = { success: true, ...(await this.#carryOut(message)) };
    } catch (failure) {
      response = { success: false, error: said(failure) };
    }
    this.#open -= 1;
    if (document === this.#document) this.#post({ type: 'chat:response', id: message.id, ...response });
  }

  /**
   * @param {FrameMessage} message
   * @returns {Promise<Partial<BrokerResponse>>}
   */
  async #carryOut(message) {
    switch (message.type) {
      case 'chat:request':
        return this.#ask(message.id, message.text);
      case 'chat:stop':
        if (this.#asked !== null && this.#asked === message.request) await this.#conversation.stop();
        return {};
      case 'chat:clear':
        await this.#conversation.clear();
        return {};
      case 'chat:history':
        return this.#history(message.id);
    }
  }

  /**
   * @param {string} id
   * @param {string} text
   */
  async #ask(id, text) {
    if (this.#asked !== null) throw new RpcFailure('refused', 'The last question is still being answered.');
    this.#asked = id;
    try {
      this.#post({ type: 'chat:progress', id, stage: 'asked', note: 'Thinking' });
      return fields(await this.#conversation.ask(text));
    } finally {
      if (this.#asked === id) this.#asked = null;
    }
  }

  /** @param {string} id */
  async #history(id) {
    const document = this.#document;
    const { entries, running } = await this.#conversation.history();
    if (running === null) return { entries, running };
    const request = `running-${this.#document}`;
    this.#asked = request;
    this.#usedIds.add(request);
    void this.#pass(request, running.answer, document);
    return { entries, running: { request, text: running.text } };
  }

  /**
   * Posts the answer of a question that an earlier document of the frame asked.
   * @param {string} id
   * @param {Promise<Answer>} answer
   * @param {number} document
   */
  async #pass(id, answer, document) {
    /** @type {BrokerResponse} */
    let response;
    try {
      response = { type: 'chat:response', id, success: true, ...fields(await answer) };
    } catch (failure) {
      response = { type: 'chat:response', id, success: false, error: said(failure) };
    }
    if (this.#asked === id) this.#asked = null;
    if (document === this.#document) this.#post(response);
  }

  /**
   * @param {string} id
   * @param {string} error
   */
  #fail(id, error) {
    this.#post({ type: 'chat:response', id, success: false, error });
  }

  /**
   * Posts to the frame, and only there. An opaque origin can't be named as the target, so the target is `*`; that is
   * safe because the window is the frame's own, the page's `frame-src` lets that frame hold nothing but `/aiui/`, and
   * no message holds more than the frame may show.
   * @param {BrokerResponse | BrokerProgress} message
   */
  #post(message) {
    this.#frame.contentWindow?.postMessage(message, '*');
  }
}

/**
 * The message, or why it is none.
 * @param {unknown} data
 * @returns {FrameMessage | string}
 */
export function readMessage(data) {
  if (!isRecord(data)) return 'it is no object';
  const { type, id } = data;
  const allowed = typeof type === 'string' ? SCHEMA.get(type) : undefined;
  if (allowed === undefined) return 'it has no verb that is known';
  const keys = Object.keys(data);
  if (keys.length !== allowed.length || !keys.every((key) => allowed.includes(key))) return 'it has other fields';
  if (typeof id !== 'string' || !ID.test(id)) return 'its id is malformed';
  if (type === 'chat:request') {
    if (typeof data.text !== 'string' || data.text.trim() === '') return 'its text is empty';
    // No character has fewer than one byte or more than three a unit: a monster is not even encoded.
    if (data.text.length > MAX_TEXT_BYTES || bytesOf(data.text) > MAX_TEXT_BYTES) return 'its text is too long';
  }
  if (type === 'chat:stop' && (typeof data.request !== 'string' || !ID.test(data.request))) return 'it names no request';
  return /** @type {FrameMessage} */ (/** @type {unknown} */ (data));
}

/**
 * @param {Answer} answer
 * @returns {Partial<BrokerResponse>}
 */
function fields(answer) {
  const { text, html, backend, status, tools, reasons } = answer;
  return { text, html, backend, status, tools, reasons };
}

/**
 * A line for people: what the client wrote, never an exception's own words.
 * @param {unknown} failure
 * @returns {string}
 */
function said(failure) {
  return failure instanceof RpcFailure ? failure.message : 'That did not work.';
}
