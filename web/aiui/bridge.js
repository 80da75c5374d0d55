/**
 * The frame's side of the bridge: asks the node page, by messages, and waits for what it answers.
 *
 * Owns the ids of its questions and when it gives up. Has no cookie, no token and no connection; it can't choose a
 * tool or confirm anything, for there is no message for that.
 */

/** @import { Answer, BrokerProgress, BrokerResponse, FrameMessage, Progress, Transport } from '../rpc.d.ts' */

/** A question without an answer after this long is given up, and stopped. */
export const GIVE_UP_MS = 180_000;
/** The other verbs are answered from memory. */
const SHORT_MS = 20_000;

/**
 * The node page's origin: AIUI is served by the same host. (`self.origin` would be `null` here, the sandbox's.)
 */
const hostOrigin = location.origin;

/**
 * @typedef {object} Waiting
 * @property {(response: BrokerResponse) => void} answered
 * @property {(progress: BrokerProgress) => void} progressed
 */

/** @type {Map<string, Waiting>} */
const waiting = new Map();
/** Says that nobody answered, as against an answer that says no. */
class GaveUp extends Error {}

/** The question that is being answered. @type {string | null} */
let asked = null;

window.addEventListener('message', (event) => {
  if (event.source !== window.parent || event.origin !== hostOrigin) return;
  const message = event.data;
  if (typeof message !== 'object' || message === null || typeof message.id !== 'string') return;
  if (message.type === 'chat:progress' && message.stage === 'changed') archyBridge.onChanged();
  const waiter = waiting.get(message.id);
  if (waiter === undefined) return;
  if (message.type === 'chat:response') waiter.answered(message);
  else if (message.type === 'chat:progress') waiter.progressed(message);
});

/** An id that was never used before. */
function freshId() {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** @param {FrameMessage} message */
function post(message) {
  window.parent.postMessage(message, hostOrigin);
}

/**
 * Waits for the answer to `id`.
 * @param {string} id
 * @param {number} giveUpMs
 * @param {(progress: BrokerProgress) => void} [progressed]
 * @returns {Promise<BrokerResponse>}
 */
function response(id, giveUpMs, progressed = () => {}) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      waiting.delete(id);
      reject(new GaveUp(`There was no answer within ${giveUpMs / 1000} seconds.`));
    }, giveUpMs);
    waiting.set(id, {
      progressed,
      answered(message) {
        clearTimeout(timer);
        waiting.delete(id);
        if (message.success === true) resolve(message);
        else reject(new Error(typeof message.error === 'string' ? message.error : 'That did not work.'));
      },
    });
  });
}

/**
 * The answer to the question `id`, whoever posted it.
 * @param {string} id
 * @param {(token: string) => void} [onToken]
 * @param {(progress: Progress) => void} [onProgress]
 * @returns {Promise<Answer>}
 */
async function answerTo(id, onToken, onProgress) {
  asked = id;
  let streamed = false;
  try {
    const message = await response(id, GIVE_UP_MS, (progress) => {
      if (typeof progress.delta === 'string') {
        streamed = true;
        onToken?.(progress.delta);
      }
      if (progress.note !== undefined || progress.tool !== undefined) onProgress?.(progress);
    });
    const text = String(message.text ?? '');
    // Without a stream the whole answer is the one token.
    if (!streamed) onToken?.(text);
    return {
      text,
      html: message.html,
      backend: message.backend ?? '',
      status: message.status ?? 'answered',
      tools: message.tools ?? [],
      reasons: message.reasons ?? [],
    };
  } catch (failure) {
    // Nothing may run on unseen.
    if (failure instanceof GaveUp) post({ type: 'chat:stop', id: freshId(), request: id });
    throw failure;
  } finally {
    if (asked === id) asked = null;
  }
}

/** @type {Transport} */
export const archyBridge = {
  onChanged() {},

  sendChat(text, onToken, onProgress) {
    const id = freshId();
    const answer = answerTo(id, onToken, onProgress);
    post({ type: 'chat:request', id, text });
    return answer;
  },

  async stop() {
    if (asked === null) return;
    const id = freshId();
    const done = response(id, SHORT_MS);
    post({ type: 'chat:stop', id, request: asked });
    await done;
  },

  async history(onProgress) {
    const id = freshId();
    const done = response(id, SHORT_MS);
    post({ type: 'chat:history', id });
    const { entries, running } = await done;
    return {
      entries: Array.isArray(entries) ? entries : [],
      running: running ? { text: running.text, answer: answerTo(running.request, undefined, onProgress) } : null,
    };
  },

  async clear() {
    const id = freshId();
    const done = response(id, SHORT_MS);
    post({ type: 'chat:clear', id });
    await done;
  },
};

window.archyBridge = archyBridge;
