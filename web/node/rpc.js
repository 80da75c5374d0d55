/**
 * Speaks JSON-RPC 2.0 to the daemon: one `POST /rpc` a call.
 *
 * Owns the anti-forgery token and the kinds of failure. Knows no view, and keeps no password. The token
 * lives in memory only: after a reload `auth.whoami` gives it again.
 */

/** @import { Credentials } from '../rpc.d.ts' */

/** How long a call may take unless it says otherwise. */
const CALL_TIMEOUT_MS = 10_000;
/** A line from the daemon is shown to people; a longer one is not a line. */
const MAX_ERROR_CHARS = 300;

/**
 * What went wrong: `unreachable` (no answer came), `session` (log in again), `throttled` (too many tries),
 * `refused` (the daemon read it and said no), `broken` (an answer that is no answer, or a fault in the daemon).
 * @typedef {'unreachable' | 'session' | 'throttled' | 'refused' | 'broken'} FailureKind
 */

/** A call that gave no result. `message` is for people and holds nothing of the call. */
export class RpcFailure extends Error {
  /**
   * @param {FailureKind} kind
   * @param {string} message
   * @param {number} [status] the HTTP status; 0 when no answer came
   */
  constructor(kind, message, status = 0) {
    super(message);
    this.name = 'RpcFailure';
    this.kind = kind;
    this.status = status;
  }
}

/**
 * @param {unknown} value
 * @returns {value is Record<string, unknown>}
 */
export function isRecord(value) {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The calls of one page. */
export class RpcClient {
  /** @type {string | null} */
  #token = null;
  #lastId = 0;

  /** Called once for each call that is told that the session is over. */
  onSessionLost = () => {};

  /** True when a token is held; the daemon may still think otherwise. */
  get loggedIn() {
    return this.#token !== null;
  }

  /**
   * Runs a method and gives its result.
   * @param {string} method
   * @param {Record<string, unknown>} [params]
   * @param {{ timeoutMs?: number, signal?: AbortSignal }} [options]
   * @returns {Promise<any>}
   */
  async call(method, params = {}, options = {}) {
    const used = this.#token;
    try {
      return await this.#post(method, params, options);
    } catch (failure) {
      if (!(failure instanceof RpcFailure)) throw failure;
      // Another tab may have logged in anew: then the cookie is good and only the token is the old one.
      if (failure.kind === 'refused' && failure.status === 403 && used !== null) {
        const fresh = await this.whoami().catch(() => false);
        if (fresh && this.#token !== used) return this.#post(method, params, options);
      }
      if (failure.kind === 'session') {
        this.#token = null;
        this.onSessionLost();
      }
      throw failure;
    }
  }

  /**
   * Asks who we are; true when the cookie is a session's.
   * @returns {Promise<boolean>}
   */
  async whoami() {
    try {
      return this.#keep(await this.#post('auth.whoami', {}, {}));
    } catch (failure) {
      if (failure instanceof RpcFailure && failure.kind === 'session') return false;
      throw failure;
    }
  }

  /** @param {string} password */
  async login(password) {
    this.#keep(await this.#post('auth.login', { password }, {}));
  }

  /**
   * @param {string} token the one-time token that the daemon printed
   * @param {string} password
   */
  async setup(token, password) {
    this.#keep(await this.#post('auth.setup', { token, password }, {}));
  }

  /** Ends the session here and at the daemon. */
  async logout() {
    try {
      await this.#post('auth.logout', {}, {});
    } finally {
      this.#token = null;
    }
  }

  /**
   * @param {unknown} credentials
   * @returns {boolean}
   */
  #keep(credentials) {
    if (!isRecord(credentials) || typeof credentials.csrf_token !== 'string') {
      this.#token = null;
      return false;
    }
    this.#token = credentials.csrf_token;
    return true;
  }

  /**
   * @param {string} method
   * @param {Record<string, unknown>} params
   * @param {{ timeoutMs?: number, signal?: AbortSignal }} options
   * @returns {Promise<unknown>}
   */
  async #post(method, params, options) {
    const id = ++this.#lastId;
    const timeout = AbortSignal.timeout(options.timeoutMs ?? CALL_TIMEOUT_MS);
    /** @type {Record<string, string>} */
    const headers = { 'Content-Type': 'application/json' };
    if (this.#token !== null) headers['X-CSRF-Token'] = this.#token;
    /** @type {Response} */
    let response;
    /** @type {unknown} */
    let body = null;
    try {
      response = await fetch('/rpc', {
        method: 'POST',
        headers,
        body: JSON.stringify({ jsonrpc: '2.0', id, method, params }),
        credentials: 'same-origin',
        cache: 'no-store',
        redirect: 'error',
        signal: options.signal ? AbortSignal.any([timeout, options.signal]) : timeout,
      });
      const text = await response.text();
      body = text === '' ? null : parsed(text);
    } catch {
      throw new RpcFailure('unreachable', 'The node does not answer.');
    }
    return result(response.status, body, id);
  }
}

/**
 * @param {string} text
 * @returns {unknown}
 */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/**
 * @param {number} status
 * @param {unknown} body
 * @param {number} id
 * @returns {unknown}
 */
function result(status, body, id) {
  const error = isRecord(body) && isRecord(body.error) ? body.error : null;
  const line = typeof error?.message === 'string' ? error.message.slice(0, MAX_ERROR_CHARS) : null;
  if (status === 401) throw new RpcFailure('session', line ?? 'Please log in.', status);
  if (status === 429) throw new RpcFailure('throttled', line ?? 'Too many tries. Wait a little.', status);
  if (status >= 500) throw new RpcFailure('broken', 'The node could not do that.', status);
  if (error !== null || status >= 400) {
    throw new RpcFailure('refused', line ?? 'The node refused that.', status);
  }
  if (!isRecord(body) || body.id !== id || !('result' in body)) {
    throw new RpcFailure('broken', 'The node gave an answer that can’t be read.', status);
  }
  return body.result;
}
