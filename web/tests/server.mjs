/**
 * The server under test: the daemon that `TOMBOLO_BIN` names, else the mock.
 *
 * Owns how one is started, restarted and stopped. A test sees no difference but `kind`.
 */

import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { MockDaemon } from './mock-server.mjs';
import { ScriptedModel, serveOllama } from './model.mjs';
import { contact, Radio } from './radio.mjs';

export const PASSWORD = 'a long enough password';
/** Why a test that drives the mesh can't run; `false` when it can. The mock has no mesh to drive. */
export const noDaemon = process.env.TOMBOLO_BIN ? false : 'TOMBOLO_BIN names no daemon';
/** A daemon that is not ready by then will not be. */
const START_MS = 20_000;
/** Nor is a radio that is not found by then. */
const LINK_MS = 60_000;

/**
 * @typedef {object} Server
 * @property {'mock' | 'daemon'} kind
 * @property {string} origin
 * @property {string} setupLink works while no password is set
 * @property {ScriptedModel} model
 * @property {MockDaemon | null} mock for tests of what the real mesh does not show on demand
 * @property {string} folder what the daemon keeps, and its configuration
 * @property {Radio | null} radio the driven radio, where one was asked for
 * @property {() => Promise<void>} down stops it and keeps its data and its port
 * @property {() => Promise<void>} up starts it again
 * @property {() => Promise<void>} stop
 */

/**
 * How the daemon is configured, beyond what every test needs.
 * @typedef {object} Setting
 * @property {boolean} [driven] its radio is one that the test drives, and Ana a contact with her key
 * @property {boolean} [off] that radio is not switched on yet
 * @property {string} [mesh] who is in the mesh of the driven radio: a scenario
 * @property {string[]} [models] what the model server has, instead of the one that is configured
 * @property {string[]} [contacts] entries of `mesh.allowed_contacts`
 * @property {(folder: string) => string[]} [more] further lines of the configuration
 */

/**
 * Starts one with `PASSWORD` set; with `fresh`, one that waits for its set-up.
 * @param {{ fresh?: boolean } & Setting} [options]
 * @returns {Promise<Server>}
 */
export async function startServer({ fresh = false, ...setting } = {}) {
  const server = process.env.TOMBOLO_BIN ? await daemon(process.env.TOMBOLO_BIN, setting) : await mock();
  if (!fresh) {
    const token = new URLSearchParams(new URL(server.setupLink).hash.slice(1)).get('setup');
    const response = await fetch(`${server.origin}/rpc`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'auth.setup', params: { token, password: PASSWORD } }),
    });
    if (!response.ok) throw new Error(`auth.setup: ${response.status} ${await response.text()}`);
  }
  return server;
}

/**
 * One whose mesh the test drives.
 * @param {{ fresh?: boolean } & Setting} [options]
 * @returns {Promise<Server & { radio: Radio }>}
 */
export async function startDriven(options = {}) {
  const server = await startServer({ driven: true, ...options });
  if (server.radio === null) throw new Error('only with the daemon');
  if (options.off !== true) await linked(server);
  return { ...server, radio: server.radio };
}

/** @returns {Promise<Server>} */
async function mock() {
  const model = new ScriptedModel();
  const daemon = new MockDaemon(model, 'one-time-token');
  const port = await daemon.listen(0);
  const origin = `http://127.0.0.1:${port}`;
  return {
    kind: 'mock',
    origin,
    setupLink: `${origin}/#setup=one-time-token`,
    model,
    mock: daemon,
    folder: '',
    radio: null,
    down: () => daemon.close(),
    up: async () => void (await daemon.listen(port)),
    stop: () => daemon.close(),
  };
}

/**
 * @param {string} binary
 * @param {Setting} setting
 * @returns {Promise<Server>}
 */
async function daemon(binary, { driven = false, off = false, mesh, models, contacts, more = () => [] }) {
  const model = new ScriptedModel();
  model.names = models ?? model.names;
  const ollama = await serveOllama(model);
  const folder = mkdtempSync(join(tmpdir(), 'tombolo-web-'));
  const port = await freePort();
  const config = join(folder, 'tombolo.toml');
  const radio = driven ? new Radio(binary, folder, await freePort()) : null;
  if (!off) await radio?.on(mesh);
  const allowed = contacts ?? [driven ? contact('Ana', '!a1b2c3d4') : '"!a1b2c3d4"'];
  writeFileSync(
    config,
    [
      `data_dir = ${JSON.stringify(join(folder, 'data'))}`,
      '[radio]', `port = ${JSON.stringify(radio?.url ?? 'sim')}`,
      '[mesh]', `allowed_contacts = [${allowed.join(', ')}]`,
      '[http]', `listen = "127.0.0.1:${port}"`,
      '[assistant.ollama]', `url = ${JSON.stringify(ollama.url)}`,
      ...more(folder), '',
    ].join('\n'),
    { mode: 0o600 },
  );
  const origin = `http://127.0.0.1:${port}`;
  let setupLink = '';
  /** @type {import('node:child_process').ChildProcess | null} */
  let child = null;

  const up = async () => {
    const started = spawn(binary, ['run', '--config', config], { stdio: ['ignore', 'pipe', 'pipe'] });
    child = started;
    let said = '';
    for (const stream of [started.stdout, started.stderr]) {
      createInterface({ input: stream }).on('line', (line) => {
        said += `${line}\n`;
        setupLink = /http:\S+#setup=\S+/.exec(line)?.[0] ?? setupLink;
      });
    }
    const until = Date.now() + START_MS;
    while (!(await answers(origin)) || (setupLink === '' && !said.includes('serving'))) {
      if (started.exitCode !== null || Date.now() > until) throw new Error(`the daemon did not start:\n${said}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  };
  const down = async () => {
    const running = child;
    if (running === null || running.exitCode !== null) return;
    const gone = new Promise((resolve) => running.once('exit', resolve));
    running.kill('SIGTERM');
    await gone;
  };
  await up();
  return {
    kind: 'daemon',
    origin,
    setupLink,
    model,
    mock: null,
    folder,
    radio,
    up,
    down,
    stop: async () => {
      model.release();
      await down();
      await radio?.off();
      await ollama.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/**
 * Waits until the daemon has its radio.
 * @param {Server} server
 */
export async function linked({ origin }) {
  const until = Date.now() + LINK_MS;
  for (;;) {
    const body = await fetch(`${origin}/healthz`).then((response) => response.json(), () => null);
    if (body?.link?.connected === true) return;
    if (Date.now() > until) throw new Error(`no radio: ${JSON.stringify(body)}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** @param {string} origin */
async function answers(origin) {
  return fetch(`${origin}/healthz`).then((response) => response.ok, () => false);
}

/** @returns {Promise<number>} */
function freePort() {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.on('error', reject);
    probe.listen(0, '127.0.0.1', () => {
      const address = probe.address();
      probe.close(() => (address !== null && typeof address === 'object' ? resolve(address.port) : reject(new Error('no port'))));
    });
  });
}
