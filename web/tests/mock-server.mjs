/**
 * A stand-in for the daemon: serves the pages with its headers and fakes `/rpc` in its shapes.
 *
 * Owns invented answers, for work on the pages without the daemon. What it does is never proof of what the daemon
 * does: with `TOMBOLO_BIN` the same tests run against the real one.
 */

import { randomBytes } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { extname } from 'node:path';
import { gzipSync } from 'node:zlib';
import { MockEvents } from './mock-events.mjs';
import { MockOperator, Refused } from './mock-operator.mjs';
import * as world from './mock-world.mjs';

/** @import { ScriptedModel } from './model.mjs' */

const WEB = new URL('../', import.meta.url);
/** @type {Record<string, string>} */
const TYPES = {
  '.html': 'text/html; charset=utf-8', '.js': 'text/javascript; charset=utf-8', '.css': 'text/css; charset=utf-8', '.svg': 'image/svg+xml',
};
const NODE_CSP =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; frame-src 'self'; " +
  "frame-ancestors 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'";
const CHAT_CSP =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
  "frame-ancestors 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types answer";
/** @param {string} host */
const frameCsp = (host) =>
  `default-src 'none'; script-src 'self' http://${host} https://${host}; style-src 'self' http://${host} https://${host}; ` +
  "connect-src 'none'; frame-ancestors 'self'; base-uri 'none'; form-action 'none'; sandbox allow-scripts; " +
  "require-trusted-types-for 'script'; trusted-types answer";

/** @typedef {{ id: string, csrf: string, role: string, since: number }} Session */
/** @typedef {{ turn_id: string, question: string, stop: AbortController, answer: Promise<any> }} Turn */

/** An error of the daemon: number, HTTP status, name. @type {Record<string, [number, number]>} */
const ERRORS = {
  invalid_request: [-32600, 400], method_not_found: [-32601, 404], invalid_params: [-32602, 400], not_logged_in: [-32001, 401],
  csrf_token: [-32002, 403], forbidden: [-32003, 403], throttled: [-32004, 429], login_failed: [-32005, 401], set_up_already: [-32006, 409], turn_running: [-32010, 409],
};

/** What a viewer may call. */
const VIEWER = [
  'mesh.status', 'mesh.nodes', 'mesh.messages', 'mesh.airtime', 'mesh.assistant-status', 'mesh.history', 'mesh.distress', 'system.disk-status', 'system.info',
  'auth.whoami', 'auth.logout',
];
/** How often the world is looked at, for what changed in it. */
const LOOK_MS = 100;

export class MockDaemon {
  /** @type {Map<string, Session>} */
  #sessions = new Map();
  /** @type {Map<string, string>} */
  #ended = new Map();
  /** @type {Map<string, any[]>} */
  #transcripts = new Map();
  /** @type {Map<string, Turn>} */
  #turns = new Map();
  /** @type {import('node:http').Server | null} */
  #server = null;
  /** @type {string | null} */
  #password = null;
  /** @type {string | null} */
  viewerPassword = null;
  /** What `/rpc` tells of the mesh; a test may change it. */
  world = world.lively();
  events = new MockEvents();
  operator = new MockOperator(() => this.world, (what) => {
    if (what === 'pending') this.events.publish('pending', { count: this.world.pending.length }, { operators: true });
    else this.events.publish('changed', { what });
  });
  /** Methods that this daemon has not: an older one. @type {Set<string>} */
  without = new Set();
  #seen = { status: '', messages: '', pending: '', distress: '' };
  /** @type {ReturnType<typeof setInterval> | undefined} */
  #looking;

  /**
   * @param {ScriptedModel} model
   * @param {string} setupToken
   */
  constructor(model, setupToken) {
    this.model = model;
    this.setupToken = setupToken;
  }

  /**
   * @param {number} port 0 for any
   * @returns {Promise<number>}
   */
  async listen(port) {
    const server = createServer((request, response) => void this.#serve(request, response));
    this.#server = server;
    this.#looking = setInterval(() => this.#look(), LOOK_MS);
    await new Promise((resolve) => server.listen(port, '127.0.0.1', () => resolve(undefined)));
    const address = server.address();
    if (address === null || typeof address === 'string') throw new Error('no port');
    return address.port;
  }

  /** Goes down; sessions and transcripts stay, running turns don't. */
  async close() {
    const server = this.#server;
    clearInterval(this.#looking);
    this.events.restart();
    for (const turn of this.#turns.values()) turn.stop.abort();
    this.#turns.clear();
    if (server === null) return;
    await new Promise((resolve) => {
      server.close(() => resolve(undefined));
      server.closeAllConnections();
    });
  }

  /** Tells of what a test changed in the world, as the daemon tells of what happens. */
  #look() {
    const { status, messages, pending, distress } = this.world;
    status.distress = distress.filter(({ seen_at }) => seen_at === null).length;
    const now = { status: JSON.stringify(status), messages: JSON.stringify(messages), pending: JSON.stringify(pending), distress: JSON.stringify(distress) };
    const was = this.#seen;
    this.#seen = now;
    if (was.status === '') return;
    if (now.status !== was.status) this.events.publish('status', status);
    const newest = messages.at(-1);
    if (now.messages !== was.messages && newest !== undefined) {
      const { node, name, assurance, channel, text, ignored } = newest;
      this.events.publish('mesh', { at: Date.now(), event: 'heard', from: node, name, assurance, channel, text, ignored });
    }
    if (now.distress !== was.distress) this.events.publish('changed', { what: 'distress' });
    if (now.pending !== was.pending) this.events.publish('pending', { count: pending.length }, { operators: true });
  }

  /** A log line, as the daemon writes it. @param {Partial<import('../rpc.d.ts').LogLine>} line */
  log(line) {
    const whole = { seq: (this.world.log.at(-1)?.seq ?? 0) + 1, at: Date.now(), level: 'info', target: 'tombolo::mock', message: '', ...line };
    this.world.log.push(whole);
    this.events.publish('log', whole, { operators: true });
  }

  /**
   * @param {import('node:http').IncomingMessage} request
   * @param {import('node:http').ServerResponse} response
   */
  async #serve(request, response) {
    const host = request.headers.host ?? '';
    const path = new URL(request.url ?? '/', `http://${host}`).pathname;
    response.setHeader('X-Content-Type-Options', 'nosniff');
    response.setHeader('Referrer-Policy', 'no-referrer');
    response.setHeader('Cross-Origin-Opener-Policy', 'same-origin');
    response.setHeader('Cross-Origin-Resource-Policy', path.startsWith('/aiui/') ? 'cross-origin' : 'same-origin');
    response.setHeader('X-Frame-Options', path === '/aiui/' ? 'SAMEORIGIN' : 'DENY');
    response.setHeader('Cache-Control', 'no-store');
    if (path === '/rpc') return this.#rpc(request, response, host);
    if (path === '/events' && this.events.there) {
      const session = this.#sessions.get(cookieOf(request));
      if (session === undefined) {
        response.writeHead(401).end();
        return;
      }
      this.events.open(response, { role: session.role, session: session.id }, String(request.headers['last-event-id'] ?? ''));
      return;
    }
    if (path === '/') return page(response, 'node', NODE_CSP);
    if (path === '/chat/') return page(response, 'aiui', CHAT_CSP);
    if (path === '/aiui/') return page(response, 'aiui', frameCsp(host));
    const [, folder = 'node', name = ''] = /^\/(?:(aiui|chat)\/)?([a-z-]+\.[a-z]+)$/.exec(path) ?? [];
    if (folder === 'aiui') response.setHeader('Access-Control-Allow-Origin', '*');
    file(response, folder === 'node' ? 'node' : 'aiui', name);
  }

  /**
   * @param {import('node:http').IncomingMessage} request
   * @param {import('node:http').ServerResponse} response
   * @param {string} host
   */
  async #rpc(request, response, host) {
    const origin = request.headers.origin;
    if (origin !== undefined && origin !== `http://${host}`) {
      response.writeHead(403).end('this origin may not call the node');
      return;
    }
    /** @type {Buffer[]} */
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const { id, method, params } = JSON.parse(Buffer.concat(chunks).toString());
    try {
      const result = await this.#run(method, params, request, response);
      response.writeHead(200, { 'Content-Type': 'application/json' });
      response.end(JSON.stringify({ jsonrpc: '2.0', id, result }));
    } catch (failure) {
      if (!(failure instanceof Refused)) throw failure;
      const [code, status] = ERRORS[failure.refusal] ?? [-32603, 500];
      response.writeHead(status, { 'Content-Type': 'application/json' });
      const data = { name: failure.refusal, ...failure.data };
      response.end(JSON.stringify({ jsonrpc: '2.0', id, error: { code, message: failure.message, data } }));
    }
  }

  /**
   * @param {string} method
   * @param {any} params
   * @param {import('node:http').IncomingMessage} request
   * @param {import('node:http').ServerResponse} response
   * @returns {Promise<unknown>}
   */
  async #run(method, params, request, response) {
    const cookie = cookieOf(request);
    if (this.without.has(method)) throw new Refused('method_not_found', `there is no method \`${method}\``);
    if (method === 'auth.login') {
      if (this.viewerPassword !== null && params.password === this.viewerPassword) return this.#open(response, cookie, 'viewer');
      if (this.#password === null || params.password !== this.#password) throw new Refused('login_failed', 'that did not match', { field: 'password', detail: 'that did not match' });
      return this.#open(response, cookie);
    }
    if (method === 'auth.setup') {
      if (this.#password !== null) throw new Refused('set_up_already', 'this node is set up already: log in with its password');
      if (params.token !== this.setupToken) throw new Refused('login_failed', 'that did not match', { field: 'token', detail: 'that did not match' });
      if (params.password.length < 8) throw new Refused('invalid_params', 'the password needs at least 8 characters', { field: 'password', detail: 'the password needs at least 8 characters' });
      this.#password = params.password;
      return this.#open(response, cookie);
    }
    const session = this.#sessions.get(cookie);
    if (session === undefined) {
      throw new Refused('not_logged_in', 'log in first: there is no session, or it is over', { needs_setup: this.#password === null });
    }
    if (method === 'auth.whoami') return { csrf_token: session.csrf, role: session.role };
    if (request.headers['x-csrf-token'] !== session.csrf) throw new Refused('csrf_token', 'the header X-CSRF-Token is missing');
    if (session.role === 'viewer' && !VIEWER.includes(method)) throw new Refused('forbidden', 'a viewer may look and change nothing');
    const answer = this.operator.run(method, params);
    if (answer !== undefined) return answer;
    switch (method) {
      case 'auth.sessions':
        return {
          sessions: [...this.#sessions.values()].map(({ id, role, since }) => ({ id, role, since, last_seen: Date.now(), address: '127.0.0.1', current: id === session.id })),
        };
      case 'auth.revoke': {
        for (const [token, { id }] of this.#sessions) if (id === params.id) this.#sessions.delete(token);
        this.events.end(params.id);
        this.events.publish('changed', { what: 'sessions' });
        return {};
      }
      case 'auth.set-password':
        if (params.role === 'viewer') {
          if (params.new === this.#password) throw new Refused('invalid_params', 'this is the password of another role: each role needs another password', { field: 'new', detail: 'this is the password of another role: each role needs another password' });
          this.viewerPassword = params.new;
        } else {
          if (params.old !== this.#password) throw new Refused('login_failed', 'that did not match', { field: 'old', detail: 'that did not match' });
          this.#password = params.new;
        }
        return {};
      case 'auth.logout':
        this.#sessions.delete(cookie);
        this.#ended.set(cookie, session.id);
        this.events.end(session.id);
        return {};
      case 'assistant.chat': return this.#chat(session, params);
      case 'assistant.stop': {
        const turn = this.#turns.get(session.id);
        const right = turn?.turn_id === params.turn_id;
        if (right) turn?.stop.abort();
        return { stopped: right };
      }
      case 'assistant.history': {
        const turn = this.#turns.get(session.id);
        const running = turn === undefined ? null : { turn_id: turn.turn_id, text: turn.question };
        return { entries: this.#transcripts.get(session.id) ?? [], running };
      }
      case 'assistant.clear-history':
        this.#transcripts.delete(session.id);
        return {};
      case 'mesh.status': return this.world.status;
      case 'mesh.messages': return { messages: this.world.messages };
      case 'mesh.nodes': return { nodes: this.world.nodes };
      case 'mesh.assistant-status': {
        const { assistant } = this.world;
        if (session.role === 'operator') return assistant;
        return { ...assistant, pairing: null, allowed_contacts: assistant.allowed_contacts.map((contact) => ({ ...contact, grants: null, grants_source: null })) };
      }
      case 'system.disk-status': return this.world.disk;
      default: throw new Refused('method_not_found', `there is no method \`${method}\``);
    }
  }

  /**
   * @param {import('node:http').ServerResponse} response
   * @param {string} cookie
   * @param {string} [role]
   */
  #open(response, cookie, role = 'operator') {
    const token = randomBytes(16).toString('hex');
    // A browser that still holds the cookie of an ended session goes on with its transcript.
    const id = this.#ended.get(cookie) ?? randomBytes(8).toString('hex');
    const session = { id, csrf: randomBytes(16).toString('hex'), role, since: Date.now() };
    this.#sessions.set(token, session);
    response.setHeader('Set-Cookie', `tombolo_session=${token}; Path=/; HttpOnly; SameSite=Strict`);
    return { csrf_token: session.csrf, role };
  }

  /**
   * @param {Session} session
   * @param {{ text: string, turn_id: string }} params
   */
  async #chat(session, { text, turn_id }) {
    const stored = this.#transcripts.get(session.id)?.find((entry) => entry.turn_id === turn_id && entry.role === 'assistant');
    if (stored !== undefined) return stored;
    const running = this.#turns.get(session.id);
    if (running !== undefined && running.turn_id === turn_id) return running.answer;
    if (running !== undefined) throw new Refused('turn_running', 'your last question is still being answered; stop it or wait');
    const stop = new AbortController();
    const answer = this.#turn(session, turn_id, text, stop.signal);
    this.#turns.set(session.id, { turn_id, question: text, stop, answer });
    return answer;
  }

  /**
   * @param {Session} session
   * @param {string} turn_id
   * @param {string} question
   * @param {AbortSignal} stopped
   */
  async #turn(session, turn_id, question, stopped) {
    const line = await this.model.next(stopped);
    const tools = line?.tool ? [{ name: line.tool, category: 'system', outcome: 'ran' }] : [];
    const answer = line === null
      ? { turn_id, status: 'stopped', text: '', html: '', backend: 'ollama', tools, reasons: [] }
      : { turn_id, status: 'answered', text: line.text, html: world.html(line.text), backend: 'ollama', tools, reasons: [] };
    const transcript = this.#transcripts.get(session.id) ?? [];
    const at = Date.now();
    transcript.push({ role: 'user', turn_id, at, text: question }, { role: 'assistant', ...answer, at });
    this.#transcripts.set(session.id, transcript);
    this.#turns.delete(session.id);
    return answer;
  }
}

/** @param {import('node:http').IncomingMessage} request */
function cookieOf(request) {
  return /tombolo_session=([^;]+)/.exec(request.headers.cookie ?? '')?.[1] ?? '';
}

/**
 * @param {import('node:http').ServerResponse} response
 * @param {string} folder
 * @param {string} csp
 */
function page(response, folder, csp) {
  response.setHeader('Content-Security-Policy', csp);
  file(response, folder, 'index.html');
}

/**
 * @param {import('node:http').ServerResponse} response
 * @param {string} folder
 * @param {string} name
 */
function file(response, folder, name) {
  const url = new URL(`${folder}/`, WEB);
  if (!readdirSync(url).includes(name)) {
    response.writeHead(404).end();
    return;
  }
  response.setHeader('Content-Type', TYPES[extname(name)] ?? 'application/octet-stream');
  response.setHeader('Content-Encoding', 'gzip');
  response.writeHead(200).end(gzipSync(readFileSync(new URL(name, url))));
}
