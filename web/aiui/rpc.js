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
 * What went wrong: `unreachable` (no answer came), `session` (log in again), `token` (the anti-forgery token is not
 * this session's), `throttled` (wait, and try again), `refused` (the daemon read it and said no), `broken` (a fault of
 * the daemon, or an answer that is no answer).
 * @typedef {'unreachable' | 'session' | 'token' | 'throttled' | 'refused' | 'broken'} FailureKind
 */

/** The daemon's names of its errors that mean more here than a refusal. @type {Map<unknown, FailureKind>} */
const KINDS = new Map([
  ['not_logged_in', 'session'],
  ['csrf_token', 'token'],
  ['throttled', 'throttled'],
  ['too_many_turns', 'throttled'],
  ['internal', 'broken'],
  ['unavailable', 'broken'],
]);

/** A call that gave no result. `message` is for people and holds nothing of the call. */
export class RpcFailure extends Error {
  /**
   * @param {FailureKind} kind
   * @param {string} message
   * @param {Record<string, unknown>} [data] what the daemon says of it to programs
   */
  constructor(kind, message, data = {}) {
    super(message);
    this.name = 'RpcFailure';
    this.kind = kind;
    this.data = data;
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
  /** How far the node's clock is ahead of this machine's, in milliseconds; small boards have no battery for theirs. */
  #ahead = 0;

  /** What the session may do: `operator`, or `viewer`, who only looks. The daemon enforces it. */
  role = 'operator';

  /** True when the daemon said that it has no password yet. */
  needsSetup = false;

  /** Called once for each call that is told that the session is over. */
  onSessionLost = () => {};

  /** The node's time, to the second, Unix milliseconds. */
  now() {
    return Date.now() + this.#ahead;
  }

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
      if (failure.kind === 'token' && used !== null) {
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
      if (failure instanceof RpcFailure && failure.kind === 'session') {
        this.needsSetup = failure.data.needs_setup === true;
        return false;
      }
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
    this.role = typeof credentials.role === 'string' ? credentials.role : 'operator';
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
      const theirs = Date.parse(response.headers.get('Date') ?? '');
      // Less than the header's own grain is no difference.
      if (!Number.isNaN(theirs)) this.#ahead = Math.abs(theirs - Date.now()) < 2000 ? 0 : theirs - Date.now();
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
  if (error !== null) {
    const data = isRecord(error.data) ? error.data : {};
    // Where the parameters don't fit, the detail alone is for people: it need not name the field that it stands beside.
    const said = data.name === 'invalid_params' || typeof data.field === 'string' ? (data.detail ?? error.message) : error.message;
    const line = typeof said === 'string' ? sentence(said) : 'The node refused that.';
    throw new RpcFailure(KINDS.get(data.name) ?? 'refused', line, data);
  }
  // A refusal before the call was read: the wrong host or origin, or too large.
  if (status >= 400 && status < 500) throw new RpcFailure('refused', 'The node refused that.');
  if (status !== 200 || !isRecord(body) || body.id !== id || !('result' in body)) {
    throw new RpcFailure('broken', 'The node gave an answer that can’t be read.');
  }
  return body.result;
}

/**
 * The daemon's line as a sentence: it writes them without capital and stop.
 * @param {string} line
 * @returns {string}
 */
function sentence(line) {
  const cut = line.slice(0, MAX_ERROR_CHARS).trim();
  return cut === '' ? 'The node refused that.' : `${cut.charAt(0).toUpperCase()}${cut.slice(1)}${/[.!?]$/.test(cut) ? '' : '.'}`;
}
