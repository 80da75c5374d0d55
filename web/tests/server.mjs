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

export const PASSWORD = 'a long enough password';
/** A daemon that is not ready by then will not be. */
const START_MS = 20_000;

/**
 * @typedef {object} Server
 * @property {'mock' | 'daemon'} kind
 * @property {string} origin
 * @property {string} setupLink works while no password is set
 * @property {ScriptedModel} model
 * @property {MockDaemon | null} mock for tests of what the real mesh does not show on demand
 * @property {() => Promise<void>} down stops it and keeps its data and its port
 * @property {() => Promise<void>} up starts it again
 * @property {() => Promise<void>} stop
 */

/**
 * Starts one with `PASSWORD` set; with `fresh`, one that waits for its set-up.
 * @param {{ fresh?: boolean }} [options]
 * @returns {Promise<Server>}
 */
export async function startServer({ fresh = false } = {}) {
  const server = process.env.TOMBOLO_BIN ? await daemon(process.env.TOMBOLO_BIN) : await mock();
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
    down: () => daemon.close(),
    up: async () => void (await daemon.listen(port)),
    stop: () => daemon.close(),
  };
}

/**
 * @param {string} binary
 * @returns {Promise<Server>}
 */
async function daemon(binary) {
  const model = new ScriptedModel();
  const ollama = await serveOllama(model);
  const folder = mkdtempSync(join(tmpdir(), 'tombolo-web-'));
  const port = await freePort();
  const config = join(folder, 'tombolo.toml');
  writeFileSync(
    config,
    [
      `data_dir = ${JSON.stringify(join(folder, 'data'))}`,
      '[radio]', 'port = "sim"',
      '[mesh]', 'allowed_contacts = ["!a1b2c3d4"]',
      '[http]', `listen = "127.0.0.1:${port}"`,
      '[assistant.ollama]', `url = ${JSON.stringify(ollama.url)}`, '',
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
    up,
    down,
    stop: async () => {
      model.release();
      await down();
      await ollama.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
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
